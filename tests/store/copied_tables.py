"""Databases in memory without migrations: their tables are copied, as the steps take most of a gateway's start.

Databases in files are migrated, and `migrations/test_sqlite.py` plays every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from unittest.mock import patch

from dragoman.database_location import MEMORY
from dragoman.store import database, record_tables
from dragoman.store.migrations import sqlite as migrations
from dragoman.store.migrations.sqlite import migrate
from dragoman.store.sqlite import SQLiteConnection, connect


@contextmanager
def copied_tables() -> Iterator[None]:
    """Copy the tables into every database in memory that is opened."""
    with patch.object(database, "migrate", _copy_tables), patch.object(record_tables, "migrate", _copy_tables):
        yield


def _copy_tables(db: SQLiteConnection) -> None:
    """Stand in for `migrate`."""
    if db.execute("PRAGMA database_list").fetchone()[2] == "":
        _migrated(migrations.STEPS).backup(db)
    else:
        migrate(db)


@cache
def _migrated(steps: tuple[Callable[[SQLiteConnection], None], ...]) -> SQLiteConnection:
    """An empty database in memory after these steps, which are those of the moment: tests play earlier releases."""
    db = connect(MEMORY, 0)
    migrate(db)
    return db
