"""`/responses/{id}` and below: GET, DELETE, cancel, input items, and following a running response. An ID that is not
stored here is looked up at providers, unless several keys are in use and this key is not known as its owner."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from urllib.parse import parse_qs

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.gateway.advice import printable
from dragoman.gateway.endpoints.passthrough import forward
from dragoman.gateway.runtime import Incoming
from dragoman.gateway.stored_responses.background import client_body, end_response, fail_if_broken
from dragoman.gateway.stored_responses.reference_resolver import no_item
from dragoman.gateway.stored_responses.references import named_in
from dragoman.gateway.stored_responses.response_writer import size_of
from dragoman.gateway.stored_responses.store_failures import change
from dragoman.gateway.stored_responses.stored_state import owner_of, storing_providers
from dragoman.gateway.stored_responses.stream_following import follow
from dragoman.gateway.thread_offload import offload
from dragoman.http.server import ServerRequest
from dragoman.identities.identity import rights_of
from dragoman.identities.permissions import permits_provider
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.store import Store, Tables
from dragoman.store.responses import INPUT_SIDE, RUNNING, Item, StoredResponse
from dragoman.wire.json import decode_object, encode

_PAGE, _MAX_PAGE_ITEMS = 20, 100
_READS = ("GET", "HEAD")


async def serve_response(incoming: Incoming) -> None:
    runtime, request, builder = incoming.runtime, incoming.request, incoming.builder
    _, response_id, *below = incoming.api_path.rest.strip("/").split("/")
    store, owner = runtime.state.store, owner_of(incoming.key)
    if store is None:
        await _elsewhere(incoming, response_id, None)
        return
    async with runtime.buffered.turn(builder.record.key) as charge:
        stored = await store.read(lambda tables: tables.responses.find(owner, response_id), owner=owner)
        charge.take(len(stored.body) if stored is not None else 0)
        items, page = None, None
        if stored is not None and stored.body and request.method in _READS and below == ["input_items"]:
            page = page_of(request)
            items = await store.read(partial(_input_items, owner=owner, stored=stored), owner=owner)
            charge.take(size_of(items))
    try:
        if stored is None or not stored.body:
            await _elsewhere(incoming, response_id, stored)
        elif request.method == "GET" and not below and _flag(request, "stream"):
            # Its chunks are read one by one.
            charge.close()
            await _listen(incoming, store, owner, stored)
        elif items is not None and page is not None:
            incoming.send(await offload(partial(_listing, items, page), size_of(items), builder.record.key))
        else:
            await _serve(incoming, store, owner, stored)
    finally:
        # The response counts against the memory limit until the client has read it.
        request.after_sending(charge.close)


async def _serve(incoming: Incoming, store: Store, owner: bytes, stored: StoredResponse) -> None:
    """Serve a request to a full response."""
    rest, log, state = incoming.api_path.rest, incoming.runtime.log, incoming.runtime.state
    _, response_id, *below = rest.strip("/").split("/")
    if state.background.is_broken(stored.id, stored.status, stored.alive):
        stored = await store.write(partial(fail_if_broken, owner=owner, stored=stored), owner=owner)
    match incoming.request.method, below:
        case "GET" | "HEAD", []:
            await _show(incoming, stored)
        case "DELETE", []:
            await change(store, log, owner, lambda tables: tables.responses.delete(owner, response_id))
            state.background.cancel(response_id)
            incoming.send(encode({"id": response_id, "object": "response", "deleted": True}))
        case "POST", ["cancel"]:
            if not stored.background:
                raise ClientError(
                    400, "Only a response that runs in the background can be cancelled.", param="response_id"
                )
            if stored.status in RUNNING:
                cancelling = partial(end_response, owner=owner, stored=stored, status="cancelled")
                stored = await change(store, log, owner, cancelling)
                state.background.cancel(response_id)
            await _show(incoming, stored)
        case _:
            raise ClientError(404, f"there is no path {printable(rest)} here")


async def _show(incoming: Incoming, stored: StoredResponse) -> None:
    key = incoming.builder.record.key
    incoming.send(await offload(lambda: encode(client_body(stored)), len(stored.body), key))


def _input_items(tables: Tables, owner: bytes, stored: StoredResponse) -> list[Item]:
    """The input of a response, oldest first."""
    before = tables.responses.chain(owner, stored.previous) if stored.previous is not None else []
    if before is None:
        raise ClientError(404, "Items that this response refers to were deleted.", param="response_id")
    return [*before, *tables.responses.items(stored.id, INPUT_SIDE)]


async def _elsewhere(incoming: Incoming, response_id: str, stored: StoredResponse | None) -> None:
    """Forward to the provider that stores the response, if the response may belong to this client."""
    store, settings = incoming.runtime.state.store, incoming.runtime.settings
    if stored is None and incoming.runtime.guard.several_owners:
        raise _missing(response_id)
    if stored is None and store is not None and await store.read(lambda tables: tables.responses.exists(response_id)):
        raise _missing(response_id)
    providers = [stored.provider] if stored is not None else storing_providers(settings)
    rights = rights_of(incoming.key)
    providers = [provider for provider in providers if permits_provider(rights, provider)]
    if not providers:
        raise _missing(response_id)
    try:
        await forward(incoming, provider=providers[0] if len(providers) == 1 else "")
    except ClientError as error:
        if error.status == 404:
            raise _missing(response_id) from None
        raise


def _missing(response_id: str) -> ClientError:
    # Created where it is raised: an error in a variable of that frame would keep the frame alive.
    return ClientError(404, f"Response with id {printable(response_id)} not found.", param="response_id")


async def _listen(incoming: Incoming, store: Store, owner: bytes, stored: StoredResponse) -> None:
    """Send the stream of a background response from a position until its end."""
    if not stored.background:
        raise ClientError(400, "Only a response that ran in the background can be streamed again.", param="stream")
    if not await store.read(lambda tables: tables.events.streamed(stored.id), owner=owner):
        raise ClientError(400, "This response was not created with stream=true.", param="stream")
    request, builder = incoming.request, incoming.builder
    after = _integer(request, "starting_after", -1)
    builder.record.stream = True
    await follow(incoming.runtime, request, request, builder, store, owner, stored.id, after)


class ListPage(Struct, frozen=True):
    newest_first: bool
    limit: int
    after: str


def page_of(request: ServerRequest) -> ListPage:
    """The requested page of a list of items."""
    query = parse_qs(request.query)
    order = query.get("order", ["desc"])[0]
    if order not in ("asc", "desc"):
        raise ClientError(400, "order is asc or desc", param="order")
    limit = _integer(request, "limit", _PAGE)
    if not 1 <= limit <= _MAX_PAGE_ITEMS:
        raise ClientError(400, f"limit is from 1 to {_MAX_PAGE_ITEMS}", param="limit")
    return ListPage(order == "desc", limit, query.get("after", [""])[0])


def _listing(items: Sequence[Item], page: ListPage) -> bytes:
    """One page of a list of items, oldest first."""
    listed = list(reversed(items)) if page.newest_first else list(items)
    if page.after:
        places = [count for count, item in enumerate(listed) if item.id == page.after]
        if not places:
            raise no_item(page.after, "after")
        listed = listed[places[-1] + 1 :]
    return encode(list_of(listed[: page.limit], more=len(listed) > page.limit))


def list_of(items: Sequence[Item], *, more: bool = False) -> JsonObject:
    """A list of items in the form of the SDK."""
    data: JsonList = [full_item(item) for item in items]
    return {
        "object": "list",
        "data": data,
        "first_id": items[0].id if items else "",
        "last_id": items[-1].id if items else "",
        "has_more": more,
    }


def full_item(item: Item) -> JsonObject:
    named = named_in(item.body)
    # SDKs send unknown members as null.
    members = decode_object(item.body)
    body = {name: value for name, value in members.items() if value is not None or name not in ("id", "type", "status")}
    full_body: JsonObject = {"id": item.id, "type": named.type or "message", **body}
    content = body.get("content")
    if full_body["type"] == "message":
        if isinstance(content, str):
            annotations: JsonObject = {"annotations": []} if named.role == "assistant" else {}
            kind = "output_text" if named.role == "assistant" else "input_text"
            full_body["content"] = [{"type": kind, "text": content, **annotations}]
        full_body.setdefault("status", "completed")
    elif full_body["type"] in _WITH_STATUS:
        full_body.setdefault("status", "completed")
    return full_body


# Item types that have a status in lists.
_WITH_STATUS = frozenset(
    {"function_call", "function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)


def _flag(request: ServerRequest, name: str) -> bool:
    return parse_qs(request.query).get(name, ["false"])[0].lower() in ("true", "1")


def _integer(request: ServerRequest, name: str, default: int) -> int:
    values = parse_qs(request.query).get(name)
    if values is None:
        return default
    if not values[0].isdecimal() or len(values[0]) > 9:
        raise ClientError(400, f"{name} is a whole number", param=name)
    return int(values[0])
