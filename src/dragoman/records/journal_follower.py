"""Journal follower: exchanges opened and finalized by all workers, as their journals are written. A followed journal
stays open, so that it is read to its end after it was removed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from dragoman.database_location import DatabaseLocation
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.journal_ingest import crashed_entry
from dragoman.records.journal_reader import FINALIZED, OPENED, read_changes

# Bytes of one journal that are read at a time.
_AT_ONCE = 1024 * 1024


class ExchangeEvent(NamedTuple):
    """An exchange that was opened or finalized, by `OPENED` and `FINALIZED`."""

    kind: str
    entry: JournalEntry


class JournalFollower:
    """Follows the journals that belong to a file, from where they end when it is made. One thread at a time uses it."""

    def __init__(self, database: DatabaseLocation) -> None:
        self._directory = directory_of(database)
        self._followed: dict[str, _Followed] = {}
        # Open exchanges, with the journal of each.
        self._open: dict[str, tuple[str, JournalEntry]] = {}
        self._look_for_journals()
        for each in self._followed.values():
            each.offset = os.fstat(each.descriptor).st_size

    def read(self, now: int) -> list[ExchangeEvent]:
        """The events since the last read. An exchange whose journal was removed before it was finalized has crashed, at
        the latest by now, in microseconds."""
        names = self._look_for_journals()
        events: list[ExchangeEvent] = []
        over: list[str] = []
        for name in sorted(self._followed):
            is_over = self._read_on(name, events) and name not in names
            if is_over:
                over.append(name)
        # After all are read: open exchanges of one journal may continue in another.
        for name in over:
            os.close(self._followed.pop(name).descriptor)
            for _, entry in [each for each in self._open.values() if each[0] == name]:
                del self._open[entry.id]
                events.append(ExchangeEvent(FINALIZED, crashed_entry(entry, now)))
        return events

    def close(self) -> None:
        """Close all journals."""
        for each in self._followed.values():
            os.close(each.descriptor)
        self._followed.clear()

    def _look_for_journals(self) -> set[str]:
        """Open journals that are new; give the names of all that are there."""
        journals = journals_in(self._directory)
        for journal in journals:
            if journal.name not in self._followed:
                self._follow(journal)
        return {journal.name for journal in journals}

    def _follow(self, journal: Path) -> None:
        try:
            self._followed[journal.name] = _Followed(os.open(journal, os.O_RDONLY))
        except FileNotFoundError:
            # It was removed in between, so it is finished.
            return

    def _read_on(self, name: str, events: list[ExchangeEvent]) -> bool:
        """Read on in a journal; give whether it has no more at present."""
        followed = self._followed[name]
        begin = followed.offset
        while followed.offset - begin < _AT_ONCE:
            update = read_changes(followed.descriptor, followed.offset)
            if update.end == followed.offset:
                return True
            followed.offset = update.end
            for kind, entry in update.changes:
                if kind == FINALIZED:
                    self._open.pop(entry.id, None)
                else:
                    self._open[entry.id] = name, entry
                if kind in (OPENED, FINALIZED):
                    events.append(ExchangeEvent(kind, entry))
        return False


class _Followed:
    """An open journal, and how far it was read."""

    __slots__ = ("descriptor", "offset")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.offset = 0
