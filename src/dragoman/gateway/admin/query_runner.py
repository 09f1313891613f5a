"""Query runner: runs queries of records in threads over read-only connections. Limits: two seconds per query, two
queries at a time per worker, one per key. A progress handler of the database ends a query that takes longer, or whose
client has disconnected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import TypeVar

from dragoman.database_location import DatabaseLocation
from dragoman.errors import ConfigError
from dragoman.gateway.admin.framework import AdminError
from dragoman.store import StoreError
from dragoman.store.record_tables import RecordTables, open_record_tables

T = TypeVar("T")
# Maximum seconds of a query, and maximum concurrent queries.
QUERY_SECONDS = 2.0
_MAX_RUNNING = 2
# Steps of the database's virtual machine between two checks of the clock: some hundred microseconds.
_STEPS = 10_000
_RETRY = (b"retry-after", b"1")


class _Query:
    """One query: its deadline, and whether it was ended early."""

    __slots__ = ("_clock", "_deadline", "ended_early", "is_abandoned")

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._deadline = clock() + seconds
        self.ended_early = False
        self.is_abandoned = False

    def must_end(self) -> bool:
        """Whether the database must stop. It is called while a statement runs."""
        self.ended_early = self.ended_early or self.is_abandoned or self._clock() >= self._deadline
        return self.ended_early


class QueryRunner:
    """The queries of one worker."""

    def __init__(self, seconds: float = QUERY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._running: set[str] = set()

    @property
    def running(self) -> int:
        return len(self._running)

    async def run(
        self,
        database: DatabaseLocation,
        key: str,
        query: Callable[[RecordTables], T],
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> T:
        """Run a query for a key in a thread, after `prepare`. Raises `AdminError` if the query may not run or takes too
        long."""
        if key in self._running:
            raise AdminError(429, "another query of this key is running", "wait for its response", headers=[_RETRY])
        if len(self._running) >= _MAX_RUNNING:
            raise AdminError(429, f"{_MAX_RUNNING} queries are running", "try again in a second", headers=[_RETRY])
        self._running.add(key)
        try:
            if prepare is not None:
                await prepare()
        except BaseException:
            self._running.discard(key)
            raise
        limits = _Query(self._clock, self.seconds)
        work = asyncio.ensure_future(asyncio.to_thread(_run, database, limits, query))
        # The thread ends soon after its client has disconnected. Until then the query counts.
        work.add_done_callback(lambda _: self._running.discard(key))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            limits.is_abandoned = True
            # The error of an abandoned query concerns no request.
            work.add_done_callback(_retrieve)
            raise
        except StoreError as error:
            if limits.ended_early:
                remedy = "take a smaller range, as since=1d, or fewer groups"
                raise AdminError(504, f"the query took longer than {self.seconds:g} s", remedy) from None
            raise AdminError(503, f"the records cannot be read: {error}", "see the gateway's log") from None
        except ConfigError as error:
            raise AdminError(503, "the records cannot be read", error.remedy) from None


def _run(database: DatabaseLocation, limits: _Query, query: Callable[[RecordTables], T]) -> T:
    with closing(open_record_tables(database, read_only=True)) as tables:
        tables.set_interrupt(limits.must_end, _STEPS)
        with tables.reading():
            return query(tables)


def _retrieve(work: asyncio.Future[T]) -> None:
    if not work.cancelled():
        work.exception()
