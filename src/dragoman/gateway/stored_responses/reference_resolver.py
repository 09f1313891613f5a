"""Recall: a Responses request that refers back to what is kept here, as one that says everything itself.

    previous_response_id   what was said up to the end of that response goes before the input
    conversation           what was said in it goes before the input
    item_reference         the item itself

On a provider that keeps its own state only ids that are ours are looked up; the others are its own to know. Where
several owners have theirs there, it is asked only by ids that it gave to this one: a client may say any id in words of
its own, also in what is kept here, so that the request is judged as it goes out. Where one is left, what is known to be
of an earlier one is refused. A reference that leads nowhere is refused before anybody is asked: there is never an
answer without the context it was asked in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.gateway.advice import shown
from dragoman.gateway.exchange.provider_request import check_plain_items
from dragoman.gateway.stored_responses.references import (
    References,
    completed_by,
    items_of,
    named_in,
    referred_in,
    relied_on,
)
from dragoman.store import Tables
from dragoman.store.conversations import Conversations
from dragoman.store.responses import RUNNING, Item, Responses, StoredResponse
from dragoman.wire.json_spans import object_members, with_member, without

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


class ResolvedRequest(Struct, frozen=True, kw_only=True):
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


class ResolvedReferences(Struct, frozen=True, kw_only=True):
    """What was found of it: `before` is said before the input, if anything is, and `own` is the input itself.

    `kept` is all that is kept of a conversation.
    """

    before: list[Item] | None
    kept: tuple[int, int]
    own: list[bytes]
    cut: frozenset[str]
    background: bool

    @property
    def size(self) -> int:
        """How many bytes there are to be put together."""
        return self.kept[1] + sum(map(len, self.own))

    @property
    def bodies(self) -> list[bytes]:
        """Everything that is said in the end."""
        return [item.body for item in self.before or ()] + self.own


def refers(said: References, *, native: bool) -> bool:
    """Whether there is anything to be looked up for a request, of a provider that keeps items (`native`) or another."""
    named = said.previous is not None or said.conversation is not None or bool(said.referred)
    return named or (native and bool(said.looked_up))


def look_up(
    tables: Tables | None, *, owner: bytes, said: References, size: int, native: bool, shared: bool, limit: int
) -> ResolvedReferences | None:
    """All that is looked up for one request, in one state of the store.

    None if it is to go on as it is, and its answer is not kept here. `native` is said of a provider that keeps state of
    its own, `shared` if several owners have theirs there. `size` is how many bytes the request has, `limit` how many it
    may have.
    """
    if native:
        check_own(tables, owner, said, shared=shared)
    found = None if tables is None else found_of(tables, owner, said, size, native=native, limit=limit)
    if native:
        if found is not None and shared:
            # What was kept of other requests was not read as closely as this one.
            check_plain_items(found.bodies, "input")
        check_given(tables, owner, relied_on_in(said, found), shared=shared)
    return found


def found_of(
    tables: Tables | None, owner: bytes, said: References, size: int, *, native: bool, limit: int
) -> ResolvedReferences | None:
    """What is found of what is its owner's to refer to; a request that refers to nothing needs no tables."""
    room = _Room(limit)
    previous, conversation, keeps, background = said.previous, said.conversation, said.keeps, said.background
    if previous is not None and conversation is not None:
        raise ClientError(400, "previous_response_id and conversation exclude each other", param="previous_response_id")
    if background and not keeps and not native:
        raise ClientError(
            400, "a response in the background has to be stored", param="background", code="unsupported_parameter"
        )
    kept = _before(tables, owner, previous, conversation, room, native=native)
    before = None if kept is None else _as_compacted(kept)
    # A reference alone is input enough.
    inputs = [] if said.silent and before is not None else said.inputs
    resolved = _resolved(tables, owner, inputs, said.referred, room, native=native) if inputs is not None else None
    if native and before is None and resolved is None:
        return None
    if inputs is None or (before is None and resolved is None and not keeps and not background):
        return None
    if native and background and conversation is not None and before is not None:
        raise ClientError(
            400, "in a conversation that is kept here this provider runs nothing in the background", param="background"
        )
    own = resolved or inputs
    room.take((len(own), 0 if before is None else size), "input")
    cut = {"background"} if background and not native else set()
    if before is not None:
        cut |= {"input", "previous_response_id", "conversation"}
    elif resolved is not None:
        cut.add("input")
    return ResolvedReferences(
        before=before,
        kept=(len(kept or ()), sum(len(item.body) for item in kept or ())),
        own=own,
        cut=frozenset(cut),
        background=background and not native,
    )


def recalled_of(body: bytes, said: References, found: ResolvedReferences) -> ResolvedRequest:
    """The request with what was found in place of its references."""
    before = found.before or ()
    return ResolvedRequest(
        body=_rewritten(body, found.bodies, found.cut),
        before=tuple(before),
        found=found.kept,
        said=items_of(found.own) if said.keeps or said.conversation is not None else (),
        keeps=said.keeps,
        background=found.background,
        previous=said.previous,
        conversation=said.conversation,
    )


def keeper_of(tables: Tables, owner: bytes, said: References, *, noted: bool = True) -> str | None:
    """The provider that keeps what a request refers to; "" if all of it is kept here, None if nobody knows where.

    Where answers are `noted` only a conversation can be that: whoever makes one elsewhere is not heard of. Where they
    are not, it is all that is not kept here.
    """
    responses, conversation = tables.responses, said.conversation
    if said.previous is not None and (found := responses.keeper(owner, said.previous)):
        return found
    if said.previous is not None and not noted and responses.find(owner, said.previous) is None:
        return None
    if conversation is not None and tables.conversations.find(owner, conversation) is None:
        return responses.keeper(owner, conversation) or None
    # What is kept here is said in full, whoever is asked.
    referred = [name for name in dict.fromkeys(said.referred.values()) if not responses.item(owner, name)]
    for name in (*referred, *said.looked_up):
        if found := responses.item_keeper(owner, name):
            return found
    return None if referred and not noted else ""


