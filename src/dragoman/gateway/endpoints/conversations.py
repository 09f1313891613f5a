"""`/conversations`: objects and items over HTTP, stored in the gateway, since the provider of later responses is
unknown yet. `x-dragoman-provider` names a provider that stores the conversation instead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.gateway.advice import printable
from dragoman.gateway.endpoints.passthrough import forward
from dragoman.gateway.endpoints.responses import ListPage, full_item, list_of, page_of
from dragoman.gateway.forwarding.provider_request import receive
from dragoman.gateway.json_limits import decode_checked_object
from dragoman.gateway.runtime import Incoming, Runtime
from dragoman.gateway.stored_responses.leases import locked
from dragoman.gateway.stored_responses.reference_resolver import items_to_add, no_item
from dragoman.gateway.stored_responses.response_writer import size_of
from dragoman.gateway.stored_responses.store_failures import change
from dragoman.gateway.stored_responses.stored_state import owner_of, storing_providers
from dragoman.gateway.thread_offload import offload
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import rights_of
from dragoman.identities.permissions import permits_provider
from dragoman.mint import random_token
from dragoman.model.jsonvalue import JsonObject
from dragoman.store import Tables
from dragoman.store.conversations import Conversation, Leased
from dragoman.store.responses import Item
from dragoman.wire.json import decode_object, encode

_MAX_ITEMS = 20
_MAX_METADATA, _MAX_NAME_LENGTH, _MAX_VALUE_LENGTH = 16, 64, 512


async def serve_conversation(incoming: Incoming) -> None:
    runtime, request, builder = incoming.runtime, incoming.request, incoming.builder
    store, owner = runtime.state.store, owner_of(incoming.key)
    _, *below = incoming.api_path.rest.strip("/").split("/")
    named = request.header(b"x-dragoman-provider") is not None
    conversation = None
    if store is not None and below and not named:
        conversation = await store.read(lambda tables: tables.conversations.find(owner, below[0]), owner=owner)
    if store is None or named or (below and conversation is None):
        await _elsewhere(incoming, below)
        return
    name, holder = builder.record.key, incoming.key
    raw = await receive(runtime, request, name, holder=holder) if request.method == "POST" else b""
    takes_items = not below or below[1:] == ["items"]
    body, bodies = await offload(partial(_read, raw, takes_items=takes_items), len(raw), builder.record.key)
    operation: Callable[[Tables], _LazyResponse]
    if conversation is None:
        operation = partial(_created, runtime, owner, "conv_" + random_token(48), body, bodies)
    else:
        operation = _operation_for(runtime, owner, conversation, request, body, bodies, below[1:])
    room = await runtime.state.quota.reserve(owner, len(raw)) if request.method == "POST" else None
    try:
        async with runtime.buffered.turn(builder.record.key) as charge:
            if request.method in ("POST", "DELETE"):
                response = await change(store, runtime.log, owner, operation)
            else:
                response = await store.read(operation, owner=owner)
            charge.take(response.size)
    except Leased:
        raise locked(below[0]) from None
    finally:
        if room is not None:
            room()
    try:
        incoming.send(await offload(lambda: encode(response.show()), response.size, builder.record.key))
    finally:
        # The response counts against the memory limit until the client has read it.
        request.after_sending(charge.close)


class _LazyResponse(Struct, frozen=True):
    """A response that is encoded on demand from stored bytes."""

    show: Callable[[], JsonObject]
    size: int = 0


def _list(items: Sequence[Item], *, more: bool = False) -> _LazyResponse:
    return _LazyResponse(partial(list_of, items, more=more), size_of(items))


def _read(raw: bytes, *, takes_items: bool) -> tuple[JsonObject, list[bytes] | None]:
    """The parsed request about a conversation, and its items as JSON."""
    body = decode_checked_object(raw) if raw.strip() else {}
    items = body.pop("items", None)
    if items is None or not takes_items:
        return body, None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _no_items()
    if len(items) > _MAX_ITEMS:
        raise ClientError(400, f"at most {_MAX_ITEMS} items are added at a time", param="items")
    return body, [encode(item) for item in items]


async def _elsewhere(incoming: Incoming, below: list[str]) -> None:
    """Forward the request to the provider that stores conversations. With several keys the owners would be unknown."""
    named = incoming.request.header(b"x-dragoman-provider") is not None
    rights = rights_of(incoming.key)
    storing = storing_providers(incoming.runtime.settings)
    providers = [provider for provider in storing if permits_provider(rights, provider)]
    if incoming.runtime.guard.several_owners or not (named or providers):
        raise _missing(below[0]) if below else ClientError(404, "conversations are not stored here")
    try:
        only = providers[0] if not named and len(providers) == 1 else ""
        await forward(incoming, provider=only)
    except ClientError as error:
        raise _missing(below[0]) if below and error.status == 404 else error from None


def _operation_for(
    runtime: Runtime,
    owner: bytes,
    conversation: Conversation,
    request: ServerRequest,
    body: JsonObject,
    bodies: list[bytes] | None,
    below: list[str],
) -> Callable[[Tables], _LazyResponse]:
    """The work for the store's thread: a request about an existing conversation."""
    match request.method, below:
        case "GET" | "HEAD", []:
            return lambda _: _object(conversation)
        case "POST", []:
            return partial(_changed, owner, conversation, _metadata(body))
        case "DELETE", []:
            return partial(_deleted, owner, conversation.id)
        case "GET" | "HEAD", ["items"]:
            return partial(_paged, conversation, page_of(request))
        case "POST", ["items"]:
            if bodies is None:
                raise _no_items()
            return partial(_added, runtime, owner, conversation, bodies)
        case "GET" | "HEAD", ["items", item_id]:
            return partial(_shown, conversation, item_id)
        case "DELETE", ["items", item_id]:
            return partial(_removed, conversation, item_id)
        case _:
            raise ClientError(404, "there is nothing at this path of a conversation")


