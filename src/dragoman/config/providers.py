"""Providers: what the file says of one, what the catalogue knows and what the environment holds, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dragoman.config import file_schema
from dragoman.config.capability_overrides import read_rows
from dragoman.config.environment import Unset, header_value, resolved, secret, visible
from dragoman.config.file_schema import NO_KEY, ProviderTable
from dragoman.config.key_names import key_names
from dragoman.config.settings import Missing
from dragoman.config.tables import ConfigTable, nearest
from dragoman.config.toml_lines import KeyPath, dotted
from dragoman.config.values import ValueType, is_loopback, is_name, read_text
from dragoman.errors import ConfigError
from dragoman.providers.catalogue import CatalogueEntry
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport import has_list, transport_of
from dragoman.rules.capabilities import CapabilityRow

# Key, problem and remedy of something that cannot be used.
ProblemReport: TypeAlias = Callable[[str, str, str], None]

MESSAGES = "anthropic-messages"
# These find their credentials by themselves, or need none.
_KEYLESS = frozenset({"none", "aws", "google"})
# Headers that carry a key, whatever `api_key` says.
_CREDENTIALS = frozenset({"authorization", "x-api-key", "api-key"})
# What transports take beside what their entries in the catalogue name.
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "azure": ("api_version", "resource"),
    "bedrock": ("region", "profile", "anthropic_version"),
    "vertex": ("project", "region", "credentials", "anthropic_version"),
}
_OPTION = ValueType(words="text", example='"…"', read=read_text)


class ProviderEntry(Struct, frozen=True, kw_only=True):
    """Everything the file says of one provider; nothing at all for one that the environment alone speaks of."""

    table: ProviderTable = ProviderTable()
    options: Mapping[str, str] = {}
    rows: tuple[CapabilityRow, ...] = ()


class Notes:
    """What is wrong with a provider, which is reported, and what it lacks that is to be found in the environment."""

    def __init__(self, report: ProblemReport) -> None:
        self._report = report
        self.has_failed = False
        # Whether it cannot be called without what it lacks.
        self.is_absent = False
        # The settings that name something, and what that is.
        self.lacks: list[tuple[str, Unset]] = []

    def __call__(self, key: str, problem: str, remedy: str) -> None:
        """Note a setting that cannot be used."""
        self.has_failed = True
        self._report(key, problem, remedy)

    def lack(self, key: str, unset: Unset, *, needed: bool = True) -> None:
        """Note a variable that is not set."""
        self.is_absent = self.is_absent or needed
        self.lacks.append((key, unset))


class ReadProvider(Struct, frozen=True, kw_only=True):
    """What became of one table: without a provider and with something missing, it is absent; with neither, wrong."""

    provider: Provider | None
    missing: tuple[Missing, ...] = ()


def read_provider(
    name: str, table: ConfigTable, environ: Mapping[str, str], catalogue: Mapping[str, CatalogueEntry]
) -> ReadProvider:
    """One table of `[providers]`; what is wrong with it is noted there."""
    if not is_name(name):
        table.problems.add(
            table.path, "cannot name a provider", "use letters, digits, hyphens, dots and underscores, and no slash"
        )
    listing = catalogue.get(name) or _alike(table, catalogue)
    options = option_names(listing)
    table.refuse_others((*file_schema.PROVIDER, "rows", *options))
    told = ProviderEntry(
        table=table.fill(ProviderTable, file_schema.PROVIDER),
        options={option: value for option in options if (value := table.take(option, _OPTION)) is not None},
        rows=read_rows(table),
    )
    _check_queue(table)
    notes = Notes(_reporting(table, {} if listing else catalogue))
    provider = assemble(name, told, listing, environ, notes)
    left_out = dotted(table.path) if provider is None else f"a key of {dotted(table.path)}"
    missing = [missing_at((*table.path, key), unset, left_out, table) for key, unset in notes.lacks]
    return ReadProvider(provider=provider, missing=tuple(missing))


def _check_queue(table: ConfigTable) -> None:
    """Refuse a queue in which nobody can ever stand."""
    for name in ("queue", "queue_time"):
        if table.has(name) and not table.has("concurrency"):
            problem = "is about waiting for one of so many calls, and any number may be made at a time"
            table.complain(name, problem, "say how many, for example concurrency = 64, or leave it out")


def missing_at(path: KeyPath, unset: Unset, left_out: str, table: ConfigTable) -> Missing:
    """What is missing for a setting of a table."""
    return Missing(
        left_out=left_out,
        key=dotted(path),
        problem=unset.problem,
        remedy=unset.remedy,
        variable=unset.variable,
        line=table.problems.line_of(path),
    )


def _alike(table: ConfigTable, catalogue: Mapping[str, CatalogueEntry]) -> CatalogueEntry | None:
    """What the catalogue knows of a cloud's transport: a second resource or region has a name of its own."""
    transport = table.values.get("transport")
    return next((entry for entry in catalogue.values() if entry.transport == transport != "http"), None)


