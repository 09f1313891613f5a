"""`dragoman providers`: whom the catalogue knows and who is set up here."""

from __future__ import annotations

import argparse
import itertools
import os
import re
from collections.abc import Mapping

from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.ledger import printable
from dragoman.cli.trust import file_to_read
from dragoman.config.load import read_settings
from dragoman.config.settings import Settings
from dragoman.model.jsonvalue import JsonObject
from dragoman.providers.catalogue import Listing, catalogue
from dragoman.providers.provider import Endpoint
from dragoman.wire.json import encode_text

WIDTH = 100
_GAP = "  "
_HEADINGS = ("NAME", "TITLE", "ACR", "SET", "VARIABLE", "ADDRESS")
# How wide a column may be; the last one takes what is left.
_LIMITS = (16, 20, 3, 3, 20)
_LETTERS = {"anthropic-messages": "A", "openai-chat": "C", "openai-responses": "R"}
_LEGEND = "A is anthropic-messages, C openai-chat, R openai-responses; those that are set up come first."
# A long cell goes on below after one of these marks.
_PIECE = re.compile(r"[^/._ -]*[/._ -]|[^/._ -]+")


class Line(Struct, frozen=True, kw_only=True):
    """One provider: what is known of it and whether it can be used."""

    name: str
    title: str
    endpoints: tuple[Endpoint, ...]
    env: tuple[str, ...]
    needs: tuple[str, ...]
    configured: bool


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "providers",
        help="list the providers that are known and those that are set up",
        description="The providers of the catalogue, and those of the configuration.",
    )
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the one that would be found")
    parser.add_argument("--configured", action="store_true", help="only those that are set up")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List them."""
    known = catalogue()
    settings = read_settings(file_to_read(options.config), os.environ, known)
    lines = [line for line in lines_of(settings, known) if line.configured or not options.configured]
    text = encode_text([_as_json(line) for line in lines]) if options.json else as_table(lines)
    documents.write(text.encode() + b"\n")
    return 0


def lines_of(settings: Settings, known: Mapping[str, Listing]) -> list[Line]:
    """Those that are set up in the order of the settings, then the others in the order of the catalogue."""
    lines = []
    for name in dict.fromkeys((*settings.providers, *known)):
        provider, listing = settings.providers.get(name), known.get(name)
        lines.append(
            Line(
                name=name,
                title=listing.title if listing else "",
                endpoints=provider.endpoints if provider else listing.endpoints if listing else (),
                env=listing.env if listing else (),
                needs=listing.needs if listing else (),
                configured=provider is not None,
            )
        )
    return lines


def _as_json(line: Line) -> JsonObject:
    return {
        "name": line.name,
        "title": line.title,
        "protocols": [endpoint.protocol for endpoint in line.endpoints],
        "addresses": {endpoint.protocol: endpoint.base_url for endpoint in line.endpoints},
        "environment": list(line.env),
        "needs": list(line.needs),
        "configured": line.configured,
    }


def as_table(lines: list[Line]) -> str:
    """The lines as a table that fits a terminal; long cells go on below."""
    rows = [tuple(map(printable, row)) for row in (_HEADINGS, *map(_row, lines))]
    sizes = [min(limit, max(len(row[column]) for row in rows)) for column, limit in enumerate(_LIMITS)]
    sizes.append(WIDTH - sum(sizes) - len(_GAP) * len(sizes))
    text: list[str] = []
    for row in rows:
        cells = [folded(cell, size) for cell, size in zip(row, sizes, strict=True)]
        for pieces in itertools.zip_longest(*cells, fillvalue=""):
            padded = [piece.ljust(size) for piece, size in zip(pieces, sizes, strict=True)]
            text.append(_GAP.join(padded).rstrip())
    return "\n".join([*text, "", _LEGEND])


def folded(cell: str, size: int) -> list[str]:
    """A cell on as many lines as it takes."""
    lines = [""]
    for piece in _PIECE.findall(cell):
        if len(lines[-1]) + len(piece.rstrip()) > size:
            lines.append("")
        lines[-1] += piece
        while len(lines[-1].rstrip()) > size:
            lines[-1:] = [lines[-1][:size], lines[-1][size:]]
    return [line.rstrip() for line in lines]


def _row(line: Line) -> tuple[str, ...]:
    spoken = {endpoint.protocol for endpoint in line.endpoints}
    letters = "".join(letter if name in spoken else "·" for name, letter in _LETTERS.items())
    address = line.endpoints[0].base_url.removeprefix("https://") if line.endpoints else ""
    return line.name, line.title, letters, "yes" if line.configured else "no", line.env[0] if line.env else "", address
