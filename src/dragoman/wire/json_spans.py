"""JSON spans: finds the byte positions of values in JSON text, and edits values without changing other bytes. The text
must be valid JSON. msgspec walks values in linear time without building them, and a pattern jumps from bracket to
bracket. Members with equal names are all listed, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec import Raw

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonValue
from dragoman.wire.json import decode, encode

_OBJECT: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])

_WHITE = b" \t\n\r"
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_skip_string = re.compile(_STRING, re.DOTALL).match
_skip_white = re.compile(rb"[ \t\n\r]*+").match
_skip_comma = re.compile(rb"[ \t\n\r]*+(?:,[ \t\n\r]*+)?").match
# A member up to its value: the name without quotes, and the value too if it is short and plain, as most are.
_read_member = re.compile(
    rb'[ \t\n\r,]*+"([^"\\]*+(?:\\.[^"\\]*+)*+)"[ \t\n\r]*+:[ \t\n\r]*+("[^"\\]{0,64}+"|[-+.0-9A-Za-z]++)?+', re.DOTALL
).match
_skip_scalar = re.compile(rb"[^ \t\n\r,\]}]*+").match
# Matches a string as one piece, so that a bracket inside it does not count.
_landmarks = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL).finditer

_QUOTE, _BACKSLASH, _COMMA, _BRACE, _BRACKET, _SPACE = b'"\\,{[ '
_OPENING = frozenset(b"{[")


class JsonSpan(msgspec.Struct, frozen=True, gc=False):
    """The bytes from `start` up to, but not including, `end`."""

    start: int
    end: int


class Member(msgspec.Struct, frozen=True, gc=False):
    """One member of an object: its decoded name, and the spans of name and value."""

    key: str
    key_start: int
    value_start: int
    value_end: int

    @property
    def value(self) -> JsonSpan:
        return JsonSpan(self.value_start, self.value_end)

    @property
    def whole(self) -> JsonSpan:
        return JsonSpan(self.key_start, self.value_end)


def value_end(body: bytes, start: int) -> int:
    first = body[start]
    if first == _QUOTE:
        return _string_end(body, start)
    if first not in _OPENING:
        return _require_match(_skip_scalar(body, start)).end()
    depth = 0
    for landmark in _landmarks(body, start):
        at = landmark.start()
        mark = body[at]
        if mark == _QUOTE:
            continue
        depth += 1 if mark in _OPENING else -1
        if depth == 0:
            return at + 1
    raise WireError("", "JSON", "a text that ends too early")


def object_members(
    body: bytes,
    start: int = 0,
    end: int | None = None,
    *,
    walked: dict[str, Raw] | None = None,
    limit: int | None = None,
) -> list[Member]:
    """Return the members of the object at `start`, with duplicates. More than `limit` raise an error. A known `end`,
    and `walked` (msgspec's result for the object), save work."""
    at, end = _bounds(body, start, end)
    lengths = walked if walked is not None else _walked(_OBJECT, body, at, end)
    members: list[Member] = []
    at += 1
    while (member := _read_member(body, at, end)) is not None:
        quoted, plain = member.groups()
        key = quoted.decode() if _BACKSLASH not in quoted else _text(quoted)
        at = member.end()
        if plain is not None:
            value_start = at - len(plain)
        else:
            value_start = at
            at = _value_end(body, value_start, lengths[key])
        members.append(Member(key, member.start(1) - 1, value_start, at))
        if limit is not None and len(members) > limit:
            raise too_many_members(limit)
    return members


def too_many_members(limit: int) -> WireError:
    return WireError("", f"an object of at most {limit} members", "more")


def array_elements(body: bytes, start: int = 0, end: int | None = None) -> list[JsonSpan]:
    """Return the elements of the array at `start`. A known `end` saves a search."""
    at, end = _bounds(body, start, end)
    elements: list[JsonSpan] = []
    walked = _walked(_ARRAY, body, at, end)
    at += 1
    for element in walked:
        # Most lists have no white space, which saves the pattern match.
        if body[at] == _COMMA:
            at += 1
        if body[at] <= _SPACE:
            at = _require_match(_skip_comma(body, at)).end()
        value_start = at
        at += len(element)
        elements.append(JsonSpan(value_start, at))
    return elements


def elements_of(body: bytes, key: str, start: int = 0, end: int | None = None) -> list[tuple[int, JsonSpan]]:
    """Return the elements of the list member `key`, in each duplicate, with their index; none if there is no such
    list."""
    at, end = _bounds(body, start, end)
    if body[at] != _BRACE:
        return []
    return [
        numbered
        for member in object_members(body, at, end)
        if member.key == key and body[member.value_start] == _BRACKET
        for numbered in enumerate(array_elements(body, member.value_start, member.value_end))
    ]


def without(body: bytes, spans: Iterable[JsonSpan]) -> bytes:
    """Remove members or elements, each with one comma."""
    return replaced(body, [(gap, b"") for gap in gaps(body, spans)])


def gaps(body: bytes, spans: Iterable[JsonSpan]) -> list[JsonSpan]:
    """The spans to cut in order to remove members or elements: neighbours are joined, surplus commas included."""
    runs: list[JsonSpan] = []
    for span in sorted(spans, key=_start):
        if runs and span.start < runs[-1].end:
            continue  # inside a span that is removed anyway
        if runs and _require_match(_skip_comma(body, runs[-1].end)).end() == span.start:
            runs[-1] = JsonSpan(runs[-1].start, span.end)
        else:
            runs.append(span)
    return [_with_comma(body, run) for run in runs]


def replaced(body: bytes, edits: Iterable[tuple[JsonSpan, bytes]]) -> bytes:
    """Replace spans, which must not overlap."""
    pieces: list[bytes] = []
    at = 0
    for span, new in sorted(edits, key=_edit_start):
        pieces += (body[at : span.start], new)
        at = span.end
    pieces.append(body[at:])
    return b"".join(pieces)


def replace_value(body: bytes, span: JsonSpan, value: bytes) -> bytes:
    return body[: span.start] + value + body[span.end :]


def with_member(body: bytes, key: str, value: bytes, end: int | None = None) -> bytes:
    """Add a member to the object that ends at `end`, by default the end of the text."""
    brace = _rstripped(body, len(body) if end is None else end) - 1
    last = _rstripped(body, brace)
    comma = b"" if body[last - 1] == _BRACE else b","
    return b"".join((body[:last], comma, encode(key), b":", value, body[last:]))


def _bounds(body: bytes, start: int, end: int | None) -> tuple[int, int]:
    at = _require_match(_skip_white(body, start)).end()
    if end is None:
        end = len(body) if start == 0 else value_end(body, at)
    return at, end


Walked = TypeVar("Walked")


def _walked(decoder: msgspec.json.Decoder[Walked], body: bytes, start: int, end: int) -> Walked:
    try:
        return decoder.decode(memoryview(body)[start:end])
    except msgspec.DecodeError as error:
        wanted = "a JSON object" if decoder is _OBJECT else "a JSON array"
        raise WireError("", wanted, str(error).removeprefix("JSON is malformed: ")) from None
    except UnicodeError:
        raise WireError("", "JSON in UTF-8", "bytes that are not UTF-8") from None
    except RecursionError:
        raise WireError("", "JSON of bounded depth", "nesting beyond the limit") from None


def _value_end(body: bytes, start: int, last: Raw) -> int:
    """The end of a string, list or object; for a repeated name, of the last value of that name."""
    return start + len(last) if body.startswith(last, start) else value_end(body, start)


def _string_end(body: bytes, start: int) -> int:
    end = body.find(b'"', start + 1)
    # The next quote ends nearly every string that has no escape before it. The pattern reads the others.
    if end > 0 and body[end - 1] != _BACKSLASH:
        return end + 1
    return _require_match(_skip_string(body, start)).end()


def _with_comma(body: bytes, run: JsonSpan) -> JsonSpan:
    after = _require_match(_skip_white(body, run.end)).end()
    if body[after] == _COMMA:
        return JsonSpan(run.start, _require_match(_skip_white(body, after + 1)).end())
    before = _rstripped(body, run.start) - 1
    return JsonSpan(before, run.end) if body[before] == _COMMA else run


def _rstripped(body: bytes, end: int) -> int:
    """The end of the last byte before `end` that is not white space."""
    reach = 16
    while not (stripped := body[max(end - reach, 0) : end].rstrip(_WHITE)) and reach < end:
        reach *= 4
    return max(end - reach, 0) + len(stripped)


def _text(escaped: bytes) -> str:
    text = decode(b'"' + escaped + b'"')
    assert isinstance(text, str)
    return text


def _require_match(match: re.Match[bytes] | None) -> re.Match[bytes]:
    if match is None:
        raise WireError("", "JSON", "a text that ends too early")
    return match


def _start(span: JsonSpan) -> int:
    return span.start


def _edit_start(edit: tuple[JsonSpan, bytes]) -> int:
    return edit[0].start


# The first member of an object, if it is a plain string.
_first = re.compile(rb'[ \t\n\r]*+\{[ \t\n\r]*+"([^"\\]*+)"[ \t\n\r]*+:[ \t\n\r]*+("[^"\\]*+")').match


def replace_text(body: bytes, key: str, text: str) -> bytes:
    match = _first(body)
    if match is not None and match[1] == key.encode() and not _is_again(body, match):
        return body[: match.start(2)] + encode(text) + body[match.end(2) :]
    # Readers use the last of several members.
    for member in reversed(object_members(body)):
        if member.key == key:
            return replace_value(body, member.value, encode(text))
    raise WireError(f"/{key}", "string", "nothing")


def _is_again(body: bytes, first: re.Match[bytes]) -> bool:
    """Whether the name of the first member may occur again. Escapes may hide its letters."""
    return body.find(b'"%b"' % first[1], first.end()) >= 0 or b"\\u" in body


def with_stream(body: bytes, stream: bool) -> bytes:
    """Set the top-level `stream`, in each of its duplicates."""
    value = b"true" if stream else b"false"
    members = named(object_members(body), "stream")
    if not members:
        return with_member(body, "stream", value)
    return replaced(body, [(member.value, value) for member in members])


def named(members: list[Member], key: str) -> list[Member]:
    return [member for member in members if member.key == key]


def last_value(body: bytes, members: list[Member]) -> JsonValue:
    """Return the last of these members' values, decoded; None without members."""
    return decode(body[members[-1].value_start : members[-1].value_end]) if members else None
