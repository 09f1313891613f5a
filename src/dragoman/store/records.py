"""Records: the table of exchanges, one row each; what a row says is made in `records/rows.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from dragoman.store.bulk_insert import BulkInsert

# The order in which rows are handed in; `number` is the file's own.
COLUMNS = (
    "id",
    "time",
    "kind",
    "outcome",
    "key",
    "client",
    "program",
    "address",
    "launch",
    "session",
    "thread",
    "dialect",
    "path",
    "stream",
    "asked",
    "provider",
    "model",
    "served",
    "answered_by",
    "route",
    "policy",
    "reason",
    "status",
    "failure",
    "stop",
    "first",
    "took",
    "input",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "output",
    "thinking",
    "searches",
    "estimated",
    "cost",
    "unpriced",
    "said_cost",
    "price",
    "losses",
    "upstream_id",
    "response_id",
    "details",
    "bookkeeping",
)
_ADD = BulkInsert("records", COLUMNS)


class Records:
    """The table of exchanges."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, rows: Sequence[tuple[object, ...]]) -> int:
        """Add rows, in the order of `COLUMNS`; give how many."""
        _ADD.run(self._db, rows)
        return len(rows)

    def count(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM records").fetchone()[0])

    def remove_before(self, time: int, most: int) -> int:
        """Remove some of those that began before a time; give how many. Sums stay."""
        return self._db.execute(
            "DELETE FROM records WHERE number IN (SELECT number FROM records WHERE time < ? ORDER BY time LIMIT ?)",
            (time, most),
        ).rowcount
