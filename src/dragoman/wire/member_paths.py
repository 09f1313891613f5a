"""Member paths: the strings at given places of a JSON value, as `tools/*/model`. Objects on the way are given to a
`check` with the names that count in them, which refuses what readers may understand differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Raw

from dragoman.errors import WireError
from dragoman.wire.duplicate_keys import OBJECT

# Names of members, with the tree below them. `*` matches every element of a list and every member of an object; the
# empty name means that a string stands here.
PathTree: TypeAlias = "dict[str, PathTree]"
Check: TypeAlias = Callable[[bytes, dict[str, Raw], frozenset[str]], None]
_HERE, _EACH = "", "*"
_ARRAY: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)


def path_tree(paths: Iterable[str]) -> PathTree:
    """The tree of some paths."""
    root: PathTree = {}
    for path in paths:
        node = root
        for step in path.split("/"):
            node = node.setdefault(step, {})
        node[_HERE] = {}
    return root


def strings_at(value: Raw | bytes, tree: PathTree, check: Check, at: str = "") -> Iterator[str]:
    """The strings at the places of a tree. Null, and containers that the tree enters, are allowed as well; anything
    else raises `WireError`."""
    first, each = bytes(memoryview(value)[:1]), tree.get(_EACH)
    if first == b"{" and tree.keys() != {_HERE}:
        members = OBJECT.decode(value)
        check(bytes(value), members, frozenset(members if each is not None else tree))
        yield from strings_in(members, tree, check, at)
    elif first == b"[" and each is not None:
        for place, element in enumerate(_ARRAY.decode(value)):
            yield from strings_at(element, each, check, f"{at}/{place}")
    elif _HERE in tree:
        if first == b'"':
            yield _STRING.decode(value)
        elif first != b"n":
            raise WireError(at, "string", "another value")


def strings_in(members: Mapping[str, Raw], tree: PathTree, check: Check, at: str = "") -> Iterator[str]:
    """The same of an object whose members are read, and were checked."""
    each = tree.get(_EACH)
    for name, value in members.items():
        below = each if name in (_HERE, _EACH) else tree.get(name, each)
        if below is not None:
            yield from strings_at(value, below, check, f"{at}/{name}")
