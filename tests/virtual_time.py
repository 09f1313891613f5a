"""A loop whose time is virtual: tests of timeouts, keep-alives and drains take no time and come out the same each run.

    async def dialogue() -> float:
        await asyncio.sleep(600)
        return asyncio.get_running_loop().time()

    assert run(dialogue()) == 600

When nothing is ready the loop jumps to the next timer. Work in threads is really waited for, and time stands still
meanwhile: `run_in_executor` is known by itself; whoever else comes back by `call_soon_threadsafe` is announced by
`hold` (one future) or `watch` (anything that can say whether it is busy). Where nothing can ever happen, or
the same for ever, `Stuck` is raised out of the loop. Real sockets are not waited for.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
# Seconds of real time: how long threads are waited for, and how often one is looked at that may end without a word.
PATIENCE = 30.0
_GLANCE = 0.001
# How many turns the loop may take without coming to rest.
MOST_TURNS = 20_000


class Stuck(Exception):
    """Nothing new can happen: nothing is ready, no timer is set and no thread under way; or it goes in circles."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that never waits for time to pass."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._held = 0
        self._watched: list[Callable[[], bool]] = []
        self._quiet: list[asyncio.Future[None]] = []
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="virtual")
        super().__init__(_Selector(self))

    def time(self) -> float:
        """What time it is, in seconds since the start of the loop."""
        return self._now

    def hold(self, future: asyncio.Future[Any]) -> None:
        """Let time stand still until this future is done, which a thread is to settle."""
        self._held += 1
        future.add_done_callback(self._landed)

    def watch(self, busy: Callable[[], bool]) -> None:
        """Let time stand still whenever `busy` is true.

        A thread must call `call_soon_threadsafe` before it stops being busy.
        """
        self._watched.append(busy)

    def busy(self) -> bool:
        """Whether a thread is under way that may come back."""
        return self._held > 0 or any(busy() for busy in self._watched)

    async def quiet(self) -> None:
        """Wait until all has happened that happens without time: nothing is ready, and no thread is under way."""
        waiter: asyncio.Future[None] = self.create_future()
        self._quiet.append(waiter)
        await waiter

    def idle(self, seconds: float | None) -> None:
        """Go on where nothing else can, for the selector: to whoever waits for quiet, or to the next timer."""
        waiters, self._quiet = self._quiet, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if waiters:
            return
        if seconds is None:
            raise Stuck("nothing is ready, no timer is set and no thread is under way: this would wait for ever")
        self._now += seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """Do work in a thread; time stands still until the function has returned, even if nobody waits for it now."""
        work: Future[T] = (executor or self._threads).submit(func, *args)
        self._held += 1
        coming = asyncio.wrap_future(work, loop=self)
        # After the callback by which the result reaches the loop, so that the loop never jumps between the two.
        work.add_done_callback(self._return)
        return coming

    def close(self) -> None:
        """Close the loop and its threads."""
        super().close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _return(self, work: Future[Any]) -> None:
        if not self.is_closed():
            self.call_soon_threadsafe(self._landed, work)

    def _landed(self, _: object) -> None:
        self._held -= 1


class _Selector(selectors.DefaultSelector):
    """Says what is ready; where it would wait, time jumps instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        waited_from = time.monotonic()
        while True:
            # First who is busy, then what came: a thread that ends between the two has left its word already.
            busy = self._loop.busy()
            ready = super().select(0)
            if ready or timeout == 0:
                self._turns += 1
                if self._turns > MOST_TURNS:
                    # What is left to do is to clear up, which takes turns again.
                    self._turns = 0
                    raise Stuck(f"something is ready at every one of {MOST_TURNS} turns, and time does not pass")
                return ready
            if not busy:
                break
            if ready := super().select(_GLANCE):
                return ready
            if time.monotonic() - waited_from > PATIENCE:
                raise Stuck(f"a thread has been under way for {PATIENCE:.0f} s of real time and did not come back")
        self._turns = 0
        self._loop.idle(timeout)
        return []


def run(work: Coroutine[Any, Any, T], start: float = 0.0) -> T:
    """Run a coroutine to its end in virtual time, on a loop of its own."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start)) as runner:
        return runner.run(work)


def virtual_loop() -> VirtualLoop:
    """The virtual loop that runs now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
