"""Background responses: they run without a client, and are polled. A response is queued until the client has its id,
then in_progress until it ends, is cancelled, or its process is gone, which makes it failed. Status and stream are in
the store alone, so that every process can serve them; the running process polls it for a cancellation."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ClientError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.unexpected_errors import traceback_summary
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.reference_resolver import ResolvedRequest
from dragoman.gateway.stored_responses.response_writer import (
    ResponseWriter,
    Taken,
    Task,
    is_part_of_conversation,
    parted,
    status_of,
)
from dragoman.gateway.stored_responses.store_failures import undone
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_responses.failure import response_error
from dragoman.protocols.registry import codec_of
from dragoman.store import LeaseLost, StoreBusy, StoreError, Tables
from dragoman.store.errors import StoreAway
from dragoman.store.responses import RUNNING, Item, StoredResponse
from dragoman.wire.json import decode_object, encode

# Interval in seconds in which the worker of a response renews its lease, and the retry interval if the store failed.
_BEAT, _AGAIN = 2.0, 0.5
# For how long its end is tried to be written down, and when the process ends.
_WRITE_TIMEOUT, _LAST_MOMENTS = 20.0, 2.0
# For how long it is believed to run: longer than any wait for the store and a beat.
_ALIVE = 25
# Seconds for which stream chunks are collected before a write.
_GATHERED = 0.1
_STOPPED = "the gateway was stopped before the response was complete"


class BackgroundRun(Struct, frozen=True, kw_only=True):
    """A response to be given: `exchange` is its request, `fail` builds the failure of the client's stream."""

    task: Task
    resolved: ResolvedRequest
    begun: JsonObject
    # Lets others have the conversation it is given in.
    release: Callable[[], None]
    stream: bool
    writer: ResponseWriter
    client: DetachedClient
    exchange: Callable[[], Awaitable[None]]
    fail: Callable[[Failure], bytes]

    @property
    def id(self) -> str:
        return str(self.begun["id"])


