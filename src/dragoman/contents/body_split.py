"""Body split: the lists in a JSON request, of messages and tools, apart from the bytes around them. A body is its first
literal, its first list, its second literal and so on, joined: nothing is added or left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.wire.json_spans import JsonSpan, Member, array_elements, object_members

# A list of smaller elements, as of numbers, takes less as it is.
_MIN_AVERAGE = 48
# Strings and objects from which on they are a list of one element.
_MIN_SINGLE = 256
# Beyond these a body is stored as it is.
_MAX_ELEMENTS, _MAX_LISTS, _MAX_MEMBERS = 20_000, 32, 1000
_BRACE, _BRACKET, _QUOTE = b'{["'
_SPACE = b" \t\n\r"


class ElementList(Struct, frozen=True):
    """The elements of a list, and the bytes between any two of them."""

    separator: bytes
    elements: tuple[bytes, ...]


class SplitBody(Struct, frozen=True):
    """A body in parts; there is one literal more than there are lists."""

    literals: tuple[bytes, ...]
    lists: tuple[ElementList, ...] = ()


def split(body: bytes) -> SplitBody:
    """The parts of a body; one that is no JSON object, or has no such lists, is one list of one element."""
    cuts = _cuts(body)
    if not cuts:
        if len(body) < _MIN_SINGLE:
            return SplitBody((body,))
        return SplitBody((b"", b""), (ElementList(b"", (body,)),))
    literals: list[bytes] = []
    at = 0
    for span, _ in cuts:
        literals.append(body[at : span.start])
        at = span.end
    return SplitBody((*literals, body[at:]), tuple(elements for _, elements in cuts))


def joined(literals: Sequence[bytes], lists: Sequence[ElementList]) -> bytes:
    """The body of some parts."""
    pieces = [literals[0]]
    for elements, literal in zip(lists, literals[1:], strict=True):
        pieces += (elements.separator.join(elements.elements), literal)
    return b"".join(pieces)


def _cuts(body: bytes) -> list[tuple[JsonSpan, ElementList]]:
    at = len(body) - len(body.lstrip(_SPACE))
    if body[at : at + 1] != b"{":
        return []
    try:
        members = object_members(body, at, len(body.rstrip(_SPACE)), limit=_MAX_MEMBERS)
        lists = [cut for member in members if (cut := _cut_at(body, member)) is not None]
    except (WireError, KeyError):
        # A member that is there twice, or a text that is no JSON.
        return []
    return lists[:_MAX_LISTS]


def _cut_at(body: bytes, member: Member) -> tuple[JsonSpan, ElementList] | None:
    """The list that a member is, if it is worth one."""
    start, end = member.value_start, member.value_end
    first = body[start]
    if first in (_BRACE, _QUOTE) and end - start >= _MIN_SINGLE:
        return member.value, ElementList(b"", (body[start:end],))
    if first != _BRACKET or end - start < _MIN_AVERAGE:
        return None
    spans = array_elements(body, start, end)
    if not spans or len(spans) > _MAX_ELEMENTS or end - start < _MIN_AVERAGE * len(spans):
        return None
    separator = body[spans[0].end : spans[1].start] if len(spans) > 1 else b""
    if any(body[one.end : other.start] != separator for one, other in pairwise(spans)):
        return None
    elements = tuple([body[span.start : span.end] for span in spans])
    return JsonSpan(spans[0].start, spans[-1].end), ElementList(separator, elements)
