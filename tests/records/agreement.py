"""Whether the sums of a file are those of its rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.records import BUCKET_MICROSECONDS

Sums = dict[int, tuple[int, ...]]

# What each measure is of a row, said once more: not by the code that adds them up.
_COUNTS = "kind = 'conversation' AND outcome IN ('answered', 'refused', 'failed', 'crashed')"
_OF_A_ROW = {
    "requests": f"({_COUNTS})",
    "errors": f"({_COUNTS} AND outcome != 'answered')",
    "cancelled": "(kind = 'conversation' AND outcome = 'cancelled')",
    "others": "(kind != 'conversation')",
    "took": f"CASE WHEN {_COUNTS} THEN took ELSE 0 END",
    "first": f"CASE WHEN {_COUNTS} THEN coalesce(first, 0) ELSE 0 END",
    "firsts": f"({_COUNTS} AND coalesce(first, 0) > 0)",
}


def sums_and_rows(path: str) -> tuple[Sums, Sums, Sums]:
    """What every quarter of an hour comes to: by the sums of groups, by those of threads, by the rows."""
    added = ", ".join(f"sum({name})" for name in MEASURES)
    of_rows = ", ".join(f"sum(coalesce({_OF_A_ROW.get(name, name)}, 0))" for name in MEASURES)
    with closing(sqlite3.connect(path)) as db:
        return (
            _by_quarter(db, f"SELECT quarter, {added} FROM sums GROUP BY quarter"),
            _by_quarter(db, f"SELECT quarter, {added} FROM thread_sums GROUP BY quarter"),
            _by_quarter(db, f"SELECT time / {BUCKET_MICROSECONDS} AS quarter, {of_rows} FROM records GROUP BY 1"),
        )


def tagged_sums_and_rows(path: str) -> tuple[Sums, Sums]:
    """What each set of tags comes to, by its number: by the sums of tagged exchanges, by their rows."""
    added = ", ".join(f"sum({name})" for name in MEASURES)
    of_rows = ", ".join(f"sum(coalesce({_OF_A_ROW.get(name, name)}, 0))" for name in MEASURES)
    with closing(sqlite3.connect(path)) as db:
        return (
            _by_quarter(db, f"SELECT tags, {added} FROM tag_sums GROUP BY tags"),
            _by_quarter(db, f"SELECT tags, {of_rows} FROM records WHERE tags <> 0 GROUP BY tags"),
        )


def _by_quarter(db: sqlite3.Connection, question: str) -> Sums:
    return {int(row[0]): tuple(map(int, row[1:])) for row in db.execute(question)}
