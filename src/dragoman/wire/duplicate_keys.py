"""Duplicate keys: members that an object has twice, or under a name that some readers confuse. JSON readers differ: of
two equal names some take the first, some the last; some ignore case, or how words are joined. A decision by a member
that is then forwarded as written requires that all readers agree."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec
from msgspec import Raw

from dragoman.wire.json_spans import object_members, too_many_members

OBJECT: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
# Longer ones are looked through faster than written again.
_SHORT = 4096
# A real routing object has a few dozen members; each of them is checked here.
MAX_MEMBERS = 4096
_NONE: Mapping[str, str] = {}
_encode = msgspec.json.Encoder().encode
# Bytes around a member: its quotes, its colon, and the comma or the brace behind it.
_AROUND = len(b'"":,')
# Names that no reader takes for another one: without capitals they are their own folding.
_PLAIN: set[str] = set()
_MAX_PLAIN, _REMEMBERED = 1024, 64


def ambiguous(
    body: bytes, members: dict[str, Raw], names: AbstractSet[str], others: Mapping[str, str] = _NONE
) -> str | None:
    """The first member that is one of `names` twice, or spelled otherwise; `members` are those of the decoded body.
    `others` are names compared by their letters alone (`joined`). More than `MAX_MEMBERS` are refused."""
    if len(members) > MAX_MEMBERS:
        raise too_many_members(MAX_MEMBERS)
    if not _PLAIN.issuperset(members):
        for name in members:
            if name not in _PLAIN and _is_other(name, names, others):
                return name
    # Most bodies are written without white space, or all with the same.
    if len(body) < _SHORT:
        if _encode(members) == body:
            return None
        pairs = [b'"%b": %b' % (name.encode(), value) for name, value in members.items()]
        if body == b"{" + b", ".join(pairs) + b"}":
            return None
    else:
        # One that is no longer than its members without white space says nothing beside them.
        written = len("".join(members)) + sum([memoryview(value).nbytes for value in members.values()])
        if written + _AROUND * len(members) + 1 == len(body):
            return None
    seen: set[str] = set()
    # Repeated names are not in `members`, and their number is not limited.
    for member in object_members(body, walked=members, limit=MAX_MEMBERS):
        if member.key in seen and member.key in names:
            return member.key
        seen.add(member.key)
    return None


def _is_other(name: str, names: AbstractSet[str], others: Mapping[str, str]) -> bool:
    """Whether some readers take a name for another one of these. A name that none does is remembered."""
    letters = folded(name)
    if name not in names and (letters in names or others.get(joined(name)) in names):
        return True
    is_plain = letters == name and name.isascii() and bool(others) and joined(name) not in others
    if is_plain and len(name) <= _REMEMBERED and len(_PLAIN) < _MAX_PLAIN:
        _PLAIN.add(name)
    return False


def joined(name: str) -> str:
    """A name by its letters alone, however its words are joined: camelCase, with dashes or with underscores."""
    return folded(name).replace("_", "").replace("-", "")


def folded(name: str) -> str:
    """A name in a case-insensitive form: Unicode's folding, the dotless i and the one with a dot."""
    return name.lower() if name.isascii() else name.upper().casefold().replace("\u0307", "")
