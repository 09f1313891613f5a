"""`dragoman check`: validates the configuration and, with `--live`, calls the providers."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence

from dragoman.cli import documents, formatting
from dragoman.cli.key_report import describe_keys
from dragoman.cli.terminal import GREEN, RED, Column, OutputScreen, printable, progress, screen_of, table
from dragoman.cli.trust import configured
from dragoman.config.key_patterns import ConfiguredPatterns
from dragoman.config.prices import override_warnings, price_book_of
from dragoman.config.settings import Settings
from dragoman.config.toml_lines import dotted
from dragoman.config.trust_summary import describe_route
from dragoman.errors import ConfigError
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.losses import Strict
from dragoman.prices.cost import estimate
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.providers.provider import facts_of, split_protocol
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.store import StoreError
from dragoman.store.identities import IdentityCount
from dragoman.store.identity_reader import count_identities
from dragoman.terminal import cells

FAILED = 1
_SIDE = 11
_LIVE = (
    Column(heading="STATE", styles={"ok": GREEN, "failed": RED}),
    Column(heading="PROVIDER", least=12),
    Column(heading="PROTOCOL"),
    Column(heading="ANSWER", least=24),
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "check",
        help="check the configuration",
        description=(
            "Read the configuration as the gateway does. Prints a summary to standard output and "
            "problems to standard error."
        ),
    )
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the default one")
    parser.add_argument("--live", action="store_true", help="call every provider, too")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = configured(options.config)
    screen = screen_of(sys.stdout, options.color)
    stored = _stored_keys(settings)
    documents.write_text("\n".join(_as_text(list(_summary(settings, stored)), screen)), screen)
    missing = [str(each) for each in settings.missing]
    for warning in settings.warnings:
        if warning not in missing:
            documents.complain(f"warning: {warning}")
    for doubt in _price_doubts(settings):
        documents.complain(f"warning: {doubt}")
    for doubt in _key_doubts(settings):
        documents.complain(f"warning: {doubt}")
    # A missing optional setting, which a running gateway tolerates, is an error here.
    for each in settings.missing:
        documents.complain(str(each.as_error(settings.file)))
    conflicts = [] if stored is None else list(_key_conflicts(settings))
    for conflict in conflicts:
        documents.complain(str(conflict))
    status = _live(settings, screen) if options.live else 0
    return FAILED if settings.missing or conflicts else status


def _key_doubts(settings: Settings) -> Iterator[str]:
    patterns = ConfiguredPatterns(settings)
    for key in settings.keys:
        yield from patterns.warnings(key.name, key.rights.models, key.rights.providers)


def _stored_keys(settings: Settings) -> IdentityCount | None:
    """The number of gateway keys in the database; None if it cannot be read."""
    try:
        return count_identities(settings.storage.location, time.time())
    except StoreError as error:
        documents.complain(f"warning: cannot read gateway keys from {settings.storage.location}: {error}")
        return None


def _key_conflicts(settings: Settings) -> Iterator[ConfigError]:
    """Gateway keys of the database that the gateway rejects, because the configuration has the same."""
    if not settings.keys:
        return
    # Imported here, because most configurations have no keys.
    from dragoman.gateway.access.identity_table import identity_table

    identities = identity_table(settings.storage, None, None, reads_database=True)
    identities.configure(settings.keys)
    identities.load()
    identities.stop()
    if identities.problem:
        documents.complain(f"warning: cannot read gateway keys from {settings.storage.location}: {identities.problem}")
    for name in sorted(identities.hidden):
        yield ConfigError(
            key=f"keys.{dotted((name,))}",
            problem="the database has a key with the same name or text, which the gateway rejects",
            remedy=f"remove it from the configuration, or revoke the other: dragoman key revoke {name}",
            file=settings.file,
        )


def _price_doubts(settings: Settings) -> Iterator[str]:
    """Unusual prices, and missing ones on routes that need them. An unknown context window is no problem."""
    book, now = price_book_of(settings, documents.complain), time.time()
    if settings.prices:
        yield from override_warnings(settings, book, now)
    routes = [route for route in settings.routes if route.max_cost is not None or POLICIES[route.policy].prices]
    if not routes:
        return
    # Imported here, because only these need to resolve names.
    from dragoman.gateway.model_resolver import AbsentModel, ModelResolver

    resolver = ModelResolver(settings)
    for route in routes:
        try:
            targets = {
                target.id: target for target in _priced(resolver.route(route.pattern, PROTOCOL_NAMES[0], ALL_RIGHTS))
            }
        except AbsentModel:
            continue
        for target in targets.values():
            # A model that depends on the client's name is known only with a request.
            facts = facts_of(book, target.provider, target.model, now)
            if "*" in target.model or estimate(facts, 1, 0, 1).total is not None:
                continue
            then = "it comes last" if route.max_cost is None else "it does not pass max_cost"
            section = f"[prices.{dotted((target.id,))}]"
            yield f"models.{dotted((route.pattern,))}: the price of {target.id} is unknown: {then}; set it in {section}"


def _priced(route: Route) -> Iterator[Target]:
    """The targets of a route whose policy needs prices."""
    if route.max_cost is not None:
        yield from route.targets
        return
    if route.summary.prices:
        yield from (target for _, target, _, _ in route.summary.leaves)
    for rule in route.rules:
        yield from _priced(rule.to)


def _summary(settings: Settings, stored: IdentityCount | None) -> Iterator[tuple[str, ...]]:
    """Rows of the summary: title, name if it has one, and text."""
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    yield "file", settings.file or "none: environment variables only"
    yield "address", f"http://{host}:{server.port}" + _strict(server.strict)
    yield "keys", describe_keys(settings, stored)
    if settings.telemetry.endpoint:
        yield "telemetry", f"{settings.telemetry.sample_ratio:.4g} of all requests to {settings.telemetry.endpoint}"
    for provider in settings.listed():
        credentials = "no key" if provider.auth == "none" else f"credentials of {provider.auth}"
        keys = formatting.counted(len(provider.keys), "key") if provider.keys else credentials
        protocols = ", ".join(endpoint.protocol for endpoint in provider.endpoints)
        yield "providers", provider.name, f"{protocols}; {keys}"
    for name, each in settings.absent.items():
        yield "left out", name, each.problem
    for route in settings.routes:
        yield "models", route.pattern, f"{describe_route(route)}{_strict(route.strict)}"
    served: dict[str, list[str]] = {}
    for route in settings.defaults:
        name = route.targets[0].partition("/")[0]
        if name not in settings.absent:
            served.setdefault(name, []).append(route.pattern)
    for name, patterns in served.items():
        yield "by itself", name, " ".join(patterns)
    for target in _unpriced(settings):
        yield "no price", target, f"its price is unknown; set it in [prices.{dotted((target,))}]"


def _unpriced(settings: Settings) -> Iterator[str]:
    """The targets in the file without a known price, each once."""
    # The model for a client's name is known only with a request.
    texts = (text for route in settings.routes for text in route.targets if "*" not in text)
    named = dict.fromkeys(split_protocol(text)[0] for text in texts)
    book, now = None, time.time()
    for target in named:
        name, _, model = target.partition("/")
        provider = settings.providers.get(name)
        if provider is None or not model or provider.transport == "echo":
            continue
        book = book or price_book_of(settings, documents.complain)
        if estimate(facts_of(book, provider, model, now), 1, 0, 1).total is None:
            yield target


def _as_text(rows: Sequence[tuple[str, ...]], screen: OutputScreen) -> Iterator[str]:
    """Format the summary. On a terminal each title is shown once, and names are in a column."""
    if not screen.terminal:
        yield from ("\t".join(map(printable, row)) for row in rows)
        return
    before = ""
    for title, *words in rows:
        width = min(max(cells(row[1]) for row in rows if row[0] == title), screen.width // 3)
        text = f"{'' if title == before else title:{_SIDE}}" + "  ".join([words[0].ljust(width), *words[1:]])
        indent = " " * (_SIDE + (width + 2 if words[1:] else 0))
        yield from textwrap.wrap(printable(text), screen.width, subsequent_indent=indent, break_on_hyphens=False)
        before = title


def _strict(strict: Strict) -> str:
    return ' strict = "all"' if strict == "all" else " strict" if strict else ""


def _live(settings: Settings, screen: OutputScreen) -> int:
    # Imported here, because only `--live` needs the gateway.
    import asyncio

    from dragoman.gateway.provider_probe import check_live

    with progress() as show_step:
        show_step("calling the providers …")
        outcomes = asyncio.run(check_live(settings))
    rows = [("ok" if ok else "failed", provider, protocol, words) for provider, protocol, ok, words in outcomes]
    documents.write_text("\n".join(table(screen, _LIVE, rows)), screen)
    return 0 if all(ok for _, _, ok, _ in outcomes) else FAILED