def _created(
    runtime: Runtime, owner: bytes, made: str, body: JsonObject, bodies: list[bytes] | None, tables: Tables
) -> _LazyResponse:
    items = _items(runtime, tables, owner, made, bodies) if bodies is not None else ()
    return _object(tables.conversations.create(owner, made, _metadata(body), items))


def _changed(owner: bytes, conversation: Conversation, metadata: bytes, tables: Tables) -> _LazyResponse:
    tables.conversations.change(owner, conversation.id, metadata)
    return _object(Conversation(id=conversation.id, created=conversation.created, metadata=metadata))


def _deleted(owner: bytes, name: str, tables: Tables) -> _LazyResponse:
    tables.conversations.delete(owner, name)
    return _LazyResponse(lambda: {"id": name, "object": "conversation.deleted", "deleted": True})


def _added(
    runtime: Runtime, owner: bytes, conversation: Conversation, bodies: list[bytes], tables: Tables
) -> _LazyResponse:
    items = _items(runtime, tables, owner, conversation.id, bodies)
    if not tables.conversations.append(owner, conversation.id, items):
        # Deleted since the look-up.
        raise _missing(conversation.id)
    return _list(items)


def _paged(conversation: Conversation, page: ListPage, tables: Tables) -> _LazyResponse:
    # One more, to detect that the page is not the last.
    items = tables.conversations.page(conversation.id, page.after, page.limit + 1, newest_first=page.newest_first)
    if items is None:
        raise no_item(page.after, "after")
    return _list(items[: page.limit], more=len(items) > page.limit)


def _shown(conversation: Conversation, item_id: str, tables: Tables) -> _LazyResponse:
    item = _one(tables, conversation, item_id)
    return _LazyResponse(partial(full_item, item), len(item.body))


def _removed(conversation: Conversation, item_id: str, tables: Tables) -> _LazyResponse:
    _one(tables, conversation, item_id)
    tables.conversations.remove(conversation.id, item_id)
    return _object(conversation)


def _one(tables: Tables, conversation: Conversation, item_id: str) -> Item:
    item = tables.conversations.item(conversation.id, item_id)
    if item is None:
        raise no_item(item_id, "item_id")
    return item


def _items(runtime: Runtime, tables: Tables, owner: bytes, conversation: str, bodies: list[bytes]) -> tuple[Item, ...]:
    native, shared = bool(storing_providers(runtime.settings)), runtime.guard.several_owners
    return items_to_add(
        tables, owner, conversation, bodies, native=native, shared=shared, limit=runtime.settings.limits.request_body
    )


def _no_items() -> ClientError:
    return ClientError(400, "items is a list of objects", param="items")


def _metadata(body: JsonObject) -> bytes:
    metadata = body.get("metadata")
    if metadata is None:
        return b"{}"
    if not isinstance(metadata, dict) or len(metadata) > _MAX_METADATA or not _fits(metadata):
        texts = f"{_MAX_METADATA} texts of {_MAX_VALUE_LENGTH} characters under names of {_MAX_NAME_LENGTH}"
        raise ClientError(400, f"metadata is up to {texts}", param="metadata")
    return encode(metadata)


def _fits(metadata: JsonObject) -> bool:
    return all(
        len(name) <= _MAX_NAME_LENGTH and isinstance(value, str) and len(value) <= _MAX_VALUE_LENGTH
        for name, value in metadata.items()
    )


def _object(conversation: Conversation) -> _LazyResponse:
    return _LazyResponse(
        lambda: {
            "id": conversation.id,
            "object": "conversation",
            "created_at": conversation.created,
            "metadata": decode_object(conversation.metadata),
        }
    )


def _missing(conversation_id: str) -> ClientError:
    return ClientError(404, f"Conversation with id {printable(conversation_id)} not found.", param="conversation_id")
