"""References: the references of a Responses request, by its bytes alone: it is parsed in a thread without the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from dragoman.mint import random_token
from dragoman.protocols.openai_responses.shapes import ID_PREFIXES
from dragoman.store.responses import Item
from dragoman.wire.peek import NULL, TRUE

_FALSE = Raw(b"false")


class References(Struct, frozen=True, kw_only=True):
    """The references of a request and their forms: all that is known without the store."""

    previous: str | None
    conversation: str | None
    is_stored: bool
    background: bool
    # The items of its input, None if there is none that could be taken apart; and whether there is none at all.
    inputs: list[bytes] | None
    silent: bool
    # Items that are references, by position, and IDs of items that a provider would complete.
    referred: dict[int, str]
    looked_up: tuple[str, ...]


class _Named(Struct, gc=False):
    """As much of an item as identifies it, and the content that its provider looks up by the id if it is missing."""

    id: str | None = None
    type: str | None = None
    role: str | None = None
    encrypted_content: Raw = NULL
    content: Raw = NULL
    result: Raw = NULL


class _Loose(Struct, gc=False):
    """The same of an item with other values than its protocol has."""

    id: Raw = NULL
    type: Raw = NULL
    role: Raw = NULL
    encrypted_content: Raw = NULL
    content: Raw = NULL
    result: Raw = NULL


# Items that a provider takes for a reference where they have an id, and nothing of these.
_LOOKED_UP = {
    "reasoning": ("encrypted_content", "content"),
    "compaction": ("encrypted_content",),
    "image_generation_call": ("result",),
}

_NAMED = msgspec.json.Decoder(_Named)
_LOOSE = msgspec.json.Decoder(_Loose)
_LIST = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


def references_in(members: Mapping[str, Raw]) -> References:
    """The references in the members of a request."""
    given = members.get("input", NULL)
    inputs = _inputs(given)
    named = [named_in(item) for item in inputs or ()]
    return References(
        previous=_text(members.get("previous_response_id", NULL)),
        conversation=_conversation(members.get("conversation", NULL)),
        is_stored=members.get("store", NULL) != _FALSE,
        background=members.get("background", NULL) == TRUE,
        inputs=inputs,
        silent=given == NULL,
        referred={place: name for place, item in enumerate(named) if (name := _referred(item)) is not None},
        looked_up=tuple([name for item in named if (name := _completed(item)) is not None]),
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
    return _referred(named_in(item))


def _referred(named: _Named) -> str | None:
    is_reference = named.type == "item_reference" or (named.type is None and named.role is None)
    return named.id if is_reference else None


def relied_on(item: bytes) -> str | None:
    """The ID that a storing provider would look up for this item."""
    named = named_in(item)
    reference = _referred(named)
    return _completed(named) if reference is None else reference


def completed_by(item: bytes) -> str | None:
    """The ID by which a storing provider would complete this item."""
    return _completed(named_in(item))


def _completed(named: _Named) -> str | None:
    wanted = _LOOKED_UP.get(named.type or "")
    if wanted is None or named.id is None:
        return None
    return None if any([_holds(getattr(named, name)) for name in wanted]) else named.id


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
    return _Named(
        _text(loose.id), _text(loose.type), _text(loose.role), loose.encrypted_content, loose.content, loose.result
    )


def items_of(bodies: Sequence[bytes]) -> tuple[Item, ...]:
    """Items in stored form: each with its ID, or a new one."""
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
