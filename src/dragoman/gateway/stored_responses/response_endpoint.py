"""`/responses/{id}` and below: GET, DELETE, cancel, input items, and listening to a response that runs.

An id that is not kept here may be one that a provider keeps: it is asked, unless several keys are in use and it is not
known that this one made it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from urllib.parse import parse_qs

from msgspec import Struct

from dragoman.config.settings import Key
from dragoman.errors import ClientError
from dragoman.gateway.access.client_address import Headed
from dragoman.gateway.advice import shown
from dragoman.gateway.endpoints.passthrough import pass_on
from dragoman.gateway.exchange.client import Client
from dragoman.gateway.exchange.error_responses import EVENT_STREAM, JSON, id_header
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.paths import ApiPath
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.background import ended, looked_after, shown_of
from dragoman.gateway.stored_responses.references import named_in
from dragoman.gateway.stored_responses.response_writer import LAST, size_of
from dragoman.gateway.stored_responses.store_failures import change, unreadable
from dragoman.gateway.stored_responses.stored_state import keepers, owner_of, several_owners
from dragoman.gateway.thread_offload import beside_loop
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.registry import codec_of
from dragoman.store import Store, StoreError, Tables
from dragoman.store.responses import RUNNING, SAID, Item, StoredResponse
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import DONE

_PAGE, _LARGEST_PAGE = 20, 100
_READS = ("GET", "HEAD")
# How often a response that runs is looked at by those who listen.
_LOOK = 0.1
_DELETED = "the response was deleted before it was complete"
_UNREADABLE = "what is kept of the response could not be read; ask for it again"
_number_of = re.compile(rb'"sequence_number":(\d{1,18})\}\s*\Z').search
_numbers_of = re.compile(rb'"sequence_number":(\d{1,18})\}\n').findall


async def serve_response(
    service: Runtime, request: ServerRequest, api_path: ApiPath, account: RecordBuilder, key: Key | None
) -> None:
    """Answer what is asked of a stored response."""
    _, response_id, *below = api_path.rest.strip("/").split("/")
    state, owner = service.state, owner_of(key)
    store = state.store
    if store is None:
        await _elsewhere(service, request, api_path, account, owner, response_id, None)
        return
    async with service.buffered.turn(account.record.key) as charge:
        kept = await store.read(lambda tables: tables.responses.find(owner, response_id))
        charge.take(len(kept.body) if kept is not None else 0)
        items, page = None, None
        if kept is not None and kept.body and request.method in _READS and below == ["input_items"]:
            page = page_of(request)
            items = await store.read(partial(_input_items, owner=owner, kept=kept))
            charge.take(size_of(items))
    try:
        if kept is None or not kept.body:
            await _elsewhere(service, request, api_path, account, owner, response_id, kept)
        elif request.method == "GET" and not below and _flag(request, "stream"):
            # Its pieces are read one by one.
            charge.close()
            await _listen(service, request, account, store, owner, kept)
        elif items is not None and page is not None:
            listing = await beside_loop(partial(_listing, items, page), size_of(items), account.record.key)
            send(service, request, account, listing)
        else:
            await _serve(service, request, api_path, account, owner, kept)
    finally:
        # What was sent is held until the client has read it.
        request.after_sending(charge.close)


async def _serve(
    service: Runtime,
    request: ServerRequest,
    api_path: ApiPath,
    account: RecordBuilder,
    owner: bytes,
    kept: StoredResponse,
) -> None:
    """Answer what is asked of a response as a whole."""
    _, response_id, *below = api_path.rest.strip("/").split("/")
    state = service.state
    store = state.store
    assert store is not None
    if state.background.is_broken(kept.id, kept.status, kept.alive):
        kept = await store.write(partial(looked_after, owner=owner, kept=kept))
    match request.method, below:
        case "GET" | "HEAD", []:
            await _show(service, request, account, kept)
        case "DELETE", []:
            await change(store, service.log, lambda tables: tables.responses.delete(owner, response_id))
            state.background.cancel(response_id)
            reply(service, request, account, {"id": response_id, "object": "response", "deleted": True})
        case "POST", ["cancel"]:
            if not kept.background:
                raise ClientError(
                    400, "Only a response that runs in the background can be cancelled.", param="response_id"
                )
            if kept.status in RUNNING:
                kept = await change(store, service.log, partial(ended, owner=owner, kept=kept, status="cancelled"))
                state.background.cancel(response_id)
            await _show(service, request, account, kept)
        case _:
            raise ClientError(404, f"there is no path {shown(api_path.rest)} here")


async def _show(service: Runtime, request: ServerRequest, account: RecordBuilder, kept: StoredResponse) -> None:
    """Send a response as it stands."""
    body = await beside_loop(lambda: encode(shown_of(kept)), len(kept.body), account.record.key)
    send(service, request, account, body)


def _input_items(tables: Tables, owner: bytes, kept: StoredResponse) -> list[Item]:
    """What was said to get a response, oldest first."""
    before = tables.responses.chain(owner, kept.previous) if kept.previous is not None else []
    if before is None:
        raise ClientError(
            404, "Of what this response went on from, something is not there any more.", param="response_id"
        )
    return [*before, *tables.responses.items(kept.id, SAID)]


async def _elsewhere(
    service: Runtime,
    request: ServerRequest,
    api_path: ApiPath,
    account: RecordBuilder,
    owner: bytes,
    response_id: str,
    kept: StoredResponse | None,
) -> None:
    """Ask the provider that keeps the response, if there is one and the response may be this client's."""
    store = service.state.store
    if kept is None and (several_owners(service.settings) or await _is_anybodys(store, response_id)):
        raise _missing(response_id)
    known = [kept.provider] if kept is not None else keepers(service.settings)
    if not known:
        raise _missing(response_id)
    try:
        only = known[0] if len(known) == 1 else ""
        await pass_on(service, request, api_path, account, owner=owner, provider=only)
    except ClientError as error:
        if error.status == 404:
            raise _missing(response_id) from None
        raise


