"""Unassigned rows: exchanges whose session and thread are not assigned yet, and what connects them (decision 44). All
methods that write belong into the transaction in which the rows were selected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from dragoman.store.bulk_insert import BulkInsert
from dragoman.store.connection import Connection, exists
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.records import BUCKET_MICROSECONDS, ROW_MEASURES, THREAD_KEY

_ANY = (1 << 63) - 1
_SECOND = 1_000_000
# From the rows: binding each number takes three times as long.
_ADD = (
    f"INSERT INTO unassigned (number, second) SELECT number, time / {_SECOND} FROM records WHERE number BETWEEN ? AND ?"
)
# So many values are bound in one statement.
_AT_ONCE = 500
_ADD_RELATIONS = BulkInsert("unassigned_relations", ("relation", "number"), "ON CONFLICT DO NOTHING")
_ROW = "number, id, time, kind, outcome, key, client, asked, model, details"
_GROWN = ", ".join(f"{name} = thread_sums.{name} + excluded.{name}" for name in MEASURES)
_BUCKET = f"time / {BUCKET_MICROSECONDS}"
_KEY = ", ".join(THREAD_KEY)
_NONE = "NOT EXISTS (SELECT 1 FROM unassigned)"
_EMPTY = " AND ".join(f"{name} = 0" for name in MEASURES)


class UnassignedRow(Struct, frozen=True, gc=False):
    """The members of a record that assignment reads."""

    number: int
    id: str
    time: int
    kind: str
    outcome: str
    key: str
    client: str
    requested_model: str
    model: str
    details: bytes


class RowScope(Struct, frozen=True, kw_only=True):
    """Which unassigned rows are meant: times are microseconds, of which whole seconds count, and None is any key."""

    since: int = 0
    until: int = _ANY
    key: str | None = None


class UnassignedRows:
    """The table of unassigned rows and that of their relations."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def add(self, runs: Sequence[tuple[int, int]], relations: Sequence[tuple[int, int]]) -> None:
        """Add records by the first and the last number of each run of them, and their relations, each with the number
        of its row."""
        self._db.many(_ADD, runs)
        _ADD_RELATIONS.run(self._db, relations)

    def oldest(self, most: int) -> list[int]:
        """The numbers of the rows that were ingested first."""
        return self._numbers("SELECT number FROM unassigned ORDER BY number LIMIT ?", (most,))

    def newest(self, scope: RowScope, most: int) -> list[int]:
        """The numbers of the latest rows of a scope, the latest first."""
        where, given = _where(scope)
        return self._numbers(
            f"SELECT u.number FROM {where} ORDER BY u.second DESC, u.number DESC LIMIT ?", (*given, most)
        )

    def count(self, scope: RowScope) -> int:
        """The number of rows in a scope."""
        where, given = _where(scope)
        return self._db.number(f"SELECT count(*) FROM {where}", given)

    def present(self, numbers: Sequence[int]) -> list[int]:
        """The numbers that are still unassigned among some, in their order."""
        present = {row[0] for row in self._in("SELECT number FROM unassigned WHERE number IN ({})", numbers)}
        return [number for number in numbers if number in present]

    def related(self, relations: Sequence[int], most: int) -> list[int]:
        """The numbers of the rows with some relations, the first ingested of each part of them."""
        statement = (
            "SELECT DISTINCT number FROM unassigned_relations r WHERE relation IN ({})"
            f" AND EXISTS (SELECT 1 FROM unassigned u WHERE u.number = r.number) ORDER BY number LIMIT {int(most)}"
        )
        return [row[0] for row in self._in(statement, relations)]

    def keys(self) -> list[str]:
        """The gateway keys that have unassigned rows."""
        statement = "SELECT DISTINCT key FROM records WHERE number IN (SELECT number FROM unassigned) ORDER BY key"
        return [row[0] for row in self._db.rows(statement)]

    def rows(self, numbers: Sequence[int]) -> list[UnassignedRow]:
        """Rows by their numbers."""
        return [UnassignedRow(*row) for row in self._in(f"SELECT {_ROW} FROM records WHERE number IN ({{}})", numbers)]

    def assign(self, assigned: Sequence[tuple[int, int, int]], relations: Iterable[tuple[int, int]]) -> None:
        """Write session, thread and number of unassigned rows, and move their totals from thread 0 to their threads,
        which must exist. The rows and their relations are unassigned no more."""
        db, numbers = self._db, [number for _, _, number in assigned]
        self._change("DELETE FROM unassigned WHERE number IN ({})", numbers)
        db.many("DELETE FROM unassigned_relations WHERE relation = ? AND number = ?", sorted(relations))
        db.many("UPDATE records SET session = ?, thread = ? WHERE number = ?", [row for row in assigned if row[0]])
        moved = [number for _, thread, number in assigned if thread]
        for sign, thread in (("", "thread"), ("-", "0")):
            added = ", ".join(f"{sign}sum({ROW_MEASURES[name]})" for name in MEASURES)
            self._change(
                f"INSERT INTO thread_sums ({_KEY}, {', '.join(MEASURES)}) SELECT {_BUCKET}, {thread}, {added}"
                f" FROM records WHERE number IN ({{}}) GROUP BY 1, 2 ON CONFLICT ({_KEY}) DO UPDATE SET {_GROWN}",
                moved,
            )
        # Totals without a thread are removed, not kept as a thread of zeros.
        self._change(
            f"DELETE FROM thread_sums WHERE thread = 0 AND quarter IN (SELECT {_BUCKET} FROM records WHERE number IN"
            f" ({{}})) AND {_EMPTY}",
            moved,
        )

    def has_stray_relations(self) -> bool:
        """Whether there are relations of rows that were removed, where no row is unassigned."""
        return exists(self._db, f"SELECT 1 FROM unassigned_relations WHERE {_NONE} LIMIT 1", ())

    def remove_stray_relations(self) -> None:
        """Remove relations of rows that were removed before they were assigned, if nothing is unassigned."""
        self._db.change(f"DELETE FROM unassigned_relations WHERE {_NONE}")

    def _numbers(self, statement: str, given: Sequence[object]) -> list[int]:
        return [row[0] for row in self._db.rows(statement, given)]

    def _change(self, statement: str, numbers: Sequence[int]) -> None:
        """Run a statement that gives no rows, with numbers in place of `{}`."""
        for part, some in _parts(statement, numbers):
            self._db.change(part, some)

    def _in(self, statement: str, numbers: Sequence[int]) -> Iterator[Any]:
        """The rows of a statement with numbers in place of `{}`, some of them at a time."""
        for part, some in _parts(statement, numbers):
            yield from self._db.rows(part, some)


def _parts(statement: str, numbers: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
    """A statement with numbers in place of `{}`, some of them at a time, and these."""
    for at in range(0, len(numbers), _AT_ONCE):
        some = numbers[at : at + _AT_ONCE]
        yield statement.format(", ".join("?" * len(some))), some


def _where(scope: RowScope) -> tuple[str, tuple[object, ...]]:
    """The tables and conditions of a scope, and the values for them."""
    where = "unassigned u WHERE u.second >= ? AND u.second <= ?"
    given = (scope.since // _SECOND, (scope.until - 1) // _SECOND)
    if scope.key is None:
        return where, given
    return f"{where.replace(' WHERE', ' JOIN records r USING (number) WHERE')} AND r.key = ?", (*given, scope.key)