def _reporting(table: ConfigTable, catalogue: Mapping[str, CatalogueEntry]) -> ProblemReport:
    """Notes of problems with members of a table, with the name of the catalogue that was probably meant."""
    close = nearest(str(table.path[-1]), catalogue)
    hint = f", or did you mean [providers.{dotted((close,))}] of the catalogue?" if close else ""
    # A value that could not be read is told of already; that it is missing, too, is no news.
    told = table.problems.keys()

    def report(key: str, problem: str, remedy: str) -> None:
        path = (*table.path, key) if key else table.path
        if dotted(path) not in told:
            table.problems.add(path, problem, remedy + hint)

    return report


def option_names(listing: CatalogueEntry | None) -> tuple[str, ...]:
    """The keys of a provider's table that are options of its transport."""
    if listing is None:
        return ()
    names = (*listing.needs, *listing.option_env, *listing.options, *_OPTIONS.get(listing.transport, ()))
    return tuple(dict.fromkeys(names))


def assemble(
    name: str, told: ProviderEntry, listing: CatalogueEntry | None, environ: Mapping[str, str], note: Notes
) -> Provider | None:
    """A provider that can be called; None if it cannot, with the reasons noted."""
    table = told.table
    endpoints = _endpoints(table, listing, note)
    options = _options(told, listing, environ, note)
    _check_needs(listing, endpoints, options, note)
    headers = _headers(table, environ, note)
    auth, keys = _credentials(table, listing, endpoints, environ, note)
    if note.has_failed or note.is_absent:
        return None
    provider = _with_facts(_listed(name, listing), table, told.rows)
    provider = msgspec.structs.replace(
        provider, endpoints=endpoints, auth=auth, keys=keys, headers=headers, options=options
    )
    variables = listing.env if listing is not None else ()
    called = key_names(keys, provider=name, texts=table.api_key, variables=variables, environ=environ)
    provider = msgspec.structs.replace(provider, key_names=called)
    _check_clear_text(provider, table.insecure, note)
    _check_transport(provider, note)
    _check_list(provider, note)
    return None if note.has_failed else provider


def _listed(name: str, listing: CatalogueEntry | None) -> Provider:
    """What the catalogue knows of a provider."""
    if listing is None:
        return Provider(name=name, endpoints=())
    return Provider(
        name=name,
        endpoints=listing.endpoints,
        auth=listing.auth,
        transport=listing.transport,
        streams=listing.streams,
        # A second one of the same kind has another name, but the rules know it by this one.
        label=listing.label or (listing.name if listing.name != name else ""),
        rows=listing.rows,
        anthropic=listing.anthropic,
        counts_tokens=listing.counts_tokens,
        stores=listing.stores,
        ask_usage=bool(listing.include_usage),
    )


def _with_facts(provider: Provider, table: ProviderTable, rows: tuple[CapabilityRow, ...]) -> Provider:
    """What the file says beside addresses and credentials; what it leaves out stays."""
    return msgspec.structs.replace(
        provider,
        transport=provider.transport if table.transport is None else table.transport,
        streams=provider.streams if table.streams is None else table.streams,
        label=provider.label if table.label is None else table.label,
        rows=(*provider.rows, *rows),
        models=provider.models if table.models is None else table.models,
        # Another address is another service, even if it speaks for this one.
        anthropic=provider.anthropic and table.base_url is None,
        ask_usage=_asks_usage(provider, table) if table.ask_usage is None else table.ask_usage,
        counts_tokens=provider.counts_tokens if table.counts_tokens is None else table.counts_tokens,
        stores=provider.stores if table.stores is None else table.stores,
        concurrency=table.concurrency,
        queue=provider.queue if table.queue is None else table.queue,
        queue_time=provider.queue_time if table.queue_time is None else table.queue_time,
        check_every=table.check_every,
    )


