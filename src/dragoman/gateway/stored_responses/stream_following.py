"""Following the stream of a stored response: sends its frames to a client as they are written, until it ends."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING

from dragoman.gateway.access.client_address import Headed
from dragoman.gateway.forwarding.client import Client
from dragoman.gateway.forwarding.error_responses import EVENT_STREAM, id_header
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.stored_responses.background import client_body, fail_if_broken
from dragoman.gateway.stored_responses.response_writer import LAST
from dragoman.gateway.stored_responses.store_failures import unreadable
from dragoman.http.upstream_call import HeaderList
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import codec_of
from dragoman.store import Store, StoreError, Tables
from dragoman.store.responses import RUNNING, StoredResponse
from dragoman.wire.json import encode
from dragoman.wire.sse import DONE

if TYPE_CHECKING:
    from dragoman.gateway.runtime import Runtime

# Interval in seconds in which followers poll a running response.
_POLL_SECONDS = 0.1
_DELETED = "the response was deleted before it was complete"
_UNREADABLE = "the stored response cannot be read; request it again"
_number_of = re.compile(rb'"sequence_number":(\d{1,18})\}\s*\Z').search
_numbers_of = re.compile(rb'"sequence_number":(\d{1,18})\}\n').findall


async def follow(
    runtime: Runtime,
    request: Headed,
    client: Client,
    builder: RecordBuilder,
    store: Store,
    owner: bytes,
    response_id: str,
    after: int,
    headers: HeaderList | None = None,
) -> None:
    """Hand on the frames behind a sequence number as they are written down."""
    builder.record.status = 200
    plain = [
        *EVENT_STREAM,
        id_header(builder.record.client_protocol, builder.record.id),
        *runtime.guard.greeting(request),
    ]
    client.start(200, plain if headers is None else headers)
    client.write(b"")
    last = _Last()
    try:
        await _follow(runtime, client, builder, store, owner, response_id, after, last)
    except StoreError as error:
        # The status was sent: the stream itself must report the break.
        unreadable(error, runtime.log)
        builder.finalize(failure="internal")
        client.write(_broken_off(_UNREADABLE, last.number + 1))
        client.end()


class _Last:
    """The number of the last event that was handed on, and whether it was one that ends a stream."""

    def __init__(self) -> None:
        self.number = -1
        self.over = False


async def _follow(
    runtime: Runtime,
    client: Client,
    builder: RecordBuilder,
    store: Store,
    owner: bytes,
    response_id: str,
    after: int,
    last: _Last,
) -> None:
    heartbeat, number, quiet = codec_of(builder.record.client_protocol).heartbeat, 0, runtime.clock()
    background = runtime.state.background
    while True:
        current, pieces = await store.read(
            partial(_looked_at, owner=owner, response_id=response_id, number=number), owner=owner
        )
        if current is not None and background.is_broken(response_id, *current):
            current = await store.write(partial(_given_up, owner=owner, response_id=response_id), owner=owner)
        running = current is not None and current[0] in RUNNING
        for piece, data in pieces:
            number = piece
            last.number = max([last.number, *map(int, _numbers_of(data))])
            last.over = last.over or any(b"event: %b\n" % kind.encode() in data for kind in LAST)
            frames = data if after < 0 else _frames_after(data, after)
            if last.over:
                builder.finalize()
            if frames:
                client.write(frames)
                quiet = runtime.clock()
        if not running and not pieces:
            if not last.over:
                stored = await store.read(lambda tables: tables.responses.find(owner, response_id), owner=owner)
                builder.finalize()
                client.write(_ending(stored, last.number + 1))
            builder.finalize()
            client.end()
            return
        if runtime.clock() - quiet > runtime.settings.timeouts.heartbeat:
            client.write(heartbeat)
            quiet = runtime.clock()
        if client.paused and not await _reads_on(client, runtime.settings.timeouts.idle):
            builder.finalize(failure="timeout")
            client.abort()
            return
        await asyncio.sleep(_POLL_SECONDS if running else 0)


def _looked_at(
    tables: Tables, owner: bytes, response_id: str, number: int
) -> tuple[tuple[str, int] | None, list[tuple[int, bytes]]]:
    """The state of a response, and the next chunks of its stream."""
    return tables.responses.status_of(owner, response_id), tables.events.after(response_id, number)


def _given_up(tables: Tables, owner: bytes, response_id: str) -> tuple[str, int] | None:
    """The state of a response whose worker is gone, if that is still the case."""
    stored = tables.responses.find(owner, response_id)
    return None if stored is None else (fail_if_broken(tables, owner, stored).status, 0)


async def _reads_on(client: Client, seconds: float) -> bool:
    """Wait for a listener that does not read; False after that time without a read."""
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


def _ending(stored: StoredResponse | None, number: int) -> bytes:
    """The end of a stream that never had one, because the response was cancelled or deleted, or its process ended."""
    if stored is None:
        return _broken_off(_DELETED, number)
    kind = f"response.{stored.status}" if f"response.{stored.status}" in LAST else "response.failed"
    event: JsonObject = {"type": kind, "response": client_body(stored), "sequence_number": number}
    return b"event: %b\ndata: %b\n\n%b" % (kind.encode(), encode(event), DONE)


def _broken_off(message: str, number: int) -> bytes:
    error: JsonObject = {"type": "error", "code": "server_error", "message": message, "param": None}
    return b"event: error\ndata: %b\n\n%b" % (encode({**error, "sequence_number": number}), DONE)


def _frames_after(data: bytes, after: int) -> bytes:
    """The frames whose number is larger; those without one belong to the end."""
    frames: list[bytes] = []
    for frame in data.split(b"\n\n"):
        number = _number_of(frame)
        if frame and (number is None or int(number[1]) > after):
            frames.append(frame + b"\n\n")
    return b"".join(frames)
