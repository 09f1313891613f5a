"""Erasure: deletes rows of exchanges in small batches, with their sessions and threads; totals stay."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.store.connection import RECORDS, Connection, Transaction
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.stored_erasure import StoredCount, StoredErasure

# Number of a session's rows that are removed at a time; number of a key's rows that are read at a time.
_AT_ONCE, _LOOKED_AT = 100, 2000
# Totals of a session without any, whose number would be given to another one.
_EMPTY_TOTALS = f"INSERT INTO session_totals (session, since, last, {', '.join(MEASURES)}) SELECT id, 0, 0"
_EMPTY_TOTALS += f", {', '.join('0' * len(MEASURES))} FROM sessions"


class NamedSession(Struct, frozen=True):
    """A session by its number and name."""

    number: int
    key: str
    name: str


class ErasureCount(Struct, frozen=True, kw_only=True):
    """The extent of an erasure."""

    rows: int = 0
    sessions: int = 0
    threads: int = 0
    heads: int = 0
    stored: StoredCount = StoredCount()


class Erasure:
    """Queries and deletions of an erasure, on a connection that overwrites deleted rows."""

    def __init__(self, db: Connection, at_once: int = _AT_ONCE, looked_at: int = _LOOKED_AT) -> None:
        self._db = db
        self._at_once = at_once
        self._looked_at = looked_at
        self.stored = StoredErasure(db, at_once)

    def has_key(self, key: str) -> bool:
        """Whether anything was ever added up under a key."""
        return bool(self._db.rows("SELECT 1 FROM long_sums WHERE span = 96 AND key = ? LIMIT 1", (key,)))

    def sessions_of(self, key: str, before: int | None = None) -> list[NamedSession]:
        """The sessions of a key, or only sessions that ended before a time."""
        early, given = _early("last", before)
        rows = self._db.rows(f"SELECT id, key, name FROM sessions WHERE key = ?{early}", (key, *given))
        return [NamedSession(*row) for row in rows]

    def sessions_named(self, name: str, key: str | None) -> list[NamedSession]:
        """The sessions with this name, of one key or of any."""
        rows = self._db.rows("SELECT id, key, name FROM sessions WHERE name = ? ORDER BY key", (name,))
        return [NamedSession(*row) for row in rows if key is None or row[1] == key]

    def exchange_ids_of(self, session: int) -> list[str]:
        """The ids of a session's exchanges."""
        return [row[0] for row in self._db.rows("SELECT id FROM records WHERE session = ?", (session,))]

    def amount_of_key(self, key: str) -> ErasureCount:
        """The extent of a key; reads every row."""
        rows = self._db.number("SELECT count(*) FROM records WHERE key = ?", (key,))
        return self._amount(rows, "SELECT id FROM sessions WHERE key = ?", key)

    def amount_of_session(self, session: int) -> ErasureCount:
        rows = self._db.number("SELECT count(*) FROM records WHERE session = ?", (session,))
        return self._amount(rows, "SELECT id FROM sessions WHERE id = ?", session)

    def _amount(self, rows: int, sessions: str, given: str | int) -> ErasureCount:
        threads = f"SELECT id FROM threads WHERE session IN ({sessions})"
        return ErasureCount(
            rows=rows,
            sessions=self._db.number(f"SELECT count(*) FROM ({sessions}) s", (given,)),
            threads=self._db.number(f"SELECT count(*) FROM ({threads}) t", (given,)),
            heads=self._db.number(f"SELECT count(*) FROM tips WHERE thread IN ({threads})", (given,)),
        )

    def remove_rows_of_key(self, key: str, after: int, before: int | None = None) -> tuple[int, int | None]:
        """Remove some rows behind a number, or only rows before a time: how many, and the number to go on from;
        None if that is all."""
        last = self._db.number("SELECT coalesce(max(number), 0) FROM records")
        if after >= last:
            return 0, None
        until = after + self._looked_at
        early, given = _early("time", before)
        statement = f"DELETE FROM records WHERE number > ? AND number <= ? AND key = ?{early}"
        return self._change([(statement, (after, until, key, *given))]), until

    def remove_rows_of_session(self, session: int, before: int | None = None) -> int:
        """Remove some rows, or only rows before a time; give how many, 0 if none is left."""
        early, given = _early("time", before)
        some = f"SELECT number FROM records WHERE session = ?{early} LIMIT ?"
        statement = f"DELETE FROM records WHERE number IN ({some})"
        return self._change([(statement, (session, *given, self._at_once))])

    def remove_sessions(self, sessions: Sequence[int]) -> None:
        """Remove what sessions and their threads are called, where their histories ended, and what refers to them."""
        # Some at once, since every end of a history is looked at for them.
        for at in range(0, len(sessions), self._at_once):
            some = ", ".join(str(int(session)) for session in sessions[at : at + self._at_once])
            threads = f"(SELECT id FROM threads WHERE session IN ({some}))"
            self._change(
                [
                    (f"DELETE FROM tips WHERE thread IN {threads}", ()),
                    (f"UPDATE thread_totals SET is_forgotten = 1 WHERE thread IN {threads}", ()),
                    (f"{_EMPTY_TOTALS} WHERE id IN ({some}) ON CONFLICT (session) DO NOTHING", ()),
                    (f"UPDATE session_totals SET is_forgotten = 1 WHERE session IN ({some})", ()),
                    (f"UPDATE threads SET parent = 0 WHERE session NOT IN ({some}) AND parent IN {threads}", ()),
                    (f"DELETE FROM threads WHERE session IN ({some})", ()),
                    (f"UPDATE sessions SET origin = 0, link = '' WHERE origin IN ({some})", ()),
                    (f"DELETE FROM sessions WHERE id IN ({some})", ()),
                ]
            )

    def wipe(self) -> bool:
        """Overwrite deleted data in the file itself, and empty its write-ahead log; False if others are reading."""
        return self._db.wipe()

    def _change(self, statements: Sequence[tuple[str, tuple[str | int, ...]]]) -> int:
        with Transaction(self._db, RECORDS):
            return sum([self._db.change(statement, given) for statement, given in statements])


def _early(column: str, before: int | None) -> tuple[str, tuple[int, ...]]:
    """The condition that a time is before another one, if that is given, and its value."""
    return ("", ()) if before is None else (f" AND {column} < ?", (before,))
