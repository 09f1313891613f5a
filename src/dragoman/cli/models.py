"""`dragoman models`: lists every model name that a client may use, with its metadata."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

import msgspec

from dragoman.cli import documents
from dragoman.cli.env import add_gateway, named_gateway, settings_of
from dragoman.cli.terminal import GREEN, RED, YELLOW, Column, OutputScreen, printable, screen_of, table, wrapped
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.launching.gateway import fetch_names, find_running
from dragoman.launching.keys import find_key
from dragoman.routing.model_description import DescribedName, Price

# The exit status if no name matches.
NOTHING_FOUND = 1
_HEALTH = Column(heading="HEALTH", styles={"healthy": GREEN, "cooldown": RED, "suspect": YELLOW})
_COLUMNS = (
    Column(heading="NAME", least=24),
    Column(heading="WINDOW"),
    Column(heading="OUTPUT"),
    Column(heading="PRICE"),
    _HEALTH,
    Column(heading="CAPABILITIES", least=16),
)
# Programs get the name on every line, and the target in a column of its own.
_FULL_COLUMNS = (_COLUMNS[0], Column(heading="TARGET"), *_COLUMNS[1:])
_UNKNOWN = "-"
_INDENT = "  "
_LEGEND = (
    "WINDOW: maximum tokens of the context; OUTPUT: maximum tokens of the response; PRICE: "
    "US dollars per million tokens of input and output. Targets are listed below their name, "
    "which has the smallest of their sizes."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "models",
        help="list the model names that clients may use, with metadata",
        description=(
            "List every model name that a client may use, with its targets and their metadata: from "
            "the running gateway, otherwise from the configuration."
        ),
    )
    parser.add_argument(
        "pattern", nargs="?", default="", metavar="PATTERN", help="a part of the name, or a shell pattern"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    form.add_argument("--names", action="store_true", help="only the names, one per line")
    parser.add_argument("--live", action="store_true", help="query the providers instead of the running gateway")
    add_gateway(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    names = _names(options)
    if options.pattern and not names:
        documents.complain(f"no name matches {options.pattern!r}; without a pattern, all names are listed")
        if options.json:
            documents.write(b"[]\n")
        return NOTHING_FOUND
    if options.names:
        for name in names:
            documents.write_text(printable(name.name))
    elif options.json:
        documents.write(msgspec.json.encode(names) + b"\n")
    else:
        screen = screen_of(sys.stdout, options.color)
        documents.write_text("\n".join(as_table(names, screen)), screen)
    return 0


def _names(options: argparse.Namespace) -> list[DescribedName]:
    settings, named = settings_of(options), named_gateway(options)
    refusal = ""
    try:
        address = named or (None if options.live else find_running(settings.server))
        if address is not None:
            return fetch_names(address, find_key(settings, os.environ, options.key_file).sent, match=options.pattern)
    except DragomanError as error:
        if named is not None:
            raise
        refusal = str(error)
    return _of_configuration(settings, options.pattern, live=options.live, refusal=refusal)


def _of_configuration(settings: Settings, pattern: str, *, live: bool, refusal: str) -> list[DescribedName]:
    """The names without the gateway: none is running, or it refused the request."""
    # Imported here, because only this case needs the gateway.
    import asyncio

    from dragoman.gateway.model_directory import names_table

    names, failed = asyncio.run(names_table(settings, pattern, live=live))
    for provider, why in failed.items():
        documents.complain(f"note: cannot list the models of {provider}: {why}")
    unlisted = not live and any(provider.models is None for provider in settings.providers.values())
    hint = "; --live shows the models that the providers list" if unlisted else ""
    if refusal:
        documents.complain(f"note: these names are from the configuration: {refusal}{hint}")
    elif hint:
        documents.complain(f"note: no gateway is running{hint}")
    return names


def as_table(names: Sequence[DescribedName], screen: OutputScreen) -> Iterator[str]:
    if not screen.terminal:
        yield from table(screen, _FULL_COLUMNS, [row for name in names for row in _full_rows(name)])
        return
    yield from table(screen, _COLUMNS, [row for name in names for row in _rows(name)])
    yield ""
    yield from wrapped(screen, _LEGEND)


def _rows(name: DescribedName) -> Iterator[tuple[str, ...]]:
    price, health = _only(name)
    yield name.name, size_of(name.window), size_of(name.output_cap), price, health, _able(name)
    if [target.target for target in name.targets] != [name.name]:
        for target in name.targets:
            sizes = size_of(target.window), size_of(target.output_cap)
            yield _INDENT + target.target, *sizes, _price(target.price), target.health or _UNKNOWN, ""


def _full_rows(name: DescribedName) -> Iterator[tuple[str, ...]]:
    price, health = _only(name)
    yield name.name, _UNKNOWN, _exact(name.window), _exact(name.output_cap), price, health, _able(name)
    for target in name.targets:
        health, sizes = target.health or _UNKNOWN, (_exact(target.window), _exact(target.output_cap))
        yield name.name, target.target, *sizes, _price(target.price), health, _UNKNOWN


def _able(name: DescribedName) -> str:
    return " ".join(word for word, able in name.capabilities.items() if able) or _UNKNOWN


def _exact(tokens: int | None) -> str:
    return _UNKNOWN if tokens is None else str(tokens)


def _only(name: DescribedName) -> tuple[str, str]:
    """Price and health, which only a name with one target has."""
    if len(name.targets) != 1:
        return _UNKNOWN, _UNKNOWN
    (target,) = name.targets
    return _price(target.price), target.health or _UNKNOWN


def _price(price: Price | None) -> str:
    return _UNKNOWN if price is None else f"{price.input}/{price.output}"


def size_of(tokens: int | None) -> str:
    """A number of tokens, in about three digits."""
    if tokens is None:
        return _UNKNOWN
    if tokens >= 999_500:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1000:.3g}k" if tokens >= 1000 else str(tokens)
