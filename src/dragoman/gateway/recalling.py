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
from dragoman.protocols.openai_responses.shapes import ID_PREFIXES
from dragoman.store import Store
from dragoman.store.responses import RUNNING, Item, Kept
from dragoman.wire.spans import object_members, with_member, without

_NULL = Raw(b"null")


# What can be kept of one request: to write more items than these would make everybody else wait.
_MOST_ITEMS = 10_000
_LARGEST = 32 * 1024 * 1024


class _Room:
    """How much a request may still come to; with what it refers to it is no larger than one that says it all itself."""

    def __init__(self, limit: int) -> None:
        self._items = _MOST_ITEMS
        self._bytes = limit

    def take(self, weight: tuple[int, int], param: str) -> None:
        self._items -= weight[0]
        self._bytes -= weight[1]
        if self._items < 0 or self._bytes < 0:
            raise ClientError(
                400,
                "With what it refers to the request is longer than any may be; leave some of it out, or compact it.",
                param=param,
                code="context_length_exceeded",
            )


class Recalled(Struct, frozen=True, kw_only=True):
    """A request without references: `before` is what they stood for, `said` what it says itself.

    `found` is how many items, and how many bytes, were found of a conversation.
    """

    body: bytes
    before: tuple[Item, ...] = ()
    found: tuple[int, int] = (0, 0)
    said: tuple[Item, ...] = ()
    keeps: bool
    background: bool = False
    previous: str | None = None
    conversation: str | None = None

    @property
    def context(self) -> tuple[Item, ...]:
        """What is kept as the response's input: in a conversation nothing leads back to what was said before."""
        return (*self.before, *self.said) if self.conversation is not None else self.said


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
_LOOKED_UP = {"reasoning": ("encrypted_content", "content"), "image_generation_call": ("result",)}

_REFERRING = msgspec.json.Decoder(_Referring)
_NAMED = msgspec.json.Decoder(_Named)
_LOOSE = msgspec.json.Decoder(_Loose)
_FILLED = msgspec.json.Decoder(_Filled)
_LIST = msgspec.json.Decoder(list[Raw])
_TEXT = msgspec.json.Decoder(str)


def recall(
    store: Store | None,
    owner: bytes,
    body: bytes,
    *,
    native: bool = False,
    shared: bool = False,
    limit: int = _LARGEST,
) -> Recalled | None:
    """Look up what a request refers to; None if it is to go on as it is, and its answer is not kept here.

    `native` is said of a provider that keeps state of its own, `shared` if several owners have theirs there. `limit` is
    how many bytes a request may have.
    """
    if native and shared:
        check_own(store, owner, body)
    return _recall(store, owner, body, _Room(limit), native=native) if store is not None else None


def _recall(store: Store, owner: bytes, body: bytes, room: _Room, *, native: bool) -> Recalled | None:
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
    kept = _before(store, owner, previous, conversation, room, native=native)
    before = None if kept is None else _as_compacted(kept)
    # A reference alone is input enough.
    inputs = [] if said.input == _NULL and before is not None else _inputs(said.input)
    resolved = _resolved(store, owner, inputs, room, native=native) if inputs is not None else None
    if native and before is None and resolved is None:
        return None
    if inputs is None or (before is None and resolved is None and not keeps and not background):
        return None
    if native and background and conversation is not None and before is not None:
        raise ClientError(
            400, "in a conversation that is kept here this provider runs nothing in the background", param="background"
        )
    own = resolved or inputs
    room.take((len(own), 0 if before is None else len(body)), "input")
    cut = {"background"} if background and not native else set()
    if before is not None:
        cut |= {"input", "previous_response_id", "conversation"}
    elif resolved is not None:
        cut.add("input")
    return Recalled(
        body=_rewritten(body, [item.body for item in before or ()] + own, cut),
        before=tuple(before or ()),
        found=(len(kept or ()), sum(len(item.body) for item in kept or ())),
        said=items_of(own) if keeps or conversation is not None else (),
        keeps=keeps,
        background=background and not native,
        previous=previous,
        conversation=conversation,
    )


