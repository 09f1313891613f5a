"""Session queries: sessions and threads with their figures, from thread totals, which outlive rows. All queries use
indexes: sessions by time or name, the last exchange of a thread by session and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.store.connection import Connection
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_queries import BEYOND, KeyScope
from dragoman.store.session_tables import SESSION_COLUMNS, THREAD_COLUMNS, SessionRow, ThreadRow

# Sessions per query.
_AT_ONCE = 500
_SUMS = ", ".join(f"coalesce(sum(s.{name}), 0)" for name in MEASURES)
_TOTALS = ", ".join(f"coalesce(s.{name}, 0)" for name in MEASURES)
_JOINED = " FROM threads t LEFT JOIN thread_totals s ON s.thread = t.id"
# The link between a session of an agent and its parent (`sessions/assign.py`).
SPAWNED = "subagent"


class SessionFigures(Struct, frozen=True):
    """Totals of exchanges: `input` includes cache reads and writes, `output` includes reasoning."""

    requests: int = 0
    errors: int = 0
    cancelled: int = 0
    others: int = 0
    input: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    thinking: int = 0
    searches: int = 0
    estimated: int = 0
    cost: int = 0
    unpriced: int = 0
    losses: int = 0
    took: int = 0
    first: int = 0
    firsts: int = 0
    # Losses that are bookkeeping; `losses` counts losses that change the response.
    bookkeeping: int = 0

    def __add__(self, other: SessionFigures) -> SessionFigures:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return SessionFigures(*map(int.__add__, mine, theirs))


class LastExchange(Struct, frozen=True):
    """The outcome of a thread's last exchange; times are microseconds."""

    thread: int
    time: int
    took: int
    outcome: str
    stop: str


class ClassTotals(Struct, frozen=True):
    """The usage of the threads of one class in a session, and their number."""

    session: int
    kind: str
    threads: int
    figures: SessionFigures


_THREAD_FIELDS = len(ThreadRow.__struct_fields__)
_SESSION = ", ".join(SESSION_COLUMNS)
_THREAD = ", ".join(f"t.{name}" for name in THREAD_COLUMNS[:_THREAD_FIELDS])
_LAST = (
    "SELECT thread, time, took, outcome, stop FROM records WHERE session = ?"
    " AND time <= ? AND thread = ? AND kind = 'conversation' ORDER BY time DESC, number DESC LIMIT 1"
)


