"""Large work: what takes long is done beside the loop, in one of two threads, so that others are served meanwhile.

    up to 256 KiB       at once, where it is asked for
    more                in a thread, one after the other; 64 may wait, until they and what runs come to 256 MiB
    more than those     refused (503); but an answer, which is paid for, waits until it may wait

Who goes away leaves the line at once, and the place to another.

One large request takes forty times its size while it is translated, and more threads would not be any faster: they
share one interpreter. Nothing of a piece of work is left when it is done, given up or has failed: neither a future of
`concurrent.futures`, which holds itself by its callbacks, nor an error that holds the frame it is held by.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Generic, TypeVar

from dragoman.errors import ClientError

T = TypeVar("T")

# Bytes up to which work is done on the loop.
INLINE = 256 * 1024
_THREADS = 2
_MOST_WAITING = 64
# Bytes of what runs and waits together, from which on nothing else may wait.
_MOST_BYTES = 256 * 1024 * 1024
# How long a thread may go on before another one has its turn, in seconds: the loop waits as long for each of its steps.
_TURN = 0.001
# How long an answer waits before it looks for room again.
_PAUSE = 0.05


class _Job(Generic[T]):
    """One piece of work on its way through a thread and back to the loop that waits for it."""

    __slots__ = ("_context", "_future", "_loop", "_work", "size")

    def __init__(
        self, work: Callable[[], T], size: int, future: asyncio.Future[T], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.size = size
        self._work: Callable[[], T] | None = work
        self._future = future
        self._loop = loop
        self._context: Context = copy_context()

    def give_up(self) -> None:
        """Let go of work that nobody waits for any more; what has begun comes to its end unheard."""
        self._work = None

    def run(self, leave: Callable[[int], None]) -> None:
        """Do it, in a thread, and `leave` the line before anybody hears of it."""
        work, self._work = self._work, None
        if work is None:
            leave(self.size)
            return
        # A loop that was closed waits for nothing.
        with suppress(RuntimeError):
            try:
                done = self._context.run(work)
            except BaseException as error:
                leave(self.size)
                self._loop.call_soon_threadsafe(_fail, self._future, error)
            else:
                leave(self.size)
                self._loop.call_soon_threadsafe(_settle, self._future, done)
                del done
        # The frames of an error lead back to this one, and from here to the future that holds the error.
        del self, work


def _settle(future: asyncio.Future[T], done: T) -> None:
    if not future.done():
        future.set_result(done)


def _fail(future: asyncio.Future[T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


class _Threads:
    """The threads of this process, started when they are first needed."""

    def __init__(self) -> None:
        self._waiting: deque[_Job[object]] = deque()
        # Of what waits and what runs.
        self._bytes = 0
        # Held for a few steps at a time, by the loop too.
        self._changed = threading.Condition()
        self._started = False

    def submit(self, job: _Job[object]) -> bool:
        """Put a job in the line; False if that is too long."""
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING or self._bytes >= _MOST_BYTES:
                return False
            self._waiting.append(job)
            self._bytes += job.size
            self._changed.notify()
        if not self._started:
            self._started = True
            for number in range(_THREADS):
                # Nobody waits for them at the end of the process: who asked for their work is gone by then.
                threading.Thread(target=self._serve, name=f"large-{number}", daemon=True).start()
        return True

    def forget(self, job: _Job[object]) -> None:
        """Take a job out of the line, if it is still there."""
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._bytes -= job.size

    def _leave(self, size: int) -> None:
        with self._changed:
            self._bytes -= size

    def _next(self) -> _Job[object]:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            return self._waiting.popleft()

    def _serve(self) -> None:
        while True:
            job = self._next()
            job.run(self._leave)
            # Else the last one would stay until the next one comes.
            del job


_threads = _Threads()


async def beside_loop(work: Callable[[], T], size: int, *, paid: bool = False) -> T:
    """Do work on so many bytes: at once if they are few, else in a thread; what it raises is raised here.

    Where too much waits already it is refused, unless it is `paid` for.
    """
    if size <= INLINE:
        return work()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    job = _Job(work, size, future, loop)
    try:
        while not _threads.submit(job):  # type: ignore[arg-type]  # what comes of it is its own future's business
            if not paid:
                raise ClientError(503, "too many large requests are being read; try again later")
            await asyncio.sleep(_PAUSE)
        return await future
    finally:
        job.give_up()
        _threads.forget(job)  # type: ignore[arg-type]  # the same
        # It holds the error whose frames would hold it.
        del future, job


def share_interpreter() -> None:
    """Let threads take turns often enough that the loop does not wait for them."""
    sys.setswitchinterval(_TURN)
