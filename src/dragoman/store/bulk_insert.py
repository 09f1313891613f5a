"""Bulk insert: adds many rows with few statements. A row that fails rolls the transaction back: for a statement that
could fail alone, SQLite would copy each page before it changes it."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.store.connection import Connection

# More rows at once save little; older SQLite binds no more values than that. A statement costs about as much as two
# rows, so what is left is not added row by row.
_SIZES, _MAX_VALUES = (32, 16, 8, 4, 2, 1), 999


class BulkInsert:
    """The statements that add rows to a table; `conflict` states what happens to existing rows."""

    __slots__ = ("_statements",)

    def __init__(self, table: str, columns: Sequence[str], conflict: str = "") -> None:
        add = f"INSERT OR ROLLBACK INTO {table} ({', '.join(columns)}) VALUES"
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


class RunInsert:
    """The same for a table of many columns in which consecutive rows have mostly the same values: those of the columns
    behind the `own` ones are bound once for a run of rows. 0 in the column `optional` is NULL: to bind None takes much
    longer than to bind a number."""

    __slots__ = ("_statements",)

    def __init__(self, table: str, columns: Sequence[str], own: int, optional: str) -> None:
        shared = len(columns) - own
        add = f"INSERT OR ROLLBACK INTO {table} ({', '.join(columns)}) VALUES"
        repeated = ", ".join(f"?{at + 1}" for at in range(shared))

        def row(first: int) -> str:
            values = (
                f"nullif(?{at}, 0)" if name == optional else f"?{at}" for at, name in enumerate(columns[:own], first)
            )
            return f"({', '.join(values)}, {repeated})"

        self._statements = {
            size: f"{add} {', '.join([row(shared + 1 + own * at) for at in range(size)])}" for size in _SIZES
        }

    def run(self, db: Connection, rows: Sequence[tuple[tuple[object, ...], tuple[object, ...]]]) -> None:
        """Add rows, in their order; each is the values of its own columns and those of the others."""
        at, count = 0, len(rows)
        while at < count:
            shared, end = rows[at][1], at + 1
            while end < count and ((other := rows[end][1]) is shared or other == shared):
                end += 1
            for size, statement in self._statements.items():
                while end - at >= size:
                    values = [*shared]
                    for own, _ in rows[at : at + size]:
                        values += own
                    db.change(statement, values)
                    at += size