def _missing(response_id: str) -> ClientError:
    # Made where it is raised: an error in a name of the frame that raises it holds all that the frame knows.
    return ClientError(404, f"Response with id {shown(response_id)} not found.", param="response_id")


async def _is_anybodys(store: Store | None, response_id: str) -> bool:
    if store is None:
        return False
    return await store.read(lambda tables: tables.responses.known(response_id))


def reply(service: Runtime, request: ServerRequest, account: RecordBuilder, body: JsonObject) -> None:
    """Send an object that is kept here."""
    send(service, request, account, encode(body))


def send(service: Runtime, request: ServerRequest, account: RecordBuilder, body: bytes) -> None:
    """Send what is kept here, as JSON."""
    account.finalize(status=200)
    headers = [JSON, id_header(account.record.dialect, account.record.id), *service.guard.greeting(request)]
    request.respond(200, headers, body)


async def _listen(
    service: Runtime, request: ServerRequest, account: RecordBuilder, store: Store, owner: bytes, kept: StoredResponse
) -> None:
    """Tell the stream of a background response from a place on, until it ends."""
    if not kept.background:
        raise ClientError(400, "Only a response that ran in the background can be streamed again.", param="stream")
    if not await store.read(lambda tables: tables.events.streamed(kept.id)):
        raise ClientError(400, "This response was not created with stream=true.", param="stream")
    after = _whole(request, "starting_after", -1)
    account.update(stream=True)
    await follow(service, request, request, account, store, owner, kept.id, after)


