"""Records: the tables of exchanges, one row each, and of their sums by quarter of an hour (`records/rows.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.store.bulk_insert import BulkInsert
from dragoman.store.connection import RECORDS, AppendRow, AppendTable, Connection, exists
from dragoman.store.migrations.sqlite import MEASURES


class RecordRow(Struct, frozen=True):
    """One row of records, column by column; None is not known. What each is called elsewhere is in `RecordField`."""

    number: int
    id: str
    time: int
    kind: str
    outcome: str
    key: str
    client: str
    program: str
    address: str
    launch: str
    session: int
    thread: int
    dialect: str
    path: str
    stream: int
    asked: str
    provider: str
    model: str
    served: str
    answered_by: str
    route: str
    policy: str
    reason: str
    status: int
    failure: str
    stop: str
    first: int | None
    took: int
    input: int | None
    cache_read: int | None
    cache_write: int | None
    cache_write_1h: int | None
    output: int | None
    thinking: int | None
    searches: int | None
    estimated: int
    cost: int
    unpriced: int
    said_cost: int | None
    price: str
    losses: int
    upstream_id: str
    response_id: str
    details: bytes
    bookkeeping: int
    # The text of its set of tags; the column has the number of the set.
    tags: str


# All but `number`, which is the file's own.
COLUMNS = RecordRow.__struct_fields__[1:]
# Columns with a value in nearly every row. The others are mostly those of the row before.
_OWN = (
    *("id", "time", "first", "took", "input", "cache_read", "cache_write", "cache_write_1h", "output", "thinking"),
    *("searches", "cost", "upstream_id", "response_id", "details"),
)
# In the order of entries.
_SHARED = (
    *("outcome", "kind", "key", "client", "program", "address", "launch", "dialect", "path", "stream", "asked"),
    *("provider", "model", "served", "answered_by", "route", "policy", "reason", "status", "failure", "stop"),
    *("session", "thread", "estimated", "unpriced", "said_cost", "price", "losses", "bookkeeping"),
    "tags",
)
# The order of inserted columns; 0 means no `first`. A row is inserted as the values of both parts.
ROW_COLUMNS = (*_OWN, *_SHARED)
_TABLE = AppendTable(name="records", own=_OWN, shared=_SHARED, optional="first", number="number", time="time")
# A 15-minute bucket of totals.
BUCKET_MICROSECONDS = 900_000_000
# The contribution of a row to totals, in SQL; `records/rows.py` has the same in Python.
_TALK = "kind = 'conversation'"
_COUNTS = f"{_TALK} AND outcome IN ('answered', 'refused', 'failed', 'crashed')"
ROW_MEASURES = {
    "requests": f"CASE WHEN {_COUNTS} THEN 1 ELSE 0 END",
    "errors": f"CASE WHEN {_COUNTS} AND outcome <> 'answered' THEN 1 ELSE 0 END",
    "cancelled": f"CASE WHEN {_TALK} AND outcome = 'cancelled' THEN 1 ELSE 0 END",
    "others": f"CASE WHEN {_TALK} THEN 0 ELSE 1 END",
    **{name: f"coalesce({name}, 0)" for name in MEASURES[4:14]},
    "took": f"CASE WHEN {_COUNTS} THEN took ELSE 0 END",
    "first": f"CASE WHEN {_COUNTS} THEN coalesce(first, 0) ELSE 0 END",
    "firsts": f"CASE WHEN {_COUNTS} AND first > 0 THEN 1 ELSE 0 END",
    "bookkeeping": "bookkeeping",
}


class Records:
    """The table of exchanges."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def add(self, rows: Sequence[AppendRow]) -> int:
        """Add rows, in the order of `ROW_COLUMNS`, under consecutive numbers; give the first of these."""
        first = self._db.number("SELECT coalesce(max(number), 0) + 1 FROM records")
        self._db.append(_TABLE, rows)
        return first

    def count(self) -> int:
        return self._db.number("SELECT count(*) FROM records")

    def has(self, name: str, time: int) -> bool:
        """Whether an exchange is recorded, by its id and its time."""
        return exists(self._db, "SELECT 1 FROM records WHERE time = ? AND id = ?", (time, name))

    def drop_before(self, time: int) -> int:
        """Drop whole parts of the table with rows before a time alone; returns how many. `StoreBusy` if one is in use:
        no reader waits until it is not."""
        return self._db.drop_before(_TABLE, time, RECORDS)

    def remove_before(self, time: int, most: int) -> int:
        """Remove some records that began before a time; returns how many. Sums stay."""
        return self._db.change(
            "DELETE FROM records WHERE number IN (SELECT number FROM records WHERE time < ? ORDER BY time LIMIT ?)",
            (time, most),
        )


def _upsert(table: str, key: tuple[str, ...]) -> BulkInsert:
    grown = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in MEASURES)
    return BulkInsert(table, (*key, *MEASURES), f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {grown}")


KEY = ("quarter", "key", "client", "provider", "model")
TAG_KEY = ("quarter", "tags", *KEY[1:])
THREAD_KEY = ("quarter", "thread")
_ADD_SUMS = _upsert("sums", KEY)
_ADD_TO_THREADS = _upsert("thread_sums", THREAD_KEY)
_ADD_TO_TAGS = _upsert("tag_sums", TAG_KEY)


class UsageRollups:
    """The tables of sums; `quarter` is the number of quarters of an hour since the epoch."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def add(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the sums of keys, clients, providers and models: `KEY`, then `MEASURES`; sorted."""
        _ADD_SUMS.run(self._db, rows)

    def add_to_threads(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the sums of threads: `THREAD_KEY`, then `MEASURES`; sorted."""
        _ADD_TO_THREADS.run(self._db, rows)

    def add_to_tags(self, rows: Sequence[tuple[object, ...]]) -> None:
        """Add to the sums of tagged exchanges: `TAG_KEY`, then `MEASURES`; sorted."""
        _ADD_TO_TAGS.run(self._db, rows)


class TagSets:
    """The table of sets of tags; 0 is the number of the empty one, which has no row."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def number_of(self, tags: str) -> int:
        """The number of a set, which is added in this transaction if it is absent."""
        row = self._db.row("SELECT id FROM tag_sets WHERE tags = ?", (tags,))
        if row is not None:
            return int(row[0])
        return self._db.number("INSERT INTO tag_sets (tags) VALUES (?) RETURNING id", (tags,))


def tags_of(table: str) -> str:
    """The expression of the text of the tags that a row of a table has."""
    return f"coalesce((SELECT g.tags FROM tag_sets g WHERE g.id = {table}.tags), '')"
