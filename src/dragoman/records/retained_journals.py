"""Retained journals: ingested journals, until a failover of the database can no longer lose their rows (decision 47). A
replica that is promoted may lack the latest transactions, and with them rows and offsets alike: a journal whose offset
went back is ingested again from there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dragoman.records.journal_directory import journals_in, make_directory

FOLDER = "ingested"


class RetainedJournals:
    """The retained journals of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folder = directory / FOLDER

    def all(self) -> list[Path]:
        """The retained journals, the oldest first."""
        return journals_in(self._folder)

    def retain(self, journal: Path) -> None:
        """Move an ingested journal to the retained ones."""
        make_directory(self._folder)
        with suppress(FileNotFoundError):
            # Another process may have moved it.
            journal.rename(self._folder / journal.name)

    def restore(self, offsets: Mapping[str, int]) -> int:
        """Move journals with an offset that the database has no longer ingested whole back to the others; give their
        number."""
        restored = 0
        for journal in self.all():
            with suppress(FileNotFoundError):
                if journal.name in offsets and offsets[journal.name] <= journal.stat().st_size:
                    journal.rename(self._directory / journal.name)
                    restored += 1
        return restored

    def remove_before(self, time: int) -> None:
        """Remove the journals that were retained before a time in microseconds."""
        for journal in self.all():
            with suppress(FileNotFoundError):
                # The move was the last change of the file.
                if journal.stat().st_ctime_ns // 1000 < time:
                    journal.unlink()
