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
from dragoman.providers.catalogue import catalogue
from dragoman.providers.provider import Provider

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
    if settings.prices:
        for doubt in doubts(settings, book_of(settings, documents.complain), time.time()):
            documents.complain(f"warning: {doubt}")
    return _live(settings) if options.live else 0


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
