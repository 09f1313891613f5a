"""Errors of the store, for its callers instead of SQLite's."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.errors import DragomanError
from dragoman.store.transaction import StoreConnection

# Another connection has the lock, and will release it: of the file, or of a shared cache.
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class StoreError(DragomanError):
    """The store failed; nothing was written."""


class StoreBusy(StoreError):
    """Another process held the store for too long."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether the same may be tried again, because only another process was in the way."""
    return isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY


def store_error(error: BaseException) -> StoreError:
    """The same as a new error of the store, which leads to no frame."""
    busy = is_busy(error) if isinstance(error, sqlite3.Error) else isinstance(error, StoreBusy)
    return (StoreBusy if busy else StoreError)(str(error) or "the store failed")


class Queries:
    """Queries of one connection; what SQLite raises is an error of the store."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def _rows(self, statement: str, given: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """All rows of a query."""
        db = self._db
        if isinstance(db, StoreConnection) and db.must_end is not None and db.must_end():
            raise StoreError("interrupted")
        try:
            return db.execute(statement, given).fetchall()
        except sqlite3.Error as error:
            raise store_error(error) from None

    def _number(self, statement: str, given: Sequence[object] = ()) -> int:
        """The one number that a query gives."""
        return int(self._rows(statement, given)[0][0])
