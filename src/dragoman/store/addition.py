"""Addition: adds rows to a table, several with one statement as long as there are as many.

That is for rows that follow one another: of a statement that may fail half way, SQLite copies each page first.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain

# More rows at once save little; no row has so many columns that older SQLite could not bind them all.
_AT_ONCE = 16


class Addition:
    """The statements that add rows to a table; `conflict` says what becomes of those that are there."""

    __slots__ = ("_one", "_several")

    def __init__(self, table: str, columns: Sequence[str], conflict: str = "") -> None:
        row = f"({', '.join('?' * len(columns))})"
        self._one = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {row} {conflict}"
        self._several = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([row] * _AT_ONCE)} {conflict}"

    def run(self, db: sqlite3.Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Add rows, in their order."""
        alone = len(rows) - len(rows) % _AT_ONCE
        several = range(0, alone, _AT_ONCE)
        db.executemany(self._several, [tuple(chain.from_iterable(rows[at : at + _AT_ONCE])) for at in several])
        db.executemany(self._one, rows[alone:])