class Background:
    """The background responses of this process."""

    def __init__(
        self,
        max_running: int,
        log: Log,
        now: Callable[[], float] = time.time,
        lease_time: Callable[[], float] = time.time,
    ) -> None:
        self._max_running = max_running
        self._log = log
        # The time by which leases are taken, and by which those of others end, in seconds since 1970.
        self._now, self._lease_time = now, lease_time
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._clients: dict[str, DetachedClient] = {}
        # Background responses of each owner, running and starting.
        self._held: Counter[bytes] = Counter()
        # Responses that are being written and about to run.
        self._starting: set[asyncio.Future[None]] = set()
        self._stopping = False
        self._closed = False

    @property
    def running(self) -> int:
        """The number of running responses."""
        return len(self._tasks)

    def is_broken(self, response_id: str, status: str, alive: int) -> bool:
        """Whether the worker of a response may have failed to renew its lease. A response of this worker never has."""
        return response_id not in self._tasks and broken(status, alive, self._lease_time())

    def check(self, owner: bytes = b"", *, shared: bool = False) -> None:
        """Refuse one more than may run. With several owners, an owner gets at most half of the free slots, so that some
        are always left."""
        if self._stopping:
            raise ClientError(503, "the gateway is shutting down")
        left = self._max_running - len(self._tasks) - len(self._starting)
        if left <= 0 or (shared and self._held[owner] >= left):
            raise ClientError(429, "too many responses run in the background; try again later", param="background")

    async def start(self, running: BackgroundRun) -> None:
        """Write a response and run it, even if the client has disconnected by then; `NotStored` if that fails."""
        begun = Taken(running.begun, (), encode(running.begun))
        stored = stored_response_of(begun, running, alive=self._until())
        beginning = partial(
            _begin, owner=running.task.owner, stored=stored, context=running.resolved.context, stream=running.stream
        )
        writing = running.task.store.write(
            beginning, owner=running.task.owner, response_size=partial(running.writer.size, None)
        )
        self._starting.add(writing)
        self._held[running.task.owner] += 1
        writing.add_done_callback(partial(self._begun, running))
        # A disconnected client does not undo it.
        await asyncio.wait({writing})
        failed = writing.exception()
        if isinstance(failed, StoreError):
            raise undone(failed, self._log)
        if failed is not None:
            try:
                raise failed
            finally:
                # They hold each other.
                del failed, writing

    def _begun(self, running: BackgroundRun, writing: asyncio.Future[None]) -> None:
        self._starting.discard(writing)
        if writing.exception() is not None or self._closed:
            self._give_back(running.task.owner)
            running.release()
            return
        task = asyncio.get_running_loop().create_task(self._run(running))
        self._tasks[running.id], self._clients[running.id] = task, running.client
        task.add_done_callback(partial(self._forget, running.id, running.task.owner))

    def _forget(self, response_id: str, owner: bytes, _: asyncio.Task[None]) -> None:
        self._tasks.pop(response_id, None)
        self._clients.pop(response_id, None)
        self._give_back(owner)

    def _give_back(self, owner: bytes) -> None:
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]

    def cancel(self, response_id: str) -> None:
        """Stop a cancelled response if it runs here; another worker notices by itself."""
        task = self._tasks.get(response_id)
        if task is not None:
            self._clients[response_id].cancelled = True
            task.cancel()

    async def finish(self, seconds: float) -> None:
        """Let responses end within some seconds, then end them as failed."""
        self._stopping = True
        if self._starting:
            # A response that was written is reported to its client, so it must run.
            loop = asyncio.get_running_loop()
            began = loop.time()
            await asyncio.wait(self._starting, timeout=seconds)
            seconds = max(began + seconds - loop.time(), 0.0)
        tasks = set(self._tasks.values())
        if tasks:
            self._log.event("info", "stopping when background responses have ended", running=len(tasks))
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> None:
        """Start no more runs. A response that was just started is reported as failed when its lease expires."""
        self._closed = True

    async def _run(self, running: BackgroundRun) -> None:
        pieces = _Pieces(running)
        running.client.on_data = pieces.take if running.stream else None
        beat = self._beat(running)
        work = asyncio.ensure_future(running.exchange())
        try:
            while True:
                either: tuple[asyncio.Future[None], asyncio.Future[bool]] = (work, beat)
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if work.done():
                    break
                if (pause := self._beaten(beat)) is None:
                    # It was cancelled through another worker.
                    running.client.cancelled = True
                    break
                if (await asyncio.wait({work}, timeout=pause))[0]:
                    break
                beat = self._beat(running)
        except asyncio.CancelledError:
            # It was cancelled, or the gateway stops.
            pass
        finally:
            work.cancel()
            # Its result is no longer needed.
            beat.cancel()
            try:
                (ended_with,) = await asyncio.gather(work, return_exceptions=True)
                if isinstance(ended_with, Exception):
                    # Unexpected, and no caller waits for it: only the log can report it.
                    name = type(ended_with).__name__
                    self._log.event("error", "background response failed", error=name, at=traceback_summary(ended_with))
            finally:
                # Breaks a reference cycle.
                running.client.on_data = None
                await self._finalize(running, pieces)

    async def _finalize(self, running: BackgroundRun, pieces: _Pieces) -> None:
        """Write down how it ended, as soon as the store can be written to: the answer is paid for."""
        try:
            taken, last = self._ending(running, pieces)
            try:
                await self._end_once_back(running, pieces, taken, last)
            except LeaseLost as error:
                # Otherwise it would be part of a conversation whose latest items it did not get.
                failure = Failure(kind=FailureKind.CONFLICT, status=409, message=str(error))
                lost = running.writer.lost(last, failure)
                await self._end_once_back(running, pieces, _as_failed(running, failure), lost)
        except StoreError as error:
            self._log.event("error", "cannot store end of background response", reason=str(error))
        finally:
            running.release()

    async def _end_once_back(self, running: BackgroundRun, pieces: _Pieces, taken: Taken, last: bytes) -> None:
        """Write the end; while the server of the database is away, it is kept here. It may be written twice: one that
        was written stays."""
        while True:
            try:
                return await self._end(running, pieces, taken, last)
            except StoreAway as error:
                reason = str(error)
            try:
                await asyncio.sleep(_AGAIN)
            except asyncio.CancelledError:
                # The process ends.
                raise StoreAway(reason) from None

    def _until(self) -> int:
        return int(self._now()) + _ALIVE

    def _beat(self, running: BackgroundRun) -> asyncio.Future[bool]:
        """Come back to a response as promised."""
        owner, response_id, until = running.task.owner, running.id, self._until()
        return running.task.store.write(
            lambda tables: tables.responses.keep_alive(owner, response_id, until), _BEAT, owner=owner, counts=False
        )

    def _beaten(self, beat: asyncio.Future[bool]) -> float | None:
        """When to come back again; None if the response is no longer wanted."""
        try:
            return _BEAT if beat.result() else None
        except (StoreBusy, StoreAway):
            return _AGAIN
        except StoreError as error:
            self._log.event("warn", "cannot renew lease of background response", reason=str(error))
            return _BEAT

    def _ending(self, running: BackgroundRun, pieces: _Pieces) -> tuple[Taken, bytes]:
        """The end of the response, and its frames."""
        taken, last = running.writer.taken, pieces.last
        if taken is None:
            failure = _failure(running.client, stopping=self._stopping)
            taken = _as_failed(running, failure)
            last = b"" if pieces.has_data else running.fail(failure)
        return taken, last

    def _end(self, running: BackgroundRun, pieces: _Pieces, taken: Taken, last: bytes) -> asyncio.Future[None]:
        """Write the end. It is written even if this task is cancelled meanwhile."""
        conversation_items = (
            (*running.resolved.new_items, *taken.output_items) if is_part_of_conversation(taken.response) else ()
        )
        ending = partial(
            _end,
            owner=running.task.owner,
            stored=stored_response_of(taken, running),
            output_items=taken.output_items,
            pieces=pieces.rest(last) if running.stream else (),
            conversation=running.resolved.conversation,
            conversation_items=conversation_items,
            holder=running.task.holder,
        )
        size = partial(running.writer.size, running.writer.taken)
        timeout = _LAST_MOMENTS if self._stopping else _WRITE_TIMEOUT
        return running.task.store.write(ending, timeout, owner=running.task.owner, response_size=size, at_last=True)