def check_own(store: Store | None, owner: bytes, body: bytes) -> None:
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
        reference = _referred(item) or _looked_up(item)
        if reference is not None and (store is None or store.responses.item(owner, reference) is None):
            raise _no_item(reference)


def _before(
    store: Store, owner: bytes, previous: str | None, conversation: str | None, room: _Room, *, native: bool
) -> list[Item] | None:
    """What was said before, if the request refers to anything that is ours."""
    if previous is not None:
        found = store.responses.find(owner, previous)
        if native and (found is None or not found.body):
            return None
        room.take(store.responses.weight(owner, previous), "previous_response_id")
        return _chain(store, owner, previous, found)
    if conversation is not None:
        if store.conversations.find(owner, conversation) is not None:
            room.take(store.conversations.weight(conversation), "conversation")
            return store.conversations.items(conversation)
        if not native:
            raise _no_conversation(conversation)
    return None


def _as_compacted(items: list[Item]) -> list[Item]:
    """What was said, without what a compaction was asked to stand for, and without the asking."""
    asked = {count for count, item in enumerate(items) if _is_of(item, "compaction_trigger")}
    if not asked:
        return items
    done = max((count for count, item in enumerate(items) if _is_of(item, "compaction")), default=-1)
    start = max((count for count in asked if count < done), default=-1) + 1
    return [item for count, item in enumerate(items) if count >= start and count not in asked]


def _is_of(item: Item, kind: str) -> bool:
    return kind.encode() in item.body and named_in(item.body).type == kind


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


def _no_item(item_id: str, param: str = "input") -> ClientError:
    return ClientError(404, f"Item with id {shown(item_id)} not found.", param=param)


def _inputs(said: Raw) -> list[bytes] | None:
    """The items of an input; None if there is none that could be taken apart."""
    raw = bytes(said)
    if raw[:1] == b'"':
        return [b'{"type":"message","role":"user","content":' + raw + b"}"]
    try:
        return [bytes(item) for item in _LIST.decode(raw)]
    except msgspec.DecodeError:
        return None


def added(
    store: Store,
    owner: bytes,
    conversation: str,
    bodies: Sequence[bytes],
    *,
    elsewhere: bool,
    limit: int = _LARGEST,
) -> tuple[Item, ...]:
    """Items to be said in a conversation, with those in place of references; `elsewhere` if a provider may know more.

    What is said there goes on without being looked at again, so that nothing of others may be referred to in it.
    """
    for body in bodies:
        reference = _referred(body)
        if reference is not None and not elsewhere and store.responses.item(owner, reference) is None:
            raise _no_item(reference, param="items")
    room = _Room(limit)
    # One that is longer could never be answered in.
    room.take(store.conversations.weight(conversation), "items")
    said = _resolved(store, owner, bodies, room, native=True) or bodies
    room.take((len(said), sum(map(len, bodies))), "items")
    return items_of(said)


def _resolved(store: Store, owner: bytes, inputs: Sequence[bytes], room: _Room, *, native: bool) -> list[bytes] | None:
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
            room.take((0, len(kept or b"")), "input")
            item = kept or item
        found.append(item)
    return found if changed else None


def _referred(item: bytes) -> str | None:
    """The id that an item refers to, if it is a reference; its type may be left out."""
    named = named_in(item)
    is_reference = named.type == "item_reference" or (named.type is None and named.role is None)
    return named.id if is_reference else None


def _looked_up(item: bytes) -> str | None:
    """The id by which a provider that keeps items would complete this one."""
    named = named_in(item)
    wanted = _LOOKED_UP.get(named.type or "")
    if wanted is None or named.id is None:
        return None
    filled = _FILLED.decode(item)
    held = {"encrypted_content": filled.encrypted_content, "content": filled.content, "result": filled.result}
    return None if any(_holds(held[name]) for name in wanted) else named.id


def _holds(said: Raw) -> bool:
    raw = bytes(said)
    return _LIST.decode(raw) != [] if raw[:1] == b"[" else raw not in (b"null", b'""')


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
    found: list[Item] = []
    for body in bodies:
        named = named_in(body)
        found.append(Item(named.id or ID_PREFIXES.get(named.type or "", "msg_") + random_token(32), body))
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
