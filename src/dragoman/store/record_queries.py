"""Record queries: exchanges by time or session, by an index, and one by its id, which scans if it has no time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from dragoman.store.connection import Connection
from dragoman.store.records import COLUMNS, RecordRow, tags_of

# Outcomes of exchanges that went wrong.
WRONG = ("refused", "failed", "crashed")
_LATEST_TIME = (1 << 63) - 1
_COLUMNS = ", ".join(tags_of("records") if name == "tags" else name for name in RecordRow.__struct_fields__)
_AT_ONCE = 500
# Behind every text that begins like another.
BEYOND = "\U0010ffff"


class KeyScope(Struct, frozen=True):
    """Rows with a key's name: a condition of every query of a key that may read its own records alone."""

    key: str


class RecordFilter(Struct, frozen=True, kw_only=True):
    """The filter of exchanges: times are microseconds, and None means any."""

    since: int = 0
    key: str | None = None
    # The requested or served model, with or without its provider; `*` matches any text.
    model: str | None = None
    errors: bool = False
    session: int | None = None
    thread: int | None = None
    # Exchanges before one with this time and number, in the order of times.
    before: tuple[int, int] | None = None


class RecordQueries:
    """Queries of records, by a connection that only reads: of all keys, or of one scope."""

    def __init__(self, db: Connection, scope: KeyScope | None = None) -> None:
        self._db = db
        # Conditions without an index, which every query of rows has.
        self._owned = "" if scope is None else " AND key = ?"
        self._scope: tuple[object, ...] = () if scope is None else (scope.key,)

    def latest(self, record_filter: RecordFilter, most: int) -> list[RecordRow]:
        """The latest ones, the newest first."""
        where, given = _conditions(record_filter)
        return self._records(
            f"FROM records WHERE {' AND '.join(where)}{self._owned} ORDER BY time DESC, number DESC LIMIT ?",
            [*given, *self._scope, most],
        )

    def after(self, number: int, record_filter: RecordFilter, most: int) -> list[RecordRow]:
        """Records after a number, in that order."""
        where, given = _conditions(record_filter, time="coalesce(time, 0)", session="coalesce(session, 0)")
        # By number, whatever the other conditions: there are few.
        return self._records(
            f"FROM records WHERE number > ? AND {' AND '.join(where)}{self._owned} ORDER BY number LIMIT ?",
            [number, *given, *self._scope, most],
        )

    def newest(self) -> int:
        """The number of the one that was written down last; 0 if there is none."""
        return self._db.number("SELECT coalesce(max(number), 0) FROM records")

    def last_ids(self, most: int) -> list[tuple[int, str]]:
        """Number and id of the rows that were written down last, the last one first; of all keys."""
        return self._db.rows("SELECT number, id FROM records ORDER BY number DESC LIMIT ?", (most,))

    def id_of(self, number: int) -> str:
        """The id of the row with a number; "" if there is none."""
        row = self._db.row("SELECT id FROM records WHERE number = ?", (number,))
        return "" if row is None else str(row[0])

    def places(self, numbers: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Session and thread of some rows, as far as they have a session."""
        wanted = sorted(numbers)
        places: dict[int, tuple[int, int]] = {}
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            statement = "SELECT number, session, thread FROM records WHERE session <> 0 AND number IN"
            rows = self._db.rows(f"{statement} ({', '.join('?' * len(some))})", some)
            places |= {number: (session, thread) for number, session, thread in rows}
        return places

    def between(self, text: str, low: int, high: int, most: int) -> list[RecordRow]:
        """Those of a time whose id begins so."""
        return self._records(
            f"FROM records WHERE time BETWEEN ? AND ? AND id BETWEEN ? AND ?{self._owned} ORDER BY time LIMIT ?",
            [low, high, text, text + BEYOND, *self._scope, most],
        )

    def anywhere(self, text: str, most: int, answers: Sequence[str] = ()) -> list[RecordRow]:
        """Exchanges with this id: ours, the provider's, or that of the response, translated or not. Scans all rows."""
        answers = (text, *answers)
        return self._records(
            f"FROM records WHERE (id = ? OR upstream_id = ? OR response_id IN ({', '.join('?' * len(answers))}))"
            f"{self._owned} ORDER BY number DESC LIMIT ?",
            [text, text, *answers, *self._scope, most],
        )

    def numbered(self, numbers: Sequence[int]) -> list[RecordRow]:
        """Exchanges by their numbers."""
        if not numbers:
            return []
        listed = ", ".join("?" * len(numbers))
        return self._records(f"FROM records WHERE number IN ({listed}){self._owned}", [*numbers, *self._scope])

    def _records(self, rest: str, given: Sequence[object]) -> list[RecordRow]:
        return [RecordRow(*row) for row in self._db.rows(f"SELECT {_COLUMNS} {rest}", given)]


def _conditions(
    record_filter: RecordFilter, *, time: str = "time", session: str = "session"
) -> tuple[list[str], list[object]]:
    """The conditions on a row, and their values; `time` and `session` are the columns, or expressions without index."""
    before = record_filter.before
    conditions: tuple[tuple[str, bool, tuple[object, ...]], ...] = (
        (f"{session} = ?", record_filter.session is not None, (record_filter.session,)),
        (f"{time} BETWEEN ? AND ?", True, (record_filter.since, _LATEST_TIME if before is None else before[0])),
        (f"({time}, number) < (?, ?)", before is not None, before or ()),
        ("thread = ?", record_filter.thread is not None, (record_filter.thread,)),
        ("key = ?", record_filter.key is not None, (record_filter.key,)),
        (
            "(glob(?, asked) OR glob(?, model) OR glob(?, provider || '/' || model) OR glob(?, answered_by))",
            record_filter.model is not None,
            (pattern_of(record_filter.model or ""),) * 4,
        ),
        (f"outcome IN ({', '.join('?' * len(WRONG))})", record_filter.errors, WRONG),
    )
    where = [condition for condition, applies, _ in conditions if applies]
    return where, [value for _, applies, values in conditions if applies for value in values]


def pattern_of(model: str) -> str:
    """The pattern of `glob` for a model, in which only `*` has a meaning of its own."""
    return "".join(f"[{letter}]" if letter in "[?" else letter for letter in model)


# Names of a row in other tables.
NAMES = ("session_name", "thread_name", "thread_class")
_NAMED = {"session_name": "s.name", "thread_name": "t.name", "thread_class": "t.class", "tags": tags_of("r")}


class Exports:
    """Rows in the order of their times, read in batches, so that a slow consumer does not hold the file."""

    def __init__(self, db: Connection, at_once: int = _AT_ONCE) -> None:
        self._db = db
        self._at_once = at_once

    def rows(self, wanted: Sequence[str], since: int, until: int) -> Iterator[tuple[Any, ...]]:
        """Some of `COLUMNS` and `NAMES` of all present rows between two times (microseconds)."""
        assert set(wanted) <= {*COLUMNS, *NAMES}
        columns = ", ".join(_NAMED.get(name, f"r.{name}") for name in wanted)
        statement = (
            f"SELECT r.time, r.number, {columns} FROM records r"
            " LEFT JOIN sessions s ON s.id = r.session LEFT JOIN threads t ON t.id = r.thread"
            " WHERE (r.time, r.number) > (?, ?) AND r.time < ? AND r.number <= ?"
            " ORDER BY r.time, r.number LIMIT ?"
        )
        last = self._db.number("SELECT coalesce(max(number), 0) FROM records")
        at = (since, -1)
        while some := self._db.rows(statement, (*at, until, last, self._at_once)):
            for row in some:
                yield row[2:]
            at = some[-1][:2]
