"""Thread offload: large work runs off the event loop, in one of two threads, so that other requests are served.

    up to 256 KiB       at once, in the loop
    more                in a thread; keys take turns, and the work of one key keeps its order
    more than 64 jobs   or 256 MiB, waiting and running: a job of the key with most is refused (503 with retry-after)
    more than 5 s       in the queue: the job is refused likewise
    responses           are paid for: no limit applies

A client that disconnects leaves the queue. One large request takes forty times its size in translation, and more
threads would not be faster with one interpreter lock. Nothing refers to finished work: neither a `concurrent.futures`
future, which its callbacks hold, nor an error that holds its own frame.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Generic, TypeVar

from dragoman.errors import OffloadBusy
from dragoman.gateway.fair_queue import FairQueue

T = TypeVar("T")

# Bytes up to which work is done on the loop.
INLINE = 256 * 1024
_THREADS = 2
_MAX_WAITING = 64
# Bytes of what runs and waits together, from which on nothing else may wait.
_MAX_BYTES = 256 * 1024 * 1024
# Seconds that a thread may run before another one gets its turn: the loop waits as long for each of its steps.
_TURN = 0.001
# Seconds that an unpaid job waits before it is rejected. Waiting jobs are done or rejected by then.
_MAX_WAIT_SECONDS = 5.0
_FULL = "too many large requests are being read"
_LATE = f"no thread for a large request was free within {_MAX_WAIT_SECONDS:g} s"


class _Job(Generic[T]):
    """One piece of work on its way through a thread and back to the loop that waits for it."""

    __slots__ = ("_context", "_future", "_loop", "_work", "key", "paid", "size")

    def __init__(self, work: Callable[[], T], size: int, key: str, paid: bool, future: asyncio.Future[T]) -> None:
        self.size = size
        self.key = key
        self.paid = paid
        self._work: Callable[[], T] | None = work
        self._future = future
        self._loop = future.get_loop()
        self._context: Context = copy_context()

    def give_up(self) -> None:
        """Drop work whose caller is gone. Work that has begun ends without a listener."""
        self._work = None

    def refuse(self, message: str) -> None:
        """Fail on the loop, before the work has begun."""
        self._work = None
        _fail(self._future, OffloadBusy(message, retry_after=math.ceil(_MAX_WAIT_SECONDS)))

    def run(self, leave: Callable[[_Job[T]], None]) -> None:
        """Run it in a thread, and call `leave` before the result is delivered."""
        work, self._work = self._work, None
        if work is None:
            leave(self)
            return
        # A loop that was closed waits for nothing.
        with suppress(RuntimeError):
            try:
                done = self._context.run(work)
            except BaseException as error:
                leave(self)
                self._loop.call_soon_threadsafe(_fail, self._future, error)
            else:
                leave(self)
                self._loop.call_soon_threadsafe(_succeed, self._future, done)
                del done
        # The frames of an error lead back to this one, and from here to the future that holds the error.
        del self, work


def _succeed(future: asyncio.Future[T], done: T) -> None:
    if not future.done():
        future.set_result(done)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class _Threads:
    """The threads of this process, started when they are first needed."""

    def __init__(self, count: int = _THREADS) -> None:
        self._waiting: FairQueue[_Job[object]] = FairQueue()
        # Waiting requests, and the bytes of waiting and running ones.
        self._jobs = 0
        self._bytes = 0
        # Held for a few steps at a time, by the loop too.
        self._changed = threading.Condition()
        self._unstarted = count

    def submit(self, job: _Job[object]) -> None:
        """Put a job in the queue. If that is full, a job of the key with most waiting is refused: maybe this one."""
        with self._changed:
            if not job.paid:
                if self._jobs >= _MAX_WAITING and not self._displace(job, 1, _jobs):
                    return
                # The jobs that run are not refused any more: if no other waits, one may.
                while self._jobs and self._bytes >= _MAX_BYTES:
                    if not self._displace(job, job.size, _bytes):
                        return
                self._jobs += 1
                self._bytes += job.size
            self._waiting.append(job.key, job)
            self._changed.notify()
        while self._unstarted:
            self._unstarted -= 1
            # The process does not wait for these threads at its end: their callers are gone by then.
            threading.Thread(target=self._serve, name=f"large-{self._unstarted}", daemon=True).start()

    def _displace(self, job: _Job[object], added: int, measure: Callable[[dict[_Job[object], None]], int]) -> bool:
        """Refuse the last request of the key with most waiting; False if that is the job that comes now."""
        queue = self._waiting.largest(job.key, added, measure)
        last = next((other for other in reversed(queue) if not other.paid), job)
        if last is not job:
            self._remove(last)
        last.refuse(_FULL)
        return last is not job

    def _remove(self, job: _Job[object]) -> bool:
        waited = self._waiting.remove(job.key, job)
        if waited and not job.paid:
            self._jobs -= 1
            self._bytes -= job.size
        return waited

    def forget(self, job: _Job[object]) -> bool:
        """Take a job out of the queue; False if it is not there any more."""
        with self._changed:
            return self._remove(job)

    def expire(self, job: _Job[object]) -> None:
        """Refuse a job that has waited too long."""
        if self.forget(job):
            job.refuse(_LATE)

    def _leave(self, job: _Job[object]) -> None:
        with self._changed:
            self._bytes -= 0 if job.paid else job.size

    def _next(self) -> _Job[object]:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            job = self._waiting.pop()
            self._jobs -= not job.paid
            return job

    def _serve(self) -> None:
        while True:
            job = self._next()
            job.run(self._leave)
            # Else the last one would stay until the next one comes.
            del job


def _jobs(queue: dict[_Job[object], None]) -> int:
    return sum(not job.paid for job in queue)


def _bytes(queue: dict[_Job[object], None]) -> int:
    return sum(job.size for job in queue if not job.paid)


_threads = _Threads()


async def offload(work: Callable[[], T], size: int, key: str, *, paid: bool = False) -> T:
    """Run work on this many bytes: at once if few, else in a thread, in the turn of the gateway key named `key`; errors
    are raised here. `OffloadBusy` if too much waits or no thread is free in time, unless it is `paid` for."""
    if size <= INLINE:
        return work()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    job = _Job(work, size, key, paid, future)
    timer = None
    try:
        _threads.submit(job)  # type: ignore[arg-type]  # what comes of it is its own future's business
        if not paid:
            timer = loop.call_later(_MAX_WAIT_SECONDS, partial(_threads.expire, job))  # type: ignore[arg-type]  # the same
        return await future
    finally:
        if timer is not None:
            timer.cancel()
        job.give_up()
        _threads.forget(job)  # type: ignore[arg-type]  # the same
        # Breaks the cycle between the error and this frame.
        del future, job, timer


def share_interpreter() -> None:
    """Let threads take turns often enough that the loop does not wait for them."""
    sys.setswitchinterval(_TURN)