async def follow(
    service: Runtime,
    asked: Headed,
    client: Client,
    account: RecordBuilder,
    store: Store,
    owner: bytes,
    response_id: str,
    after: int,
    headers: HeaderList | None = None,
) -> None:
    """Hand on the frames behind a sequence number as they are written down."""
    account.update(status=200)
    plain = [*EVENT_STREAM, id_header(account.record.dialect, account.record.id), *service.guard.greeting(asked)]
    client.start(200, plain if headers is None else headers)
    client.write(b"")
    last = _Last()
    try:
        await _follow(service, client, account, store, owner, response_id, after, last)
    except StoreError as error:
        # The status is out: the stream itself has to say that this is not the end.
        unreadable(error, service.log)
        account.finalize(failure="internal")
        client.write(_broken_off(_UNREADABLE, last.number + 1))
        client.end()


class _Last:
    """The number of the last event that was handed on, and whether it was one that ends a stream."""

    def __init__(self) -> None:
        self.number = -1
        self.over = False


async def _follow(
    service: Runtime,
    client: Client,
    account: RecordBuilder,
    store: Store,
    owner: bytes,
    response_id: str,
    after: int,
    last: _Last,
) -> None:
    heartbeat, number, quiet = codec_of(account.record.dialect).heartbeat, 0, service.clock()
    background = service.state.background
    while True:
        stands, pieces = await store.read(partial(_looked_at, owner=owner, response_id=response_id, number=number))
        if stands is not None and background.is_broken(response_id, *stands):
            stands = await store.write(partial(_given_up, owner=owner, response_id=response_id))
        running = stands is not None and stands[0] in RUNNING
        for piece, data in pieces:
            number = piece
            last.number = max([last.number, *map(int, _numbers_of(data))])
            last.over = last.over or _is_end(data)
            frames = data if after < 0 else _behind(data, after)
            if last.over:
                account.finalize()
            if frames:
                client.write(frames)
                quiet = service.clock()
        if not running and not pieces:
            if not last.over:
                kept = await store.read(lambda tables: tables.responses.find(owner, response_id))
                account.finalize()
                client.write(_ending(kept, last.number + 1))
            account.finalize()
            client.end()
            return
        if service.clock() - quiet > service.settings.timeouts.keep_alive:
            client.write(heartbeat)
            quiet = service.clock()
        if client.paused and not await _reads_on(client, service.settings.timeouts.idle):
            account.finalize(failure="timeout")
            client.abort()
            return
        await asyncio.sleep(_LOOK if running else 0)


def _looked_at(
    tables: Tables, owner: bytes, response_id: str, number: int
) -> tuple[tuple[str, int] | None, list[tuple[int, bytes]]]:
    """How a response stands, and the next pieces of its stream."""
    return tables.responses.stands(owner, response_id), tables.events.after(response_id, number)


def _given_up(tables: Tables, owner: bytes, response_id: str) -> tuple[str, int] | None:
    """How a response stands that nobody came back to, as far as that is still so."""
    kept = tables.responses.find(owner, response_id)
    return None if kept is None else (looked_after(tables, owner, kept).status, 0)


async def _reads_on(client: Client, seconds: float) -> bool:
    """Wait for a listener that does not read; False if it did not for so long."""
    reads = asyncio.Event()
    client.on_resume = reads.set
    try:
        async with asyncio.timeout(seconds):
            await reads.wait()
    except TimeoutError:
        return False
    finally:
        client.on_resume = None
    return True


def _is_end(data: bytes) -> bool:
    return any(b"event: %b\n" % kind.encode() in data for kind in LAST)


def _ending(kept: StoredResponse | None, number: int) -> bytes:
    """The end of a stream that was never told, because the response was cancelled or deleted or its process is gone."""
    if kept is None:
        return _broken_off(_DELETED, number)
    kind = f"response.{kept.status}" if f"response.{kept.status}" in LAST else "response.failed"
    event: JsonObject = {"type": kind, "response": shown_of(kept), "sequence_number": number}
    return b"event: %b\ndata: %b\n\n%b" % (kind.encode(), encode(event), DONE)


