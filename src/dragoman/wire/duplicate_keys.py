"""Duplicate keys: finds members that occur twice in a JSON object, or under names that some readers confuse. Some
readers take the first of two equal names, some the last; some ignore case or word separators. If the gateway decides by
a member and forwards it unchanged, all readers must agree on its value."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Raw

from dragoman.wire.json_spans import object_members, too_many_members

OBJECT: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
# Bytes up to which encoding the members again is faster than searching the body.
_SHORT = 4096
# A real routing object has a few dozen members, and each is checked.
MAX_MEMBERS = 4096
_NONE: Mapping[str, str] = {}
_encode = msgspec.json.Encoder().encode
# Bytes around a member: its quotes, its colon, and the comma or brace after it.
_AROUND = len(b'"":,')
# Names that no reader confuses with another one, cached.
_PLAIN: set[str] = set()
_MAX_PLAIN, _REMEMBERED = 1024, 64


def ambiguous(
    body: bytes, members: dict[str, Raw], names: AbstractSet[str], others: Mapping[str, str] = _NONE
) -> str | None:
    """Return the first member that occurs twice under one of `names`, or in another spelling. `members` are those of
    the decoded body. `others` are names compared by their letters alone (`joined`). More than `MAX_MEMBERS` raise an
    error."""
    if len(members) > MAX_MEMBERS:
        raise too_many_members(MAX_MEMBERS)
    if not _PLAIN.issuperset(members):
        for name in members:
            if name not in _PLAIN and _is_other(name, names, others):
                return name
    if len(body) < _SHORT:
        if _encode(members) == body:
            return None
        pairs = [b'"%b": %b' % (name.encode(), value) for name, value in members.items()]
        if body == b"{" + b", ".join(pairs) + b"}":
            return None
    else:
        # A body of this length contains nothing beside the members.
        written = len("".join(members)) + sum([memoryview(value).nbytes for value in members.values()])
        if written + _AROUND * len(members) + 1 == len(body):
            return None
    seen: set[str] = set()
    # Repeated names are not in `members`, so their number is checked here.
    for member in object_members(body, walked=members, limit=MAX_MEMBERS):
        if member.key in seen and member.key in names:
            return member.key
        seen.add(member.key)
    return None


def _is_other(name: str, names: AbstractSet[str], others: Mapping[str, str]) -> bool:
    """Whether some readers confuse a name with one of these. Names that no reader confuses are cached."""
    letters = folded(name)
    if name not in names and (letters in names or others.get(joined(name)) in names):
        return True
    is_plain = letters == name and name.isascii() and bool(others) and joined(name) not in others
    if is_plain and len(name) <= _REMEMBERED and len(_PLAIN) < _MAX_PLAIN:
        _PLAIN.add(name)
    return False


def joined(name: str) -> str:
    """A name by its letters alone, whether written in camelCase, with dashes or with underscores."""
    return folded(name).replace("_", "").replace("-", "")


def folded(name: str) -> str:
    """A name in case-insensitive form: Unicode case folding, with the dotted and the dotless i made equal."""
    return name.lower() if name.isascii() else name.upper().casefold().replace("\u0307", "")
