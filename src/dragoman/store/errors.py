"""Errors of the store: what everybody else sees of SQLite's.

StoreError        it failed: nothing was written, or nothing could be read
└── StoreBusy     another process held it for longer than whoever asked had patience for
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.errors import DragomanError

# Another connection has what is wanted, and will let go of it: of the file, or of one kept in memory.
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class StoreError(DragomanError):
    """The store failed; what was to be written was not."""


class StoreBusy(StoreError):
    """Another process held the store for too long."""


def is_busy(error: sqlite3.Error) -> bool:
    """Whether the same may be tried again, because only another process was in the way."""
    return isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY


def store_error(error: BaseException) -> StoreError:
    """The same as a new error of the store, which leads to no frame."""
    busy = is_busy(error) if isinstance(error, sqlite3.Error) else isinstance(error, StoreBusy)
    return (StoreBusy if busy else StoreError)(str(error) or "the store failed")


def fetch_all(db: sqlite3.Connection, statement: str, given: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
    """All rows of a query; what SQLite raises is an error of the store."""
    try:
        return db.execute(statement, given).fetchall()
    except sqlite3.Error as error:
        raise store_error(error) from None
