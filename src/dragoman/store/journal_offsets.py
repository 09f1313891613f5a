"""Marks: how far each journal was read into the tables; whoever moves one does it from where it was, or not at all."""

from __future__ import annotations

import sqlite3


class JournalOffsets:
    """The table of journals."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def applied(self, name: str) -> int:
        """How many bytes of a journal are in the tables; 0 also of one that nobody has read."""
        row = self._db.execute("SELECT applied FROM journals WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def all(self) -> dict[str, int]:
        """How far each journal was read."""
        return {str(name): int(applied) for name, applied in self._db.execute("SELECT name, applied FROM journals")}

    def move(self, name: str, start: int, end: int, damaged: int = 0) -> bool:
        """Move a mark in the present transaction; False if somebody else has moved it from there.

        One that is not there is at the beginning. Whoever removes a journal removes its file first: where that was
        still there in this transaction, no mark of it can have been removed.
        """
        if start == 0:
            # A mark that is there is never at 0.
            return bool(
                self._db.execute(
                    "INSERT INTO journals (name, applied, damaged) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                    (name, end, damaged),
                ).rowcount
            )
        moved = self._db.execute(
            "UPDATE journals SET applied = ?, damaged = damaged + ? WHERE name = ? AND applied = ?",
            (end, damaged, name, start),
        )
        return bool(moved.rowcount)

    def remove(self, name: str) -> None:
        """Forget a journal whose file is gone."""
        self._db.execute("DELETE FROM journals WHERE name = ?", (name,))
