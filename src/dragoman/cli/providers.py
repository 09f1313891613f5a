"""`dragoman providers`: lists the providers of the catalogue and of the configuration."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from functools import partial

from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.terminal import GREEN, Column, OutputScreen, table, wrapped
from dragoman.cli.trust import configured
from dragoman.config.settings import Settings
from dragoman.launching.local_servers import local_models_of
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.catalogue import CatalogueEntry, catalogue
from dragoman.providers.provider import Endpoint

_COLUMNS = (
    Column(heading="NAME", least=12),
    Column(heading="TITLE", least=12),
    Column(heading="ACR"),
    Column(heading="SET", styles={"yes": GREEN}),
    Column(heading="VARIABLE", least=14),
    Column(heading="ADDRESS", least=16),
)
_LETTERS = {"anthropic-messages": "A", "openai-chat": "C", "openai-responses": "R"}
_LEGEND = "A is anthropic-messages, C openai-chat, R openai-responses. Configured providers come first."


class ProviderLine(Struct, frozen=True, kw_only=True):
    """One provider: its metadata and whether it can be used."""

    name: str
    title: str
    endpoints: tuple[Endpoint, ...]
    env: tuple[str, ...]
    needs: tuple[str, ...]
    configured: bool
    # The environment variable that the provider lacks.
    missing: str = ""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "providers",
        help="list known and configured providers",
        description="List the providers of the catalogue and of the configuration.",
    )
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the default one")
    parser.add_argument("--configured", action="store_true", help="only configured providers")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    entries = catalogue()
    settings = configured(options.config)
    local_models = local_models_of(settings)
    lines = [line for line in lines_of(settings, entries, local_models) if line.configured or not options.configured]
    documents.show(options, [_as_json(line) for line in lines], partial(as_table, lines))
    return 0


def lines_of(
    settings: Settings, entries: Mapping[str, CatalogueEntry], local_names: Iterable[str] = ()
) -> list[ProviderLine]:
    """Configured providers in the order of the settings, incomplete ones, then the entire catalogue."""
    lines = []
    there = {provider.name: provider for provider in settings.listed([settings.local[name] for name in local_names])}
    for name in dict.fromkeys((*there, *settings.absent, *entries)):
        provider, listing, missing = there.get(name), entries.get(name), settings.absent.get(name)
        lines.append(
            ProviderLine(
                name=name,
                title=listing.title if listing else "",
                endpoints=provider.endpoints if provider else listing.endpoints if listing else (),
                env=listing.env if listing else (),
                needs=listing.needs if listing else (),
                configured=provider is not None,
                missing=missing.variable if missing is not None else "",
            )
        )
    return lines


def _as_json(line: ProviderLine) -> JsonObject:
    return {
        "name": line.name,
        "title": line.title,
        "protocols": [endpoint.protocol for endpoint in line.endpoints],
        "addresses": {endpoint.protocol: endpoint.base_url for endpoint in line.endpoints},
        "environment": list(line.env),
        "needs": list(line.needs),
        "configured": line.configured,
        "missing": line.missing,
    }


def as_table(lines: list[ProviderLine], screen: OutputScreen) -> str:
    rows = table(screen, _COLUMNS, [_row(line, screen) for line in lines])
    return "\n".join([*rows, "", *wrapped(screen, _LEGEND)] if screen.terminal else rows)


def _row(line: ProviderLine, screen: OutputScreen) -> tuple[str, ...]:
    protocols = {endpoint.protocol for endpoint in line.endpoints}
    letters = "".join(letter if name in protocols else "·" for name, letter in _LETTERS.items())
    address = line.endpoints[0].base_url if line.endpoints else ""
    variables = (line.missing,) if line.missing else line.env
    if screen.terminal:
        # Common prefixes, and rare names, would take the width of other columns.
        address, variables = address.removeprefix("https://"), variables[:1]
    return line.name, line.title, letters, "yes" if line.configured else "no", ",".join(variables), address
