"""Events: the stream of a background response, piece by piece, for whoever comes later to listen."""

from __future__ import annotations

import sqlite3

from dragoman.store.responses import RUNNING
from dragoman.store.transaction import Transaction

# So many pieces are read at a time: a long stream is not in memory as a whole for everybody who hears it again.
_AT_ONCE = 64


class Events:
    """The table of events: `number` counts the pieces of one response."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, response_id: str, number: int, data: bytes) -> None:
        """Keep the next piece, whole frames; of a response that has ended, or is forgotten, there is none."""
        with Transaction(self._db):
            self._db.execute(
                "INSERT INTO events (holder, number, data, owner)"
                " SELECT id, ?, ?, owner FROM responses WHERE id = ? AND status IN (?, ?)"
                " ON CONFLICT (holder, number) DO UPDATE SET data = excluded.data",
                (number, data, response_id, *RUNNING),
            )

    def streamed(self, response_id: str) -> bool:
        """Whether there is a stream of a response, be it empty."""
        return self._db.execute("SELECT 1 FROM events WHERE holder = ? LIMIT 1", (response_id,)).fetchone() is not None

    def after(self, response_id: str, number: int) -> list[tuple[int, bytes]]:
        """The next pieces behind a number, in order; none if there is none yet."""
        return self._db.execute(
            "SELECT number, data FROM events WHERE holder = ? AND number > ? ORDER BY number LIMIT ?",
            (response_id, number, _AT_ONCE),
        ).fetchall()
