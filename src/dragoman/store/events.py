"""Events: the stream of a background response, piece by piece, for whoever comes later to listen."""

from __future__ import annotations

import sqlite3


class Events:
    """The table of events: `number` counts the pieces of one response."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def add(self, response_id: str, number: int, data: bytes) -> None:
        """Keep the next piece, whole frames; of a response that has ended, or is forgotten, there is none."""
        self._db.execute(
            "INSERT OR REPLACE INTO events (holder, number, data)"
            " SELECT id, ?, ? FROM responses WHERE id = ? AND status IN ('queued', 'in_progress')",
            (number, data, response_id),
        )

    def streamed(self, response_id: str) -> bool:
        """Whether there is a stream of a response, be it empty."""
        return self._db.execute("SELECT 1 FROM events WHERE holder = ? LIMIT 1", (response_id,)).fetchone() is not None

    def after(self, response_id: str, number: int) -> list[tuple[int, bytes]]:
        """The pieces behind a number, in order."""
        return self._db.execute(
            "SELECT number, data FROM events WHERE holder = ? AND number > ? ORDER BY number", (response_id, number)
        ).fetchall()
