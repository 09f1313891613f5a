"""Recalling: a Responses request that refers back to what is kept here, as one that says everything itself.

    previous_response_id   what was said up to the end of that response goes before the input
    conversation           what was said in it goes before the input
    item_reference         the item itself

On a provider that keeps its own state only ids that are ours are looked up; the others are its own to know. A reference
that leads nowhere is refused before anybody is asked: there is never an answer without the context it was asked in.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import ClientError
from dragoman.gateway.routes import shown
from dragoman.mint import random_token
from dragoman.store import Store
from dragoman.store.responses import Item, Kept
from dragoman.wire.spans import object_members, with_member, without

_NULL = Raw(b"null")
RUNNING = frozenset({"queued", "in_progress"})
_PREFIXES = {"function_call": "fc_", "reasoning": "rs_", "custom_tool_call": "ctc_", "compaction": "cmp_"}


class Recalled(Struct, frozen=True, kw_only=True):
    """A request without references: `before` is what they stood for, `said` what it says itself."""

    body: bytes
    before: tuple[Item, ...] = ()
    said: tuple[Item, ...] = ()
    keeps: bool
    background: bool = False
    previous: str | None = None
    conversation: str | None = None


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


_REFERRING = msgspec.json.Decoder(_Referring)
_NAMED = msgspec.json.Decoder(_Named)
_LIST = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


def recall(
    store: Store | None, owner: bytes, body: bytes, *, native: bool = False, shared: bool = False
) -> Recalled | None:
    """Look up what a request refers to; None if it is to go on as it is, and its answer is not kept here.

    `native` is said of a provider that keeps state of its own, `shared` if several owners have theirs there.
    """
    if native and shared:
        _check_own(store, owner, body)
    return _recall(store, owner, body, native=native) if store is not None else None


def _recall(store: Store, owner: bytes, body: bytes, *, native: bool) -> Recalled | None:
    try:
        said = _REFERRING.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # Whoever reads the request tells what is wrong with it.
        return None
    previous, conversation = _text(said.previous_response_id), _conversation(said.conversation)
    if previous is not None and conversation is not None:
        raise ClientError(400, "previous_response_id and conversation exclude each other", param="previous_response_id")
    keeps, background = bytes(said.store) != b"false", bytes(said.background) == b"true"
    if background and not keeps and not native:
        raise ClientError(
            400, "a response in the background has to be stored", param="background", code="unsupported_parameter"
        )
    before = _before(store, owner, previous, conversation, native=native)
    # A reference alone is input enough.
    inputs = [] if said.input == _NULL and before is not None else _inputs(said.input)
    resolved = _resolved(store, owner, inputs, native=native) if inputs is not None else None
    if native and before is None and resolved is None:
        return None
    if inputs is None or (before is None and resolved is None and not keeps and not background):
        return None
    if native and background and conversation is not None and before is not None:
        raise ClientError(
            400, "in a conversation that is kept here this provider runs nothing in the background", param="background"
        )
    own = resolved or inputs
    cut = {"background"} if background and not native else set()
    if before is not None:
        cut |= {"input", "previous_response_id", "conversation"}
    elif resolved is not None:
        cut.add("input")
    return Recalled(
        body=_rewritten(body, [item.body for item in before or ()] + own, cut),
        before=tuple(before or ()),
        said=items_of(own) if keeps or conversation is not None else (),
        keeps=keeps,
        background=background and not native,
        previous=previous,
        conversation=conversation,
    )


def _check_own(store: Store | None, owner: bytes, body: bytes) -> None:
    """Refuse a reference to what a provider keeps unless it is known that this owner made it."""
    try:
        said = _REFERRING.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return
    previous, conversation = _text(said.previous_response_id), _conversation(said.conversation)
    if previous is not None and (store is None or store.responses.find(owner, previous) is None):
        raise _no_response(previous)
    if conversation is not None and (store is None or store.conversations.find(owner, conversation) is None):
        raise _no_conversation(conversation)
    for item in _inputs(said.input) or ():
        reference = _referred(item)
        if reference is not None and (store is None or store.responses.item(owner, reference) is None):
            raise _no_item(reference)


def _before(
    store: Store, owner: bytes, previous: str | None, conversation: str | None, *, native: bool
) -> list[Item] | None:
    """What was said before, if the request refers to anything that is ours."""
    if previous is not None:
        found = store.responses.find(owner, previous)
        if native and (found is None or not found.body):
            return None
        return _chain(store, owner, previous, found)
    if conversation is not None:
        if store.conversations.find(owner, conversation) is not None:
            return store.conversations.items(conversation)
        if not native:
            raise _no_conversation(conversation)
    return None


def _chain(store: Store, owner: bytes, previous: str, found: Kept | None) -> list[Item]:
    if found is not None and found.status in RUNNING:
        raise ClientError(400, f"Previous response {shown(previous)} has not ended yet.", param="previous_response_id")
    if found is not None and not found.body:
        raise ClientError(
            400,
            f"Previous response with id {shown(previous)} is kept by {found.provider}, which alone can go on from it.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    chain = store.responses.chain(owner, previous) if found is not None else None
    if chain is None:
        raise _no_response(previous)
    return chain


def _no_response(response_id: str) -> ClientError:
    return ClientError(
        400,
        f"Previous response with id {shown(response_id)} not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _no_conversation(conversation_id: str) -> ClientError:
    return ClientError(404, f"Conversation with id {shown(conversation_id)} not found.", param="conversation")


def _no_item(item_id: str) -> ClientError:
    return ClientError(404, f"Item with id {shown(item_id)} not found.", param="input")


def _inputs(said: Raw) -> list[bytes] | None:
    """The items of an input; None if there is none that could be taken apart."""
    raw = bytes(said)
    if raw[:1] == b'"':
        return [b'{"type":"message","role":"user","content":' + raw + b"}"]
    try:
        return [bytes(item) for item in _LIST.decode(raw)]
    except msgspec.DecodeError:
        return None


def _resolved(store: Store, owner: bytes, inputs: Sequence[bytes], *, native: bool) -> list[bytes] | None:
    """The items with those in place of references; None if there is no reference, or none that is ours to resolve."""
    found: list[bytes] = []
    changed = False
    for item in inputs:
        reference = _referred(item)
        if reference is not None:
            # Of an item that a provider keeps there is only the id.
            kept = store.responses.item(owner, reference)
            if not kept and not native:
                raise _no_item(reference)
            changed = changed or bool(kept)
            item = kept or item
        found.append(item)
    return found if changed else None


def _referred(item: bytes) -> str | None:
    """The id that an item refers to, if it is a reference; its type may be left out."""
    named = named_in(item)
    is_reference = named.type == "item_reference" or (named.type is None and named.role is None)
    return named.id if is_reference else None


def named_in(item: bytes) -> _Named:
    """The id and the type of an item, as far as it has any that can be read."""
    try:
        return _NAMED.decode(item)
    except (msgspec.DecodeError, UnicodeError):
        return _Named()


def items_of(bodies: Sequence[bytes]) -> tuple[Item, ...]:
    """Items as they are kept: each under its own id, or one that is made for it."""
    found: list[Item] = []
    for body in bodies:
        named = named_in(body)
        found.append(Item(named.id or _PREFIXES.get(named.type or "", "msg_") + random_token(32), body))
    return tuple(found)


def _rewritten(body: bytes, items: Sequence[bytes], cut: set[str]) -> bytes:
    if not cut:
        return body
    rest = without(body, [member.whole for member in object_members(body) if member.key in cut])
    return with_member(rest, "input", b"[" + b",".join(items) + b"]") if "input" in cut else rest


def _text(said: Raw) -> str | None:
    try:
        return _TEXT.decode(said) or None
    except (msgspec.DecodeError, UnicodeError):
        return None


def _conversation(said: Raw) -> str | None:
    if (raw := bytes(said)).startswith(b"{"):
        return named_in(raw).id or None
    return _text(said)
