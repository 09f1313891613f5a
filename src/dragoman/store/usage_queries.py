"""Usage queries: rollups between two 15-minute buckets, by names, by thread or by bucket. Long periods are made of
whole days and hours, and of buckets at their edges: a few thousand rows at most. Threads and sessions within the period
have totals; buckets are added up only for those across its edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from dragoman.store.connection import Connection, exists
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_queries import KeyScope
from dragoman.store.records import tags_of

# Groups of totals, besides the time.
NAMES = ("key", "client", "provider", "model")
# The totals, in the order of `MEASURES`.
Measures = tuple[int, ...]

_DAY, _HOUR = 96, 4
_SUMS = ", ".join(f"sum({name})" for name in MEASURES)
_COLUMNS = ", ".join(MEASURES)
_SUMMED_ALONE = ", ".join(f"sum({name}) AS {name}" for name in MEASURES)
_SUMMED = ", ".join(f"sum(q.{name}) AS {name}" for name in MEASURES)

# The names of sessions and threads, and their columns.
SESSION_NAMES = ("session", "session_id", "key", "client")
THREAD_NAMES = ("thread", "thread_id", "thread_class", "label", *SESSION_NAMES)
_OF_SESSION = "s.name, s.id, s.key, s.client"
# The names of a group, then its measures, with the uncached input after the input.
NamedRow = tuple[str | int | None, ...]
_UNCACHED = ("input - g.cache_read - g.cache_write",)
_FIGURES = ", ".join(f"g.{name}" for name in (*MEASURES[:5], *_UNCACHED, *MEASURES[5:]))
# Of a time that is no longer than this, quarters are added up.
_SHORT = 2 * _DAY
# Conditions of a time range; the values of all but `_INSIDE` are its start and its end.
_WITHIN = "q.quarter >= ? AND q.quarter < ?"
_BUCKET_COLUMNS = ", ".join(f"q.{name}" for name in MEASURES)
# Totals of all that may have been active in a time range: those within it, and those across its edges.
_MET = "o.last >= ? AND o.since < ?"
_ACROSS = "(o.since < ? OR o.last >= ?)"
# Start, end and start.
_INSIDE = "o.last >= ? AND o.last < ? AND o.since >= ?"
# Without what was forgotten.
_IS_NAMED = "coalesce(s.id, 0) > 0"


class NamedUsage(Struct, frozen=True):
    """Rows of named threads or sessions, names first, and their number; without what has no thread or was forgotten."""

    rows: list[NamedRow]
    count: int


class _UsageGroup(Struct, frozen=True, kw_only=True):
    """The tables of threads, and of sessions."""

    of: str
    # Their name, the tables of their numbers and names, which a forgotten one has none of, and the join from totals to
    # 15-minute buckets. Outer joins are not read in another order; `_IS_NAMED` is what they are not meant for.
    names: str
    number: str
    named: str
    buckets: str


_THREADS = _UsageGroup(
    of="thread",
    names=f"t.name, t.id, t.class, t.label, {_OF_SESSION}",
    number="q.thread",
    named="LEFT JOIN threads t ON t.id = g.thread LEFT JOIN sessions s ON s.id = t.session",
    buckets=f"LEFT JOIN thread_sums q ON q.thread = o.thread AND {_WITHIN}",
)
_SESSIONS = _UsageGroup(
    of="session",
    names=_OF_SESSION,
    number="t.session",
    named="LEFT JOIN sessions s ON s.id = g.session",
    buckets=f"LEFT JOIN threads t ON t.session = o.session LEFT JOIN thread_sums q ON q.thread = t.id AND {_WITHIN}",
)


class UsageQueries:
    """Queries of rollups, by a connection that may only read: of all keys, or of one scope."""

    def __init__(self, db: Connection, scope: KeyScope | None = None) -> None:
        self._db = db
        self.scope = scope

    def first(self) -> int | None:
        """The first quarter in which there was anything; None if there never was."""
        if self.scope is None:
            bucket: int | None = self._db.rows("SELECT min(quarter) FROM quarter_sums")[0][0]
        else:
            bucket = self._db.rows("SELECT min(quarter) FROM sums WHERE key = ?", (self.scope.key,))[0][0]
        return bucket

    def by_bucket(self, start: int, end: int) -> list[tuple[int, Measures]]:
        """The measures of each 15-minute bucket, in their order."""
        if self.scope is not None:
            rows = self._db.rows(
                f"SELECT quarter, {_SUMS} FROM sums WHERE quarter >= ? AND quarter < ? AND key = ?"
                " GROUP BY quarter ORDER BY quarter",
                (start, end, self.scope.key),
            )
            return [(row[0], row[1:]) for row in rows]
        rows = self._db.rows(
            f"SELECT quarter, {_COLUMNS} FROM quarter_sums WHERE quarter >= ? AND quarter < ? ORDER BY quarter",
            (start, end),
        )
        return [(row[0], row[1:]) for row in rows]

    def by_names(self, names: Sequence[str], start: int, end: int) -> dict[tuple[str, ...], Measures]:
        """Totals for each combination of some of `NAMES`."""
        assert names and set(names) <= set(NAMES)
        listed, count = ", ".join(names), len(names)
        owned, key = ("", ()) if self.scope is None else (" AND key = ?", (self.scope.key,))
        measures_by_group: dict[tuple[str, ...], Measures] = {}
        for span, low, high in split_spans(start, end):
            where = "sums WHERE quarter" if span == 1 else f"long_sums WHERE span = {span} AND start"
            time = "quarter" if span == 1 else "start"
            for row in self._db.rows(
                f"SELECT {listed}, {_SUMS} FROM {where} >= ? AND {time} < ?{owned} GROUP BY {listed}", (low, high, *key)
            ):
                add_measures(measures_by_group, row[:count], row[count:])
        return measures_by_group

    def by_tags(self, names: Sequence[str], start: int, end: int) -> dict[tuple[str, ...], Measures]:
        """The sums of tagged exchanges under each set of tags, and combination of some of `NAMES`."""
        assert set(names) <= set(NAMES)
        listed, count = ", ".join(("tags", *names)), len(names) + 1
        owned, key = ("", ()) if self.scope is None else (" AND key = ?", (self.scope.key,))
        measures_by_group: dict[tuple[str, ...], Measures] = {}
        for span, low, high in split_spans(start, end):
            where = "tag_sums WHERE quarter" if span == 1 else f"long_tag_sums WHERE span = {span} AND start"
            time = "quarter" if span == 1 else "start"
            added = f"SELECT {listed}, {_SUMMED_ALONE} FROM {where} >= ? AND {time} < ?{owned} GROUP BY {listed}"
            selected = ", ".join((tags_of("q"), *(f"q.{name}" for name in names), _BUCKET_COLUMNS))
            for row in self._db.rows(f"SELECT {selected} FROM ({added}) q", (low, high, *key)):
                add_measures(measures_by_group, row[:count], row[count:])
        return measures_by_group

    def total(self, start: int, end: int) -> Measures:
        """The total."""
        if self.scope is not None:
            return self.by_names(("key",), start, end).get((self.scope.key,), (0,) * len(MEASURES))
        statement = f"SELECT {_SUMS} FROM quarter_sums WHERE quarter >= ? AND quarter < ?"
        measures: Measures = self._db.rows(statement, (start, end))[0]
        return measures if measures[0] is not None else (0,) * len(MEASURES)

    def by_thread(self, start: int, end: int, most: int | None = None) -> NamedUsage:
        """The usage of each thread; of more than `most`, the most expensive are included."""
        most = None if self.scope is not None else most
        if end - start > _SHORT:
            return self._long(_THREADS, start, end, most)
        return self._short(_THREADS, f"thread_sums q WHERE {_WITHIN} AND q.thread <> 0 GROUP BY q.thread", start, end)

    def by_session(self, start: int, end: int, most: int | None = None) -> NamedUsage:
        """The usage of each session; likewise."""
        most = None if self.scope is not None else most
        if end - start > _SHORT:
            return self._long(_SESSIONS, start, end, most)
        joined = "thread_sums q LEFT JOIN threads t ON t.id = q.thread"
        return self._short(_SESSIONS, f"{joined} WHERE {_WITHIN} AND q.thread <> 0 GROUP BY t.session", start, end)

    def without_thread(self, start: int, end: int) -> Measures | None:
        """Totals without a thread; None if nothing does. Not of one key: rollups of threads have none."""
        assert self.scope is None
        statement = f"SELECT {_SUMS} FROM thread_sums q WHERE thread = 0 AND {_WITHIN}"
        measures: Measures = self._db.rows(statement, (start, end))[0]
        return measures if measures[0] is not None else None

    def forgotten(self, start: int, end: int) -> Measures | None:
        """The usage of all forgotten threads, with those of their sessions; None if nothing did."""
        if not self._has_forgotten(start, end):
            return None
        across = f"thread_totals o {_THREADS.buckets} WHERE {_MET} AND {_ACROSS} AND o.is_forgotten = 1"
        inside = f"SELECT {_COLUMNS} FROM thread_totals o WHERE {_INSIDE} AND o.is_forgotten = 1"
        # Without rows that were not active between two times.
        measures: Measures = self._db.rows(
            f"SELECT {_SUMS} FROM ({inside} UNION ALL SELECT {_BUCKET_COLUMNS} FROM {across}) f",
            (start, end, start, *(start, end) * 3),
        )[0]
        return measures if measures[0] is not None else None

    def _short(self, group: _UsageGroup, buckets: str, start: int, end: int) -> NamedUsage:
        grouped = f"(SELECT {group.number}, {_SUMMED} FROM {buckets}) g"
        owned, key = self._owned(group)
        rows = self._db.rows(f"SELECT {group.names}, {_FIGURES} FROM {grouped} {owned}", (start, end, *key))
        return NamedUsage(rows, len(rows))

    def _long(self, group: _UsageGroup, start: int, end: int, most: int | None) -> NamedUsage:
        of = group.of
        select = f"SELECT {group.names}, {_FIGURES} FROM"
        owned, key = self._owned(group)
        # If all are known, the index alone has their number.
        not_forgotten = " AND o.is_forgotten = 0" if self._has_forgotten(start, end) else ""
        across = self._db.rows(
            # By an expression: SQLite would read all totals in the order of a column.
            f"{select} (SELECT coalesce(o.{of}, 0) AS {of}, {_SUMMED} FROM {of}_totals o {group.buckets}"
            f" WHERE {_MET} AND {_ACROSS}{not_forgotten} GROUP BY coalesce(o.{of}, 0)) g {owned}",
            (*(start, end) * 3, *key),
        )
        within, times = f"FROM {of}_totals o WHERE {_INSIDE}{not_forgotten}", (start, end, start)
        if most is None:
            inside = self._db.rows(f"{select} (SELECT o.* {within}) g {owned}", (*times, *key))
            count = len(inside)
        else:
            # To choose among many, no more of each is read than it is chosen by.
            chosen = f"SELECT o.{of} {within} ORDER BY o.cost DESC, o.requests DESC, o.input DESC LIMIT {most}"
            inside = self._db.rows(f"{select} {of}_totals g {owned} AND g.{of} IN ({chosen})", times)
            count = self._db.number(f"SELECT count(*) {within}", times) if len(inside) == most else len(inside)
        # Some that lie across the edges were not active in between.
        active = [row for row in across if row[-1] is not None]
        return NamedUsage(inside + active, count + len(active))

    def _has_forgotten(self, start: int, end: int) -> bool:
        """Whether any forgotten one may have been active: sessions are forgotten with all their threads."""
        statement = f"SELECT 1 FROM session_totals o WHERE {_MET} AND o.is_forgotten = 1 LIMIT 1"
        return exists(self._db, statement, (start, end))

    def _owned(self, group: _UsageGroup) -> tuple[str, tuple[str, ...]]:
        """The join to names, for the scope's sessions alone, and its values."""
        named = f"{group.named} WHERE {_IS_NAMED}"
        return (named, ()) if self.scope is None else (f"{named} AND coalesce(s.key, '') = ?", (self.scope.key,))


def add_measures(groups: dict[tuple[str, ...], Measures], group: tuple[str, ...], measures: Measures) -> None:
    """Add measures to those of a group."""
    before = groups.get(group)
    groups[group] = measures if before is None else tuple(map(int.__add__, before, measures))


def split_spans(start: int, end: int, spans: Sequence[int] = (_DAY, _HOUR, 1)) -> Iterator[tuple[int, int, int]]:
    """A time range as days, hours and 15-minute buckets: length, start and end of each."""
    if start >= end:
        return
    span, smaller = spans[0], spans[1:]
    low, high = -(-start // span) * span, end // span * span
    if low >= high:
        if smaller:
            yield from split_spans(start, end, smaller)
        return
    yield from split_spans(start, low, smaller)
    yield span, low, high
    yield from split_spans(high, end, smaller)
