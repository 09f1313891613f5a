"""Where the code names a protocol although it should ask the codec: counted, so that it can only get less.

A site is a string with the name of a protocol in it, or the use of a name that stands for one: MESSAGES, CHAT and their
like, whatever is imported from a protocol's room, and what a module assigns from these. An import counts only where the
name is not used otherwise, so that a module that is divided has no more sites than before. Docstrings and comments do
not count. There are two lists: modules outside `protocols/`, and rooms in it that name another room.

    python -m tests.house.protocol_names

writes the counts anew, also after modules were moved or divided; it refuses when the sum of a list rises.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from dragoman.protocols.registry import load_codecs

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src/dragoman"
COUNTS = Path(__file__).with_name("protocol_names.toml")
# A list's name -> a module's path -> how many sites it has.
Counts = Mapping[str, Mapping[str, int]]

OUTSIDE, ROOMS = "outside", "rooms"
_HOME = "dragoman.protocols"
# The folder of a room -> the name on the wire.
_WIRE_NAMES = {codec.name.replace("-", "_"): codec.name for codec in load_codecs()}
_WORDS = {
    "MESSAGES": "anthropic_messages",
    "ANTHROPIC": "anthropic_messages",
    "CHAT": "openai_chat",
    "RESPONSES": "openai_responses",
}
# A module without any of these names no room; to parse it takes much longer than to search it.
_TELLTALE = frozenset({*_WIRE_NAMES, *_WIRE_NAMES.values(), *_WORDS})


# Counting


def counted(sources: Path = SOURCES) -> Counts:
    """The sites of every module that has any; `codec.py` and `registry.py` are nobody's room, and may name all."""
    found: dict[str, dict[str, int]] = {OUTSIDE: {}, ROOMS: {}}
    for path in sorted(sources.rglob("*.py")):
        place = path.relative_to(sources)
        inside = place.parts[0] == "protocols"
        room = place.parts[1] if inside else None
        if inside and room not in _WIRE_NAMES:
            continue
        named = rooms_named(path.read_text(encoding="utf-8"))
        if count := sum(times for other, times in named.items() if other != room):
            found[ROOMS if inside else OUTSIDE][place.as_posix()] = count
    return found


def rooms_named(source: str) -> Counter[str]:
    """How often a module names which room."""
    if not any(word in source for word in _TELLTALE):
        return Counter()
    tree = ast.parse(source)
    imported = dict(_imported(tree))
    bound = imported | _assigned(tree, imported)
    unused = set(imported)
    found: Counter[str] = Counter()
    for node in _spoken(tree):
        match node:
            case ast.Constant(value=str(text)):
                found.update(room for room, name in _WIRE_NAMES.items() if name in text)
            case ast.Name(id=name, ctx=ast.Load()) if room := _room_of(name, bound):
                found[room] += 1
                unused.discard(name)
            case ast.Attribute(attr=name) if room := name if name in _WIRE_NAMES else _WORDS.get(name):
                found[room] += 1
    found.update(imported[name] for name in unused)
    return found


def _spoken(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but strings that stand for themselves, which say something to readers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        yield from _spoken(node)


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that imports bind, and which room each stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # A room may give a name to another one.
                if room := _WORDS.get(alias.name) or _room_at(f"{node.module}.{alias.name}"):
                    yield alias.asname or alias.name, room
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and (room := _room_at(alias.name)):
                    yield alias.asname, room


def _room_at(module: str) -> str | None:
    if not module.startswith(f"{_HOME}."):
        return None
    room = module.removeprefix(f"{_HOME}.").partition(".")[0]
    return room if room in _WIRE_NAMES else None


def _assigned(tree: ast.Module, imported: Mapping[str, str]) -> dict[str, str]:
    """The names that the module itself gives to a protocol."""
    by_wire_name = {name: room for room, name in _WIRE_NAMES.items()}
    found: dict[str, str] = {}
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            for name, value in _pairs(target, statement.value):
                match value:
                    case ast.Constant(value=str(text)) if text in by_wire_name:
                        found[name] = by_wire_name[text]
                    case ast.Name(id=other) if room := _room_of(other, {**imported, **found}):
                        found[name] = room
    return found


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, other in zip(target.elts, value.elts, strict=False):
            yield from _pairs(one, other)


def _room_of(name: str, bound: Mapping[str, str]) -> str | None:
    return bound.get(name) or _WORDS.get(name)


# The file


def allowed(path: Path = COUNTS) -> Counts:
    """The counts that are written down."""
    lists = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(lists) == {OUTSIDE, ROOMS}
    return lists


def differences(found: Counts, written: Counts) -> list[str]:
    """What has to be done about each module whose count is not the one that is written down."""
    lines: list[str] = []
    for name in (OUTSIDE, ROOMS):
        for module in sorted({*found[name], *written[name]}):
            now, before = found[name].get(module, 0), written[name].get(module, 0)
            if now > before:
                lines.append(f"{module}: {now} sites name a protocol, allowed are {before}: ask the codec instead")
            elif now < before:
                lines.append(f"{module}: {now} sites name a protocol, no longer {before}: lower the number in the file")
    return lines


def rewrite(found: Counts, path: Path = COUNTS) -> None:
    """Write these counts down, unless a list as a whole would grow."""
    before = allowed(path)
    for name in (OUTSIDE, ROOMS):
        now, then = sum(found[name].values()), sum(before[name].values())
        if now > then:
            raise ValueError(f"{now} sites would name a protocol instead of {then} in the list {name!r}")
    path.write_text(rendered(found), encoding="utf-8")


def rendered(counts: Counts) -> str:
    """The file."""
    lines = ["# Written by `python -m tests.house.protocol_names`; the numbers only get smaller."]
    for name in (OUTSIDE, ROOMS):
        lines += ["", f"[{name}]", *(f'"{module}" = {count}' for module, count in sorted(counts[name].items()))]
    return "\n".join(lines) + "\n"


def main(sources: Path = SOURCES, path: Path = COUNTS) -> int:
    """Write the counts of the sources down; say which modules are to blame where that is refused."""
    found = counted(sources)
    lines = differences(found, allowed(path))
    try:
        rewrite(found, path)
    except ValueError as error:
        print(f"refused: {error}", *lines, sep="\n", file=sys.stderr)
        return 1
    print(*lines or ["nothing has changed"], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
