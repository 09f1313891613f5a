"""Exports: rows of exchanges one after the other, however many there are.

They are read some at a time, so that no reader holds on to the file while somebody else is slow to take them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman.store.errors import fetch_all
from dragoman.store.records import COLUMNS

# What is known of a row beside its own columns.
NAMES = ("session_name", "thread_name", "thread_class")
_NAMED = {"session_name": "s.name", "thread_name": "t.name", "thread_class": "t.class"}
_AT_ONCE = 500


class Exports:
    """Rows in the order of their times, by a connection that may only read."""

    def __init__(self, db: sqlite3.Connection, at_once: int = _AT_ONCE) -> None:
        self._db = db
        self._at_once = at_once

    def rows(self, wanted: Sequence[str], since: int, until: int) -> Iterator[tuple[Any, ...]]:
        """Some of `COLUMNS` and `NAMES` of all rows between two times (microseconds) that are there now.

        What is written meanwhile is not among them.
        """
        assert set(wanted) <= {*COLUMNS, *NAMES}
        columns = ", ".join(_NAMED.get(name, f"r.{name}") for name in wanted)
        statement = (
            f"SELECT r.time, r.number, {columns} FROM records r INDEXED BY records_by_time"
            " LEFT JOIN sessions s ON s.id = r.session LEFT JOIN threads t ON t.id = r.thread"
            " WHERE (r.time, r.number) > (?, ?) AND r.time < ? AND r.number <= ?"
            " ORDER BY r.time, r.number LIMIT ?"
        )
        last = fetch_all(self._db, "SELECT coalesce(max(number), 0) FROM records")[0][0]
        at = (since, -1)
        while some := fetch_all(
            self._db,
            statement,
            (
                *at,
                until,
                last,
                self._at_once,
            ),
        ):
            for row in some:
                yield row[2:]
            at = some[-1][:2]
