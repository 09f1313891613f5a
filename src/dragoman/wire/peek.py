"""Peek: reads a few members of large JSON without decoding the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.model.request_features import ConversationStart

T = TypeVar("T")

NULL, TRUE = Raw(b"null"), Raw(b"true")
EMPTY_LIST = Raw(b"[]")
_QUOTE, _BRACKET = b'"['
_NOTHING = (b"null", b"[]", b"{}", b'""', b"false")
_MAX_DIGITS = 18
# The last bytes of media, which identify it together with its length.
_TAIL = 512
UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
_RAWS = msgspec.json.Decoder(list[Raw])


def has_value(raw: Raw) -> bool:
    return raw is not NULL and (len(raw) > len(b"false") or bytes(raw) not in _NOTHING)


def length(raw: Raw) -> int:
    if raw is NULL:
        return 0
    size = len(raw)
    return size if size != len(b"null") else 0


def media_mark(kind: str, raw: Raw) -> str:
    """The identity of media in a digest: its length and last bytes."""
    return f"{kind} {length(raw)} {bytes(memoryview(raw)[-_TAIL:]).hex()}"


def listed(raw: Raw, decoder: msgspec.json.Decoder[list[T]]) -> Sequence[T]:
    """The elements of a list member; none if the member is unreadable or no list."""
    if raw is NULL:
        return ()
    view = memoryview(raw)
    if not view.nbytes or view[0] != _BRACKET:
        return ()
    return peeked(raw, decoder) or ()


def readable(raw: Raw, decoder: msgspec.json.Decoder[T]) -> list[T]:
    """The readable elements of a list, each decoded by itself."""
    elements = [peeked(element, decoder) for element in listed(raw, _RAWS)]
    return [element for element in elements if element is not None]


def peeked(raw: Raw | bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """Decode a member; None if it is unreadable, which the translation reports."""
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


def number(raw: Raw) -> int | None:
    text = bytes(memoryview(raw)[: _MAX_DIGITS + 1])
    return int(text) if len(text) <= _MAX_DIGITS and text.isdigit() else None


class _TextPart(Struct):
    text: str = ""


_TEXT = msgspec.json.Decoder(str | list[_TextPart])


def text_in(raw: Raw) -> str:
    """The text of a string member, or of a list of parts with texts. Other members are ignored."""
    if raw is NULL:
        return ""
    try:
        value = _TEXT.decode(raw)
    except UNREADABLE:
        return ""
    return value if isinstance(value, str) else "".join([part.text for part in value])


def is_text(raw: Raw) -> bool:
    view = memoryview(raw)
    return view.nbytes > 0 and view[0] == _QUOTE


class _AnyMessage(Protocol):
    """The members of a message from which a conversation is recognised, in any protocol."""

    @property
    def role(self) -> str | None: ...
    @property
    def text(self) -> str: ...


def conversation_start_in(messages: Sequence[_AnyMessage], instructions: str = "") -> ConversationStart:
    """The start of a conversation. Without instructions, the text before the first user message takes their place."""
    for message in messages:
        if message.role == "user":
            return ConversationStart(instructions=instructions, text=message.text)
        instructions = instructions or message.text
    return ConversationStart()
