"""A file with sessions, threads and exchanges that never were, as the drain would have written it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.records.journal_entry import JournalEntry
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.record_tables import RecordTables
from tests.store.opened import opened_records


class Filling:
    """Puts speakers and exchanges into the tables of a file."""

    def __init__(self, tables: RecordTables) -> None:
        self._tables = tables

    def session(
        self,
        number: int,
        name: str,
        *,
        key: str = "alice",
        client: str = "claude-code",
        started: int = 0,
        last: int = 0,
        origin: int = 0,
        link: str = "",
    ) -> None:
        """A session of a number."""
        self._add("sessions", number, key, name, client, origin, link, started, last)

    def thread(
        self,
        number: int,
        session: int,
        kind: str = "main",
        *,
        name: str = "",
        label: str = "",
        model: str = "large",
        parent: int = 0,
        rule: str = "claude-code.hint",
        sure: int = 100,
        windows: int = 1,
        started: int = 0,
        last: int = 0,
    ) -> None:
        """A thread of a number."""
        self._add(
            "threads",
            number,
            session,
            name or f"thread-{number}",
            kind,
            label,
            model,
            parent,
            rule,
            sure,
            1,
            windows,
            started,
            last,
            b"{}",
        )

    def tip(self, digest: str, thread: int) -> None:
        """What a thread is known by."""
        with self._tables.transaction():
            self._tables.sessions.save_heads([(digest, thread, 1, 0)])

    def exchanges(self, entries: Iterable[JournalEntry], session: int = 0, thread: int = 0) -> None:
        """Exchanges of a thread, and what they come to."""
        batch = Batch()
        for each in entries:
            batch.add(each, AssignedThread(session, thread))
        with self._tables.transaction():
            self._tables.records.add(batch.rows)
            self._tables.rollups.add(batch.rollups())
            self._tables.rollups.add_to_threads(batch.thread_rollups())

    def _add(self, table: str, *values: object) -> None:
        marks = ", ".join("?" * len(values))
        self._tables.connection.change(f"INSERT INTO {table} VALUES ({marks})", values)


@contextmanager
def filling(path: Path) -> Iterator[Filling]:
    """Open a file to fill it."""
    tables = opened_records(path)
    try:
        yield Filling(tables)
    finally:
        tables.close()
