"""A store without a thread: what is asked of it is done where it is asked, for tests of those who ask."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from dragoman.store import Expedite, Store, StoreBusy, StoreError, Tables
from dragoman.store.async_store import BUSY_TIMEOUT
from dragoman.store.errors import store_error
from tests.store.asked import Lost

T = TypeVar("T")
_PAUSE = 0.01


class InPlace(Store):
    """As much of a store as its units see: each is a transaction, and tried again while another process writes."""

    def __init__(self, tables: Tables, lost: Callable[[str, int], None] | None = None) -> None:
        super().__init__(tables, Lost() if lost is None else lost)
        self._tables = tables
        # What is still to be done, each True when it is: one after the other, as it was asked for.
        self._line: deque[Callable[[], bool]] = deque()

    def read(
        self, work: Callable[[Tables], T], timeout: float | None = None, *, owner: bytes = b""
    ) -> asyncio.Future[T]:
        return self._do(work, BUSY_TIMEOUT if timeout is None else timeout)

    def write(  # Whatever else is said of a unit is of no account here.
        self,
        work: Callable[[Tables], T],
        timeout: float | None = None,
        *,
        owner: bytes = b"",
        busy_timeout: float | None = None,
        expedite: Expedite | None = None,
        counts: bool = True,
        **_: object,
    ) -> asyncio.Future[T]:
        longest = BUSY_TIMEOUT if busy_timeout is None else busy_timeout
        return self._do(work, longest if timeout is None else timeout, expedite, counts=counts)

    def _do(
        self, work: Callable[[Tables], T], timeout: float, expedite: Expedite | None = None, *, counts: bool = True
    ) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        until = loop.time() + timeout

        def attempt() -> bool:
            try:
                with self._tables.transaction():
                    done = work(self._tables)
            except StoreError as error:
                is_busy = isinstance(error, StoreBusy)
                if is_busy and loop.time() < until and not (expedite is not None and expedite.now):
                    return False
                if not future.done():
                    self.failed = self.failed or counts
                    future.set_exception(StoreBusy("busy") if is_busy else store_error(error))
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(done)
            return True

        self._line.append(attempt)
        if len(self._line) == 1:
            self._work_off(loop)
        return future

    def _work_off(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._line:
            if not self._line[0]():
                loop.call_later(_PAUSE, self._work_off, loop)
                return
            self._line.popleft()

    def post(self, work: Callable[[Tables], object], size: int = 0, *, owner: bytes = b"") -> None:
        """Do it, and say if it was lost."""
        self._do(work, 1e9).add_done_callback(self._posted)

    def _posted(self, future: asyncio.Future[object]) -> None:
        error = future.exception()
        if isinstance(error, StoreError):
            self._lost(str(error), 1)
