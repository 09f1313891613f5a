"""Sums: what exchanges come to by quarter of an hour; added to with the rows that they are sums of, never removed."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from dragoman.store.bulk_insert import BulkInsert
from dragoman.store.migrations import MEASURES


def _upsert(table: str, key: tuple[str, ...]) -> BulkInsert:
    grown = ", ".join(f"{name} = {name} + excluded.{name}" for name in MEASURES)
    return BulkInsert(table, (*key, *MEASURES), f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {grown}")


KEY = ("quarter", "key", "client", "provider", "model")
THREAD_KEY = ("quarter", "thread")
_ADD = _upsert("sums", KEY)
_ADD_TO_THREADS = _upsert("thread_sums", THREAD_KEY)


class UsageRollups:
    """The tables of sums; `quarter` is the number of quarters of an hour since the epoch."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the sums of keys, clients, providers and models: `KEY`, then `MEASURES`; sorted."""
        _ADD.run(self._db, rows)

    def add_to_threads(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the sums of threads: `THREAD_KEY`, then `MEASURES`; sorted."""
        _ADD_TO_THREADS.run(self._db, rows)
