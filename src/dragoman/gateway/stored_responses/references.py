"""References: what a Responses request refers to, as far as its own bytes tell: nothing is looked up here.

A large request is taken apart in a thread, which has no business with the store.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from dragoman.mint import random_token
from dragoman.protocols.openai_responses.shapes import ID_PREFIXES
from dragoman.store.responses import Item

_NULL = Raw(b"null")


class References(Struct, frozen=True, kw_only=True):
    """What a request refers to, and how: all that can be known of it without the store."""

    previous: str | None
    conversation: str | None
    is_stored: bool
    background: bool
    # The items of its input, None if there is none that could be taken apart; and whether there is none at all.
    inputs: list[bytes] | None
    silent: bool
    # The items that are references, by their places, and the ids of those that a provider would complete.
    referred: dict[int, str]
    looked_up: tuple[str, ...]


class _Referring(Struct):
    """What a request may refer with."""

    input: Raw = _NULL
    previous_response_id: Raw = _NULL
    conversation: Raw = _NULL
    background: Raw = _NULL
    store: Raw = _NULL


class _Named(Struct):
    """As much of an item as tells what it is."""

    id: str | None = None
    type: str | None = None
    role: str | None = None


class _Loose(Struct):
    """The same of an item that says them otherwise than its protocol does."""

    id: Raw = _NULL
    type: Raw = _NULL
    role: Raw = _NULL


class _Filled(Struct):
    """What an item holds that its provider looks up by the id if it is missing."""

    encrypted_content: Raw = _NULL
    content: Raw = _NULL
    result: Raw = _NULL


# Items that a provider takes for a reference where they have an id, and nothing of these.
_LOOKED_UP = {
    "reasoning": ("encrypted_content", "content"),
    "compaction": ("encrypted_content",),
    "image_generation_call": ("result",),
}

_REFERRING = msgspec.json.Decoder(_Referring)
_NAMED = msgspec.json.Decoder(_Named)
_LOOSE = msgspec.json.Decoder(_Loose)
_FILLED = msgspec.json.Decoder(_Filled)
_LIST = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


def references_in(body: bytes) -> References | None:
    """Take a request apart; None if it cannot be read, which whoever reads all of it tells."""
    try:
        members = _REFERRING.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    inputs = _inputs(members.input)
    named = [referred_in(item) for item in inputs or ()]
    return References(
        previous=_text(members.previous_response_id),
        conversation=_conversation(members.conversation),
        is_stored=bytes(members.store) != b"false",
        background=bytes(members.background) == b"true",
        inputs=inputs,
        silent=members.input == _NULL,
        referred={api_path: name for api_path, name in enumerate(named) if name is not None},
        looked_up=tuple(name for item in inputs or () if (name := completed_by(item)) is not None),
    )


def _inputs(value: Raw) -> list[bytes] | None:
    """The items of an input; None if there is none that could be taken apart."""
    raw = bytes(value)
    if raw[:1] == b'"':
        return [b'{"type":"message","role":"user","content":' + raw + b"}"]
    try:
        return [bytes(item) for item in _LIST.decode(raw)]
    except msgspec.DecodeError:
        return None


def referred_in(item: bytes) -> str | None:
    """The id that an item refers to, if it is a reference; its type may be left out."""
    named = named_in(item)
    is_reference = named.type == "item_reference" or (named.type is None and named.role is None)
    return named.id if is_reference else None


def relied_on(item: bytes) -> str | None:
    """The id by which a provider that keeps items would look something up for this one."""
    reference = referred_in(item)
    return completed_by(item) if reference is None else reference


def completed_by(item: bytes) -> str | None:
    """The id by which a provider that keeps items would complete this one."""
    named = named_in(item)
    wanted = _LOOKED_UP.get(named.type or "")
    if wanted is None or named.id is None:
        return None
    filled = _FILLED.decode(item)
    held = {"encrypted_content": filled.encrypted_content, "content": filled.content, "result": filled.result}
    return None if any(_holds(held[name]) for name in wanted) else named.id


def _holds(value: Raw) -> bool:
    """Whether a member holds anything; of another form than text or objects it may be taken for missing."""
    raw = bytes(value)
    if raw[:1] != b"[":
        return raw[:1] == b'"' and raw != b'""'
    elements = _LIST.decode(raw)
    return bool(elements) and all(bytes(one)[:1] == b"{" for one in elements)


def named_in(item: bytes) -> _Named:
    """The id and the type of an item, as far as it has any that can be read."""
    try:
        return _NAMED.decode(item)
    except (msgspec.DecodeError, UnicodeError):
        pass
    try:
        # One that is not read must not hide the others.
        loose = _LOOSE.decode(item)
    except (msgspec.DecodeError, UnicodeError):
        return _Named()
    return _Named(_text(loose.id), _text(loose.type), _text(loose.role))


def items_of(bodies: Sequence[bytes]) -> tuple[Item, ...]:
    """Items as they are kept: each under its own id, or one that is made for it."""
    items: list[Item] = []
    for body in bodies:
        named = named_in(body)
        items.append(Item(named.id or ID_PREFIXES.get(named.type or "", "msg_") + random_token(32), body))
    return tuple(items)


def _text(value: Raw) -> str | None:
    try:
        return _TEXT.decode(value) or None
    except (msgspec.DecodeError, UnicodeError):
        return None


def _conversation(value: Raw) -> str | None:
    if (raw := bytes(value)).startswith(b"{"):
        return named_in(raw).id or None
    return _text(value)
