"""Background: responses that run while nobody waits for them, to be asked for later.

    status        changes when
    queued        the client was answered ─▶ in_progress
    in_progress   the answer is complete ─▶ completed, incomplete or failed
                  somebody cancels it ─▶ cancelled
                  its process did not come back in time ─▶ failed, told to whoever asks

Where a response stands is in the store alone, so that every process can tell; the one that runs it looks there now and
then whether it is still wanted. What it says as a stream is there as well, piece by piece.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.gateway.records.logs import Log
from dragoman.gateway.records.unexpected_errors import places
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.kept_answer import KeptAnswer, Taken, is_said, parted, status_of
from dragoman.gateway.stored_responses.store_retries import StoreRetries
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_responses.failure import response_error
from dragoman.protocols.registry import codec_of
from dragoman.store import LeaseLost, Store, is_busy
from dragoman.store.responses import RUNNING, Item, Kept
from dragoman.wire.json import decode_object, encode

# How often whoever runs a response comes back to it, in seconds, and how soon again if the store did not take that.
_BEAT, _AGAIN = 2.0, 0.5
# For how long its end is tried to be written down, and when the process ends.
_PATIENCE, _LAST_MOMENTS = 20.0, 2.0
# For how long it is believed to run: longer than any wait for the store and a beat.
_ALIVE = 25
# How long pieces of a stream are gathered before they are written down.
_GATHERED = 0.1
_STOPPED = "the gateway was stopped before the answer was complete"


class BackgroundRun(Struct, frozen=True, kw_only=True):
    """A response to be given: `exchange` asks for it, `fail` tells a failure as the client's stream does."""

    store: Store
    owner: bytes
    begun: JsonObject
    # What is kept as its input, and what of it is new to the conversation.
    context: tuple[Item, ...]
    said: tuple[Item, ...]
    previous: str | None
    provider: str
    # The conversation it is given in, by what name it has that for itself, and what lets others have it.
    conversation: str | None
    holder: str
    release: Callable[[], None]
    stream: bool
    kept_answer: KeptAnswer
    client: DetachedClient
    exchange: Callable[[], Awaitable[None]]
    fail: Callable[[Failure], bytes]

    @property
    def id(self) -> str:
        """The response's id."""
        return str(self.begun["id"])


class Background:
    """What runs in this process."""

    def __init__(self, most: int, retries: StoreRetries, log: Log) -> None:
        self._most = most
        self._retries = retries
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False

    @property
    def running(self) -> int:
        """How many responses run."""
        return len(self._tasks)

    def is_broken(self, response_id: str, status: str, alive: int) -> bool:
        """Whether whoever ran a response has not come back to it as promised: what runs here has not gone anywhere."""
        return response_id not in self._tasks and broken(status, alive)

    def check(self) -> None:
        """Refuse one more than may run."""
        if self._stopping:
            raise ClientError(503, "the gateway is shutting down")
        if len(self._tasks) >= self._most:
            raise ClientError(429, "too many responses run in the background; try again later", param="background")

    def start(self, running: BackgroundRun) -> None:
        """Write a response down and run it."""
        store = running.store
        with store.transaction():
            begun = Taken(running.begun, (), encode(running.begun))
            store.responses.add(running.owner, kept_of(begun, running, alive=_until()), running.context)
            if running.stream:
                # From now on there is a stream to listen to, if only an empty one.
                store.events.add(running.id, 0, b"")
        task = asyncio.get_running_loop().create_task(self._run(running))
        self._tasks[running.id] = task
        task.add_done_callback(partial(self._forget, running.id))

    def _forget(self, response_id: str, _: asyncio.Task[None]) -> None:
        self._tasks.pop(response_id, None)

    def cancel(self, response_id: str) -> None:
        """Stop what was cancelled, if it runs here; elsewhere it is noticed by and by."""
        task = self._tasks.get(response_id)
        if task is not None:
            task.cancel()

    async def finish(self, retries: float) -> None:
        """Let responses end within some seconds, then end them as failed."""
        self._stopping = True
        tasks = set(self._tasks.values())
        if tasks:
            self._log.event("info", "stopping when responses in the background have ended", running=len(tasks))
            _, late = await asyncio.wait(tasks, timeout=retries)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, running: BackgroundRun) -> None:
        pieces = _Pieces(running)
        running.client.told = pieces.take if running.stream else None
        work = asyncio.ensure_future(running.exchange())
        try:
            while (pause := self._beat(running)) is not None:
                if (await asyncio.wait({work}, timeout=pause))[0]:
                    break
        except asyncio.CancelledError:
            # Somebody cancelled it, or the time to stop has come.
            pass
        finally:
            work.cancel()
            try:
                (ended_with,) = await asyncio.gather(work, return_exceptions=True)
                if isinstance(ended_with, Exception):
                    # Nobody foresaw it, and nobody waits for it: without a line it would never be heard of.
                    name = type(ended_with).__name__
                    self._log.event("error", "a response in the background broke", error=name, at=places(ended_with))
            finally:
                # It would be held by what it is told to.
                running.client.told = None
                await self._settle_at_last(running, pieces)

    async def _settle_at_last(self, running: BackgroundRun, pieces: _Pieces) -> None:
        """Write down how it ended, as soon as the store can be written to: the answer is paid for."""
        settle = partial(self._settle, running, pieces)
        size = partial(running.kept_answer.size, running.kept_answer.taken)
        try:
            await self._retries.write(settle, _LAST_MOMENTS if self._stopping else _PATIENCE, answer=size)
        except sqlite3.Error as error:
            self._log.event("error", "the end of a response could not be kept", why=str(error))
        except asyncio.CancelledError:
            # Whoever cancels it while it ends does not want to wait.
            why = self._retries.write_now(settle, size)
            if why:
                self._log.event("error", "the end of a response could not be kept", why=why)
            raise
        finally:
            running.release()

    def _beat(self, running: BackgroundRun) -> float | None:
        """Come back to a response as promised; give when to do so again, None if nobody wants it any more."""
        try:
            return _BEAT if running.store.responses.keep_alive(running.owner, running.id, _until()) else None
        except sqlite3.Error as error:
            if is_busy(error):
                return _AGAIN
            self._log.event("warn", "a response in the background could not be looked after", why=str(error))
            return _BEAT

    def _settle(self, running: BackgroundRun, pieces: _Pieces) -> None:
        """Write down how it ended, at once with the frames that say so."""
        taken, last = running.kept_answer.taken, pieces.last
        if taken is None:
            failure = _failure(running.client, stopping=self._stopping)
            taken = _as_failed(running, failure)
            last = b"" if pieces.told else running.fail(failure)
        try:
            _end(running, pieces, taken, last)
        except LeaseLost as error:
            # It would stand in its conversation without having heard what was said there.
            failure = Failure(kind=FailureKind.CONFLICT, status=409, message=str(error))
            _end(running, pieces, _as_failed(running, failure), running.kept_answer.lost(last, failure))


