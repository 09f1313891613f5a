"""Arguments of calls between text and object (N3), without parsing what only passes through.

Chat and Responses carry arguments as JSON text, which a model may have got wrong; Messages carries an object. Text that
is an object keeps its spelling to the digit. What is no object is wrapped on the way out and unwrapped on the way back,
because one half of a call and its result is never dropped for its arguments.
"""

from __future__ import annotations

import re
from enum import Enum

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from dragoman.model.jsonvalue import JsonObject
from dragoman.wire.json import has_halves, without_halves

RAW_ARGUMENTS = "_raw_arguments"
VALUE = "_value"


class Wrapping(Enum):
    """What had to be done to make an object of a call's arguments."""

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
# The last character of a complete JSON value, by its first one.
_CLOSERS = {"{": "}", "[": "]", '"': '"', "t": "e", "f": "e", "n": "l"}
_DIGITS = frozenset("0123456789")


def to_object(text: str) -> tuple[Raw | JsonObject, Wrapping]:
    """Give the object that stands for this text, ready for the JSON writer, and how it was wrapped.

    The text of an object is written as it stands, line breaks included: it belongs into bodies, not into event frames.
    """
    stripped = text.strip()
    if not stripped or stripped == "null":
        return _EMPTY, _UNWRAPPED
    if not is_complete(stripped):
        # The escape of half a character, and the rest an object: that half is all that is wrong with it.
        if stripped[0] == "{" and has_halves(stripped) and is_complete(mended := without_halves(stripped)):
            return Raw(mended.encode()), Wrapping.MENDED
        return {RAW_ARGUMENTS: text}, Wrapping.RAW_TEXT
    if stripped[0] == "{":
        return Raw(stripped.encode()), _UNWRAPPED
    return Raw(f'{{"{VALUE}":{stripped}}}'.encode()), Wrapping.VALUE


def unwrapped(text: str) -> str:
    """Give back the text that `to_object` wrapped, or the text itself if it is no wrapping."""
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
    # Only what would have been wrapped is unwrapped: a tool of its own may have a member of the same name.
    if name == RAW_ARGUMENTS and inner.startswith(b'"'):
        original = _text(inner)
        return original if original.strip() else text
    if name == VALUE and not inner.startswith(b"{") and inner != b"null":
        return inner.decode()
    return text


def passed_on(text: str) -> str:
    """Give the text of a call for a wire that carries text: what was wrapped is unwrapped, no arguments are `{}`."""
    if text[:1] == "{" and RAW_ARGUMENTS not in text and VALUE not in text:
        return text
    return or_empty(unwrapped(text))


def or_empty(text: str) -> str:
    """Give `{}` for no arguments, the text itself otherwise."""
    if text[:1] == "{":
        return text
    stripped = text.strip()
    return text if stripped and stripped != "null" else "{}"


def is_complete(text: str) -> bool:
    """Tell whether the text is one complete JSON value."""
    stripped = text.strip(_BLANKS)
    if not stripped:
        return False
    first, last = stripped[0], stripped[-1]
    # Most fragments of a stream end elsewhere: do not read the whole text to learn it.
    if last != _CLOSERS.get(first, last) or (first not in _CLOSERS and last not in _DIGITS):
        return False
    try:
        _check(stripped)
    except (DecodeError, RecursionError, UnicodeError):
        return False
    return True


class _Scan(Enum):
    START = "at the first character"
    SCALAR = "in a number, true, false or null"
    NESTED = "in an array or object"
    QUOTED = "in a string"
    ESCAPED = "in a string, after a backslash"


# Where the scanner has to look up next, by what it is in.
_NEXT = {
    _Scan.START: re.compile(r"[^ \t\r\n]"),
    _Scan.SCALAR: re.compile(r"[ \t\r\n,}\]]"),
    _Scan.NESTED: re.compile(r'["{}\[\]]'),
    _Scan.QUOTED: re.compile(r'["\\]'),
    _Scan.ESCAPED: re.compile(r".", re.DOTALL),
}
# What follows from the character found there: the next scan and the change of depth. Others stay as they are.
_MOVES = {
    (_Scan.START, '"'): (_Scan.QUOTED, 0),
    (_Scan.START, "{"): (_Scan.NESTED, 1),
    (_Scan.START, "["): (_Scan.NESTED, 1),
    (_Scan.NESTED, '"'): (_Scan.QUOTED, 0),
    (_Scan.NESTED, "{"): (_Scan.NESTED, 1),
    (_Scan.NESTED, "["): (_Scan.NESTED, 1),
    (_Scan.NESTED, "}"): (_Scan.NESTED, -1),
    (_Scan.NESTED, "]"): (_Scan.NESTED, -1),
    (_Scan.QUOTED, '"'): (_Scan.NESTED, 0),
    (_Scan.QUOTED, "\\"): (_Scan.ESCAPED, 0),
}
_DEFAULT_MOVES = {_Scan.START: (_Scan.SCALAR, 0), _Scan.ESCAPED: (_Scan.QUOTED, 0)}


class ValueScan:
    """Finds the end of a JSON value that comes in pieces, by its brackets and quotes alone."""

    __slots__ = ("_depth", "_scan")

    def __init__(self) -> None:
        self._scan = _Scan.START
        self._depth = 0

    @property
    def endless(self) -> bool:
        """Whether it is in a number or a word, which only what follows can end."""
        return self._scan is _Scan.SCALAR

    def end_in(self, piece: str) -> int:
        """Where in the next piece the value ends; -1 if it goes on. Not to be asked again after its end."""
        at = 0
        while found := _NEXT[self._scan].search(piece, at):
            if self._scan is _Scan.SCALAR:
                return found.start()
            at = found.end()
            move = _MOVES.get((self._scan, found[0])) or _DEFAULT_MOVES[self._scan]
            self._scan = move[0]
            self._depth += move[1]
            if self._scan is _Scan.NESTED and self._depth == 0:
                return at
        return -1


# A number in more pieces is not asked about again and again.
_PIECES_OF_SCALAR = 64


class Completeness:
    """Tells of arguments that come in pieces whether they are one complete JSON value by now; looks at each once."""

    __slots__ = ("_looked_at", "_scan", "_whole")

    def __init__(self) -> None:
        self._scan: ValueScan | None = ValueScan()
        self._looked_at = 0
        # What came after the end settles it; None until somebody asked for what came before.
        self._whole: bool | None = None

    def of(self, pieces: list[str]) -> bool:
        """Whether all the pieces so far are one value; earlier ones are those that it was asked about before."""
        if not self._looked_at and pieces and pieces[-1][-1:] == "}" and is_complete("".join(pieces)):
            # Mostly it is asked once, at the end, and the reader is many times faster than the scan.
            self._looked_at, self._scan, self._whole = len(pieces), None, True
            return True
        if len(pieces) > self._looked_at:
            self._look("".join(pieces[self._looked_at :]))
            self._looked_at = len(pieces)
        if self._scan is None:
            if self._whole is None:
                self._whole = is_complete("".join(pieces))
            return self._whole
        return self._scan.endless and len(pieces) <= _PIECES_OF_SCALAR and is_complete("".join(pieces))

    def _look(self, piece: str) -> None:
        if self._scan is not None:
            end = self._scan.end_in(piece)
            if end < 0:
                return
            self._scan, piece = None, piece[end:]
        if piece.strip(_BLANKS):
            self._whole = False
