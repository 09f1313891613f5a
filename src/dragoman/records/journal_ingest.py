"""Drain: moves what journals say into the tables, exactly once, whoever does it (decision 32).

Each piece of a journal is one transaction: its mark moves from where the piece begins to where it ends, or nothing is
written. A journal whose lock can be had has no worker any more: after all its lines, what was opened in it and not
settled has crashed, unless another journal goes on with it; then the file is removed, and its mark after that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dragoman.records.journal_directory import begun, folder_of, journals_in
from dragoman.records.journal_entry import CRASHED, JournalEntry, TokenCounts
from dragoman.records.journal_lock import lock_one_that_is_there
from dragoman.records.journal_reader import JournalSegment, read_before, read_piece, read_story
from dragoman.records.rows import Batch
from dragoman.records.sanitize import mended
from dragoman.records.thread_assignment import NOWHERE, AssignedThread, ThreadAssigner
from dragoman.store import MEMORY
from dragoman.store.record_tables import RecordTables, is_outdated, open_account_tables

# What a token is in bytes of JSON, where nothing was counted.
_BYTES_OF_A_TOKEN = 4

# For so long, in microseconds, a journal that is gone may come back.
_MAY_COME_BACK = 30 * 86_400_000_000
# So many bytes of a journal are written in one transaction, for which others wait.
_AT_ONCE = 1024 * 1024

Told = Callable[[Sequence[tuple[JournalEntry, AssignedThread]]], None]


class Ingested(Struct, frozen=True, kw_only=True):
    """What was moved: rows, lines that could not be read, and journals that were done with."""

    rows: int = 0
    damaged: int = 0
    journals: int = 0


def drain_all(path: str, *, now: int) -> Ingested:
    """Move everything into the tables that was written until now (microseconds), whoever wrote it."""
    if path == MEMORY:
        return Ingested()
    folder = folder_of(path)
    if not journals_in(folder) and not is_outdated(path):
        return Ingested()
    tables = open_account_tables(path)
    try:
        drainer = Ingester(tables, folder)
        drainer.drain_orphans(now)
        # What was written before the question, and no more: somebody may be writing all the time.
        for journal in journals_in(folder):
            drainer.drain(journal, until=_size(journal))
        return drainer.drained
    finally:
        tables.close()


class Ingester:
    """Moves journals of a folder into tables. `told` hears of what was moved, after it is on the disk.

    It hears all of the journals that are its worker's own, also what a command has moved that looked at the tables
    meanwhile: `heard` says how far, by their names, and outlives this.
    """

    def __init__(
        self, tables: RecordTables, folder: Path, told: Told | None = None, heard: dict[str, int] | None = None
    ) -> None:
        self.tables = tables
        self._folder = folder
        self.told = told
        self._heard = {} if heard is None else heard
        self._placer: ThreadAssigner | None = None
        self._is_careful = False
        self.rows = 0
        self.damaged = 0
        self.journals = 0

    @property
    def drained(self) -> Ingested:
        """What was moved until now."""
        return Ingested(rows=self.rows, damaged=self.damaged, journals=self.journals)

    def drain(self, journal: Path, *, until: int | None = None) -> int:
        """Move what a journal says; give how far it is in the tables."""
        try:
            descriptor = os.open(journal, os.O_RDONLY)
        except FileNotFoundError:
            return 0
        try:
            self._heard.setdefault(journal.name, 0)
            return self._drain(descriptor, journal, until=until)
        finally:
            os.close(descriptor)

    def drain_removed(self, descriptor: int, journal: Path, *, crashed_by: int | None = None) -> int:
        """Move what is left of a journal that its own worker has open and that is not at its place any more.

        Its lock goes with the descriptor: nobody else can have been done with it, and without a mark nothing of it was
        moved. Give how many exchanges cannot be moved, since its mark was forgotten: nobody knows of them whether they
        are in the tables. What is open in it goes on in another one; if there is none, it has crashed by the time that
        is given (microseconds).
        """
        size, heard, lost = os.fstat(descriptor).st_size, self._heard.get(journal.name, 0), 0
        while (at := self._applied(journal)) <= size:
            if heard and not at:
                lost = count_exchanges(descriptor, heard)
            else:
                at = self._drain(descriptor, journal, is_over=True, is_held=True)
            crashed = [] if crashed_by is None else _crashed(descriptor, read_story(descriptor).unsettled, crashed_by)
            # If it comes back, it is only to be removed.
            if self._write(journal, [JournalSegment(at, size + 1, crashed)], is_held=True):
                break
        self._heard.pop(journal.name, None)
        return lost

    def drain_orphans(self, now: int) -> int:
        """Move and remove the journals of workers that are gone; give how many bytes are left of those that stay."""
        left = 0
        for journal in journals_in(self._folder):
            with _locked(journal) as descriptor:
                if descriptor is not None and not self._finish(descriptor, journal, now):
                    left += _size(journal)
        return left

    def remove_marks(self, now: int) -> None:
        """Forget journals whose files are gone, as of one that was removed by somebody who was killed then.

        Not the latest: a folder that was moved away may come back, and nothing in it is to be moved twice.
        """
        with self.tables.reading():
            known = self.tables.marks.all()
        before = now - _MAY_COME_BACK
        gone = [name for name in known if begun(name) < before and not (self._folder / name).exists()]
        if gone:
            with self.tables.transaction():
                for name in gone:
                    self.tables.marks.remove(name)

    def _drain(
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
            first = read_piece(descriptor, applied, until=until, is_over=is_over)
            if first.end == first.start:
                return applied
            careful = self._is_careful
            moved = self._write(journal, _pieces(first, descriptor, until=until, is_over=is_over), is_held)
            if not moved and self._is_careful is not careful:
                continue
            if moved:
                self._heard[journal.name] = moved
            else:
                # Somebody else was faster; what they left is read from where they are.
                moved = self._applied(journal)
                if moved <= applied:
                    return applied
            applied = moved

    def _catch_up(self, descriptor: int, journal: Path, applied: int) -> None:
        """Tell what somebody else has moved of a journal that is told from its beginning."""
        heard = self._heard.get(journal.name, applied)
        while self.told is not None and heard < applied:
            piece = read_piece(descriptor, heard, until=applied)
            if piece.end == piece.start:
                break
            if piece.entries:
                self.told([(entry, NOWHERE) for entry in piece.entries])
            heard = piece.end
        # What nobody wanted to hear is not told later.
        self._heard[journal.name] = max(heard, applied)

    def _applied(self, journal: Path) -> int:
        with self.tables.reading():
            return self.tables.marks.applied(journal.name)

    def _write(self, journal: Path, pieces: Iterable[JournalSegment], is_held: bool = False) -> int:
        """One transaction: the rows of pieces that follow one another, the sums, the mark; give where that is then.

        0 if it is not where the first one begins: somebody else has moved it, and nothing is written. While the lock of
        a journal is held, nobody is done with it, at whatever place it is.
        """
        tables, batch = self.tables, Batch()
        # What it remembers of a transaction that was taken back is wrong.
        placer, self._placer = self._placer or ThreadAssigner(tables.speakers), None
        placed: list[tuple[JournalEntry, AssignedThread]] = []
        start, end, damaged, rows = -1, 0, 0, 0
        try:
            with tables.transaction():
                for piece in pieces:
                    if start < 0:
                        start = piece.start
                        if tables.marks.applied(journal.name) != start:
                            raise _Elsewhere
                        if start == 0 and not is_held and not journal.exists():
                            # The journal was removed, and so may its mark have been.
                            raise _Elsewhere
                    self._take(piece.entries, placer, batch, placed)
                    rows += tables.records.add(batch.taken_rows())
                    end, damaged = piece.end, damaged + piece.damaged
                placer.finish()
                tables.sums.add(batch.sums())
                tables.sums.add_to_threads(batch.thread_sums())
                if not tables.marks.move(journal.name, start, end, damaged):
                    raise _Elsewhere
        except _Elsewhere:
            return 0
        except OverflowError:
            # A provider may count anything: what no column holds is made to fit, and everything is done once more.
            if self._is_careful:
                raise
            self._is_careful = True
            return 0
        self._placer = placer
        self.rows += rows
        self.damaged += damaged
        if self.told is not None and placed:
            self.told(placed)
        return end

    def _take(
        self,
        entries: Sequence[JournalEntry],
        placer: ThreadAssigner,
        batch: Batch,
        placed: list[tuple[JournalEntry, AssignedThread]],
    ) -> None:
        place, add = placer.place, batch.add
        if self._is_careful:
            entries = [mended(entry) for entry in entries]
        placer.expect(entries)
        if self.told is None:
            # Nobody wants to hear of them: each is let go of as soon as there is a row of it.
            for entry in entries:
                add(entry, place(entry))
            return
        for entry in entries:
            found = place(entry)
            add(entry, found)
            placed.append((entry, found))

    def _finish(self, descriptor: int, journal: Path, now: int) -> bool:
        """Do with a journal whatever is left to do, with its lock; False if it has to stay for a while."""
        size = os.fstat(descriptor).st_size
        applied = self._applied(journal)
        # Beyond the end of the file is a mark of one that has only to be removed.
        if applied <= size:
            applied = self._drain(descriptor, journal, is_over=True)
            story = read_story(descriptor)
            if story.before and (self._folder / story.before).exists():
                # Whoever is done with that one has to see that this one goes on with it.
                return False
            rows = [] if self._goes_on(journal) else _crashed(descriptor, story.unsettled, now)
            if not self._write(journal, [JournalSegment(applied, size + 1, rows)]):
                return False
        journal.unlink(missing_ok=True)
        self._heard.pop(journal.name, None)
        with self.tables.transaction():
            self.tables.marks.remove(journal.name)
        self.journals += 1
        return True

    def _goes_on(self, journal: Path) -> bool:
        """Whether another journal begins with what was open in this one."""
        worker = _worker(journal)
        for later in journals_in(self._folder):
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
    """How many exchanges are settled behind a place of a journal that nobody writes any more."""
    found = 0
    while (piece := read_piece(descriptor, start, is_over=True)).end > start:
        found, start = found + len(piece.entries), piece.end
    return found


def _pieces(first: JournalSegment, descriptor: int, *, until: int | None, is_over: bool) -> Iterator[JournalSegment]:
    """A piece and those that follow it, as many as are written at once."""
    piece = first
    while piece.end > piece.start:
        yield piece
        if piece.end - first.start >= _AT_ONCE:
            return
        piece = read_piece(descriptor, piece.end, until=until, is_over=is_over)


class _Elsewhere(Exception):
    """A mark is not where a piece begins."""


def _crashed(descriptor: int, unsettled: Sequence[JournalEntry], now: int) -> list[JournalEntry]:
    """What was not settled in a journal; nothing is known of it after the last line."""
    ended = min(now, os.fstat(descriptor).st_mtime_ns // 1000)
    return [crashed_entry(entry, ended) for entry in unsettled]


def crashed_entry(entry: JournalEntry, ended: int) -> JournalEntry:
    """What is known of an exchange whose worker was gone before it was settled: what it was asked, about."""
    tokens = TokenCounts(input=entry.size // _BYTES_OF_A_TOKEN) if entry.size and entry.tokens is None else entry.tokens
    return replace(
        entry,
        outcome=CRASHED,
        tokens=tokens,
        estimated=tokens is not None,
        took=max(ended - entry.time, 0),
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


def _size(journal: Path) -> int:
    try:
        return journal.stat().st_size
    except FileNotFoundError:
        return 0
