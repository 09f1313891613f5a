"""`/conversations`: their objects and items over HTTP. They are kept here, whoever answers in them.

Which provider will is not known when one is made. `x-dragoman-provider` names one that keeps it instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from dragoman.config.settings import Key, Settings
from dragoman.errors import ClientError
from dragoman.gateway.advice import shown
from dragoman.gateway.endpoints.passthrough import pass_on
from dragoman.gateway.exchange.provider_request import receive
from dragoman.gateway.json_limits import weighed_object
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.leases import locked
from dragoman.gateway.stored_responses.reference_resolver import added
from dragoman.gateway.stored_responses.response_endpoint import ListPage, item_shown, list_of, no_item, page_of, send
from dragoman.gateway.stored_responses.response_writer import size_of
from dragoman.gateway.stored_responses.store_failures import change
from dragoman.gateway.stored_responses.stored_state import keepers, owner_of, several_owners
from dragoman.gateway.thread_offload import beside_loop
from dragoman.http.server import ServerRequest
from dragoman.mint import random_token
from dragoman.model.jsonvalue import JsonObject
from dragoman.store import Tables
from dragoman.store.conversations import Conversation, Leased
from dragoman.store.responses import Item
from dragoman.wire.json import decode_object, encode

_MOST_ITEMS = 20
_MOST_METADATA, _LONGEST_NAME, _LONGEST_VALUE = 16, 64, 512


async def serve_conversation(
    service: Runtime, request: ServerRequest, api_path: ApiPath, account: RecordBuilder, key: Key | None
) -> None:
    """Answer what is asked of conversations."""
    store, owner = service.state.store, owner_of(key)
    _, *below = api_path.rest.strip("/").split("/")
    named = request.header(b"x-dragoman-provider") is not None
    found = None
    if store is not None and below and not named:
        found = await store.read(lambda tables: tables.conversations.find(owner, below[0]))
    if store is None or named or (below and found is None):
        await _elsewhere(service, request, api_path, account, owner, below)
        return
    raw = await receive(service, request, account.record.key) if request.method == "POST" else b""
    takes_items = not below or below[1:] == ["items"]
    body, bodies = await beside_loop(partial(_read, raw, takes_items=takes_items), len(raw), account.record.key)
    answering: Callable[[Tables], _Told]
    if found is None:
        answering = partial(_created, service.settings, owner, "conv_" + random_token(48), body, bodies)
    else:
        answering = _answering(service.settings, owner, found, request, body, bodies, below[1:])
    room = await service.state.quota.reserve(owner, len(raw)) if request.method == "POST" else None
    try:
        async with service.buffered.turn(account.record.key) as charge:
            if request.method in ("POST", "DELETE"):
                told = await change(store, service.log, answering)
            else:
                told = await store.read(answering)
            charge.take(told.size)
    except Leased:
        raise locked(below[0]) from None
    finally:
        if room is not None:
            room()
    try:
        answer = await beside_loop(lambda: encode(told.show()), told.size, account.record.key)
        send(service, request, account, answer)
    finally:
        # What was sent is held until the client has read it.
        request.after_sending(charge.close)


class _Told(Struct, frozen=True):
    """An answer, to be written from so many bytes that are kept."""

    show: Callable[[], JsonObject]
    size: int = 0


def _list(items: Sequence[Item], *, more: bool = False) -> _Told:
    return _Told(partial(list_of, items, more=more), size_of(items))


def _read(raw: bytes, *, takes_items: bool) -> tuple[JsonObject, list[bytes] | None]:
    """What a request says of a conversation, and its items, each as JSON: only that is looked at from then on."""
    body = weighed_object(raw) if raw.strip() else {}
    items = body.pop("items", None)
    if items is None or not takes_items:
        return body, None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise _no_items()
    if len(items) > _MOST_ITEMS:
        raise ClientError(400, f"at most {_MOST_ITEMS} items are added at a time", param="items")
    return body, [encode(item) for item in items]


async def _elsewhere(
    service: Runtime, request: ServerRequest, api_path: ApiPath, account: RecordBuilder, owner: bytes, below: list[str]
) -> None:
    """Ask the provider that keeps conversations; with several keys nobody could tell whose they are."""
    named = request.header(b"x-dragoman-provider") is not None
    known = keepers(service.settings)
    if several_owners(service.settings) or not (named or known):
        raise _missing(below[0]) if below else ClientError(404, "no conversations are kept here")
    try:
        only = known[0] if not named and len(known) == 1 else ""
        await pass_on(service, request, api_path, account, owner=owner, provider=only)
    except ClientError as error:
        raise _missing(below[0]) if below and error.status == 404 else error from None


def _answering(
    settings: Settings,
    owner: bytes,
    found: Conversation,
    request: ServerRequest,
    body: JsonObject,
    bodies: list[bytes] | None,
    below: list[str],
) -> Callable[[Tables], _Told]:
    """What is done, in the store's thread, of what is asked of a conversation that was found."""
    match request.method, below:
        case "GET" | "HEAD", []:
            return lambda _: _object(found)
        case "POST", []:
            return partial(_changed, owner, found, _metadata(body))
        case "DELETE", []:
            return partial(_deleted, owner, found)
        case "GET" | "HEAD", ["items"]:
            return partial(_paged, found, page_of(request))
        case "POST", ["items"]:
            if bodies is None:
                raise _no_items()
            return partial(_added, settings, owner, found, bodies)
        case "GET" | "HEAD", ["items", item_id]:
            return partial(_shown, found, item_id)
        case "DELETE", ["items", item_id]:
            return partial(_removed, found, item_id)
        case _:
            raise ClientError(404, "there is nothing at this path of a conversation")


