"""A connection that records how SQLite answers each query."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dragoman.store.sqlite import SQLiteConnection


class Explained(SQLiteConnection):
    """Records the plan of each query, step by step."""

    plans: list[str]

    def execute(self, statement: str, given: object = (), /) -> sqlite3.Cursor:
        if statement.lstrip().startswith(("SELECT", "WITH", "DELETE", "UPDATE")):
            plan = super().execute(f"EXPLAIN QUERY PLAN {statement}", given)  # type: ignore[arg-type]
            self.plans += [row[3] for row in plan]
        return super().execute(statement, given)  # type: ignore[arg-type]


def explained(path: Path) -> Explained:
    """A connection to a file, in which a transaction ends with its statement."""
    db = sqlite3.connect(path, factory=Explained, isolation_level=None)
    db.plans = []
    return db
