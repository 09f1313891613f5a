"""`dragoman explain`: shows one request in all three protocols side by side, with the losses of each."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator

from msgspec import Struct

from dragoman.cli import documents, formatting, ledger
from dragoman.cli.parser import add_all_losses
from dragoman.cli.terminal import Column, OutputScreen, printable, screen_of, table
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.protocols.registry import PROTOCOL_NAMES, recognise
from dragoman.translate import LossLine, as_json, changes_in, translate_request
from dragoman.wire.json import decode, decode_object, encode_text

_GAP = "  "
# Narrower columns are unreadable. A narrower terminal breaks their lines.
_NARROWEST = 20
# Longer strings are shortened: base64 and prompts would hide the structure.
_MAX_STRING_LENGTH = 72
_VERSIONS = (Column(heading="PROTOCOL"), Column(heading="COST"), Column(heading="REQUEST"))
_LOST = tuple(Column(heading=heading) for heading in ("PROTOCOL", "FATE", "FEATURE", "AT", "NOTE"))


class Version(Struct, frozen=True):
    """The request in one protocol, or the reason why it cannot be translated."""

    protocol: str
    body: JsonValue
    losses: tuple[LossLine, ...]
    problem: str | None = None


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "explain",
        help="show a request in all three protocols",
        description="Show the same request in all three protocols side by side, with the losses of each.",
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="a request; - is standard input")
    parser.add_argument("--model", help="the model's name, if the URL names it and the request has none")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    add_all_losses(parser, "the ledgers")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    body = decode_object(documents.read(options.file))
    codec = recognise(body)
    if codec is None:
        raise DragomanError("expected a request with `messages` or `input`, got neither")
    versions = [_version(body, codec.name, name, options.model) for name in PROTOCOL_NAMES]
    screen = screen_of(sys.stdout, options.color)
    if options.json:
        documents.write(_as_json(codec.name, versions).encode() + b"\n")
    elif screen.terminal:
        documents.write_text(_as_text(codec.name, versions, screen, all_losses=options.all_losses), screen)
    else:
        documents.write_text("\n".join(_as_rows(codec.name, versions, screen, all_losses=options.all_losses)), screen)
    return 0


def _version(body: JsonObject, source: str, target: str, model: str | None) -> Version:
    try:
        out = translate_request(body, source=source, target=target, model=model)
    except DragomanError as error:
        return Version(target, None, (), documents.request_problem(error))
    return Version(target, decode(out.body), out.losses)


def _as_json(source: str, versions: list[Version]) -> str:
    protocols: JsonObject = {}
    for version in versions:
        losses = as_json(version.losses)
        protocols[version.protocol] = {"body": version.body, "losses": losses, "refused": version.problem}
    return encode_text({"source": source, "protocols": protocols})


def _as_rows(source: str, versions: list[Version], screen: OutputScreen, *, all_losses: bool) -> Iterator[str]:
    rows = [
        (version.protocol, _summary(version, source), version.problem or encode_text(version.body))
        for version in versions
    ]
    yield from table(screen, _VERSIONS, rows)
    lost = [
        (version.protocol, loss["fate"], loss["feature"], loss["at"], loss["note"])
        for version in versions
        for loss in (version.losses if all_losses else changes_in(version.losses))
    ]
    if lost:
        yield ""
        yield from table(screen, _LOST, lost)


def _as_text(source: str, versions: list[Version], screen: OutputScreen, *, all_losses: bool) -> str:
    size = max((screen.width - len(_GAP) * (len(versions) - 1)) // len(versions), _NARROWEST)
    columns = [_column(version, source, size) for version in versions]
    height = max(len(column) for column in columns)
    lines = [
        _GAP.join(column[row].ljust(size) if row < len(column) else " " * size for column in columns).rstrip()
        for row in range(height)
    ]
    for version in versions:
        if version.losses:
            listed = ledger.as_table(version.losses, screen, all_losses=all_losses)
            lines += ["", f"Lost on the way to {version.protocol}:", listed]
    return "\n".join(lines)


def _column(version: Version, source: str, size: int) -> list[str]:
    head = [version.protocol, _summary(version, source), "─" * size]
    if version.problem is not None:
        return head + textwrap.wrap(printable(version.problem), size)
    return head + [piece for line in _pretty(version.body, 0, size) for piece in _fit(printable(line), size)]


def _summary(version: Version, source: str) -> str:
    return "unchanged" if version.protocol == source else _cost(version)


def _cost(version: Version) -> str:
    if version.problem is not None:
        return "refused"
    count, all_of_them = len(changes_in(version.losses)), len(version.losses)
    if not count:
        return f"bookkeeping alone ({all_of_them})" if all_of_them else "nothing lost"
    return formatting.counted(count, "loss", "losses")


def _fit(line: str, size: int) -> list[str]:
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line, size, subsequent_indent=" " * min(indent + 2, size // 2), drop_whitespace=True, break_on_hyphens=False
    ) or [""]


def _pretty(value: JsonValue, depth: int, size: int, lead: str = "") -> list[str]:
    """JSON with one space of indentation, short values on one line."""
    pad = " " * depth
    flat = encode_text(_shortened(value))
    if len(pad) + len(lead) + len(flat) <= size or not isinstance(value, dict | list) or not value:
        return [f"{pad}{lead}{flat}"]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    items = (
        [(f"{encode_text(key)}: ", member) for key, member in value.items()]
        if isinstance(value, dict)
        else [("", member) for member in value]
    )
    lines = [f"{pad}{lead}{opening}"]
    for position, (name, member) in enumerate(items):
        inner = _pretty(member, depth + 1, size, name)
        if position < len(items) - 1:
            inner[-1] += ","
        lines += inner
    return [*lines, f"{pad}{closing}"]


def _shortened(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > _MAX_STRING_LENGTH:
        return f"{value[:_MAX_STRING_LENGTH]}… ({len(value)} characters)"
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(member) for key, member in value.items()}
    return value
