"""Async store: the store's interface for an event loop that never waits for a disk or a lock (decision 24). `read` and
`write` run a function of the tables and return a future; a write is all or nothing, and durable when done. `post` is a
bounded write without waiting; dropped ones are reported to `lost`. `check` tests whether a failed store works again. A
function uses no state of the loop, changes only the tables, catches none of their errors, and may run twice. Work that
has not begun when its caller leaves is not done, unless it is `at_last`. Work of one `owner` is done in its order; that
of others may be done meanwhile, where there are several connections. While the server of a database is away, all work
fails at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar
from zlib import crc32

from dragoman.store.database import Tables
from dragoman.store.errors import StoreAway, StoreBusy, StoreError, store_error
from dragoman.store.server_state import ServerState
from dragoman.store.work_item import Expedite, WorkItem
from dragoman.store.worker_thread import Alarm, StoreThread

T = TypeVar("T")

# Seconds to wait for a busy store without progress; less after a failure.
BUSY_TIMEOUT = 10.0
_LITTLE = 1.0
# Seconds to wait for the thread beyond its limit: a disk may not respond.
_GRACE = 1.0
# Size of a trial write in bytes: as much as failed last, but more than the free part of a page, and not so much that it
# delays other work.
_MIN_TRIAL_BYTES, _MAX_TRIAL_BYTES = 64 * 1024, 4 * 1024 * 1024
# Posts that may wait: small ones by their number, others by their bytes.
_MAX_POSTS = 10_000
_MAX_POST_BYTES = 8 * 1024 * 1024


class Store:
    """The store of one process, used from one loop. `lost` gets the reason and the number of lost posts; `dropped`
    counts posts that found no room; `failed`: a write failed, and no response was stored since."""

    def __init__(
        self,
        tables: Tables,
        lost: Callable[[str, int], None],
        clock: Callable[[], float] = time.monotonic,
        alarm: Alarm | None = None,
        more: Sequence[Tables] = (),
        server: ServerState | None = None,
    ) -> None:
        self._lost = lost
        self._clock = clock
        self._server = server
        self._threads = [StoreThread(each, clock, alarm, server) for each in (tables, *more)]
        self._turns = tables.turns
        self._trial_bytes = _MIN_TRIAL_BYTES
        self._posts = 0
        self._bytes = 0
        # Posts that found no room since one did, and all of them.
        self._refused = 0
        self.dropped = 0
        self.failed = False
        # The trial write in progress.
        self._trying: asyncio.Task[None] | None = None

    def read(
        self, work: Callable[[Tables], T], timeout: float | None = None, *, owner: bytes = b""
    ) -> asyncio.Future[T]:
        """Look something up; `timeout` as for `write`."""
        loop = asyncio.get_running_loop()
        unit = WorkItem(
            work=work,
            on_done=self._deliver,
            writes=False,
            owner=owner,
            submitted=self._clock(),
            timeout=BUSY_TIMEOUT if timeout is None else timeout,
            while_moving=timeout is None,
            loop=loop,
            future=loop.create_future(),
        )
        return self._submit(unit)

    def write(
        self,
        work: Callable[[Tables], T],
        timeout: float | None = None,
        *,
        owner: bytes = b"",
        busy_timeout: float | None = None,
        expedite: Expedite | None = None,
        at_last: bool = False,
        response_size: Callable[[], int] | None = None,
        on_abandoned: Callable[[T], object] | None = None,
        counts: bool = True,
        is_repeatable: bool = False,
    ) -> asyncio.Future[T]:
        """Write something. Without `timeout` a busy store is waited for while any process commits, and `busy_timeout`
        (`BUSY_TIMEOUT`) longer. `response_size` gives the size of a stored response, whose success shows that others
        can be stored. `on_abandoned` gets the result if the future was cancelled after the work began. If not `counts`,
        a failure says nothing about the store. Work that `is_repeatable` is done again after a commit whose result is
        not known. For `expedite` see `expedite_now`."""
        loop = asyncio.get_running_loop()
        if busy_timeout is None:
            busy_timeout = BUSY_TIMEOUT
        unit = WorkItem(
            work=work,
            on_done=self._deliver,
            writes=True,
            owner=owner,
            submitted=self._clock(),
            timeout=busy_timeout if timeout is None else timeout,
            while_moving=timeout is None,
            loop=loop,
            future=loop.create_future(),
            at_last=at_last,
            response_size=response_size,
            on_abandoned=on_abandoned,
            expedite=expedite,
            counts=counts,
            is_repeatable=is_repeatable,
        )
        return self._submit(unit)

    def _submit(self, unit: WorkItem[T]) -> asyncio.Future[T]:
        future = unit.future
        assert future is not None
        try:
            self._refuse_if_away()
            self._thread_of(unit.owner).submit(unit)  # type: ignore[arg-type]  # what comes of it is its own future's business
        except StoreError as error:
            # Raised when the result is awaited, because many callers are inside a callback.
            future.set_exception(error.with_traceback(None))
        return future

    def _refuse_if_away(self) -> None:
        """Raise `StoreAway` while the server is away: a thread may still wait for it."""
        server = self._server
        if server is not None and server.is_away:
            raise StoreAway(server.problem)

    def _thread_of(self, owner: bytes) -> StoreThread:
        """The thread that does the work of an owner."""
        threads = self._threads
        return threads[0] if len(threads) == 1 else threads[crc32(owner) % len(threads)]

    def announce_turn(self, owner: bytes) -> None:
        """Announce that a turn of this owner is being stored."""
        self._turns.announce(owner)

    def may_have_turns(self, owner: bytes) -> bool:
        """Whether the owner may have turns, without a query to the thread."""
        return self._turns.may_have(owner)

    def expedite_now(self, expedite: Expedite) -> None:
        """Have units tried once more, now; a busy store is not waited for any longer."""
        expedite.now = True
        for thread in self._threads:
            thread.expedite()

    def post(self, work: Callable[[Tables], object], size: int = 0, *, owner: bytes = b"") -> None:
        """Write without waiting. Work with a `size` queues apart from small work."""
        if self._server is not None and self._server.is_away:
            # Logged once for all that the server misses.
            self.dropped += 1
            return
        full = self._bytes + size > _MAX_POST_BYTES if size else self._posts >= _MAX_POSTS
        if full:
            self.dropped += 1
            self._refused += 1
            # The first one is logged at once, later ones when there is room again.
            if self._refused == 1:
                self._lost("the write queue is full", 1)
            return
        if self._refused > 1:
            self._lost("the write queue was full", self._refused - 1)
        self._refused = 0
        loop = asyncio.get_running_loop()
        unit = WorkItem(
            work=work,
            on_done=self._deliver,
            writes=True,
            owner=owner,
            submitted=0.0,
            timeout=math.inf,
            loop=loop,
            size=size,
        )
        try:
            self._thread_of(owner).submit(unit)
        except StoreError as error:
            self._lost(str(error), 1)
            return
        if size:
            self._bytes += size
        else:
            self._posts += 1

    def _deliver(self, unit: WorkItem[object], done: object, error: BaseException | None) -> None:
        """Deliver the result of a work item, in the loop."""
        future = unit.future
        if unit.counts:
            self._record_outcome(unit, error)
        if future is None:
            if unit.size:
                self._bytes -= unit.size
            else:
                self._posts -= 1
        elif not future.done():
            if error is None:
                future.set_result(done)
            else:
                future.set_exception(error)
            return
        # An error in one callback must not stop the others.
        if isinstance(error, StoreAway):
            self.dropped += future is None
        elif error is None:
            if unit.on_abandoned is not None:
                unit.loop.call_soon(unit.on_abandoned, done)
        elif unit.writes:
            unit.loop.call_soon(self._lost, str(error), 1)

    def _record_outcome(self, unit: WorkItem[object], error: BaseException | None) -> None:
        if isinstance(error, StoreBusy) and unit.is_expedited:
            # Its client could not wait: others can.
            return
        if isinstance(error, StoreAway):
            # A trial write would say nothing: the heartbeat does.
            return
        if isinstance(error, StoreError):
            self.failed = True
            if unit.response_size is not None:
                unit.loop.call_soon(self._measure, unit.response_size)
        elif error is None and unit.response_size is not None:
            self.failed = False

    def _measure(self, response_size: Callable[[], int]) -> None:
        self._trial_bytes = min(max(response_size(), _MIN_TRIAL_BYTES), _MAX_TRIAL_BYTES)

    async def check(self) -> None:
        """Raise `StoreError` if a response could not be stored: a store that failed is tried before any call."""
        self._refuse_if_away()
        if not self.failed:
            return
        if self._trying is None:
            # One trial for all waiters: it uses as much of the store as a response.
            self._trying = asyncio.ensure_future(self._try())
            self._trying.add_done_callback(self._tried)
        trying = self._trying
        await asyncio.wait({trying})
        error = trying.exception()
        if error is not None:
            # A new one for each: an exception that is raised twice holds the frames of both.
            raise store_error(error)

    async def _try(self) -> None:
        # Two work items, since only a commit proves that there was room.
        size = self._trial_bytes
        for work in (partial(Tables.write_trial, size=size), Tables.remove_trial):
            await self.write(work, busy_timeout=_LITTLE, counts=False)

    def _tried(self, trying: asyncio.Task[None]) -> None:
        self._trying = None
        if not trying.cancelled():
            # Its waiter may have been cancelled.
            trying.exception()

    def is_working(self) -> bool:
        """Whether the thread is under way; not while it waits for another process."""
        return any(thread.is_working() for thread in self._threads)

    async def close(self, timeout: float = 2.0) -> None:
        """Finish pending work within some seconds, reject later work, and close the file."""
        loop = asyncio.get_running_loop()
        over: list[asyncio.Future[None]] = [loop.create_future() for _ in self._threads]
        for thread, future in zip(self._threads, over, strict=True):
            thread.end(timeout, partial(_notify, loop, future))
        try:
            await asyncio.wait_for(asyncio.gather(*over), timeout + _GRACE)
        except TimeoutError:
            self._lost("the file cannot be closed in time", 1)


def _notify(loop: asyncio.AbstractEventLoop, over: asyncio.Future[None]) -> None:
    # A loop that was closed waits for nothing.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_end, over)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
