"""Speakers: the tables of sessions, of threads, and of where histories ended (decision 33)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import astuple

from dragoman.store.bulk_insert import BulkInsert
from dragoman.store.connection import Connection

# Maximum threads per digest: equal histories of many threads cannot be distinguished.
MAX_THREADS_PER_DIGEST = 32


class SessionRow(Struct, gc=False):
    """A session, as its row has it."""

    id: int
    key: str
    name: str
    client: str
    origin: int
    link: str
    started: int
    last: int


class ThreadRow(Struct, gc=False):
    """A thread, as its row has it but for its facts; `kind` is its class."""

    id: int
    session: int
    name: str
    kind: str
    label: str
    model: str
    parent: int
    rule: str
    sure: int
    rules: int
    windows: int
    started: int
    last: int


class StoredThread(ThreadRow, gc=False):
    """The whole row, with the facts that its class is derived from, as JSON."""

    facts: bytes


# A digest, a thread, its state and a time.
HeadRow = tuple[str, int, int, int]

SESSION_COLUMNS = SessionRow.__struct_fields__
THREAD_COLUMNS = tuple("class" if name == "kind" else name for name in StoredThread.__struct_fields__)
# The latest numbers of sessions, and of threads.
_SESSIONS, _THREADS = (
    f"SELECT max(id) AS number FROM {of}s UNION ALL SELECT max({of}) FROM {of}_totals" for of in ("session", "thread")
)
_SESSION, _THREAD = ", ".join(SESSION_COLUMNS), ", ".join(THREAD_COLUMNS)
_ADD_SESSIONS, _ADD_THREADS = BulkInsert("sessions", SESSION_COLUMNS), BulkInsert("threads", THREAD_COLUMNS)
_LIST = BulkInsert(
    "sessions",
    SESSION_COLUMNS,
    "ON CONFLICT (key, name) DO UPDATE SET"
    " started = CASE WHEN excluded.started < sessions.started THEN excluded.started ELSE sessions.started END,"
    " last = CASE WHEN excluded.last > sessions.last THEN excluded.last ELSE sessions.last END",
)
_SAVE_HEADS = BulkInsert(
    "tips",
    ("digest", "thread", "state", "time"),
    "ON CONFLICT (digest, thread) DO UPDATE SET state = excluded.state, time = excluded.time",
)
# Digests per query.
_QUERY_SIZE = 64
_SELECT_STORED = (
    f"WITH asked (digest) AS (VALUES {', '.join(['(?)'] * _QUERY_SIZE)})"
    " SELECT digest FROM asked WHERE EXISTS (SELECT 1 FROM tips WHERE tips.digest = asked.digest)"
)

# Old tips are looked for in so many of them at a time, and in all of one digest; this is the next digest.
_LOOKED_AT = 10_000
_NEXT_DIGEST = (
    "SELECT digest FROM tips WHERE digest >"
    " (SELECT digest FROM tips WHERE digest >= ? ORDER BY digest LIMIT 1 OFFSET ?) ORDER BY digest LIMIT 1"
)
# Behind all digests.
_BEYOND = "\U0010ffff"


class SessionTables:
    """Sessions, their threads, and where histories ended."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        # Up to where old tips were looked for.
        self._looked_until = ""

    def session(self, key: str, name: str) -> SessionRow | None:
        """The session of a name; one without a thread is only listed."""
        begun = "EXISTS (SELECT 1 FROM threads WHERE session = sessions.id)"
        return self._session(f"key = ? AND name = ? AND {begun}", (key, name))

    def listed(self, key: str, name: str) -> SessionRow | None:
        """The session of a name, whether any of its exchanges is assigned or not."""
        return self._session("key = ? AND name = ?", (key, name))

    def add_listed(self, rows: Iterable[tuple[str, str, str, int, int]]) -> None:
        """List sessions by key and name, with client and the times of their first and last exchanges; sorted."""
        listed = [(key, name, client, 0, "", *times) for key, name, client, *times in rows]
        if listed:
            # A session that exists already leaves its number unused.
            start = self._latest(_SESSIONS) + 1
            _LIST.run(self._db, [(number, *row) for number, row in enumerate(listed, start)])

    def session_of(self, number: int) -> SessionRow | None:
        return self._session("id = ?", (number,))

    def _session(self, which: str, values: Sequence[object]) -> SessionRow | None:
        row = self._db.row(f"SELECT {_SESSION} FROM sessions WHERE {which}", values)
        return None if row is None else SessionRow(*row)

    def thread(self, session: int, name: str) -> StoredThread | None:
        """The first thread of a session that is called so."""
        return self._thread("session = ? AND name = ? ORDER BY id LIMIT 1", (session, name))

    def thread_of(self, number: int) -> StoredThread | None:
        return self._thread("id = ?", (number,))

    def _thread(self, which: str, values: Sequence[object]) -> StoredThread | None:
        row = self._db.row(f"SELECT {_THREAD} FROM threads WHERE {which}", values)
        return None if row is None else StoredThread(*row)

    def numbers(self) -> tuple[int, int]:
        """The latest numbers of a session and of a thread, for the holder of the write lock, who assigns the next."""
        return self._latest(_SESSIONS), self._latest(_THREADS)

    def _latest(self, numbers: str) -> int:
        # A number is never given again: the totals of what is forgotten stay.
        return self._db.number(f"SELECT max(number) FROM ({numbers} UNION ALL SELECT 0) n")

    def add_sessions(self, rows: Iterable[SessionRow]) -> None:
        """Begin sessions, whose numbers were given."""
        _ADD_SESSIONS.run(self._db, [astuple(row) for row in rows])

    def add_threads(self, rows: Iterable[StoredThread]) -> None:
        """Begin threads, whose numbers were given."""
        # An array of bytes: SQLite would ask `bytes` first how to adapt them.
        _ADD_THREADS.run(self._db, [(*astuple(row)[:-1], bytearray(row.facts)) for row in rows])

    def save_sessions(self, rows: Iterable[SessionRow]) -> None:
        """Write what changes of sessions."""
        self._db.many(
            "UPDATE sessions SET origin = ?, link = ?, started = ?, last = ? WHERE id = ?",
            [(row.origin, row.link, row.started, row.last, row.id) for row in rows],
        )

    def save_threads(self, rows: Iterable[StoredThread]) -> None:
        """Write what changes of threads."""
        self._db.many(
            "UPDATE threads SET class = ?, label = ?, model = ?, parent = ?, rule = ?, sure = ?, rules = ?,"
            " windows = ?, started = ?, last = ? WHERE id = ?",
            [
                (
                    *(row.kind, row.label, row.model, row.parent, row.rule, row.sure, row.rules, row.windows),
                    *(row.started, row.last, row.id),
                )
                for row in rows
            ],
        )

    def heads(self, digests: Sequence[str]) -> list[HeadRow]:
        """Known ends of histories for some digests: digest, thread, state and time, the oldest threads first."""
        placeholders = ", ".join("?" * len(digests))
        # A statement for each number of parameters; rare numbers have few.
        most = MAX_THREADS_PER_DIGEST * len(digests)
        return self._db.rows(
            f"SELECT digest, thread, state, time FROM tips WHERE digest IN ({placeholders})"
            f" ORDER BY thread LIMIT {most}",
            digests,
        )

    def stored_digests(self, digests: Iterable[str]) -> set[str]:
        """Those of many digests of which anything is known."""
        stored: set[str] = set()
        rest = iter(digests)
        while batch := list(islice(rest, _QUERY_SIZE)):
            # One statement for any number of them: nothing is known by "".
            batch += [""] * (_QUERY_SIZE - len(batch))
            stored.update(digest for (digest,) in self._db.rows(_SELECT_STORED, batch))
        return stored

    def save_heads(self, rows: Sequence[HeadRow]) -> None:
        """Keep digests, each with a thread, a state and a time; sorted."""
        _SAVE_HEADS.run(self._db, rows)

    def remove_heads(self, before: int, most: int) -> int:
        """Remove some old history heads; how many. Each call looks at a part of the table, and moves on once nothing is
        left there: an index by time would cost more, for as many heads as exchanges."""
        start = self._looked_until
        row = self._db.row(_NEXT_DIGEST, (start, _LOOKED_AT))
        end = _BEYOND if row is None else str(row[0])
        removed = self._db.change(
            "DELETE FROM tips WHERE (digest, thread) IN"
            " (SELECT digest, thread FROM tips WHERE digest >= ? AND digest < ? AND time < ? LIMIT ?)",
            (start, end, before, most),
        )
        if removed < most:
            self._looked_until = "" if row is None else end
        return removed

    def outdated(self, rules: int, most: int) -> list[StoredThread]:
        """Some threads that were classed by older rules."""
        rows = self._db.rows(f"SELECT {_THREAD} FROM threads WHERE rules < ? LIMIT ?", (rules, most))
        return [StoredThread(*row) for row in rows]
