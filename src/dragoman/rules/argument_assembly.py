"""Assembles the arguments of one call from streamed fragments. Providers send them as increments, after a placeholder,
repeated in full, or cumulative.

Each fragment is emitted once, and two values for one call are never joined:

so far               next fragment                               action
nothing              `{}` or `null`                              held: many servers send it before the real arguments
held                 text other than white space                 replaces the held text
incomplete value     the same text again and more                only the new text is emitted
before a value       the same text, which may be that value      held until the next fragment or the end decides
incomplete value     other text                                  emitted
complete value       the same value, in any spelling or as a     ignored
                     JSON string, also in pieces
complete value       `{}`, or text that never gets complete      surplus, reported at the end
complete value       another complete value                      an error: it is unclear which value is meant"""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal, InvalidOperation

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonValue, Number
from dragoman.rules.arguments import Completeness, is_complete
from dragoman.wire.json import decode

_BLANKS = " \t\r\n"
_STAND_INS = ("{}", "null")
# After these characters a value may follow, so text that looks like a repetition may be a nested value.
_BEFORE_VALUES = ":[,"
# Characters that may follow a nested value; "" stands for white space only.
_AFTER_VALUES = ",}]"


class ArgumentAssembler:
    """The arguments of one call so far. `free` text is never complete and is emitted as it arrives."""

    __slots__ = (
        "_again",
        "_complete",
        "_completeness",
        "_doubt",
        "_doubt_complete",
        "_grows",
        "_held",
        "_joined",
        "_repeated",
        "_surplus",
        "free",
        "pieces",
        "stood_in",
    )

    def __init__(self, *, free: bool = False) -> None:
        self.free = free
        # Fragments that were emitted, or will be once the call is announced. None is empty.
        self.pieces: list[str] = []
        self._completeness = Completeness()
        self._held = ""
        self.stood_in = False
        # Fragments that may repeat the text so far, or be a nested value that starts like it.
        self._doubt: list[str] = []
        # Whether the last of those fragments is a complete value; None until it is computed.
        self._doubt_complete: bool | None = None
        self._grows = False
        self._complete = False
        self._joined: str | None = None
        # Text after a complete value, until it is complete itself.
        self._again: list[str] = []
        self._repeated = Completeness()
        self._surplus = False

    @property
    def silent(self) -> bool:
        """Whether no fragment could be the real arguments yet."""
        return not self.pieces

    def complete(self) -> bool:
        if self._complete or self._held:
            return True
        if self._doubt:
            return self._is_doubt_complete()
        self._complete = not self.free and self._completeness.of(self.pieces)
        return self._complete

    def _is_doubt_complete(self) -> bool:
        if self._doubt_complete is None:
            self._doubt_complete = is_complete(self._doubt[-1])
        return self._doubt_complete

    def _hold(self, text: str) -> None:
        self._doubt.append(text)
        self._doubt_complete = None

    def take(self, text: str, path: str) -> str:
        """Return the part of a new fragment to emit."""
        if self.free:
            return self._append(text)
        if not self.pieces:
            return self._begin(text)
        if self._doubt:
            return self._doubted(text, path)
        if self.complete():
            self._repeat(text, path)
            return ""
        return self._append(self._new(text))

    @property
    def in_doubt(self) -> bool:
        """Whether the next fragment decides about a held one."""
        return bool(self._doubt)

    @property
    def before_value(self) -> bool:
        return bool(self.pieces) and self.pieces[-1].rstrip(_BLANKS)[-1:] in (*_BEFORE_VALUES,)

    def begins(self, text: str) -> bool:
        """Whether a text repeats an unfinished value from its start, and continues it."""
        at = 0
        for piece in self.pieces:
            if not text.startswith(piece, at):
                return False
            at += len(piece)
        return bool(self.pieces)

    def same(self, text: str) -> bool:
        """Whether a text only repeats the complete value."""
        assembled = self.complete_text() if self.complete() else None
        if assembled is None:
            return self.free and "".join(self.pieces) == text
        # One value has few spellings of very different length. The limit keeps many short repetitions cheap.
        return assembled == text or (
            len(assembled) <= 64 + 8 * len(text) and is_complete(text) and _equal(text, assembled)
        )

    def complete_text(self) -> str | None:
        """The full text if it is one value or free text, else None."""
        if self.free:
            return "".join(self.pieces)
        if not self.complete():
            return None
        return self._held or (self._doubt[-1] if self._doubt else self._text())

    def _text(self) -> str:
        if self._joined is None:
            self._joined = "".join(self.pieces)
        return self._joined

    def surplus(self) -> bool:
        """Whether text follows a complete value that is neither a repetition nor the start of one. Called once."""
        again = "".join(self._again).strip(_BLANKS)
        has_surplus = self._surplus or (again != "" and not self._text().lstrip(_BLANKS).startswith(again))
        self._surplus, self._again, self._repeated = False, [], Completeness()
        return has_surplus

    def rest(self) -> str:
        held, self._held = self._held, ""
        if self._doubt:
            whole = self._is_doubt_complete()
            doubt, self._doubt = self._doubt, []
            # A nested value would end before the outer one does.
            held = self._rest_of(doubt[-1]) if whole else "".join(doubt)
        return self._append(held)

    def _rest_of(self, text: str) -> str:
        return text.lstrip(_BLANKS)[len("".join(self.pieces).lstrip(_BLANKS)) :]

    def _append(self, text: str) -> str:
        if text:
            self.pieces.append(text)
        return text

    def _begin(self, text: str) -> str:
        stripped = text.strip(_BLANKS)
        if stripped in _STAND_INS:
            self.stood_in = True
            if not self._held or stripped == _STAND_INS[0]:
                self._held = text
            return ""
        if stripped:
            self._held = ""
        return "" if self._held else self._append(text)

    def _new(self, text: str) -> str:
        """The new part of a cumulative text, or the full text if it is not cumulative."""
        start = len(text) - len(text.lstrip(_BLANKS))
        if text[start : start + 1] != "{":
            return text
        at, last = start, ""
        for piece in self.pieces:
            if at == start:
                piece = piece.lstrip(_BLANKS)
            if not text.startswith(piece, at):
                return text
            at += len(piece)
            last = piece.rstrip(_BLANKS)[-1:] or last
        if last in _BEFORE_VALUES and not self._grows:
            self._hold(text)
            return ""
        self._grows = True
        return text[at:]

    def _doubted(self, text: str, path: str) -> str:
        """The text to emit for a held fragment, once later text explains it."""
        last = self._doubt[-1]
        if text.startswith(last):
            self._hold(text)
            return ""
        whole, begins = self._is_doubt_complete(), text.lstrip(_BLANKS)[:1]
        if whole and begins not in _AFTER_VALUES:
            released = self.rest()
            return released + self.take(text, path)
        if whole and not begins:
            return ""
        doubt, self._doubt = self._doubt, []
        return self._append("".join([*doubt, text]))

    def _repeat(self, text: str, path: str) -> None:
        if not self._again and not text.strip(_BLANKS):
            return
        if len(self._again) == 1 and text.startswith(self._again[0]):
            # A cumulative fragment has all text again.
            self._again, self._repeated = [], Completeness()
        self._again.append(text)
        if not self._repeated.of(self._again):
            return
        again, self._again, self._repeated = "".join(self._again), [], Completeness()
        if again.strip(_BLANKS) in _STAND_INS:
            self._surplus = self._surplus or again.strip(_BLANKS) != self._text().strip(_BLANKS)
        elif not _equal(again, self._text()):
            raise WireError(path, "the arguments that the call has already", "others for the same call")


