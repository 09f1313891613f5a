"""Trust summary: the effects of a file, in plain lines. It describes values as written, valid or not: first where
requests and keys are sent, and which variables are read. Keys are not repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.config.environment import is_literal
from dragoman.config.file_schema import NO_KEY, SECTIONS
from dragoman.config.providers import alike
from dragoman.config.settings import RouteConfig
from dragoman.config.toml_lines import dotted
from dragoman.providers.catalogue import CatalogueEntry

# Keys with a text of their own. Other members of a provider's table are shown as they are.
_DESCRIBED_KEYS = ("base_url", "api_key", "headers", "allow_plaintext_key")
_FROM_OPTIONS = "an address that its options make"
# Sections whose members are shown unchanged.
# But an address, which may have a password.
_DATABASE = ("storage", "database")
_CONTENTS = ("storage", "contents")
_PLAIN = ("server", "storage", "timeouts", "routing", "limits", "prices")


def describe(values: Mapping[str, object], catalogue: Mapping[str, CatalogueEntry]) -> list[str]:
    """One fact per line; data that is sent out comes last, next to the question. The texts may hold control
    characters."""
    return [
        *(f"has {dotted((name,))}, which is not a known section" for name in values if name not in SECTIONS),
        *_plain(values),
        *_keys(values),
        *(f"routes the model {dotted((name,))} to {_target(to)}" for name, to in _table(values, "models").items()),
        *(f"reads ${name} from the environment" for name in sorted(set(_variables(values)))),
        *_telemetry(values),
        *_providers(values, catalogue),
    ]


def _telemetry(values: Mapping[str, object]) -> Iterator[str]:
    table = _table(values, "telemetry")
    for member, value in table.items():
        if member not in ("endpoint", "headers"):
            yield f"sets {dotted(('telemetry', member))} = {value}"
    if "endpoint" in table:
        yield f"sends a record of every request to {table['endpoint']}, without its content"
    for header, text in _table(table, "headers").items():
        source = f", with {text}" if isinstance(text, str) and not is_literal(text) else ""
        yield f"sends it the header {dotted((header,))}{source}"


def _providers(values: Mapping[str, object], catalogue: Mapping[str, CatalogueEntry]) -> Iterator[str]:
    for name, table in _table(values, "providers").items():
        if not isinstance(table, dict):
            continue
        listing, name = catalogue.get(name) or alike(table, catalogue), dotted((name,))
        for member, value in table.items():
            if member not in _DESCRIBED_KEYS:
                yield f"sets {dotted((member,))} of {name} to {value}"
        yield f"sends requests for {name} to {', '.join(_addresses(table, listing))}, with {_key(table, listing)}"
        for header, text in _table(table, "headers").items():
            # Where a header's value comes from is among the variables, too, but here is where it goes.
            source = f", with {text}" if isinstance(text, str) and not is_literal(text) else ""
            yield f"sends {name} the header {dotted((header,))}{source}"
        if table.get("allow_plaintext_key") is True:
            yield f"may send the key of {name} in clear text"


def _addresses(table: Mapping[str, object], listing: CatalogueEntry | None) -> list[str]:
    written = table.get("base_url")
    if isinstance(written, dict):
        return [f"{address} ({protocol})" for protocol, address in written.items()]
    if written is not None:
        return [str(written)]
    addresses = [endpoint.base_url for endpoint in listing.endpoints] if listing is not None else []
    for option, value in table.items():
        addresses = [address.replace(f"{{{option}}}", str(value)) for address in addresses]
    return list(dict.fromkeys(address or _FROM_OPTIONS for address in addresses)) or ["no address"]


def _key(table: Mapping[str, object], listing: CatalogueEntry | None) -> str:
    """Where the key comes from."""
    written = table.get("api_key")
    texts = [text for text in (written if isinstance(written, list) else [written]) if isinstance(text, str)]
    if texts == [NO_KEY]:
        return "no key"
    if texts:
        return ", ".join("a key of the file" if is_literal(text) else f"the key in {text}" for text in texts)
    names = listing.env if listing is not None else ()
    return f"the key in {' or '.join(f'${name}' for name in names)}" if names else "no key of the file"


def _keys(values: Mapping[str, object]) -> Iterator[str]:
    if "keys" in values:
        yield f"requires one of the keys {', '.join(dotted((name,)) for name in _table(values, 'keys')) or '(none)'}"
    else:
        yield "requires no key"


def _plain(values: Mapping[str, object]) -> Iterator[str]:
    for section in _PLAIN:
        for name, value in _table(values, section).items():
            if (section, name) == _CONTENTS:
                yield from _contents(_table(_table(values, section), name))
                continue
            is_secret = (section, name) == _DATABASE and isinstance(value, str) and is_literal(value)
            yield f"sets {dotted((section, name))} = {'an address in the file' if is_secret else value}"


def _contents(table: Mapping[str, object]) -> Iterator[str]:
    for name, value in table.items():
        is_secret = name == "key" and isinstance(value, str) and is_literal(value)
        yield f"sets {dotted((*_CONTENTS, name))} = {'a key in the file' if is_secret else value}"


def describe_route(route: RouteConfig) -> str:
    """Where one line of `[models]` leads, in short."""
    text = _targets(route.targets, route.weights)
    if len(route.targets) > 1:
        text = f"{route.policy}: {text}"
    ruled = dict.fromkeys(_targets(rule.targets, rule.weights) for rule in route.rules)
    return f"{text}; by rules: {', '.join(ruled)}" if ruled else text


def _targets(targets: tuple[str, ...], weights: tuple[int, ...]) -> str:
    if not weights:
        return ", ".join(targets)
    return ", ".join(f"{target} {weight}" for target, weight in zip(targets, weights, strict=True))


def _target(to: object) -> str:
    return ", ".join(dict.fromkeys(_written_targets(to))) or str(to)


def _written_targets(to: object) -> Iterator[str]:
    """Everything that a line may lead to, as far as that can be read."""
    if isinstance(to, list):
        yield from map(str, to)
    elif not isinstance(to, dict):
        yield str(to)
    else:
        for name in ("to", "targets"):
            targets = to.get(name, [])
            yield from map(str, targets) if isinstance(targets, list | dict) else [str(targets)]
        rules = to.get("rules")
        for rule in rules if isinstance(rules, list) else ():
            yield from _written_targets(rule)


def _table(values: Mapping[str, object], name: str) -> dict[str, object]:
    table = values.get(name)
    return table if isinstance(table, dict) else {}


def _variables(value: object) -> Iterator[str]:
    """Every environment variable that is named anywhere."""
    rest = [value]
    while rest:
        value = rest.pop()
        if isinstance(value, dict | list):
            rest += value.values() if isinstance(value, dict) else value
        elif isinstance(value, str) and not is_literal(value):
            yield value.removeprefix("$").removeprefix("{").removesuffix("}")
