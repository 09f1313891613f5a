"""Arguments of calls between text and object (N3), without parsing what only passes through.

Chat and Responses carry arguments as JSON text, which a model may have got wrong; Messages carries an object. Text that
is an object keeps its spelling to the digit. What is no object is wrapped on the way out and unwrapped on the way back,
because one half of a call and its result is never dropped for its arguments.
"""

from __future__ import annotations

from enum import Enum

from msgspec import DecodeError, Raw
from msgspec.json import Decoder

from dragoman.model.jsonvalue import JsonObject

RAW_ARGUMENTS = "_raw_arguments"
VALUE = "_value"


class Wrapping(Enum):
    """What had to be done to make an object of a call's arguments."""

    NONE = "none"
    RAW_TEXT = "raw text"
    VALUE = "value"


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
