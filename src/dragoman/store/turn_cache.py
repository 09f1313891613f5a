"""Turns: what completes the turns of clients that send back content and calls alone (mapping.md V4), for an hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.store.connection import Connection, Transaction
from dragoman.store.recent_turn_owners import RecentTurnOwners, TurnOwners

# Lifetime of a turn in seconds.
LIFETIME = 3600
# Maximum bytes of all turns; the oldest are dropped first.
MAX_BYTES = 64 * 1024 * 1024
# Maximum bytes for one request.
_MAX_BYTES_PER_REQUEST = 16 * 1024 * 1024
# Bytes of a row besides its ID and body.
_ROW_BYTES = 128
# Rows that go at a time to make room.
_AT_ONCE = 32


class Turns:
    """The table of turns: of an owner, by the id of the first call, up to `max_bytes`. IDs such as `call_0` recur: if
    another turn has the same ID, a row without a body marks it as ambiguous."""

    def __init__(
        self,
        db: Connection,
        now: Callable[[], int],
        max_bytes: int = MAX_BYTES,
        recent_turn_owners: TurnOwners | None = None,
    ) -> None:
        self._db = db
        self._now = now
        self._max_bytes = max_bytes
        self._recent_turn_owners = recent_turn_owners if recent_turn_owners is not None else RecentTurnOwners(None)

    def announce_all(self) -> None:
        """Announce all turns that are stored."""
        for (owner,) in self._db.rows("SELECT DISTINCT owner FROM turns"):
            self.announce(owner)

    def announce(self, owner: bytes) -> None:
        """Announce a turn that is about to be stored, from any thread."""
        self._recent_turn_owners.record(owner, self._now())

    def may_have(self, owner: bytes) -> bool:
        """Whether the owner may have any; likewise."""
        return self._recent_turn_owners.may_have(owner, self._now())

    def add(self, owner: bytes, call_id: str, body: bytes) -> None:
        """Store a turn; one that exceeds the limit is not stored, and neither is the one it would replace."""
        now, db = self._now(), self._db
        with Transaction(db):
            row = db.row(
                "SELECT body FROM turns WHERE owner = ? AND call_id = ? AND expires > ?", (owner, call_id, now)
            )
            stored = body if row is None or row[0] == body else b""
            size = _ROW_BYTES + len(call_id.encode()) + len(stored)
            if size > self._max_bytes:
                stored, size = b"", size - len(stored)
            self._remove([(owner, call_id)])
            db.change(
                "INSERT INTO turns (owner, call_id, expires, size, body) VALUES (?, ?, ?, ?, ?)",
                (owner, call_id, now + LIFETIME, size, stored),
            )
            db.change("UPDATE turns_total SET bytes = bytes + ?", (size,))
            self._make_room()

    def find(self, owner: bytes, call_ids: Sequence[str]) -> dict[str, bytes]:
        """The turns of these ids, as many of the last ones as one request may have."""
        bodies: dict[str, bytes] = {}
        room, now = _MAX_BYTES_PER_REQUEST, self._now()
        for call_id in reversed(call_ids):
            row = self._db.row(
                "SELECT body FROM turns WHERE owner = ? AND call_id = ? AND expires > ?", (owner, call_id, now)
            )
            if row is not None and row[0]:
                room -= len(row[0])
                if room < 0:
                    break
                bodies[call_id] = row[0]
        return bodies

    def remove_outdated(self, most: int) -> int:
        """Remove some of those whose time is over; give how many."""
        with Transaction(self._db):
            outdated = self._db.rows(
                "SELECT owner, call_id FROM turns WHERE expires <= ? ORDER BY expires LIMIT ?", (self._now(), most)
            )
            self._remove(outdated)
        return len(outdated)

    def _make_room(self) -> None:
        while self._db.number("SELECT bytes FROM turns_total") > self._max_bytes:
            oldest = self._db.rows(
                "SELECT owner, call_id, size FROM turns ORDER BY expires, number LIMIT ?", (_AT_ONCE,)
            )
            excess = self._db.number("SELECT bytes FROM turns_total") - self._max_bytes
            going: list[tuple[bytes, str]] = []
            for owner, call_id, size in oldest:
                if excess <= 0:
                    break
                going.append((owner, call_id))
                excess -= size
            if not going:
                return
            self._remove(going)

    def _remove(self, rows: Sequence[tuple[bytes, str]]) -> None:
        """Remove rows, and their sizes from the sum of all."""
        for owner, call_id in rows:
            size = self._db.row("SELECT size FROM turns WHERE owner = ? AND call_id = ?", (owner, call_id))
            if size is not None:
                self._db.change("DELETE FROM turns WHERE owner = ? AND call_id = ?", (owner, call_id))
                self._db.change("UPDATE turns_total SET bytes = bytes - ?", (size[0],))