def _end(running: BackgroundRun, pieces: _Pieces, taken: Taken, last: bytes) -> None:
    store = running.store
    with store.transaction():
        if running.stream:
            pieces.end(last)
        store.responses.finish(running.owner, kept_of(taken, running), taken.answered, partial(_append, running, taken))


def _append(running: BackgroundRun, taken: Taken) -> None:
    """Add what was said to the conversation."""
    if running.conversation is not None and is_said(taken.response):
        items = [*running.said, *taken.answered]
        running.store.conversations.append(running.owner, running.conversation, items, running.holder)


def _as_failed(running: BackgroundRun, failure: Failure) -> Taken:
    response: JsonObject = {**running.begun, "status": "failed", "error": response_error(failure)}
    return Taken(response, (), encode(response))


class _Pieces:
    """A stream on its way into the store. Frames that say how it ended wait for that to be written down with them."""

    def __init__(self, running: BackgroundRun) -> None:
        # Not the whole of it, which knows the request that these are told to.
        self._store, self._id, self._kept_answer = running.store, running.id, running.kept_answer
        self._held: list[bytes] = []
        self._last: list[bytes] = []
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def told(self) -> bool:
        """Whether there is anything."""
        return bool(self._number or self._held)

    @property
    def last(self) -> bytes:
        """The frames that say how it ended, as far as they are there."""
        return b"".join(self._last)

    def take(self, data: bytes) -> None:
        if self._kept_answer.taken is not None:
            data, last = (b"", data) if self._last else parted(data)
            self._last.append(last)
        if data:
            self._held.append(data)
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(_GATHERED, self._flush)

    def _flush(self) -> None:
        self._timer = None
        # What a busy store does not take is tried again with the next piece.
        with suppress(sqlite3.Error):
            self._store.events.add(self._id, self._number + 1, b"".join(self._held))
            self._held = []
            self._number += 1

    def end(self, last: bytes) -> None:
        """Write down what is left of it; nothing changes here, so that it may be tried again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if data := b"".join([*self._held, last]):
            self._store.events.add(self._id, self._number + 1, data)


def _failure(client: DetachedClient, *, stopping: bool) -> Failure:
    """Why there is no answer."""
    if client.status >= 400:
        return codec_of("openai-responses").decode_failure(client.status, client.answer)
    message = _STOPPED if stopping else "the response was given up"
    return Failure(kind=FailureKind.INTERNAL, status=500, message=message)


def kept_of(taken: Taken, running: BackgroundRun, alive: int = 0) -> Kept:
    """A background response as it is kept."""
    return Kept(
        id=running.id,
        status=status_of(taken.response),
        previous=running.previous,
        background=True,
        provider=running.provider,
        alive=alive,
        body=taken.body,
    )


def shown_of(kept: Kept) -> JsonObject:
    """A kept response as a client sees it."""
    return {**decode_object(kept.body), "status": kept.status}


def ended(store: Store, owner: bytes, kept: Kept, status: str, message: str | None = None) -> Kept:
    """End a response that runs, from outside; if it has ended by itself meanwhile, that stays."""
    body = shown_of(kept)
    body["status"] = status
    if message is not None:
        body["error"] = {"code": "server_error", "message": message}
    changed = Kept(
        id=kept.id,
        status=status,
        previous=kept.previous,
        background=True,
        provider=kept.provider,
        alive=0,
        body=encode(body),
    )
    with store.transaction():
        match body.get("conversation"):
            case {"id": str(conversation)}:
                # Whoever runs it will add nothing any more.
                store.conversations.release(conversation, kept.id)
        done = store.responses.finish(owner, changed, ())
    return changed if done else store.responses.find(owner, kept.id) or changed


def broken(status: str, alive: int) -> bool:
    """Whether whoever ran a response has not come back to it as promised."""
    return status in RUNNING and alive < time.time()


def looked_after(store: Store, owner: bytes, kept: Kept) -> Kept:
    """The same response, or its failure if whoever ran it is gone; one that is not has come back meanwhile."""
    if not broken(kept.status, kept.alive):
        return kept
    with store.transaction():
        stands = store.responses.stands(owner, kept.id)
        if stands is not None and broken(*stands):
            return ended(store, owner, kept, "failed", _STOPPED)
    return store.responses.find(owner, kept.id) or kept


def _until() -> int:
    return int(time.time()) + _ALIVE
