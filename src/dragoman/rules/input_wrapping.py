"""Wrapping of custom input and values into call arguments, and the streaming scanners that unwrap them (S16).

A target without free-text tools gets a function with one string `input`. A target that rejects a root schema gets a
function with one member `value`. On the way back, the scanners skip the opening of the object and emit the inside as it
arrives, wherever the stream was cut. An object that begins otherwise is held until it is complete.

OPENING --opening complete--> INSIDE --inside ends--> TRAILING --closing brace--> ENDED
   `----begins otherwise----> HELD
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from enum import Enum

from msgspec.json import Decoder

from dragoman.errors import WireError
from dragoman.rules.arguments import ValueScan, is_complete, or_empty
from dragoman.wire.json import decode, encode_text


class _State(Enum):
    OPENING = "before the member's value"
    INSIDE = "in the value"
    TRAILING = "after the value, before the end of the object"
    ENDED = "after the object"
    HELD = "not the object that was asked for"


class _Opening:
    """Recognises `{"<member>": ` and any prefix of it."""

    __slots__ = ("could_begin", "find")

    def __init__(self, member: str, value: str) -> None:
        blank = r"[ \t\r\n]*"
        steps = [r"\{", blank, *(re.escape(letter) for letter in f'"{member}"'), blank, ":", blank]
        self.find = re.compile(blank + "".join(steps) + value).match
        nested = ""
        for step in reversed(steps):
            nested = f"(?:{step}{nested})?" if step != blank else blank + nested
        self.could_begin = re.compile(blank + nested).fullmatch


class _Unwrapper(ABC):
    __slots__ = ("_held", "_pending", "_state", "bent")

    def __init__(self) -> None:
        self._state = _State.OPENING
        # Undecided text: the opening, with white space reduced to one space, or an unfinished escape.
        self._pending = ""
        # All received text until the opening is complete.
        self._held: list[str] = []
        self.bent = False

    def feed(self, fragment: str) -> str:
        """Read the next fragment of the arguments and return the certain part of the value."""
        match self._state:
            case _State.INSIDE:
                return self._inside(fragment)
            case _State.OPENING:
                return self._open(fragment)
            case _State.HELD:
                self._held.append(fragment)
            case _State.TRAILING | _State.ENDED:
                self._trail(fragment)
        return ""

    def unwrap(self, text: str) -> str:
        return self.feed(text) + self.close()

    def close(self) -> str:
        """Return the rest at the end of the arguments: the full text if it was held, otherwise nothing."""
        pending, self._pending = self._pending, ""
        state, self._state = self._state, _State.ENDED
        if state in (_State.OPENING, _State.HELD):
            text = "".join(self._held)
            self.bent = bool(text.strip())
            return self._whole(text)
        if state is not _State.ENDED:
            self.bent = True
            return self._cut_short(pending)
        return ""

    def _open(self, fragment: str) -> str:
        text, self._pending = self._pending + fragment, ""
        opened = self._opening().find(text)
        if opened:
            self._state = _State.INSIDE
            self._held.clear()
            return self._inside(text[opened.end() :])
        self._held.append(fragment)
        if self._opening().could_begin(text):
            self._pending = _one_blank(" ", text)
        else:
            self._state = _State.HELD
        return ""

    def _trail(self, fragment: str) -> None:
        rest = fragment.strip()
        if self._state is _State.TRAILING and rest[:1] == "}":
            self._state = _State.ENDED
            rest = rest[1:].lstrip()
        # Further members, or text after the object, cannot be unwrapped.
        self.bent = self.bent or bool(rest)
        if rest:
            self._state = _State.ENDED

    @abstractmethod
    def _opening(self) -> _Opening: ...

    @abstractmethod
    def _inside(self, fragment: str) -> str: ...

    @abstractmethod
    def _whole(self, text: str) -> str: ...

    @abstractmethod
    def _cut_short(self, pending: str) -> str: ...


_one_blank = re.compile(r"[ \t\r\n]{2,}").sub
_HEX = "[0-9a-fA-F]"
_HIGH = f"[dD][89abAB]{_HEX}{{2}}"
_LOW = f"[dD][c-fC-F]{_HEX}{{2}}"
# A run of the string that decodes by itself: plain characters, short escapes, surrogate pairs, other \uXXXX.
_RUN = re.compile(rf'[^"\\]*+(?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F]){_HEX}{{4}}|u{_HIGH}\\u{_LOW})[^"\\]*+)*+').match
_may_be_escape = re.compile(rf"\\(?:u(?:{_HEX}{{0,3}}|{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F]{_HEX}?)?)?)?)?))?").fullmatch
_lone_surrogate = re.compile(rf"\\u[dD][89a-fA-F]{_HEX}{{2}}").match
_control = re.compile(r"[\x00-\x1f]")
_read_string = Decoder(str).decode

_INPUT_OPENING = _Opening("input", '"')
_VALUE_OPENING = _Opening("value", r'(?=["{\[\-0-9tfn])')


class InputUnwrapper(_Unwrapper):
    """Extracts the text of a custom call from `{"input":"…"}`."""

    __slots__ = ()

    def _opening(self) -> _Opening:
        return _INPUT_OPENING

    def _inside(self, fragment: str) -> str:
        text, self._pending = self._pending + fragment, ""
        at = 0
        pieces: list[str] = []
        while True:
            run = _RUN(text, at)
            end = run.end() if run else at
            pieces.append(_unescape(text[at:end]))
            at = end
            if at == len(text):
                break
            if text[at] == '"':
                self._state = _State.TRAILING
                self._trail(text[at + 1 :])
                break
            if _may_be_escape(text, at):
                self._pending = text[at:]
                break
            # Invalid JSON: an unpaired surrogate cannot be encoded; any other backslash is taken literally.
            self.bent = True
            lone = _lone_surrogate(text, at)
            pieces.append("\ufffd" if lone else "\\")
            at = lone.end() if lone else at + 1
        return pieces[0] if len(pieces) == 1 else "".join(pieces)

    def _whole(self, text: str) -> str:
        try:
            value = decode(text)
        except WireError:
            return text
        if not isinstance(value, dict):
            return text
        strings = [member for member in value.values() if isinstance(member, str)]
        return strings[0] if len(strings) == 1 else text

    def _cut_short(self, pending: str) -> str:
        # An unfinished escape is dropped, but a full unpaired surrogate becomes U+FFFD.
        return "\ufffd" if _lone_surrogate(pending) else ""


class ValueUnwrapper(_Unwrapper):
    """Extracts the JSON text of a value from `{"value":…}`, in its original spelling."""

    __slots__ = ("_scan",)

    def __init__(self) -> None:
        super().__init__()
        self._scan = ValueScan()

    def _opening(self) -> _Opening:
        return _VALUE_OPENING

    def _inside(self, fragment: str) -> str:
        end = self._scan.end_in(fragment)
        if end < 0:
            return fragment
        self._state = _State.TRAILING
        self._trail(fragment[end:])
        return fragment[:end]

    def _whole(self, text: str) -> str:
        # The model ignored the wrapping and wrote the arguments themselves.
        return text

    def _cut_short(self, pending: str) -> str:
        return ""


def wrap_input(text: str) -> str:
    return f'{{"input":{encode_text(text)}}}'


def wrap_value(text: str) -> str:
    """Wrap arguments for a function whose root schema was wrapped. Invalid JSON becomes a string."""
    text = or_empty(text)
    return f'{{"value":{text if is_complete(text) else encode_text(text)}}}'


# The text before and after the fragments. Each fragment is the inside of a JSON string.
INPUT_OPENING, INPUT_CLOSING = '{"input":"', '"}'

_CONTROL_ESCAPES = {code: f"\\u{code:04x}" for code in range(0x20)}


def _unescape(run: str) -> str:
    if "\\" not in run:
        return run
    # Raw line breaks inside a string are invalid JSON, but models write them.
    if _control.search(run):
        run = run.translate(_CONTROL_ESCAPES)
    return _read_string(f'"{run}"')