def _created(
    settings: Settings, owner: bytes, made: str, body: JsonObject, bodies: list[bytes] | None, tables: Tables
) -> _Told:
    items = _items(settings, tables, owner, made, bodies) if bodies is not None else ()
    return _object(tables.conversations.create(owner, made, _metadata(body), items))


def _changed(owner: bytes, found: Conversation, metadata: bytes, tables: Tables) -> _Told:
    tables.conversations.change(owner, found.id, metadata)
    return _object(Conversation(id=found.id, created=found.created, metadata=metadata))


def _deleted(owner: bytes, found: Conversation, tables: Tables) -> _Told:
    tables.conversations.delete(owner, found.id)
    return _Told(lambda: {"id": found.id, "object": "conversation.deleted", "deleted": True})


def _added(settings: Settings, owner: bytes, found: Conversation, bodies: list[bytes], tables: Tables) -> _Told:
    items = _items(settings, tables, owner, found.id, bodies)
    if not tables.conversations.append(owner, found.id, items):
        # Deleted since it was found.
        raise _missing(found.id)
    return _list(items)


def _paged(found: Conversation, page: ListPage, tables: Tables) -> _Told:
    # One more, to know whether there is more.
    items = tables.conversations.page(found.id, page.after, page.limit + 1, newest_first=page.newest_first)
    if items is None:
        raise no_item(page.after, "after")
    return _list(items[: page.limit], more=len(items) > page.limit)


def _shown(found: Conversation, item_id: str, tables: Tables) -> _Told:
    item = _one(tables, found, item_id)
    return _Told(partial(item_shown, item), len(item.body))


def _removed(found: Conversation, item_id: str, tables: Tables) -> _Told:
    _one(tables, found, item_id)
    tables.conversations.remove(found.id, item_id)
    return _object(found)


def _one(tables: Tables, found: Conversation, item_id: str) -> Item:
    item = tables.conversations.item(found.id, item_id)
    if item is None:
        raise no_item(item_id, "item_id")
    return item


def _items(
    settings: Settings, tables: Tables, owner: bytes, conversation: str, bodies: list[bytes]
) -> tuple[Item, ...]:
    native, shared = bool(keepers(settings)), several_owners(settings)
    return added(tables, owner, conversation, bodies, native=native, shared=shared, limit=settings.limits.body)


def _no_items() -> ClientError:
    return ClientError(400, "items is a list of objects", param="items")


def _metadata(body: JsonObject) -> bytes:
    metadata = body.get("metadata")
    if metadata is None:
        return b"{}"
    if not isinstance(metadata, dict) or len(metadata) > _MOST_METADATA or not _fits(metadata):
        problem = (
            f"metadata is up to {_MOST_METADATA} texts of {_LONGEST_VALUE} characters under names of {_LONGEST_NAME}"
        )
        raise ClientError(400, problem, param="metadata")
    return encode(metadata)


def _fits(metadata: JsonObject) -> bool:
    return all(
        len(name) <= _LONGEST_NAME and isinstance(value, str) and len(value) <= _LONGEST_VALUE
        for name, value in metadata.items()
    )


def _object(found: Conversation) -> _Told:
    return _Told(
        lambda: {
            "id": found.id,
            "object": "conversation",
            "created_at": found.created,
            "metadata": decode_object(found.metadata),
        }
    )


def _missing(conversation_id: str) -> ClientError:
    return ClientError(404, f"Conversation with id {shown(conversation_id)} not found.", param="conversation_id")
