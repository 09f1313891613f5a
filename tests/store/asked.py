"""A store that is asked from a loop, in real time or in a virtual one, and others that are in its way."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from dragoman.database_location import MEMORY
from dragoman.store import Tables, open_tables
from dragoman.store.async_store import Store
from tests.store.opened import ALICE, kept, sqlite
from tests.virtual_time import virtual_loop
from tests.waiting import LIMIT, wait_until_async


class Lost(list[tuple[str, int]]):
    """What the store says to have lost."""

    def __call__(self, why: str, count: int) -> None:
        self.append((why, count))


@asynccontextmanager
async def asking(tables: Tables | None = None, lost: Callable[[str, int], None] | None = None) -> AsyncIterator[Store]:
    """A store in real time, closed afterwards."""
    store = Store(tables or open_tables(MEMORY, 30), Lost() if lost is None else lost)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def asking_in_virtual_time(
    tables: Tables, lost: Callable[[str, int], None] | None = None
) -> AsyncIterator[Store]:
    """A store whose patience is measured by the virtual loop, which waits for the thread while that is under way."""
    loop = virtual_loop()

    def alarm(seconds: float, wake: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(loop.call_later, seconds, wake)

    store = Store(tables, Lost() if lost is None else lost, loop.time, alarm)
    loop.watch(store.is_working)
    try:
        yield store
    finally:
        await store.close()


def add(name: str) -> Callable[[Tables], bool]:
    """A unit that keeps a response."""
    return lambda tables: tables.responses.add(ALICE, kept(name))


def known(name: str) -> Callable[[Tables], bool]:
    """A unit that looks whether a response is there."""
    return lambda tables: tables.responses.exists(name)


def put(value: int) -> Callable[[Tables], None]:
    """A unit that keeps a number of bytes."""

    def work(tables: Tables) -> None:
        with tables.transaction():
            tables.connection.change(
                "INSERT INTO events (holder, number, data) VALUES ('r', (SELECT count(*) FROM events), zeroblob(?))",
                (value,),
            )

    return work


def sizes(tables: Tables) -> list[int]:
    """A unit that gives the numbers of bytes that were kept, in their order."""
    return [row[0] for row in tables.connection.rows("SELECT length(data) FROM events ORDER BY number")]


class Gate:
    """A unit that holds the store's thread until it is opened."""

    def __init__(self) -> None:
        self.begun, self._open = threading.Event(), threading.Event()

    def __call__(self, tables: Tables) -> None:
        self.begun.set()
        assert self._open.wait(LIMIT)

    def open(self) -> None:
        """Let the thread go on."""
        self._open.set()

    async def passed_by_nobody(self) -> None:
        """Wait until the thread is held."""
        await wait_until_async(self.begun.is_set, "the thread of the store is held")


@contextmanager
def statements(tables: Tables) -> Iterator[list[str]]:
    """What SQLite is told to do meanwhile."""
    said: list[str] = []
    sqlite(tables.connection).set_trace_callback(said.append)
    yield said
    sqlite(tables.connection).set_trace_callback(None)


@contextmanager
def another(path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection to the same file."""
    db = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        yield db
    finally:
        db.close()


def raising(error: BaseException) -> Callable[[Tables], object]:
    """A unit that writes something and raises."""

    def work(tables: Tables) -> object:
        put(99)(tables)
        raise error

    return work
