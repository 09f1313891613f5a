"""Large events: feed a stream to its translator, in a thread beyond 64 KiB, so that an event of 16 MiB does not block
the loop for seconds. Later chunks wait meanwhile, which keeps the order, and time limits pause: the provider is not
read."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.stored_responses.response_writer import ResponseWriter
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.http.upstream_call import UpstreamCall
from dragoman.streaming import Flow, StreamPipeline

T = TypeVar("T")

# Bytes up to which a piece of a stream is worked on at once, and those of content beyond which none is.
_AT_ONCE = 64 * 1024
_GATHERED = INLINE
# Work above the inline limit never runs on the loop.
_LEAST = INLINE + 1


class _Work:
    """Work that is cancelled before it begins, or else runs to its end: a thread cannot be stopped."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._is_given_up = self._has_begun = False

    def __call__(self) -> bytes:
        with self._lock:
            if self._is_given_up:
                return b""
            self._has_begun = True
        return self._work()

    def give_up(self) -> bool:
        """Whether it will not be done."""
        with self._lock:
            self._is_given_up = True
            return not self._has_begun


class LargeEvents:
    """One stream on its way to its translator; `deliver` gets each chunk, its translation, and its content type."""

    def __init__(
        self,
        call: UpstreamCall,
        translator: StreamPipeline,
        deliver: Callable[[bytes, bytes, Flow], None],
        key: str,
        limits: TimeLimits,
        *,
        writer: ResponseWriter | None = None,
        is_held: Callable[[], bool] = lambda: False,
        is_suspended: Callable[[], bool] = lambda: False,
    ) -> None:
        self._upstream_call = call
        self._translator = translator
        self._deliver = deliver
        # The name of the gateway key that waits for it.
        self._key = key
        # How a relayed stream is stored, and the IDs under which it is sent.
        self._writer = writer
        # Whether reading pauses for another reason, and whether the timeouts pause.
        self._is_held = is_held
        self._limits = limits
        self._is_suspended = is_suspended
        # Bytes since the last content; the translator is asked only after many.
        self._silent = 0
        # The content of the last chunk, and the bytes that the translator has buffered since.
        self._flow = Flow.OPENING
        self.held = translator.held + translator.gathered
        self._waiting: deque[bytes] = deque()
        self._work: _Work | None = None
        self.task: asyncio.Task[bytes] | None = None

    def take(self, chunk: bytes) -> None:
        """Take a piece of the stream, from the reading callback."""
        if self.task is not None:
            self._waiting.append(chunk)
            return
        self._silent += len(chunk)
        if (self._silent > _AT_ONCE or self.held > _GATHERED) and self._translator.workload(chunk) > _AT_ONCE:
            self._waiting.append(chunk)
            self._upstream_call.pause()
            self._limits.suspend()
            self.task = asyncio.get_running_loop().create_task(self._take_waiting())
            self.task.add_done_callback(self._ended)
            return
        advance = self._translator.advance(chunk)
        out, self.held = advance.out, advance.held
        if self._writer is not None:
            out = self._writer.named(out)
        if out:
            self._silent = 0
        self._deliver(chunk, out, advance.flow)

    def resume(self) -> None:
        """Read on, unless a large event is worked on, or there is another reason not to."""
        if self.task is None and not self._is_held():
            self._upstream_call.resume()

    async def pump(self, take: Callable[[bytes], None]) -> None:
        """Hand the response of the call to `take`, which passes it on; wait until all of it was sent."""
        try:
            await self._upstream_call.pump(take)
        except asyncio.CancelledError:
            await self._stop()
            raise
        except Exception:
            # Earlier events are sent first.
            await self.wait_delivered()
            raise
        await self.wait_delivered()

    async def wait_delivered(self) -> None:
        """Wait until all received events were sent."""
        if self.task is not None:
            await self._done(self.task)

    async def run(self, work: Callable[[], bytes], size: int) -> bytes:
        """Do something else with the translator, likewise."""
        if size <= _AT_ONCE:
            return work()
        self._limits.suspend()
        self.task = task = asyncio.get_running_loop().create_task(self._beside(work, size))
        try:
            return await self._done(task)
        finally:
            self.task = None
            self._resume_limits()

    async def _done(self, task: asyncio.Task[T]) -> T:
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            await self._stop()
            raise
        return task.result()

    async def _stop(self) -> None:
        """Return the translator to its owner: no work is pending, and running work has ended."""
        self._waiting.clear()
        task = self.task
        if task is not None:
            if self._work is None or self._work.give_up():
                task.cancel()
            await asyncio.wait({task})

    async def _beside(self, work: Callable[[], bytes], size: int) -> bytes:
        self._work = _Work(work)
        try:
            return await offload(self._work, size if size <= _AT_ONCE else max(size, _LEAST), self._key, paid=True)
        finally:
            self._work = None

    def _feed_large(self, chunk: bytes) -> bytes:
        advance = self._translator.advance(chunk)
        self._flow, self.held = advance.flow, advance.held
        return advance.out if self._writer is None else self._writer.under_name(advance.out)

    def _close_ahead(self) -> bytes:
        self._translator.close_ahead(None if self._writer is None else self._writer.under_name)
        return b""

    async def close_ahead(self) -> None:
        """Read a large event that the end of the stream cut short, before the translator is closed."""
        size = self._translator.held + self._translator.gathered
        if size > _AT_ONCE and not self._translator.paused:
            await self.run(self._close_ahead, size)
            if self._writer is not None:
                self._writer.record_owner()

    async def _take_waiting(self) -> bytes:
        while self._waiting:
            chunk = self._waiting.popleft()
            out = await self._beside(partial(self._feed_large, chunk), self._translator.workload(chunk))
            if self._writer is not None:
                self._writer.record_owner()
            self._silent = 0
            self._limits.received_at = asyncio.get_running_loop().time()
            self._deliver(chunk, out, self._flow)
        return b""

    def _resume_limits(self) -> None:
        if not self._is_suspended():
            self._limits.resume()

    def _ended(self, task: asyncio.Task[bytes]) -> None:
        self.task = None
        self._resume_limits()
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._upstream_call.abort(error)
        elif not task.cancelled() and not self._is_held():
            self._upstream_call.resume()