def _asks_usage(provider: Provider, table: ProviderTable) -> bool:
    """Whether it is known to take the question for usage: a service at its own address, a local server at any."""
    return provider.ask_usage and (table.base_url is None or any(map(_is_local, provider.endpoints)))


def _is_local(endpoint: Endpoint) -> bool:
    return urlsplit(endpoint.base_url).hostname == "127.0.0.1"


def _endpoints(table: ProviderTable, listing: CatalogueEntry | None, note: ProblemReport) -> tuple[Endpoint, ...]:
    """The addresses by protocol, the preferred one first."""
    known = {endpoint.protocol: endpoint.base_url for endpoint in listing.endpoints} if listing else {}
    if isinstance(table.base_url, dict):
        known |= table.base_url
    protocols = table.protocol or tuple(known)
    if not protocols:
        note("protocol", "is missing", f"name what it speaks: {', '.join(file_schema.PROTOCOL_NAMES)}")
    if isinstance(table.base_url, str):
        known = _spread(table.base_url, protocols, known, note)
    elif table.base_url is None and not known:
        note("base_url", "is missing", 'name its address, for example base_url = "http://127.0.0.1:8000/v1"')
        return ()
    for protocol in protocols:
        if protocol not in known:
            note("base_url", f"has no address for {protocol}", f'write base_url = {{ {protocol} = "https://…" }}')
    return tuple(Endpoint(protocol=protocol, base_url=known[protocol]) for protocol in protocols if protocol in known)


def _spread(base_url: str, protocols: tuple[str, ...], known: Mapping[str, str], note: ProblemReport) -> dict[str, str]:
    """One address for several protocols: those of the catalogue move to another host together."""
    if MESSAGES not in protocols or len(protocols) == 1:
        return dict.fromkeys(protocols, base_url)
    paths = {name: urlsplit(url).path for name, url in known.items()}
    ending = next((paths[name] for name in protocols if paths.get(name) and base_url.endswith(paths[name])), None)
    if ending is not None and all(name in paths for name in protocols):
        return {name: base_url.removesuffix(ending) + paths[name] for name in protocols}
    if not base_url.endswith("/v1"):
        note(
            "base_url",
            "is one address for protocols of two makers and does not end in /v1",
            'end it in /v1, or write one for each: base_url = { openai-chat = "https://…", … }',
        )
    # OpenAI's SDK takes it with /v1 at the end, Anthropic's without.
    return {name: base_url.removesuffix("/v1") if name == MESSAGES else base_url for name in protocols}


def _options(
    told: ProviderEntry, listing: CatalogueEntry | None, environ: Mapping[str, str], note: Notes
) -> dict[str, str]:
    """Options from the file, else from the environment, else from the catalogue."""
    options = {} if listing is None else dict(listing.options)
    variables = {} if listing is None else listing.option_env
    for option, names in variables.items():
        value = _first_set(names, environ)
        if value is not None:
            options[option] = value[1]
    for option, text in told.options.items():
        try:
            options[option] = resolved(text, environ)
        except Unset as unset:
            note.lack(option, unset)
            options[option] = ""
        except ConfigError as error:
            note(option, error.problem, error.remedy)
            options[option] = ""
    return options


def _check_needs(
    listing: CatalogueEntry | None, endpoints: tuple[Endpoint, ...], options: Mapping[str, str], note: Notes
) -> None:
    """Note options that are missing, but for those of the catalogue's address where the file has another."""
    if listing is None:
        return
    for option in listing.needs:
        place = f"{{{option}}}"
        replaced = _has(listing.endpoints, place) and not _has(endpoints, place)
        if option not in options and not replaced:
            names = listing.option_env.get(option, ())
            if names:
                note.lack(option, Unset(names[0], instead=f'set {option} = "…"'))
            else:
                note(option, "is missing", f'set {option} = "…"')