class CallsSeen:
    """The calls of a full response so far. A repetition under the same ID is not another call."""

    __slots__ = ("_calls",)

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str]] = {}

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._calls

    def is_repeat(self, call_id: str, name: str, arguments: str) -> bool:
        """Whether a call only repeats the one with its ID. A new call is stored."""
        if not call_id or call_id not in self._calls:
            self._calls[call_id] = (name, arguments)
            return False
        first_name, first_arguments = self._calls[call_id]
        first_arguments, arguments = first_arguments.strip() or "{}", arguments.strip() or "{}"
        return first_name == name and (
            first_arguments == arguments
            or (is_complete(first_arguments) and is_complete(arguments) and _equal(arguments, first_arguments))
        )


def _equal(one: str, other: str) -> bool:
    """Whether two texts, one value each, are equal. A JSON string of the other counts, because some servers send it."""
    if one.strip(_BLANKS) == other.strip(_BLANKS):
        return True
    try:
        first, second = decode(one), decode(other)
        if isinstance(first, str) and not isinstance(second, str):
            return is_complete(first) and _same(decode(first), second)
        return _same(first, second)
    except (RecursionError, InvalidOperation):
        # Nested too deep, or a number whose exponent exceeds the limits of arithmetic.
        return False


def meaning_of(text: str) -> Hashable:
    """The parsed arguments, equal for two texts of the same value; the text itself if it is not one value."""
    stripped = text.strip(_BLANKS)
    if not is_complete(stripped):
        return stripped
    try:
        value = decode(stripped)
        if isinstance(value, str) and is_complete(value):
            value = decode(value)
        return _hashable(value)
    except (RecursionError, InvalidOperation):
        return stripped


def _hashable(value: JsonValue) -> Hashable:
    if isinstance(value, dict):
        return frozenset((key, _hashable(one)) for key, one in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    # In Python, True equals 1. No number is a string.
    return ("number", _decimal(value)) if _is_number(value) else (type(value), value)


def _same(one: JsonValue, other: JsonValue) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Number) or isinstance(other, Number):
        return _is_number(one) and _is_number(other) and _decimal(one) == _decimal(other)
    return one == other and type(one) is type(other)


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float | Number) and not isinstance(value, bool)


def _decimal(number: JsonValue) -> Decimal:
    return Decimal(number.text if isinstance(number, Number) else str(number))