def _begin(tables: Tables, *, owner: bytes, stored: StoredResponse, context: tuple[Item, ...], stream: bool) -> None:
    tables.responses.add(owner, stored, context)
    if stream:
        # From now on there is a stream to listen to, if only an empty one.
        tables.events.add(stored.id, 0, b"")


def _end(
    tables: Tables,
    *,
    owner: bytes,
    stored: StoredResponse,
    output_items: tuple[Item, ...],
    pieces: Sequence[tuple[int, bytes]],
    conversation: str | None,
    conversation_items: tuple[Item, ...],
    holder: str,
) -> None:
    """Write the end of a response in one transaction with its last frames and its conversation items."""
    _add_pieces(stored.id, pieces, tables)
    ended_here = tables.responses.finish(owner, stored, output_items)
    if conversation is not None:
        if ended_here and conversation_items:
            tables.conversations.append(owner, conversation, conversation_items, holder)
        # Any process that sees the end may continue the conversation at once.
        tables.conversations.release(conversation, holder)


def _as_failed(running: BackgroundRun, failure: Failure) -> Taken:
    response: JsonObject = {**running.begun, "status": "failed", "error": response_error(failure)}
    return Taken(response, (), encode(response))


class _Pieces:
    """A stream on its way into the store. Final frames wait to be written together with the end."""

    def __init__(self, running: BackgroundRun) -> None:
        # Not the whole run, which refers to the request.
        self._store, self._owner = running.task.store, running.task.owner
        self._id, self._writer = running.id, running.writer
        self._held: list[bytes] = []
        self._last: list[bytes] = []
        # The number of stored chunks, and the chunk that is being written.
        self._number = 0
        self._under_way = b""
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    @property
    def has_data(self) -> bool:
        return bool(self._number or self._under_way or self._held)

    @property
    def last(self) -> bytes:
        """The final frames, as far as they have arrived."""
        return b"".join(self._last)

    def take(self, data: bytes) -> None:
        if self._writer.taken is not None:
            data, last = (b"", data) if self._last else parted(data)
            self._last.append(last)
        if data:
            self._held.append(data)
            self._arm()

    def _arm(self) -> None:
        if self._timer is None and not self._under_way and not self._ended:
            self._timer = asyncio.get_running_loop().call_later(_GATHERED, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._under_way, self._held = b"".join(self._held), []
        adding = partial(_add_pieces, self._id, ((self._number + 1, self._under_way),))
        self._store.write(adding, owner=self._owner, counts=False).add_done_callback(self._flushed)

    def _flushed(self, flushed: asyncio.Future[None]) -> None:
        if flushed.exception() is None:
            self._number += 1
        else:
            # It is written again with later chunks.
            self._held.insert(0, self._under_way)
        self._under_way = b""
        if self._held:
            self._arm()

    def rest(self, last: bytes) -> tuple[tuple[int, bytes], ...]:
        """The rest with its sequence numbers. Events in flight are sent again, because their fate is unknown."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = [self._under_way, b"".join([*self._held, last])]
        return tuple(enumerate((data for data in left if data), self._number + 1))


def _add_pieces(response_id: str, pieces: Sequence[tuple[int, bytes]], tables: Tables) -> None:
    for number, data in pieces:
        tables.events.add(response_id, number, data)


def _failure(client: DetachedClient, *, stopping: bool) -> Failure:
    """Why there is no answer."""
    if client.status >= 400:
        return codec_of("openai-responses").decode_failure(client.status, client.body)
    message = _STOPPED if stopping else "the response was given up"
    return Failure(kind=FailureKind.INTERNAL, status=500, message=message)


def stored_response_of(taken: Taken, running: BackgroundRun, alive: int = 0) -> StoredResponse:
    return StoredResponse(
        id=running.id,
        status=status_of(taken.response),
        previous=running.resolved.previous,
        background=True,
        # The final target may differ from the first one.
        provider=running.writer.provider,
        alive=alive,
        body=taken.body,
    )


def client_body(stored: StoredResponse) -> JsonObject:
    """A stored response as the client gets it."""
    return {**decode_object(stored.body), "status": stored.status}


def end_response(
    tables: Tables, owner: bytes, stored: StoredResponse, status: str, message: str | None = None
) -> StoredResponse:
    """End a response that runs, from outside; if it has ended by itself meanwhile, that stays."""
    body = client_body(stored)
    body["status"] = status
    if message is not None:
        body["error"] = {"code": "server_error", "message": message}
    changed = replace(stored, status=status, background=True, alive=0, body=encode(body))
    match body.get("conversation"):
        case {"id": str(conversation)}:
            # Its worker will add no more events.
            tables.conversations.release(conversation, stored.id)
    done = tables.responses.finish(owner, changed, ())
    return changed if done else tables.responses.find(owner, stored.id) or changed


def broken(status: str, alive: int, now: float) -> bool:
    """Whether the worker of a response has failed to renew its lease."""
    return status in RUNNING and alive < now


def fail_if_broken(tables: Tables, owner: bytes, stored: StoredResponse) -> StoredResponse:
    """The same response, or its failure if its worker is gone. If the lease was renewed, the response is unchanged."""
    if not broken(stored.status, stored.alive, tables.lease_time()):
        return stored
    current = tables.responses.status_of(owner, stored.id)
    if current is not None and broken(*current, tables.lease_time()):
        return end_response(tables, owner, stored, "failed", _STOPPED)
    return tables.responses.find(owner, stored.id) or stored
