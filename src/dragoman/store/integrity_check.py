"""Examination: whether a file is whole and its tables agree with each other; nothing of it is changed."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from dragoman.store.connection import Connection
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.records import BUCKET_MICROSECONDS, ROW_MEASURES

# Tables of exchanges, sessions and threads.
TABLES = (
    *("records", "sums", "thread_sums", "long_sums", "quarter_sums", "thread_totals", "session_totals"),
    *("tag_sets", "tag_sums", "long_tag_sums", "sessions", "threads", "tips", "unassigned", "journals"),
)
_MAX_PROBLEMS = 20
_NAMES = "key, client, provider, model"
_TAG_NAMES = f"tags, {_NAMES}"
# Rollups of rows: the table, its groups besides the time, and the rows that it sums up.
_ROLLUPS = (("sums", _NAMES, ""), ("tag_sums", _TAG_NAMES, "WHERE tags <> 0"))
_ADDED = ", ".join(f"coalesce(sum({name}), 0)" for name in MEASURES)
_COLUMNS = ", ".join(MEASURES)
# Measures that are never negative.
_COUNTED = MEASURES[:4]
# References between tables, and the description of broken ones.
_REFERENCES = {
    "exchanges of a session that is not there": "records r WHERE session <> 0 AND NOT EXISTS"
    " (SELECT 1 FROM sessions s WHERE s.id = r.session)",
    "exchanges of a thread that is not there": "records r WHERE thread <> 0 AND NOT EXISTS"
    " (SELECT 1 FROM threads t WHERE t.id = r.thread)",
    "threads of a session that is not there": "threads t WHERE session <> 0 AND NOT EXISTS"
    " (SELECT 1 FROM sessions s WHERE s.id = t.session)",
    "threads that one began which is not there": "threads t WHERE parent <> 0 AND NOT EXISTS"
    " (SELECT 1 FROM threads o WHERE o.id = t.parent)",
    "sessions that go on from one which is not there": "sessions s WHERE origin <> 0 AND NOT EXISTS"
    " (SELECT 1 FROM sessions o WHERE o.id = s.origin)",
    "exchanges of a set of tags that is not there": "records r WHERE tags <> 0 AND NOT EXISTS"
    " (SELECT 1 FROM tag_sets g WHERE g.id = r.tags)",
    "sums of a set of tags that is not there": "tag_sums q WHERE NOT EXISTS"
    " (SELECT 1 FROM tag_sets g WHERE g.id = q.tags)",
    "unassigned exchanges that are not there": "unassigned u WHERE NOT EXISTS"
    " (SELECT 1 FROM records r WHERE r.number = u.number)",
    "unassigned exchanges that have a session": "unassigned u JOIN records r USING (number)"
    " WHERE r.session <> 0 OR r.thread <> 0",
    "ends of histories of a thread that is not there": "tips p WHERE NOT EXISTS"
    " (SELECT 1 FROM threads t WHERE t.id = p.thread)",
    "digests of a gateway key that is not there": "digests d WHERE NOT EXISTS"
    " (SELECT 1 FROM identities i WHERE i.id = d.identity)",
    "gateway keys whose first digest is not there": "identities i WHERE NOT EXISTS"
    " (SELECT 1 FROM digests d WHERE d.digest = i.owner AND d.identity = i.id)",
    # Workers would not see such a change.
    "gateway keys that were changed after the last change": "identities i WHERE generation >"
    " coalesce((SELECT max(number) FROM generation), 0)",
}


_BY_BUCKET = f"SELECT quarter, {_ADDED} FROM sums GROUP BY quarter"
_STORED = (("responses", "body"), ("items", "body"), ("conversations", "metadata"), ("events", "data"))
_STORED_ROWS = " UNION ALL ".join(f"SELECT owner, 256 + length({column}) AS size FROM {of}" for of, column in _STORED)
_THREAD_TOTALS = ", ".join(f"sum(o.{name})" for name in MEASURES)
# Tables of rollups, each with two queries that give the same rows.
_PAIRS = (
    ("thread_sums", _BY_BUCKET, f"SELECT quarter, {_ADDED} FROM thread_sums GROUP BY quarter"),
    ("quarter_sums", _BY_BUCKET, f"SELECT quarter, {_COLUMNS} FROM quarter_sums"),
    *(
        (
            f"long_{table} of {span} quarters",
            f"SELECT quarter / {span} * {span} AS begins, {names}, {_ADDED} FROM {table} GROUP BY begins, {names}",
            f"SELECT start, {names}, {_COLUMNS} FROM long_{table} WHERE span = {span}",
        )
        for table, names in (("sums", _NAMES), ("tag_sums", _TAG_NAMES))
        for span in (4, 96)
    ),
    (
        "stored_bytes",
        f"SELECT owner, sum(size) FROM ({_STORED_ROWS}) r GROUP BY owner",
        "SELECT owner, bytes FROM stored_bytes",
    ),
    (
        "thread_totals",
        f"SELECT thread, min(quarter), max(quarter), {_ADDED} FROM thread_sums WHERE thread <> 0 GROUP BY thread",
        f"SELECT thread, since, last, {_COLUMNS} FROM thread_totals",
    ),
    (
        # The threads of a forgotten session are unknown: the total of all sessions is equal.
        "session_totals",
        f"SELECT t.session, min(o.since), max(o.last), {_THREAD_TOTALS} FROM thread_totals o JOIN threads t"
        f" ON t.id = o.thread GROUP BY t.session UNION ALL SELECT 0, 0, 0, {_ADDED} FROM thread_totals",
        f"SELECT session, since, last, {_COLUMNS} FROM session_totals WHERE session IN"
        f" (SELECT session FROM threads) UNION ALL SELECT 0, 0, 0, {_ADDED} FROM session_totals",
    ),
)


class Agreement(Struct, frozen=True, kw_only=True):
    """How rows and rollups agree per bucket and names: complete and equal, unequal, and exchanges without rows."""

    matching: int = 0
    wrong: int = 0
    without_row: int = 0


class JournalOffset(Struct, frozen=True):
    """The offset of a journal, and the number of skipped lines."""

    name: str
    applied: int
    damaged: int


class IntegrityCheck:
    """Queries that find out whether a file is whole, by a connection that may only read."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def version(self) -> int:
        return self._db.version

    def problems(self) -> list[str]:
        """Problems that the engine itself reports."""
        return self._db.problems(_MAX_PROBLEMS)

    def counts(self) -> dict[str, int]:
        """The number of rows of each table."""
        return {table: self._db.number(f"SELECT count(*) FROM {table}") for table in TABLES}

    def offsets(self) -> list[JournalOffset]:
        return [
            JournalOffset(*row) for row in self._db.rows("SELECT name, applied, damaged FROM journals ORDER BY name")
        ]

    def agreement(self) -> Agreement:
        """Whether sums are those of their rows, where all rows are there."""
        matching = wrong = 0
        for table, names, where in _ROLLUPS:
            row = self._agreement_of(table, names, where)
            matching, wrong = matching + row[0], wrong + row[1]
        added = self._db.number("SELECT coalesce(sum(requests + cancelled + others), 0) FROM quarter_sums")
        there = self._db.number("SELECT count(*) FROM records")
        return Agreement(matching=matching, wrong=wrong, without_row=max(added - there, 0))

    def _agreement_of(self, table: str, names: str, where: str) -> tuple[int, int]:
        """The number of groups of a rollup that agree with their rows, and of others."""
        measured = ", ".join(f"sum({ROW_MEASURES[name]}) AS {name}" for name in MEASURES)
        same = " AND ".join(f"r.{name} = s.{name}" for name in MEASURES)
        total = "s.requests + s.cancelled + s.others"
        # Without a rollup, `total` is NULL.
        rows = self._db.rows(
            f"SELECT count(CASE WHEN r.n = {total} AND {same} THEN 1 END),"
            f" count(CASE WHEN r.n < {total} OR (r.n = {total} AND {same}) THEN NULL ELSE 1 END)"
            f" FROM (SELECT time / {BUCKET_MICROSECONDS} AS quarter, {names}, count(*) AS n, {measured} FROM records"
            f" {where} GROUP BY time / {BUCKET_MICROSECONDS}, {names}) r LEFT JOIN {table} s USING (quarter, {names})",
        )
        return int(rows[0][0]), int(rows[0][1])

    def mismatched_rollups(self) -> Iterator[tuple[str, int]]:
        """Tables of totals, and the number of mismatches with others."""
        for table, one, other in _PAIRS:
            counts = [
                self._db.number(f"SELECT count(*) FROM (SELECT * FROM ({these}) a EXCEPT SELECT * FROM ({those}) b) c")
                for these, those in ((one, other), (other, one))
            ]
            yield table, max(counts)
        # Tagged exchanges are a part of all exchanges.
        counted = ", ".join(f"sum({name}) AS {name}" for name in _COUNTED)
        tagged = f"SELECT quarter, {_NAMES}, {counted} FROM tag_sums GROUP BY quarter, {_NAMES}"
        excess = " OR ".join(f"q.{name} > coalesce(s.{name}, 0)" for name in _COUNTED)
        joined = f"({tagged}) q LEFT JOIN sums s USING (quarter, {_NAMES})"
        yield "tag_sums", self._db.number(f"SELECT count(*) FROM {joined} WHERE {excess}")

    def orphans(self) -> Iterator[tuple[str, int]]:
        """Broken references, and the number of their rows."""
        for words, where in _REFERENCES.items():
            yield words, self._db.number(f"SELECT count(*) FROM {where}")
