"""Journal ingest: moves journals into the tables exactly once, in any process (decision 32). Each segment is one
transaction, which also moves the journal's offset. A journal whose lock is free has no worker any more: after all its
lines, exchanges opened in it and not settled have crashed, unless another journal continues it; then the file is
removed, and its offset after that. If the database may lose what it has (decision 47), the file is retained."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.database_location import DatabaseLocation, is_persistent, journal_keep_of
from dragoman.records.journal_directory import ASIDE, begun, directory_of, journals_in, machine_of, make_directory
from dragoman.records.journal_entry import CRASHED, JournalEntry, TokenCounts
from dragoman.records.journal_lock import lock_one_that_is_there
from dragoman.records.journal_reader import (
    JournalSegment,
    decode_finalized,
    read_before,
    read_contents,
    read_lines,
    read_segment,
)
from dragoman.records.line_parts import LineParts
from dragoman.records.retained_journals import RetainedJournals
from dragoman.records.rows import Batch, EntryParts
from dragoman.records.sanitize import sanitize_entry
from dragoman.store.record_tables import RecordTables, is_outdated, open_record_tables

if TYPE_CHECKING:
    from dragoman.records.machine import Machine

# Bytes of JSON per token, if no count is known.
_BYTES_OF_A_TOKEN = 4

# Time in microseconds for which a missing journal may come back.
_MAY_COME_BACK = 30 * 86_400_000_000
# Bytes of a journal that are written in one transaction, for which other writers wait.
_AT_ONCE = 1024 * 1024

OnIngested = Callable[[Sequence[JournalEntry]], None]
# A finalized exchange as it is ingested.
Ingestible = JournalEntry | EntryParts


class Ingested(Struct, frozen=True, kw_only=True):
    """The result of an ingestion: rows, unreadable lines, and finished journals."""

    rows: int = 0
    damaged: int = 0
    journals: int = 0


def ingest_all(database: DatabaseLocation, *, now: int) -> Ingested:
    """Ingest all entries up to now (microseconds), from all processes."""
    if not is_persistent(database):
        return Ingested()
    directory = directory_of(database)
    if not journals_in(directory) and not RetainedJournals(directory).all() and not is_outdated(database):
        return Ingested()
    machine = machine_at(database)
    tables = open_record_tables(database)
    try:
        if machine is not None and not machine.is_joined(tables.connection):
            # The next start of its gateway decides what becomes of them.
            return Ingested()
        ingester = Ingester(tables, directory, keep=journal_keep_of(database), machine=machine)
        ingester.restore_retained()
        ingester.ingest_orphans(now)
        # Only entries from before the request: others may be written all the time.
        for journal in ingester.journals_here():
            ingester.ingest(journal, until=journal_size(journal))
        return ingester.ingested
    finally:
        tables.close()


def machine_at(database: DatabaseLocation, configuration: Callable[[], str] = lambda: "") -> Machine | None:
    """The machine of this process, if a database has several."""
    if isinstance(database, str):
        return None
    from dragoman.records.machine import Machine

    return Machine(database, configuration)


class Ingester:
    """Moves a folder's journals into tables. `on_ingested` gets ingested entries once they are on the disk: of all
    journals of this worker, also if a command ingested them meanwhile. `heard` has the offsets by journal name, and
    outlives this object. Ingested journals are retained for `keep` seconds, if that is not 0. With a `machine`, those
    of others are left alone."""

    def __init__(
        self,
        tables: RecordTables,
        directory: Path,
        on_ingested: OnIngested | None = None,
        notified_offsets: dict[str, int] | None = None,
        keep: float = 0.0,
        machine: Machine | None = None,
    ) -> None:
        self.tables = tables
        self._machine = machine
        self._directory = directory
        self.on_ingested = on_ingested
        self._notified_offsets = {} if notified_offsets is None else notified_offsets
        self._keep = keep
        self._retained_journals = RetainedJournals(directory)
        self._is_careful = False
        self._line_parts = LineParts()
        self.rows = 0
        self.damaged = 0
        self.journals = 0

    @property
    def ingested(self) -> Ingested:
        """The result so far."""
        return Ingested(rows=self.rows, damaged=self.damaged, journals=self.journals)

    def journals_here(self) -> list[Path]:
        """The journals of this machine, the oldest first."""
        return [journal for journal in journals_in(self._directory) if self.is_own(journal)]

    def retained_here(self) -> list[Path]:
        """The retained journals of this machine, the oldest first."""
        return [journal for journal in self._retained_journals.all() if self.is_own(journal)]

    def is_own(self, journal: Path) -> bool:
        """Whether a journal is of this machine; one without an epoch in its name is from before it joined others."""
        machine, epoch = machine_of(journal.name)
        return self._machine is None or epoch == 0 or machine == self._machine.file.id

    def backlog(self) -> int:
        """The bytes of this machine's journals that are not ingested yet; in a transaction."""
        sizes = {journal.name: journal_size(journal) for journal in self.journals_here()}
        offsets = self.tables.offsets.of([*sizes])
        return sum(max(size - offsets.get(name, 0), 0) for name, size in sizes.items())

    def set_aside(self) -> int:
        """Move the journals of other machines, which the disk that this one was cloned from had, out of the way; give
        their number. Their offsets may be those of the original."""
        moved = 0
        for journal in journals_in(self._directory):
            if self.is_own(journal):
                continue
            with _locked(journal) as descriptor:
                if descriptor is not None:
                    make_directory(self._directory / ASIDE)
                    journal.rename(self._directory / ASIDE / journal.name)
                    moved += 1
        return moved

    def ingest(self, journal: Path, *, until: int | None = None) -> int:
        """Ingest a journal; returns the new offset."""
        try:
            descriptor = os.open(journal, os.O_RDONLY)
        except FileNotFoundError:
            return 0
        try:
            self._notified_offsets.setdefault(journal.name, 0)
            return self._ingest(descriptor, journal, until=until)
        finally:
            os.close(descriptor)

    def ingest_removed(self, descriptor: int, journal: Path, *, crashed_by: int | None = None) -> int:
        """Move the rest of a journal that its own worker has open and that was deleted. Its lock goes with the
        descriptor: no other process can have finished it, and without an offset nothing of it was moved. Return how
        many exchanges cannot be moved because its offset was removed: whether the tables have them is unknown. Open
        exchanges continue in another journal; if there is none, they crashed at the given time (microseconds)."""
        size, notified, lost = os.fstat(descriptor).st_size, self._notified_offsets.get(journal.name, 0), 0
        while (at := self._applied(journal)) <= size:
            if notified and not at:
                lost = count_exchanges(descriptor, notified)
            else:
                at = self._ingest(descriptor, journal, is_over=True, is_held=True)
            crashed = (
                [] if crashed_by is None else _crashed(descriptor, read_contents(descriptor).open_entries, crashed_by)
            )
            # If it comes back, it is only to be removed.
            if self._write(journal, [JournalSegment(at, size + 1, crashed)], is_held=True):
                break
        self._notified_offsets.pop(journal.name, None)
        return lost

    def ingest_orphans(self, now: int) -> int:
        """Ingest and remove the journals of ended workers; return the remaining bytes of the others."""
        left = 0
        for journal in self.journals_here():
            with _locked(journal) as descriptor:
                if descriptor is not None and not self._finish(descriptor, journal, now):
                    left += journal_size(journal)
        return left

    def remove_offsets(self, now: int) -> None:
        """Remove offsets of journals whose files are gone, as after a kill during a removal. The latest stay: a folder
        that was moved away may come back, and nothing in it may be moved twice."""
        with self.tables.reading():
            offsets = self.tables.offsets.all()
        before = now - _MAY_COME_BACK
        there = {journal.name for journal in (*journals_in(self._directory), *self._retained_journals.all())}
        gone = [name for name in offsets if begun(name) < before and name not in there and self.is_own(Path(name))]
        self._forget(gone)

    def restore_retained(self) -> int:
        """Have retained journals ingested again that the database has lost, as after a failover; give their number."""
        names = [journal.name for journal in self.retained_here()]
        if not names:
            return 0
        with self.tables.reading():
            offsets = self.tables.offsets.of(names)
        return self._retained_journals.restore({name: offsets.get(name, 0) for name in names})

    def remove_retained(self, now: int) -> None:
        """Remove journals that were retained for as long as needed, at a time in microseconds. Their offsets stay for
        a while: a machine that is set back to a snapshot of its disk has them again."""
        self._retained_journals.remove_before(now - int(self._keep * 1e6))

    def _forget(self, names: Sequence[str]) -> None:
        """Remove the offsets of journals whose files are gone."""
        if names:
            with self.tables.transaction():
                for name in names:
                    self.tables.offsets.remove(name)

    def _ingest(
        self,
        descriptor: int,
        journal: Path,
        *,
        until: int | None = None,
        is_over: bool = False,
        is_held: bool = False,
    ) -> int:
        applied = self._applied(journal)
        while True:
            self._catch_up(descriptor, journal, applied)
            # Entries themselves are needed to be exported, or to be made smaller.
            careful = self._is_careful
            are_needed = careful or self.on_ingested is not None
            decode: Callable[[bytes], Ingestible] = decode_finalized if are_needed else self._line_parts.read
            first = read_lines(descriptor, applied, decode, until=until, is_over=is_over)
            if first.end == first.start:
                return applied
            moved = self._write(journal, _segments(first, descriptor, decode, until=until, is_over=is_over), is_held)
            if not moved and self._is_careful is not careful:
                continue
            if moved:
                self._notified_offsets[journal.name] = moved
            else:
                # Another process was faster; reading continues at its offset.
                moved = self._applied(journal)
                if moved <= applied:
                    return applied
            applied = moved

    def _catch_up(self, descriptor: int, journal: Path, applied: int) -> None:
        """Notify about entries that another process ingested, for a journal that is followed from its beginning."""
        notified = self._notified_offsets.get(journal.name, applied)
        while self.on_ingested is not None and notified < applied:
            segment = read_segment(descriptor, notified, until=applied)
            if segment.end == segment.start:
                break
            if segment.entries:
                self.on_ingested(segment.entries)
            notified = segment.end
        # Skipped notifications are not repeated.
        self._notified_offsets[journal.name] = max(notified, applied)

    def _applied(self, journal: Path) -> int:
        with self.tables.reading():
            return self.tables.offsets.applied(journal.name)

    def _write(self, journal: Path, segments: Iterable[JournalSegment[Ingestible]], is_held: bool = False) -> int:
        """One transaction: rows of consecutive segments, rollups, offset; return the new offset. 0 if another process
        moved the offset meanwhile: then nothing is written. While the lock of a journal is held, it is not finished at
        any offset."""
        tables, batch = self.tables, Batch()
        ingested: list[JournalEntry] = []
        start, end, damaged, rows = -1, 0, 0, 0
        try:
            with tables.transaction():
                for segment in segments:
                    if start < 0:
                        start = segment.start
                        if self._machine is not None:
                            self._machine.check(tables.connection)
                        if tables.offsets.applied(journal.name) != start:
                            raise _Elsewhere
                        if start == 0 and not is_held and not journal.exists():
                            # The journal was removed, and so may its mark have been.
                            raise _Elsewhere
                    for entry in segment.entries:
                        if isinstance(entry, EntryParts):
                            batch.add_parts(entry)
                            continue
                        if self._is_careful:
                            entry = sanitize_entry(entry)
                        batch.add_unassigned(entry)
                        if self.on_ingested is not None:
                            ingested.append(entry)
                    if len(batch.rows) >= Batch.FULL:
                        rows += batch.write_rows(tables)
                    end, damaged = segment.end, damaged + segment.damaged
                rows += batch.write_rows(tables)
                batch.write_rollups(tables)
                if not tables.offsets.move(journal.name, start, end, damaged):
                    raise _Elsewhere
        except _Elsewhere:
            return 0
        except OverflowError:
            # A provider may report any number: too large ones are reduced, and everything is repeated.
            if self._is_careful:
                raise
            self._is_careful = True
            return 0
        self.rows += rows
        self.damaged += damaged
        if self.on_ingested is not None and ingested:
            self.on_ingested(ingested)
        return end

    def complete(self, descriptor: int, journal: Path, now: int, *, is_saved: bool = False) -> bool:
        """Ingest the rest of a journal without a worker, and what it left open, and mark it as complete; False if it
        has to stay for a while. Of a saved one, exchanges that it left open may be recorded elsewhere."""
        size = os.fstat(descriptor).st_size
        applied = self._applied(journal)
        # Beyond the end of the file is the offset of a complete one.
        if applied > size:
            return True
        applied = self._ingest(descriptor, journal, is_over=True)
        contents = read_contents(descriptor)
        if not is_saved and contents.before and (self._directory / contents.before).exists():
            # The reader of the first journal must continue with this one.
            return False
        open_entries = [] if self._goes_on(journal) else contents.open_entries
        if is_saved:
            open_entries = [entry for entry in open_entries if not self.tables.records.has(entry.id, entry.time)]
        return bool(self._write(journal, [JournalSegment(applied, size + 1, _crashed(descriptor, open_entries, now))]))

    def _finish(self, descriptor: int, journal: Path, now: int) -> bool:
        """Do with a journal whatever is left to do, with its lock; False if it has to stay for a while."""
        if not self.complete(descriptor, journal, now):
            return False
        self._notified_offsets.pop(journal.name, None)
        if self._keep:
            self._retained_journals.retain(journal)
        else:
            journal.unlink(missing_ok=True)
            self._forget([journal.name])
        self.journals += 1
        return True

    def _goes_on(self, journal: Path) -> bool:
        """Whether another journal begins with the open exchanges of this one. It may have been set aside: this one may
        be from before its machine joined others, which the next owner of the directory ingests."""
        worker, aside = _worker(journal), journals_in(self._directory / ASIDE)
        for later in (*journals_in(self._directory), *self._retained_journals.all(), *aside):
            if later == journal or _worker(later) != worker:
                continue
            try:
                descriptor = os.open(later, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                if read_before(descriptor) == journal.name:
                    return True
            finally:
                os.close(descriptor)
        return False


def count_exchanges(descriptor: int, start: int) -> int:
    """The number of finalized exchanges behind an offset of an abandoned journal."""
    count = 0
    while (segment := read_segment(descriptor, start, is_over=True)).end > start:
        count, start = count + len(segment.entries), segment.end
    return count


def _segments(
    first: JournalSegment[Ingestible],
    descriptor: int,
    decode: Callable[[bytes], Ingestible],
    *,
    until: int | None,
    is_over: bool,
) -> Iterator[JournalSegment[Ingestible]]:
    """A segment and its successors, as many as are written together."""
    segment = first
    while segment.end > segment.start:
        yield segment
        if segment.end - first.start >= _AT_ONCE:
            return
        segment = read_lines(descriptor, segment.end, decode, until=until, is_over=is_over)


class _Elsewhere(Exception):
    """A mark is not where a piece begins."""


def _crashed(descriptor: int, open_entries: Sequence[JournalEntry], now: int) -> list[Ingestible]:
    """Open exchanges at the end of a journal; their fate after the last line is unknown."""
    ended = min(now, os.fstat(descriptor).st_mtime_ns // 1000)
    return [crashed_entry(entry, ended) for entry in open_entries]


def crashed_entry(entry: JournalEntry, ended: int) -> JournalEntry:
    """The entry of an exchange whose worker ended before it was finalized: its request, approximately."""
    tokens = TokenCounts(input=entry.size // _BYTES_OF_A_TOKEN) if entry.size and entry.tokens is None else entry.tokens
    return replace(
        entry,
        outcome=CRASHED,
        tokens=tokens,
        estimated=tokens is not None,
        duration=max(ended - entry.time, 0),
    )


@contextmanager
def _locked(journal: Path) -> Iterator[int | None]:
    """The file of a journal with its lock; None if a worker has it, or if it is gone."""
    try:
        # To be locked on every file system it has to be open for writing.
        descriptor = os.open(journal, os.O_RDWR)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor if lock_one_that_is_there(descriptor) else None
    finally:
        os.close(descriptor)


def _worker(journal: Path) -> str:
    """The process of whose journals it is one."""
    return journal.stem.rpartition("-")[0].rpartition("-")[2]


def journal_size(journal: Path) -> int:
    """The bytes of a journal; 0 if it is gone."""
    try:
        return journal.stat().st_size
    except FileNotFoundError:
        return 0
