"""`dragoman models`: every name that a client may use, and what is known of each."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import shutil
import sys
from collections.abc import Iterator, Sequence

import msgspec

from dragoman.cli import documents
from dragoman.cli.env import add_gateway, named_gateway, settings_of
from dragoman.cli.ledger import printable
from dragoman.cli.providers import WIDTH, folded
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.gateway import find_running
from dragoman.launching.keys import find_key
from dragoman.launching.names import ask_names
from dragoman.routing.described import DescribedName, DescribedTarget, Price

# The exit status where no name fits.
NOTHING_FOUND = 1
_GAP = "  "
_HEADINGS = ("NAME", "WINDOW", "OUTPUT", "PRICE", "HEALTH", "ABILITIES")
# How wide a column may be, but for the first; the first takes what is left, up to what it needs.
_LIMITS = (6, 6, 11, 10, 23)
_NARROWEST = 24
_UNKNOWN = "-"
_INDENT = "  "
_LEGEND = (
    "WINDOW: tokens that it takes; OUTPUT: tokens that it says at most; PRICE: US dollars for a million",
    "in and out. Below a name stand the targets that it may come to; its sizes are the least of theirs.",
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "models",
        help="list the names that clients may use, with what is known of each",
        description="Every name that a client may use, with its targets and what is known of them: as the gateway that "
        "is running knows it, else as the configuration says it.",
    )
    parser.add_argument(
        "pattern", nargs="?", default="", metavar="PATTERN", help="a part of the name, or a shell pattern"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--live", action="store_true", help="ask the providers, and not the gateway that is running")
    add_gateway(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List them."""
    names = _names(options)
    if options.pattern and not names:
        documents.complain(f"no name fits {options.pattern!r}; without a pattern all of them are listed")
        if options.json:
            documents.write(b"[]\n")
        return NOTHING_FOUND
    text = msgspec.json.encode(names) if options.json else "\n".join(as_table(names, _width())).encode()
    documents.write(text + b"\n")
    return 0


def _names(options: argparse.Namespace) -> list[DescribedName]:
    settings = settings_of(options)
    named = named_gateway(options)
    if named is not None:
        return ask_names(named, find_key(settings, os.environ, options.key_file).text, match=options.pattern)
    if not options.live:
        try:
            running = find_running(settings.server)
            if running is not None:
                return ask_names(running, find_key(settings, os.environ, options.key_file).text, match=options.pattern)
        except DragomanError as error:
            documents.complain(f"note: the gateway is not asked: {error}")
    return _of_configuration(settings, options.pattern, live=options.live)


def _of_configuration(settings: Settings, pattern: str, *, live: bool) -> list[DescribedName]:
    # The gateway is needed for this alone.
    from dragoman.gateway.name_table import names_table

    names, failed = asyncio.run(names_table(settings, pattern, live=live))
    for provider, why in failed.items():
        documents.complain(f"note: the models of {provider} could not be listed: {why}")
    if not live and any(provider.models is None for provider in settings.providers.values()):
        documents.complain("note: no gateway is running; what the providers list is told with --live")
    return names


def _width() -> int:
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def as_table(names: Sequence[DescribedName], width: int = WIDTH) -> Iterator[str]:
    """The names as a table that fits a terminal; long cells go on below."""
    rows = [tuple(map(printable, row)) for row in (_HEADINGS, *itertools.chain.from_iterable(map(_rows, names)))]
    sizes = [min(limit, max(len(row[column]) for row in rows)) for column, limit in enumerate(_LIMITS, 1)]
    left = width - sum(sizes) - len(_GAP) * len(sizes)
    sizes = [max(_NARROWEST, min(left, max(len(row[0]) for row in rows))), *sizes]
    for row in rows:
        indent = _INDENT if row[0].startswith(_INDENT) else ""
        first = [indent + piece for piece in folded(row[0].strip(), sizes[0] - len(indent))]
        cells = [first, *(folded(cell, size) for cell, size in zip(row[1:], sizes[1:], strict=True))]
        for pieces in itertools.zip_longest(*cells, fillvalue=""):
            yield _GAP.join(piece.ljust(size) for piece, size in zip(pieces, sizes, strict=True)).rstrip()
    yield ""
    yield from _LEGEND


def _rows(name: DescribedName) -> Iterator[tuple[str, ...]]:
    """A name, and its targets below it unless they say the same."""
    price, health = _only(name)
    words = " ".join(word for word, able in name.abilities.items() if able) or _UNKNOWN
    yield name.name, size_of(name.window), size_of(name.output_cap), price, health, words
    if [target.target for target in name.targets] != [name.name]:
        for target in name.targets:
            yield _INDENT + target.target, *_numbers(target), ""


def _only(name: DescribedName) -> tuple[str, str]:
    """Price and health, which a name has only if it has one target."""
    if len(name.targets) != 1:
        return _UNKNOWN, _UNKNOWN
    (target,) = name.targets
    return _price(target.price), target.health or _UNKNOWN


def _numbers(target: DescribedTarget) -> tuple[str, str, str, str]:
    return size_of(target.window), size_of(target.output_cap), _price(target.price), target.health or _UNKNOWN


def _price(price: Price | None) -> str:
    return _UNKNOWN if price is None else f"{price.input}/{price.output}"


def size_of(tokens: int | None) -> str:
    """A number of tokens, in about three digits."""
    if tokens is None:
        return _UNKNOWN
    if tokens >= 999_500:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1000:.3g}k" if tokens >= 1000 else str(tokens)
