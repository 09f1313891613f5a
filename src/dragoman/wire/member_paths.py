"""Member paths: yields the strings at given paths of a JSON value, such as `tools/*/model`. A `check` gets each object
on the way with the names that matter, and rejects objects that readers may understand differently."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Raw

from dragoman.errors import WireError
from dragoman.wire.duplicate_keys import OBJECT

# Member names, each with the tree below it. `*` matches every element of a list and every member of an object. The
# empty name marks a string.
PathTree: TypeAlias = "dict[str, PathTree]"
Check: TypeAlias = Callable[[bytes, dict[str, Raw], frozenset[str]], None]
_HERE, _EACH = "", "*"
_ARRAY: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)


def path_tree(paths: Iterable[str]) -> PathTree:
    root: PathTree = {}
    for path in paths:
        node = root
        for step in path.split("/"):
            node = node.setdefault(step, {})
        node[_HERE] = {}
    return root


def strings_at(value: Raw | bytes, tree: PathTree, check: Check, at: str = "") -> Iterator[str]:
    """Yield the strings at the paths of a tree. Null, and containers that the tree enters, are allowed. Other values
    raise `WireError`."""
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
    """The same for an object that is decoded and checked already."""
    each = tree.get(_EACH)
    for name, value in members.items():
        below = each if name in (_HERE, _EACH) else tree.get(name, each)
        if below is not None:
            yield from strings_at(value, below, check, f"{at}/{name}")
