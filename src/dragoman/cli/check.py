"""`dragoman check`: whether the configuration can be used, and, with `--live`, whether the providers answer."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Iterator

from dragoman.cli import documents
from dragoman.cli.ledger import printable
from dragoman.cli.trust import file_to_read
from dragoman.config.description import describe_line
from dragoman.config.load import read_settings
from dragoman.config.prices import book_of, doubts
from dragoman.config.settings import Line, Settings
from dragoman.config.toml_lines import dotted
from dragoman.prices.cost import estimate
from dragoman.protocols.registry import PROTOCOLS
from dragoman.providers.catalogue import catalogue
from dragoman.providers.model_facts import facts_of
from dragoman.providers.provider import Provider
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import Route
from dragoman.routing.target import Target

FAILED = 1


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "check",
        help="check the configuration",
        description="Read the configuration as the gateway does: a summary on standard output, problems on the other.",
    )
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the one that would be found")
    parser.add_argument("--live", action="store_true", help="call every provider, too")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check one configuration; what is wrong with it is told by whoever called."""
    settings = read_settings(file_to_read(options.config), os.environ, catalogue())
    documents.write("\n".join(map(printable, _summary(settings))).encode() + b"\n")
    for warning in settings.warnings:
        documents.complain(f"warning: {warning}")
    for doubt in _price_doubts(settings):
        documents.complain(f"warning: {doubt}")
    return _live(settings) if options.live else 0


def _price_doubts(settings: Settings) -> Iterator[str]:
    """What is strange about prices, or missing where a line goes by them; a window that is unknown is no matter."""
    book, now = book_of(settings, documents.complain), time.time()
    if settings.prices:
        yield from doubts(settings, book, now)
    lines = [line for line in settings.routes if _needs_prices(line)]
    if not lines:
        return
    # Names are resolved for these alone.
    from dragoman.gateway.routes import Routes

    routes = Routes(settings)
    for line in lines:
        found = {target.id: target for target in _priced(routes.route(line.pattern, PROTOCOLS[0].name))}
        for target in found.values():
            # A model that the client's name decides on is known when it is asked for.
            facts = facts_of(book, target.provider, target.model, now)
            if "*" in target.model or estimate(facts, 1, 0, 1).total is not None:
                continue
            then = "it comes last" if line.max_cost is None else "it does not pass max_cost"
            section = f"[prices.{dotted((target.id,))}]"
            yield f"models.{dotted((line.pattern,))}: the price of {target.id} is unknown: {then}; say it in {section}"


def _needs_prices(line: Line) -> bool:
    return line.max_cost is not None or POLICIES[line.policy].prices


def _priced(route: Route) -> Iterator[Target]:
    """The targets of a route whose prices somebody asks for."""
    if route.max_cost is not None:
        yield from route.targets
        return
    if route.outline.prices:
        yield from (target for _, target, _, _ in route.outline.leaves)
    for rule in route.rules:
        yield from _priced(rule.to)


def _summary(settings: Settings) -> Iterator[str]:
    """What was found, one thing a line."""
    server = settings.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    yield f"file       {settings.file or 'none: the environment alone'}"
    yield f"address    http://{host}:{server.port}" + (" strict" if server.strict else "")
    none = "none, but [keys] is there: nobody gets in" if settings.keys_table else "none: whoever reaches it may use it"
    yield f"keys       {len(settings.keys) or none}"
    yield from _listed("providers", [(name, _describe(at)) for name, at in settings.providers.items()])
    yield from _listed("models", [(line.pattern, _target(line)) for line in settings.routes])
    served: dict[str, list[str]] = {}
    for line in settings.defaults:
        served.setdefault(line.targets[0].partition("/")[0], []).append(line.pattern)
    yield from _listed("by itself", [(name, " ".join(patterns)) for name, patterns in served.items()])


def _describe(provider: Provider) -> str:
    protocols = ", ".join(endpoint.protocol for endpoint in provider.endpoints)
    if provider.keys:
        return f"{protocols}; {len(provider.keys)} key{'s' if len(provider.keys) > 1 else ''}"
    return f"{protocols}; {'no key' if provider.auth == 'none' else f'credentials of {provider.auth}'}"


def _target(line: Line) -> str:
    return f"{describe_line(line)}{' strict' if line.strict else ''}"


def _listed(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    """Rows of two columns under a title at the side."""
    width = max((len(name) for name, _ in rows), default=0)
    for position, (name, words) in enumerate(rows):
        yield f"{'' if position else title:11}{name:{width}}  {words}"


def _live(settings: Settings) -> int:
    # The gateway is needed for this alone.
    from dragoman.gateway.live_check import check_live

    outcomes = asyncio.run(check_live(settings))
    width = max((len(provider) for provider, _, _, _ in outcomes), default=0)
    for provider, protocol, ok, words in outcomes:
        line = f"{'ok' if ok else 'failed':8}{provider:{width}}  {protocol:18}  {words}"
        documents.write(printable(line.rstrip()).encode() + b"\n")
    return 0 if all(ok for _, _, ok, _ in outcomes) else FAILED
