"""Call arguments as text or object (N3). Chat and Responses carry JSON text, which a model may have got wrong; Messages
carries an object. Text that is an object keeps its spelling and is not parsed. Any other text is wrapped into an object
and unwrapped on the way back, because no call or result may be dropped for its arguments."""

from __future__ import annotations

import re
from bisect import bisect_left
from enum import Enum
from itertools import accumulate
from operator import indexOf

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import has_surrogates, without_surrogates

RAW_ARGUMENTS = "_raw_arguments"
VALUE = "_value"


class Wrapping(Enum):
    NONE = "none"
    RAW_TEXT = "raw text"
    VALUE = "value"
    MENDED = "mended"


# Decoding to `Raw` checks the grammar of every nested value and builds none of them.
_check = Decoder(Raw).decode
_members = Decoder(dict[str, Raw]).decode
_text = Decoder(str).decode

_EMPTY = Raw(b"{}")
_UNWRAPPED = Wrapping.NONE
_BLANKS = " \t\r\n"
# The last character of a complete JSON value, by its first character.
_CLOSERS = {"{": "}", "[": "]", '"': '"', "t": "e", "f": "e", "n": "l"}
_DIGITS = frozenset("0123456789")


def to_object(text: str) -> tuple[Raw | JsonObject, Wrapping]:
    """Convert text to an object for the JSON writer of bodies (not of event frames), and report how it was wrapped."""
    stripped = text.strip()
    if not stripped or stripped == "null":
        return _EMPTY, _UNWRAPPED
    try:
        checked = _check(stripped)
    except (DecodeError, RecursionError, UnicodeError):
        # If only an unpaired surrogate is wrong with the object, replace it.
        if stripped[0] == "{" and has_surrogates(stripped) and is_complete(mended := without_surrogates(stripped)):
            return Raw(mended.encode()), Wrapping.MENDED
        return {RAW_ARGUMENTS: text}, Wrapping.RAW_TEXT
    if stripped[0] == "{":
        return checked, _UNWRAPPED
    return Raw(f'{{"{VALUE}":{stripped}}}'.encode()), Wrapping.VALUE


def unwrapped(text: str) -> str:
    """Return the text that `to_object` wrapped, or the text itself."""
    if RAW_ARGUMENTS not in text and VALUE not in text:
        return text
    try:
        members = _members(text)
    except (DecodeError, RecursionError, UnicodeError):
        return text
    if len(members) != 1:
        return text
    ((name, value),) = members.items()
    inner = bytes(value).strip()
    # Unwrap only what `to_object` would wrap: a tool may have a member of the same name.
    if name == RAW_ARGUMENTS and inner.startswith(b'"'):
        original = _text(inner)
        return original if original.strip() else text
    if name == VALUE and not inner.startswith(b"{") and inner != b"null":
        return inner.decode()
    return text


def passed_on(text: str) -> str:
    """The arguments for a protocol with text: wrapped text is unwrapped, missing arguments become `{}`."""
    if text[:1] == "{" and RAW_ARGUMENTS not in text and VALUE not in text:
        return text
    return or_empty(unwrapped(text))


def or_empty(text: str) -> str:
    if text[:1] == "{":
        return text
    stripped = text.strip()
    return text if stripped and stripped != "null" else "{}"


def is_complete(text: str) -> bool:
    stripped = text.strip(_BLANKS)
    if not stripped:
        return False
    first, last = stripped[0], stripped[-1]
    # Most fragments of a stream are incomplete, which this check detects without reading the full text.
    if last != _CLOSERS.get(first, last) or (first not in _CLOSERS and last not in _DIGITS):
        return False
    try:
        _check(stripped)
    except (DecodeError, RecursionError, UnicodeError):
        return False
    return True


