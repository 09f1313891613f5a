"""`dragoman explain`: one request in all three dialects side by side, with what each costs in losses."""

from __future__ import annotations

import argparse
import textwrap

from msgspec import Struct

from dragoman.cli import documents, ledger
from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.protocols.registry import PROTOCOLS, recognise
from dragoman.translate import LossLine, as_json, translate_request
from dragoman.wire.json import decode, decode_object, encode_text

WIDTH = 100
_GAP = "  "
_COLUMN = (WIDTH - len(_GAP) * (len(PROTOCOLS) - 1)) // len(PROTOCOLS)
# Longer strings are shown by their beginning: base64 and prompts would bury the structure.
_LONGEST = 72


class Version(Struct, frozen=True):
    """The request in one dialect, or why it cannot be said there."""

    protocol: str
    body: JsonValue
    losses: tuple[LossLine, ...]
    problem: str | None = None


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="show a request in all three dialects",
        description="The same request in all three dialects side by side, with what each costs in losses.",
    )
    parser.add_argument("file", nargs="?", default="-", metavar="FILE", help="a request; - is standard input")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Explain one request."""
    body = decode_object(documents.read(options.file))
    codec = recognise(body)
    if codec is None:
        raise DragomanError("expected a request with `messages` or `input`, found neither")
    versions = [_version(body, codec.name, other.name) for other in PROTOCOLS]
    text = _as_json(codec.name, versions) if options.json else _as_text(codec.name, versions)
    documents.write(text.encode() + b"\n")
    return 0


def _version(body: JsonObject, source: str, target: str) -> Version:
    try:
        out = translate_request(body, source=source, target=target)
    except DragomanError as error:
        return Version(target, None, (), str(error))
    return Version(target, decode(out.body), out.losses)


def _as_json(source: str, versions: list[Version]) -> str:
    dialects: JsonObject = {}
    for version in versions:
        losses = as_json(version.losses)
        dialects[version.protocol] = {"body": version.body, "losses": losses, "refused": version.problem}
    return encode_text({"source": source, "dialects": dialects})


def _as_text(source: str, versions: list[Version]) -> str:
    columns = [_column(version, source) for version in versions]
    height = max(len(column) for column in columns)
    lines = [
        _GAP.join(column[row].ljust(_COLUMN) if row < len(column) else " " * _COLUMN for column in columns).rstrip()
        for row in range(height)
    ]
    for version in versions:
        if version.losses:
            lines += ["", f"Lost on the way to {version.protocol}:", ledger.as_table(version.losses, WIDTH)]
    return "\n".join(lines)


def _column(version: Version, source: str) -> list[str]:
    cost = "as it was said" if version.protocol == source else _cost(version)
    head = [version.protocol, cost, "─" * _COLUMN]
    if version.problem is not None:
        return head + textwrap.wrap(version.problem, _COLUMN)
    return head + [piece for line in _pretty(version.body, 0) for piece in _fit(line)]


def _cost(version: Version) -> str:
    if version.problem is not None:
        return "refused"
    count = len(version.losses)
    return "nothing lost" if not count else f"{count} loss{'es' if count > 1 else ''}"


def _fit(line: str) -> list[str]:
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(
        line,
        _COLUMN,
        subsequent_indent=" " * min(indent + 2, _COLUMN // 2),
        drop_whitespace=True,
        break_on_hyphens=False,
    ) or [""]


def _pretty(value: JsonValue, depth: int, lead: str = "") -> list[str]:
    """JSON with one space of indentation, short values on one line."""
    pad = " " * depth
    flat = encode_text(_shortened(value))
    if len(pad) + len(lead) + len(flat) <= _COLUMN or not isinstance(value, dict | list) or not value:
        return [f"{pad}{lead}{flat}"]
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    items = (
        [(f"{encode_text(key)}: ", member) for key, member in value.items()]
        if isinstance(value, dict)
        else [("", member) for member in value]
    )
    lines = [f"{pad}{lead}{opening}"]
    for position, (name, member) in enumerate(items):
        inner = _pretty(member, depth + 1, name)
        if position < len(items) - 1:
            inner[-1] += ","
        lines += inner
    return [*lines, f"{pad}{closing}"]


def _shortened(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[:_LONGEST]}… ({len(value)} characters)"
    if isinstance(value, list):
        return [_shortened(item) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(member) for key, member in value.items()}
    return value
