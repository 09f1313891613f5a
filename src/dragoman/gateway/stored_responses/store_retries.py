"""Store retries: work on the store, tried at once, and again while another process holds the file (decision 21).

    the store          what is asked of it
    takes it           is done at once, without a step of the loop in between
    is busy            is tried again every 50 ms, by one waiter at a time while the others stand in line
    stays so           fails after ten seconds
    fails              fails; before another answer is asked for, as much as failed must be kept for a try

What must be written down though nobody waits for it any more is repeated until the store takes it.

Nobody waits for a lock in the loop itself: everybody else would wait with them.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from dragoman.errors import ClientError
from dragoman.gateway.records.logs import Log
from dragoman.store import Store, is_busy

T = TypeVar("T")

# How long a busy store is waited for, and how often it is tried, in seconds.
_PATIENCE = 10.0
_PAUSE = 0.05
# A store that failed before is not waited for so long.
_LITTLE = 1.0
# How much is written to see whether an answer can be, in bytes: as much as failed last, but more than fits into what is
# free in a page, and not so much that it holds up everybody.
_LEAST_TRIED, _MOST_TRIED = 64 * 1024, 4 * 1024 * 1024
# How soon what nobody waits for is tried again, and how much of it may be left to do: the newest.
_AGAIN = 0.5
_MOST_LEFT = 10_000


_NOT_TOLD = "the answer could not be kept, so that it is not told; ask again, or with store: false"
_NOT_DONE = "this could not be kept, so that nothing was done; ask again later"


class NotKept(ClientError):
    """What was to be kept could not be: an answer is not told, since nobody could refer to it; a change is not made."""

    def __init__(self, message: str = _NOT_TOLD) -> None:
        super().__init__(500, message)


class StoreRetries:
    """How one process comes to its store. `failed` says that a write did, and that no answer was kept since."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._line = asyncio.Lock()
        self._left: deque[Callable[[], object]] = deque(maxlen=_MOST_LEFT)
        self._timer: asyncio.TimerHandle | None = None
        self._tried_size = _LEAST_TRIED
        self.failed = False

    async def read(self, work: Callable[[], T]) -> T:
        """Look something up; only a process that has the file for itself can be in the way."""
        try:
            return work()
        except sqlite3.Error as error:
            if not is_busy(error):
                raise
        return await self._in_line(work, _PATIENCE)

    async def write(
        self, work: Callable[[], T], seconds: float | None = None, *, answer: Callable[[], int] | None = None
    ) -> T:
        """Write something down, which fails as a whole or not at all; what is first in the line comes first.

        `answer` gives the size of one that is written: only that shows whether others can be.
        """
        try:
            done = await self._tried(work, _PATIENCE if seconds is None else seconds)
        except sqlite3.Error:
            self._note_failure(answer)
            raise
        if answer is not None:
            self.failed = False
        return done

    async def change(self, work: Callable[[], T], *, answer: Callable[[], int] | None = None) -> T:
        """Write down what a client asks for; `NotKept` if that fails."""
        try:
            return await self.write(work, answer=answer)
        except sqlite3.Error as error:
            self._log.event("error", "the store failed", why=str(error))
            raise NotKept(_NOT_DONE) from None

    def write_now(self, work: Callable[[], object], answer: Callable[[], int] | None) -> str:
        """Try once, without waiting; give what hindered it, in words."""
        try:
            work()
        except sqlite3.Error as error:
            if not is_busy(error):
                self._note_failure(answer)
            return str(error) or "the store failed"
        if answer is not None:
            self.failed = False
        return ""

    def _note_failure(self, answer: Callable[[], int] | None) -> None:
        self.failed = True
        if answer is not None:
            self._tried_size = min(max(answer(), _LEAST_TRIED), _MOST_TRIED)

    def write_later(self, work: Callable[[], object]) -> None:
        """Write something small down that nobody waits for: now, or as soon as the store takes it."""
        self._left.append(work)
        if self._timer is None:
            self._catch_up()

    def _catch_up(self) -> None:
        self._timer = None
        if not self._did_all():
            self._timer = asyncio.get_running_loop().call_later(_AGAIN, self._catch_up)

    def _did_all(self) -> bool:
        """Do what was left to be done; False while the store is busy."""
        while self._left:
            try:
                self._left[0]()
            except sqlite3.Error as error:
                if is_busy(error):
                    return False
                self._log.event("error", "what was left to be kept could not be", why=str(error))
            self._left.popleft()
        return True

    def close(self) -> None:
        """Try once more what is left: there is no other time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._did_all():
            self._log.event("error", "what was left to be kept could not be", why="busy", left=len(self._left))

    @property
    def waited_for(self) -> bool:
        """Whether somebody stands in line."""
        return self._line.locked()

    async def check(self, store: Store) -> None:
        """Refuse what could not be kept: before anybody is asked for it, a store that failed is tried again."""
        if self.failed:
            try:
                await self._tried(partial(store.probe, self._tried_size), _LITTLE)
            except sqlite3.Error as error:
                self._log.event("error", "the store still fails", why=str(error))
                raise ClientError(
                    503, "answers cannot be kept at present; try again later, or with store: false"
                ) from None

    async def _tried(self, work: Callable[[], T], seconds: float) -> T:
        if not self._line.locked():
            try:
                return work()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise
        return await self._in_line(work, seconds)

    async def _in_line(self, work: Callable[[], T], seconds: float) -> T:
        try:
            async with asyncio.timeout(seconds), self._line:
                while True:
                    try:
                        return work()
                    except sqlite3.Error as error:
                        if not is_busy(error):
                            raise
                    await asyncio.sleep(_PAUSE)
        except TimeoutError:
            raise sqlite3.OperationalError("another process holds the file for too long") from None
