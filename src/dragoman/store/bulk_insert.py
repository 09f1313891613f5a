"""Bulk insert: adds many rows with few statements."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.store.connection import Connection

# More rows at once save little; older SQLite binds no more values than that. A statement costs about as much as two
# rows, so what is left is not added row by row.
_SIZES, _MAX_VALUES = (32, 16, 8, 4, 2, 1), 999


class BulkInsert:
    """The statements that add rows to a table; `conflict` states what happens to existing rows. No two of the rows that
    are added at once may be in conflict with each other."""

    __slots__ = ("_statements",)

    def __init__(self, table: str, columns: Sequence[str], conflict: str = "") -> None:
        add = f"INSERT INTO {table} ({', '.join(columns)}) VALUES"
        row = f"({', '.join('?' * len(columns))})"
        self._statements = {
            size: f"{add} {', '.join([row] * size)} {conflict}"
            for size in _SIZES
            if size == 1 or size * len(columns) <= _MAX_VALUES
        }

    def run(self, db: Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Add rows, in their order."""
        at, count = 0, len(rows)
        for size, statement in self._statements.items():
            while count - at >= size:
                values: list[object] = []
                for row in rows[at : at + size]:
                    values += row
                db.change(statement, values)
                at += size