def check_own(tables: Tables | None, owner: bytes, said: References, *, shared: bool) -> None:
    """Refuse a response or conversation that a provider keeps unless it is known that this owner made it.

    Where one owner alone has any there (not `shared`), what is known to be of an earlier one.
    """
    previous, conversation = said.previous, said.conversation
    responses, conversations = (None, None) if tables is None else (tables.responses, tables.conversations)
    if previous is not None and not _may_be_own(responses, owner, previous, shared=shared):
        raise _no_response(previous)
    if conversation is not None and not _may_be_own(conversations, owner, conversation, shared=shared):
        raise _no_conversation(conversation)


def _may_be_own(kept: Responses | Conversations | None, owner: bytes, name: str, *, shared: bool) -> bool:
    if kept is None:
        return not shared
    return kept.find(owner, name) is not None if shared else not kept.is_anothers(owner, name)


def relied_on_in(said: References, found: ResolvedReferences | None) -> tuple[str, ...]:
    """The ids by which a provider that keeps items would look something up for a request as it goes out, each once."""
    if found is None:
        return tuple(dict.fromkeys((*said.referred.values(), *said.looked_up)))
    return tuple(dict.fromkeys(name for body in found.bodies if (name := relied_on(body)) is not None))


def check_given(tables: Tables | None, owner: bytes, names: Iterable[str], *, shared: bool) -> None:
    """Refuse an item that a provider would look up unless it gave the id to this owner; see `check_own`."""
    for name in names:
        if tables is not None and tables.responses.is_given(owner, name):
            continue
        if shared or (tables is not None and tables.responses.is_anothers_item(owner, name)):
            raise _no_item(name)


def _before(
    tables: Tables | None, owner: bytes, previous: str | None, conversation: str | None, room: _Room, *, native: bool
) -> list[Item] | None:
    """What was said before, if the request refers to anything that is ours."""
    if previous is not None:
        assert tables is not None
        found = tables.responses.find(owner, previous)
        if native and (found is None or not found.body):
            return None
        room.take(tables.responses.weight(owner, previous), "previous_response_id")
        return _chain(tables, owner, previous, found)
    if conversation is not None:
        assert tables is not None
        if tables.conversations.find(owner, conversation) is not None:
            room.take(tables.conversations.weight(conversation), "conversation")
            return tables.conversations.items(conversation)
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


def _chain(tables: Tables, owner: bytes, previous: str, found: StoredResponse | None) -> list[Item]:
    if found is not None and found.status in RUNNING:
        raise ClientError(400, f"Previous response {shown(previous)} has not ended yet.", param="previous_response_id")
    if found is not None and not found.body:
        raise ClientError(
            400,
            f"Previous response with id {shown(previous)} is kept by {found.provider}, which alone can go on from it.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    chain = tables.responses.chain(owner, previous) if found is not None else None
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


def added(
    tables: Tables,
    owner: bytes,
    conversation: str,
    bodies: Sequence[bytes],
    *,
    native: bool,
    shared: bool,
    limit: int = _LARGEST,
) -> tuple[Item, ...]:
    """Items to be said in a conversation, with those in place of references.

    `native` if there is a provider that keeps items, `shared` if several owners have theirs there. Nothing that may be
    another's is referred to, or completed by its id; what goes to a provider is looked at again.
    """
    referred = {api_path: name for api_path, body in enumerate(bodies) if (name := referred_in(body)) is not None}
    asked = [] if native and not shared else list(referred.values())
    if native and shared:
        asked += [name for body in bodies if (name := completed_by(body)) is not None]
    for name in asked:
        if tables.responses.item(owner, name) is None:
            raise _no_item(name, param="items")
    room = _Room(limit)
    # One that is longer could never be answered in.
    room.take(tables.conversations.weight(conversation), "items")
    said = _resolved(tables, owner, bodies, referred, room, native=True) or bodies
    room.take((len(said), sum(map(len, bodies))), "items")
    return items_of(said)


def _resolved(
    tables: Tables | None,
    owner: bytes,
    inputs: Sequence[bytes],
    referred: Mapping[int, str],
    room: _Room,
    *,
    native: bool,
) -> list[bytes] | None:
    """The items with those in place of references; None if there is no reference, or none that is ours to resolve."""
    found = list(inputs)
    changed = False
    # Each id is looked up once, however often a request refers to it.
    known: dict[str, bytes | None] = {}
    for api_path, reference in referred.items():
        # Of an item that a provider keeps there is only the id.
        assert tables is not None
        if reference not in known:
            known[reference] = tables.responses.item(owner, reference)
        kept = known[reference]
        if not kept and not native:
            raise _no_item(reference)
        changed = changed or bool(kept)
        room.take((0, len(kept or b"")), "input")
        found[api_path] = kept or found[api_path]
    return found if changed else None


def _rewritten(body: bytes, items: Sequence[bytes], cut: frozenset[str]) -> bytes:
    if not cut:
        return body
    rest = without(body, [member.whole for member in object_members(body) if member.key in cut])
    return with_member(rest, "input", b"[" + b",".join(items) + b"]") if "input" in cut else rest