class SessionQueries:
    """Queries of sessions and threads, by a connection that only reads. With a scope, sessions are found if they began
    in it; what belongs to a session that was found is in the scope, too."""

    def __init__(self, db: Connection, scope: KeyScope | None = None) -> None:
        self._db = db
        self.scope = scope
        # Conditions without an index, which every query of sessions has.
        self._owned = "" if scope is None else " AND coalesce(key, '') = ?"
        self._given: tuple[object, ...] = () if scope is None else (scope.key,)

    def newest(self, since: int, key: str | None, most: int, before: tuple[int, int] | None = None) -> list[SessionRow]:
        """Sessions that were active since a time, newest first, without sessions of agents of another one; optionally
        after one with this time and number."""
        named = "" if key is None else " AND coalesce(key, '') = ?"
        behind = "" if before is None else " AND last <= ? AND (last, id) < (?, ?)"
        return [
            SessionRow(*row)
            for row in self._db.rows(
                f"SELECT {_SESSION} FROM sessions s WHERE last >= ?{named}{behind}"
                f"{self._owned}"
                " AND (link <> ? OR NOT EXISTS (SELECT 1 FROM sessions o WHERE o.id = s.origin))"
                " ORDER BY last DESC, id DESC LIMIT ?",
                [
                    since,
                    *([] if key is None else [key]),
                    *([] if before is None else [before[0], *before]),
                    *self._given,
                    SPAWNED,
                    most,
                ],
            )
        ]

    def below(self, sessions: Iterable[int]) -> dict[int, list[SessionRow]]:
        """Sessions of agents, by the session that they were begun from, at any depth."""
        root = {number: number for number in sessions}
        children: dict[int, list[SessionRow]] = {}
        level = sorted(root)
        while level:
            next_level: list[int] = []
            for row in self._in(
                f"SELECT {_SESSION} FROM sessions"
                f" WHERE origin IN ({{}}) AND origin > 0 AND link = '{SPAWNED}'{self._owned}",
                level,
                self._given,
            ):
                child = SessionRow(*row)
                if child.id not in root:
                    root[child.id] = root[child.origin]
                    children.setdefault(root[child.origin], []).append(child)
                    next_level.append(child.id)
            level = next_level
        return children

    def named(self, text: str, key: str | None, most: int) -> list[SessionRow]:
        """Sessions with this name, under any key or under one; if there is none, sessions whose names begin with it."""
        keys = [key] if key is not None else self.with_sessions() if self.scope is None else [self.scope.key]
        matches = self._between(keys, text, text, most)
        return matches or self._between(keys, text, text + BEYOND, most)

    def of(self, numbers: Iterable[int]) -> dict[int, SessionRow]:
        """Sessions by their numbers, as far as there are such."""
        wanted = sorted(set(numbers))
        rows = self._in(f"SELECT {_SESSION} FROM sessions WHERE id IN ({{}}){self._owned}", wanted, self._given)
        return {row[0]: SessionRow(*row) for row in rows}

    def threads(self, *sessions: int) -> list[tuple[ThreadRow, SessionFigures]]:
        """The threads of sessions with their usage, in the order in which they began."""
        rows = self._in(f"SELECT {_THREAD}, {_TOTALS}{_JOINED} WHERE t.session IN ({{}})", sessions)
        pairs = [(ThreadRow(*row[:_THREAD_FIELDS]), SessionFigures(*row[_THREAD_FIELDS:])) for row in rows]
        return sorted(pairs, key=lambda each: (each[0].started, each[0].id))

    def thread_rows(self, numbers: Iterable[int]) -> dict[int, ThreadRow]:
        """Threads by their numbers, as far as there are such."""
        rows = self._in(f"SELECT {_THREAD} FROM threads t WHERE t.id IN ({{}})", sorted(set(numbers)))
        return {row[0]: ThreadRow(*row) for row in rows}

    def by_class(self, sessions: Sequence[int]) -> list[ClassTotals]:
        """The usage of the threads of sessions, by class."""
        select = f"SELECT t.session, t.class, count(*), {_SUMS}{_JOINED}"
        rows = self._in(f"{select} WHERE t.session IN ({{}}) GROUP BY t.session, t.class", sessions)
        return [ClassTotals(row[0], row[1], row[2], SessionFigures(*row[3:])) for row in rows]

    def without_session(self, bucket: int) -> SessionFigures:
        """Totals without a session, since a 15-minute bucket."""
        row = self._db.rows(
            f"SELECT {_SUMS} FROM thread_sums s WHERE s.thread = 0 AND s.quarter >= ?",
            [bucket],
        )[0]
        return SessionFigures(*row)

    def last_exchanges(self, threads: Iterable[ThreadRow]) -> dict[int, LastExchange]:
        """The last exchange of each thread, as far as its row is still there."""
        exchanges: dict[int, LastExchange] = {}
        for thread in threads:
            for row in self._db.rows(_LAST, [thread.session, thread.last, thread.id]):
                exchanges[thread.id] = LastExchange(*row)
        return exchanges

    def main_threads(self, sessions: Sequence[int]) -> list[ThreadRow]:
        """The main thread of each session that was active last; any thread if it has no main one."""
        rows = self._in(
            f"SELECT {_THREAD} FROM threads t WHERE t.session IN ({{}}) ORDER BY t.class = 'main', t.last, t.id",
            sessions,
        )
        return list({row[1]: ThreadRow(*row) for row in rows}.values())

    def with_sessions(self) -> list[str]:
        """The keys that have sessions, by leaping along the index."""
        rows = self._db.rows(
            "WITH RECURSIVE k (key) AS (SELECT min(key) FROM sessions UNION ALL"
            " SELECT (SELECT min(key) FROM sessions WHERE key > k.key) FROM k WHERE k.key IS NOT NULL)"
            " SELECT key FROM k WHERE key IS NOT NULL"
        )
        return [row[0] for row in rows]

    def _between(self, keys: Sequence[str], low: str, high: str, most: int) -> list[SessionRow]:
        sessions: list[SessionRow] = []
        for key in keys:
            rows = self._db.rows(
                f"SELECT {_SESSION} FROM sessions"
                f" WHERE key = ? AND name BETWEEN ? AND ?{self._owned} ORDER BY name LIMIT ?",
                [key, low, high, *self._given, most - len(sessions)],
            )
            sessions += [SessionRow(*row) for row in rows]
            if len(sessions) >= most:
                break
        return sessions

    def _in(self, statement: str, numbers: Sequence[int], given: Sequence[object] = ()) -> Iterator[Any]:
        """The rows of a query with numbers in place of `{}`, some of them at a time, and values behind them."""
        for at in range(0, len(numbers), _AT_ONCE):
            some = numbers[at : at + _AT_ONCE]
            yield from self._db.rows(statement.format(", ".join("?" * len(some))), [*some, *given])
