"""Persisted cooldowns: targets and keys with the end of their cooldown, for a restart. The gateway defines the content
of a row."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.store.connection import Connection, Transaction

# Cooldowns that end first are dropped.
MAX_COOLDOWNS = 4096
# Behind every other text.
_LAST = "\U0010ffff"


class Cooldowns:
    """The table of cooldowns, by subject; times are those of the wall clock, in seconds."""

    def __init__(self, db: Connection, now: Callable[[], float], max_rows: int = MAX_COOLDOWNS) -> None:
        self._db = db
        self._now = now
        self._max_rows = max_rows

    def persist(self, subject: str, until: float, body: bytes) -> None:
        """Keep a rest; one that ends later stays."""
        with Transaction(self._db):
            self._db.change(
                "INSERT INTO rests (subject, expires, body) VALUES (?, ?, ?) ON CONFLICT (subject) DO UPDATE"
                " SET expires = excluded.expires, body = excluded.body WHERE excluded.expires > rests.expires",
                (subject, until, body),
            )
            excess = self._db.number("SELECT count(*) FROM rests") - self._max_rows
            if excess > 0:
                self._remove("SELECT subject FROM rests ORDER BY expires LIMIT ?", excess)

    def end(self, subject: str) -> None:
        with Transaction(self._db):
            self._db.change("DELETE FROM rests WHERE subject = ?", (subject,))

    def current(self, kind: str = "") -> list[tuple[str, bytes]]:
        """The cooldowns that are not over, of subjects that begin so."""
        return self._db.rows(
            "SELECT subject, body FROM rests WHERE expires > ? AND subject >= ? AND subject < ?",
            (self._now(), kind, kind + _LAST),
        )

    def remove_outdated(self, most: int) -> int:
        """Remove some expired cooldowns; returns how many."""
        with Transaction(self._db):
            return self._remove("SELECT subject FROM rests WHERE expires <= ? LIMIT ?", self._now(), most)

    def _remove(self, which: str, *given: float) -> int:
        return self._db.change(f"DELETE FROM rests WHERE subject IN ({which})", given)
