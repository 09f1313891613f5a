"""Reference resolver: replaces `previous_response_id`, `conversation` and `item_reference` of a Responses request by
the stored items, so that it is self-contained. For a provider with state of its own only ids of ours are looked up. If
several owners have responses there, an owner may use only ids that the provider gave to it, also in stored items, so
the request is checked as it is sent; with one owner, ids known to be an earlier owner's are refused. A reference
without a target is refused first: no response lacks its context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.gateway.advice import printable
from dragoman.gateway.forwarding.provider_request import check_plain_items
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

# Maximum items to write for one request; more would delay all other writers.
_MAX_ITEMS = 10_000
_MAX_REQUEST_BYTES = 32 * 1024 * 1024


class _Room:
    """The remaining size of a request: with its references it is no larger than one without."""

    def __init__(self, limit: int) -> None:
        self._items = _MAX_ITEMS
        self._bytes = limit

    def take(self, weight: tuple[int, int], param: str) -> None:
        self._items -= weight[0]
        self._bytes -= weight[1]
        if self._items < 0 or self._bytes < 0:
            raise ClientError(
                400,
                "The request and its referenced items exceed the size limit (limits.request_body). Send less, or "
                "compact it.",
                param=param,
                code="context_length_exceeded",
            )


class ResolvedRequest(Struct, frozen=True, kw_only=True):
    """A request without references: `before` replaces them, `new_items` is its own input; `stored_weight` is the number
    of items and bytes found of a conversation."""

    body: bytes
    before: tuple[Item, ...] = ()
    stored_weight: tuple[int, int] = (0, 0)
    new_items: tuple[Item, ...] = ()
    is_stored: bool
    background: bool = False
    previous: str | None = None
    conversation: str | None = None

    @property
    def context(self) -> tuple[Item, ...]:
        """The stored input of the response: inside a conversation there is no link to earlier input."""
        return (*self.before, *self.new_items) if self.conversation is not None else self.new_items


class ResolvedReferences(Struct, frozen=True, kw_only=True):
    """The result of resolving: `before` goes before the input, `own` is the input; `stored_weight` is all of a
    conversation."""

    before: list[Item] | None
    stored_weight: tuple[int, int]
    own: list[bytes]
    cut: frozenset[str]
    background: bool

    @property
    def size(self) -> int:
        """The bytes to join."""
        return self.stored_weight[1] + sum(map(len, self.own))

    @property
    def bodies(self) -> list[bytes]:
        """All items of the request."""
        return [item.body for item in self.before or ()] + self.own


def refers(references: References, *, native: bool) -> bool:
    """Whether a request needs lookups, for a provider that stores items (`native`) or another."""
    named = references.previous is not None or references.conversation is not None or bool(references.referred)
    return named or (native and bool(references.looked_up))


def resolve_references(
    tables: Tables | None, *, owner: bytes, references: References, size: int, native: bool, shared: bool, limit: int
) -> ResolvedReferences | None:
    """Everything that is looked up for one request of `size` bytes (`limit` at most), in one state of the store; None
    if it continues unchanged and its response is not stored here. `native`: the provider has state of its own;
    `shared`: several owners have theirs there."""
    if native:
        check_own(tables, owner, references, shared=shared)
    resolved = None if tables is None else find_references(tables, owner, references, size, native=native, limit=limit)
    if native:
        if resolved is not None and shared:
            # Stored items of other requests were checked less strictly than this one.
            check_plain_items(resolved.bodies, "input")
        check_given(tables, owner, relied_on_in(references, resolved), shared=shared)
    return resolved


def find_references(
    tables: Tables | None, owner: bytes, references: References, size: int, *, native: bool, limit: int
) -> ResolvedReferences | None:
    """Look up the references that belong to the owner; a request without references needs no tables."""
    room = _Room(limit)
    previous, conversation, keeps, background = (
        references.previous,
        references.conversation,
        references.is_stored,
        references.background,
    )
    if previous is not None and conversation is not None:
        raise ClientError(400, "previous_response_id and conversation exclude each other", param="previous_response_id")
    if background and not keeps and not native:
        raise ClientError(
            400, "a response in the background has to be stored", param="background", code="unsupported_parameter"
        )
    stored_items = _before(tables, owner, previous, conversation, room, native=native)
    before = None if stored_items is None else _as_compacted(stored_items)
    # A reference alone is input enough.
    inputs = [] if references.silent and before is not None else references.inputs
    resolved = (
        _resolved(tables, owner, inputs, references.referred, room, native=native) if inputs is not None else None
    )
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
        stored_weight=(len(stored_items or ()), sum(len(item.body) for item in stored_items or ())),
        own=own,
        cut=frozenset(cut),
        background=background and not native,
    )


def resolve_request(body: bytes, references: References, resolved: ResolvedReferences) -> ResolvedRequest:
    """The request with its references resolved."""
    before = resolved.before or ()
    return ResolvedRequest(
        body=_rewritten(body, resolved.bodies, resolved.cut),
        before=tuple(before),
        stored_weight=resolved.stored_weight,
        new_items=items_of(resolved.own) if references.is_stored or references.conversation is not None else (),
        is_stored=references.is_stored,
        background=resolved.background,
        previous=references.previous,
        conversation=references.conversation,
    )


def storing_provider_of(
    tables: Tables, owner: bytes, references: References, *, owners_recorded: bool = True
) -> str | None:
    """The provider that stores the referenced items; "" if all of it is stored here, None if unknown. With
    `owners_recorded` only a conversation can be unknown: those made elsewhere are not recorded."""
    responses, conversation = tables.responses, references.conversation
    if references.previous is not None and (provider := responses.storing_provider(owner, references.previous)):
        return provider
    if references.previous is not None and not owners_recorded and responses.find(owner, references.previous) is None:
        return None
    if conversation is not None and tables.conversations.find(owner, conversation) is None:
        return responses.storing_provider(owner, conversation) or None
    # Stored items are inserted in full for every target.
    referred = [name for name in dict.fromkeys(references.referred.values()) if not responses.item(owner, name)]
    for name in (*referred, *references.looked_up):
        if provider := responses.item_storing_provider(owner, name):
            return provider
    return None if referred and not owners_recorded else ""


def check_own(tables: Tables | None, owner: bytes, references: References, *, shared: bool) -> None:
    """Refuse a response or conversation not known to be this owner's; unless `shared`, if known to be another's."""
    previous, conversation = references.previous, references.conversation
    responses, conversations = (None, None) if tables is None else (tables.responses, tables.conversations)
    if previous is not None and not _may_be_own(responses, owner, previous, shared=shared):
        raise _no_response(previous)
    if conversation is not None and not _may_be_own(conversations, owner, conversation, shared=shared):
        raise _no_conversation(conversation)


def _may_be_own(table: Responses | Conversations | None, owner: bytes, name: str, *, shared: bool) -> bool:
    if table is None:
        return not shared
    return table.find(owner, name) is not None if shared else not table.is_anothers(owner, name)


def relied_on_in(references: References, resolved: ResolvedReferences | None) -> tuple[str, ...]:
    """The IDs that a storing provider would look up for the final request, each once."""
    if resolved is None:
        return tuple(dict.fromkeys((*references.referred.values(), *references.looked_up)))
    return tuple(dict.fromkeys(name for body in resolved.bodies if (name := relied_on(body)) is not None))


def check_given(tables: Tables | None, owner: bytes, names: Iterable[str], *, shared: bool) -> None:
    """Refuse an item that a provider would look up unless it gave the id to this owner; see `check_own`."""
    for name in names:
        if tables is not None and tables.responses.is_given(owner, name):
            continue
        if shared or (tables is not None and tables.responses.is_anothers_item(owner, name)):
            raise no_item(name)


def _before(
    tables: Tables | None, owner: bytes, previous: str | None, conversation: str | None, room: _Room, *, native: bool
) -> list[Item] | None:
    """Earlier input, if the request references anything that is stored here."""
    if previous is not None:
        assert tables is not None
        stored = tables.responses.find(owner, previous)
        if native and (stored is None or not stored.body):
            return None
        room.take(tables.responses.weight(owner, previous), "previous_response_id")
        return _chain(tables, owner, previous, stored)
    if conversation is not None:
        assert tables is not None
        if tables.conversations.find(owner, conversation) is not None:
            room.take(tables.conversations.weight(conversation), "conversation")
            return tables.conversations.items(conversation)
        if not native:
            raise _no_conversation(conversation)
    return None


def _as_compacted(items: list[Item]) -> list[Item]:
    """The items, except items replaced by a compaction and its trigger."""
    triggers = {count for count, item in enumerate(items) if _is_of(item, "compaction_trigger")}
    if not triggers:
        return items
    done = max((count for count, item in enumerate(items) if _is_of(item, "compaction")), default=-1)
    start = max((count for count in triggers if count < done), default=-1) + 1
    return [item for count, item in enumerate(items) if count >= start and count not in triggers]


def _is_of(item: Item, kind: str) -> bool:
    return kind.encode() in item.body and named_in(item.body).type == kind


def _chain(tables: Tables, owner: bytes, previous: str, stored: StoredResponse | None) -> list[Item]:
    if stored is not None and stored.status in RUNNING:
        raise ClientError(
            400, f"Previous response {printable(previous)} has not ended yet.", param="previous_response_id"
        )
    if stored is not None and not stored.body:
        raise ClientError(
            400,
            f"Previous response with id {printable(previous)} is stored by {stored.provider}, "
            "which alone can continue it.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    chain = tables.responses.chain(owner, previous) if stored is not None else None
    if chain is None:
        raise _no_response(previous)
    return chain


def _no_response(response_id: str) -> ClientError:
    return ClientError(
        400,
        f"Previous response with id {printable(response_id)} not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )


def _no_conversation(conversation_id: str) -> ClientError:
    return ClientError(404, f"Conversation with id {printable(conversation_id)} not found.", param="conversation")


def no_item(item_id: str, param: str = "input") -> ClientError:
    """The error for an item that does not exist."""
    return ClientError(404, f"Item with id {printable(item_id)} not found.", param=param)


def items_to_add(
    tables: Tables,
    owner: bytes,
    conversation: str,
    bodies: Sequence[bytes],
    *,
    native: bool,
    shared: bool,
    limit: int = _MAX_REQUEST_BYTES,
) -> tuple[Item, ...]:
    """Items to add to a conversation, with references resolved. `native`: a provider stores items; `shared`: several
    owners have theirs there. No id refers to another owner's item; requests are checked again when they are sent."""
    referred = {api_path: name for api_path, body in enumerate(bodies) if (name := referred_in(body)) is not None}
    required_ids = [] if native and not shared else list(referred.values())
    if native and shared:
        required_ids += [name for body in bodies if (name := completed_by(body)) is not None]
    for name in required_ids:
        if tables.responses.item(owner, name) is None:
            raise no_item(name, param="items")
    room = _Room(limit)
    # One that is longer could never be answered in.
    room.take(tables.conversations.weight(conversation), "items")
    resolved = _resolved(tables, owner, bodies, referred, room, native=True) or bodies
    room.take((len(resolved), sum(map(len, bodies))), "items")
    return items_of(resolved)


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
    items = list(inputs)
    changed = False
    # Each id is looked up once, however often a request refers to it.
    stored_by_id: dict[str, bytes | None] = {}
    for api_path, reference in referred.items():
        # Of an item that a provider stores, only the ID is known.
        assert tables is not None
        if reference not in stored_by_id:
            stored_by_id[reference] = tables.responses.item(owner, reference)
        stored = stored_by_id[reference]
        if not stored and not native:
            raise no_item(reference)
        changed = changed or bool(stored)
        room.take((0, len(stored or b"")), "input")
        items[api_path] = stored or items[api_path]
    return items if changed else None


def _rewritten(body: bytes, items: Sequence[bytes], cut: frozenset[str]) -> bytes:
    if not cut:
        return body
    rest = without(body, [member.whole for member in object_members(body) if member.key in cut])
    return with_member(rest, "input", b"[" + b",".join(items) + b"]") if "input" in cut else rest