def _broken_off(message: str, number: int) -> bytes:
    error: JsonObject = {"type": "error", "code": "server_error", "message": message, "param": None}
    return b"event: error\ndata: %b\n\n%b" % (encode({**error, "sequence_number": number}), DONE)


def _behind(data: bytes, after: int) -> bytes:
    """The frames whose number is larger; those without one belong to the end."""
    kept: list[bytes] = []
    for frame in data.split(b"\n\n"):
        number = _number_of(frame)
        if frame and (number is None or int(number[1]) > after):
            kept.append(frame + b"\n\n")
    return b"".join(kept)


class ListPage(Struct, frozen=True):
    """Which part of a list is asked for: so many items behind one of them, or from the start."""

    newest_first: bool
    limit: int
    after: str


def page_of(request: ServerRequest) -> ListPage:
    """The page of a list of items that a query asks for."""
    query = parse_qs(request.query)
    order = query.get("order", ["desc"])[0]
    if order not in ("asc", "desc"):
        raise ClientError(400, "order is asc or desc", param="order")
    limit = _whole(request, "limit", _PAGE)
    if not 1 <= limit <= _LARGEST_PAGE:
        raise ClientError(400, f"limit is from 1 to {_LARGEST_PAGE}", param="limit")
    return ListPage(order == "desc", limit, query.get("after", [""])[0])


def _listing(items: Sequence[Item], page: ListPage) -> bytes:
    return encode(_paged(items, page))


def _paged(items: Sequence[Item], page: ListPage) -> JsonObject:
    """One page of a list of items, oldest first."""
    listed = list(reversed(items)) if page.newest_first else list(items)
    if page.after:
        places = [count for count, item in enumerate(listed) if item.id == page.after]
        if not places:
            raise no_item(page.after, "after")
        listed = listed[places[-1] + 1 :]
    return list_of(listed[: page.limit], more=len(listed) > page.limit)


def no_item(item_id: str, param: str) -> ClientError:
    """What is told of an item that is not there."""
    return ClientError(404, f"Item with id {shown(item_id)} not found.", param=param)


def list_of(items: Sequence[Item], *, more: bool = False) -> JsonObject:
    """A list of items as its SDK expects it."""
    data: JsonList = [item_shown(item) for item in items]
    return {
        "object": "list",
        "data": data,
        "first_id": items[0].id if items else "",
        "last_id": items[-1].id if items else "",
        "has_more": more,
    }


def item_shown(item: Item) -> JsonObject:
    """An item in full: with its id, and its content as parts, however it was said."""
    named = named_in(item.body)
    # SDKs write what they do not know as null.
    told = decode_object(item.body)
    body = {name: value for name, value in told.items() if value is not None or name not in ("id", "type", "status")}
    shown_body: JsonObject = {"id": item.id, "type": named.type or "message", **body}
    content = body.get("content")
    if shown_body["type"] == "message":
        if isinstance(content, str):
            shown_body["content"] = [_part(content, assistant=named.role == "assistant")]
        shown_body.setdefault("status", "completed")
    elif shown_body["type"] in _WITH_STATUS:
        shown_body.setdefault("status", "completed")
    return shown_body


# Items whose listed form says how far they got.
_WITH_STATUS = frozenset(
    {"function_call", "function_call_output", "custom_tool_call_output", "local_shell_call_output"}
)


def _part(text: str, *, assistant: bool) -> JsonObject:
    if assistant:
        annotations: JsonList = []
        return {"type": "output_text", "text": text, "annotations": annotations}
    return {"type": "input_text", "text": text}


def _flag(request: ServerRequest, name: str) -> bool:
    return parse_qs(request.query).get(name, ["false"])[0].lower() in ("true", "1")


def _whole(request: ServerRequest, name: str, default: int) -> int:
    said = parse_qs(request.query).get(name)
    if said is None:
        return default
    if not said[0].isdecimal() or len(said[0]) > 9:
        raise ClientError(400, f"{name} is a whole number", param=name)
    return int(said[0])
