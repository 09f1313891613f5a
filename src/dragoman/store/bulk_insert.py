"""Bulk insert: adds many rows with few statements. A row that fails rolls the transaction back: for a statement that
could fail alone, SQLite would copy each page before it changes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

# More rows at once save little; older SQLite binds no more values than that.
_MAX_ROWS, _MAX_VALUES = 32, 999


class BulkInsert:
    """The statements that add rows to a table; `conflict` says what becomes of those that are there."""

    __slots__ = ("_at_once", "_one", "_several")

    def __init__(self, table: str, columns: Sequence[str], conflict: str = "") -> None:
        self._at_once = min(_MAX_ROWS, _MAX_VALUES // len(columns))
        add = f"INSERT OR ROLLBACK INTO {table} ({', '.join(columns)}) VALUES"
        row = f"({', '.join('?' * len(columns))})"
        self._one = f"{add} {row} {conflict}"
        self._several = f"{add} {', '.join([row] * self._at_once)} {conflict}"

    def run(self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Add rows, in their order."""
        at_once = self._at_once
        alone = len(rows) - len(rows) % at_once
        if alone:
            several: list[list[object]] = []
            for at in range(0, alone, at_once):
                values: list[object] = []
                for row in rows[at : at + at_once]:
                    values += row
                several.append(values)
            db.executemany(self._several, several)
        db.executemany(self._one, rows[alone:])