# The first characters of values that mark their own end.
_CLOSED = '"{['
_find_scalar_end = re.compile(r"[ \t\r\n,}\]]").search
# Strings. The last one may end with the text, even inside an escape, whose start is then captured.
_split_strings = re.compile(r'("(?:[^"\\]++|\\.)*+(?:"|\\?\Z))', re.DOTALL).split
_is_unfinished = re.compile(r'"(?:[^"\\]++|\\.)*+(\\?)', re.DOTALL).fullmatch
# The change of nesting depth by each character, as a signed byte.
_STEPS = bytes([1 if octet in b"{[" else 255 if octet in b"}]" else 0 for octet in range(256)])


class ValueScan:
    """Finds the end of a JSON value that comes in fragments, by its brackets and quotes alone."""

    __slots__ = ("_depth", "_first", "_open")

    def __init__(self) -> None:
        # The first character. The quote of an open string, with the backslash at the end of the last fragment.
        self._first = ""
        self._open = ""
        self._depth = 0

    @property
    def endless(self) -> bool:
        """Whether the scan is inside a number or a literal, which only later text can end."""
        return self._first not in _CLOSED

    def end_in(self, piece: str) -> int:
        """The position in the next fragment at which the value ends, or -1. Must not be called after the end."""
        start = 0
        if not self._first:
            start = len(piece) - len(piece.lstrip(_BLANKS))
            self._first = piece[start : start + 1]
            if not self._first:
                return -1
            if self.endless:
                start += 1
        if self.endless:
            match = _find_scalar_end(piece, start)
            return -1 if match is None else match.start()
        if not self._open and '"' not in piece:
            end = self._closed_in(piece[start:])
            return -1 if end < 0 else start + end
        start -= len(self._open)
        parts = _split_strings(self._open + piece[max(start, 0) :])
        unfinished = _is_unfinished(parts[-2]) if not parts[-1] else None
        self._open = "" if unfinished is None else '"' + unfinished[1]
        if self._first == '"':
            return -1 if self._open and len(parts) == 3 else start + len(parts[1])
        bare = parts[::2]
        end = self._closed_in("".join(bare))
        if end < 0:
            return -1
        before = bisect_left(list(accumulate(map(len, bare))), end)
        return start + end + sum(map(len, parts[1 : 2 * before : 2]))

    def _closed_in(self, bare: str) -> int:
        """The position of the last closing bracket in text without strings, or -1."""
        # No Python code runs per character, because some arguments consist of brackets.
        depth, closed = self._depth, bare.count("}") + bare.count("]")
        self._depth += bare.count("{") + bare.count("[") - closed
        if closed < max(depth, 1):
            return -1
        steps = bare.encode("latin-1", "replace").translate(_STEPS)
        depths = accumulate(memoryview(steps).cast("b"), initial=depth)
        next(depths)
        try:
            return indexOf(depths, 0) + 1
        except ValueError:
            return -1


# A number in more fragments than this is not checked again for each.
_PIECES_OF_SCALAR = 64


class Completeness:
    """Detects whether fragments of arguments form one complete JSON value. Each fragment is read once."""

    __slots__ = ("_complete", "_looked_at", "_scan")

    def __init__(self) -> None:
        self._scan: ValueScan | None = ValueScan()
        self._looked_at = 0
        # None until the earlier fragments are needed.
        self._complete: bool | None = None

    def of(self, pieces: list[str]) -> bool:
        """Whether all fragments form one value. The earlier ones must be those of the previous call."""
        if not self._looked_at and pieces and pieces[-1][-1:] == "}" and is_complete("".join(pieces)):
            # Usually this is called once, at the end, and the decoder is many times faster than the scan.
            self._looked_at, self._scan, self._complete = len(pieces), None, True
            return True
        if len(pieces) > self._looked_at:
            self._look("".join(pieces[self._looked_at :]))
            self._looked_at = len(pieces)
        if self._scan is None:
            if self._complete is None:
                self._complete = is_complete("".join(pieces))
            return self._complete
        return self._scan.endless and len(pieces) <= _PIECES_OF_SCALAR and is_complete("".join(pieces))

    def _look(self, piece: str) -> None:
        if self._scan is not None:
            end = self._scan.end_in(piece)
            if end < 0:
                return
            self._scan, piece = None, piece[end:]
        if piece.strip(_BLANKS):
            self._complete = False
