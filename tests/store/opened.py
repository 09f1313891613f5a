"""A store whose time is told to it, and the things that are put in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.database_location import MEMORY
from dragoman.store import Tables, open_tables
from dragoman.store.connection import Connection
from dragoman.store.recent_turn_owners import RecentTurnOwners
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.responses import Item, StoredResponse
from dragoman.store.sqlite import SQLiteConnection
from tests.engines import databases

ALICE, BOB = b"a" * 32, b"b" * 32
DAY = 86400


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def opened(path: Path | str = MEMORY, days: float = 30, clock: Clock | None = None) -> Iterator[Tables]:
    """The tables of a file, or of the database that stands for it, closed afterwards."""
    on_postgres = databases()
    if on_postgres is None:
        store = open_tables(str(path), days, clock or Clock())
    else:
        store = Tables(on_postgres.connect(str(path)), days, clock or Clock(), RecentTurnOwners(None))
    try:
        yield store
    finally:
        store.close()


def opened_records(place: Path | str = MEMORY, *, read_only: bool = False) -> RecordTables:
    """The tables of records of a file, or of the database that stands for it."""
    on_postgres = databases()
    if on_postgres is None:
        return open_record_tables(str(place), read_only=read_only)
    return RecordTables(on_postgres.connect(str(place)))


def sqlite(db: Connection) -> SQLiteConnection:
    """A connection with what only SQLite has."""
    assert isinstance(db, SQLiteConnection)
    return db


def kept(
    response_id: str, previous: str | None = None, status: str = "completed", *, background: bool = False
) -> StoredResponse:
    """A response."""
    body = b'{"id":"%b"}' % response_id.encode()
    return StoredResponse(
        id=response_id, status=status, previous=previous, background=background, provider="chat", alive=0, body=body
    )


def item(name: str) -> Item:
    """An item by its name."""
    return Item(name, b'{"id":"%b"}' % name.encode())


def names(items: list[Item] | None) -> list[str]:
    """The names of items."""
    assert items is not None
    return [found.id for found in items]