def _has(endpoints: Iterable[Endpoint], place: str) -> bool:
    return any(place in endpoint.base_url for endpoint in endpoints)


def _headers(table: ProviderTable, environ: Mapping[str, str], note: Notes) -> dict[str, str]:
    headers = {}
    for name, text in (table.headers or {}).items():
        try:
            headers[name] = header_value(text, environ)
        except Unset as unset:
            note.lack("headers", unset)
        except ConfigError as error:
            note("headers", f"{name} {error.problem}", error.remedy)
    return headers


def _credentials(
    table: ProviderTable,
    listing: CatalogueEntry | None,
    endpoints: tuple[Endpoint, ...],
    environ: Mapping[str, str],
    note: Notes,
) -> tuple[str, tuple[str, ...]]:
    """How the key is sent, and the keys."""
    auth = table.auth or (listing.auth if listing else "")
    # With a key at hand, whoever needs none or finds one alone takes it as is the transport's or the protocol's custom.
    keyed = table.auth or ("" if auth in _KEYLESS else auth)
    names = listing.env if listing else ()
    found = _first_set(names, environ)
    if table.api_key == (NO_KEY,):
        return (auth if auth in _KEYLESS else "none"), ()
    if table.api_key is not None:
        if table.auth == "none":
            note("auth", 'is "none", but there is an api_key', "leave out one of them")
        return keyed, _keys(table.api_key, environ, note)
    if found is not None and table.auth not in _KEYLESS:
        try:
            return keyed, (visible(found[1]),)
        except ConfigError as error:
            note("api_key", f"{found[0]} {error.problem}", error.remedy)
            return keyed, ()
    if auth in _KEYLESS:
        return auth, ()
    if listing is None and endpoints and all(is_loopback(host_of(endpoint)) for endpoint in endpoints):
        return "none", ()
    if names:
        note.lack("api_key", Unset(names[0]))
    else:
        note("api_key", "is missing", 'name it, api_key = "$NAME", or say that there is none, "none"')
    return auth, ()


def _keys(texts: tuple[str, ...], environ: Mapping[str, str], note: Notes) -> tuple[str, ...]:
    keys: dict[str, None] = {}
    missing: list[Unset] = []
    for text in texts:
        if text == NO_KEY:
            note("api_key", 'has "none" among several keys', "leave it out")
            continue
        try:
            keys[secret(text, environ)] = None
        except Unset as unset:
            missing.append(unset)
        except ConfigError as error:
            note("api_key", error.problem, error.remedy)
    for each in missing:
        # The others do without it.
        note.lack("api_key", each, needed=not keys)
    return tuple(keys)


def _first_set(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str] | None:
    for name in names:
        value = environ.get(name, "").strip()
        if value:
            return name, value
    return None


def host_of(endpoint: Endpoint) -> str:
    """The host that an endpoint is at."""
    return urlsplit(endpoint.base_url).hostname or ""


def has_credentials(headers: Iterable[str]) -> bool:
    """Whether some of the headers carry a key by themselves."""
    return any(name.lower() in _CREDENTIALS for name in headers)


def _check_clear_text(provider: Provider, insecure: bool, note: ProblemReport) -> None:
    """Refuse to send a key where everybody on the way can read it."""
    if insecure or not (provider.keys or has_credentials(provider.headers)):
        return
    for endpoint in provider.endpoints:
        if endpoint.base_url.startswith("http://") and not is_loopback(host_of(endpoint)):
            note("base_url", "sends the key in clear text", "use https://, or accept it with insecure = true")
            return


def _check_transport(provider: Provider, note: ProblemReport) -> None:
    """Ask the transport whether it can ever call this provider: options and extras may be missing."""
    try:
        transport_of(provider.transport).check(provider)
    except ConfigError as error:
        note(error.key.removeprefix(f"providers.{provider.name}").removeprefix("."), error.problem, error.remedy)


def _check_list(provider: Provider, note: ProblemReport) -> None:
    """Refuse to check whoever has no list of models to be asked for."""
    if provider.check_every is not None and not has_list(provider):
        problem = f"asks for a list of models, and there is none behind {provider.transport}"
        note("check_every", problem, "leave it out: a target that rests is tried when its time is over")
