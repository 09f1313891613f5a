"""Peek: look at a few members of large JSON without reading the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.model.request_features import ConversationStart

T = TypeVar("T")

NULL = Raw(b"null")
_BRACKET = ord("[")
_NOTHING = (b"null", b"[]", b"{}", b'""', b"false")
_MAX_DIGITS = 18
# What a decoder raises.
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def has_value(raw: Raw) -> bool:
    """Whether a member is there and says something."""
    view = memoryview(raw)
    return view.nbytes > len(b"false") or bytes(view) not in _NOTHING


def length(raw: Raw) -> int:
    """How many bytes a member takes; none if it is not there."""
    size = memoryview(raw).nbytes
    return size if size != len(b"null") else 0


def listed(raw: Raw, decoder: msgspec.json.Decoder[list[T]]) -> Sequence[T]:
    """The elements of a member that is a list; of any other, and of one that cannot be read, none."""
    view = memoryview(raw)
    if not view.nbytes or view[0] != _BRACKET:
        return ()
    return peeked(raw, decoder) or ()


def peeked(raw: Raw | bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """What a decoder looks at; None of what cannot be read: whoever translates it says what is wrong with it."""
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


def number(raw: Raw) -> int | None:
    """A member that is a whole number."""
    text = bytes(memoryview(raw)[: _MAX_DIGITS + 1])
    return int(text) if len(text) <= _MAX_DIGITS and text.isdigit() else None


class _TextPart(Struct):
    text: str = ""


_TEXT = msgspec.json.Decoder(str | list[_TextPart])


def text_in(raw: Raw) -> str:
    """The text of a member that is one, or a list of parts with texts; what else they say is left out."""
    if raw is NULL:
        return ""
    try:
        value = _TEXT.decode(raw)
    except UNREADABLE:
        return ""
    return value if isinstance(value, str) else "".join([part.text for part in value])


class PeekedMessage(Struct):
    """One message of a conversation, as far as its opening is concerned."""

    role: str = ""
    content: Raw = NULL


def conversation_start_in(messages: Sequence[PeekedMessage], instructions: str = "") -> ConversationStart:
    """How a conversation began; without instructions of its own, what stands before the user's words is taken for them.

    Nothing, if the user said nothing.
    """
    for message in messages:
        if message.role == "user":
            return ConversationStart(instructions=instructions, text=text_in(message.content))
        instructions = instructions or text_in(message.content)
    return ConversationStart()
