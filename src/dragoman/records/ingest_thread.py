"""Drain thread: in each worker, moves its journal and those of workers that are gone into the tables, every second.

It waits for nobody who serves, and nobody waits for it: while the file is locked, full or away it tries again, later
and later, and journals grow on the disk. It removes rows that are older than they are kept, and classes threads anew
that older rules have classed, in small steps.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import asked_to_rotate, folder_of, journals_in
from dragoman.records.journal_ingest import Ingester, Told, count_exchanges
from dragoman.records.thread_assignment import reclassify
from dragoman.store import StoreBusy, StoreError
from dragoman.store.record_tables import RecordTables, open_account_tables

# How often it looks, in seconds, and how seldom at most while it fails.
EVERY = 1.0
_AT_MOST = 30.0
# How long a lock is waited for at a time, in seconds.
_PATIENCE = 1.0
# Rows that are too old are looked for so often, in seconds, and removed in steps of so many, each of which is to take
# no longer than so many seconds; then others have their turn.
_RETAIN_EVERY = 60.0
_FEWEST, _MOST = 10, 1000
_LONGEST, _SHORT = 0.01, 0.004
_BETWEEN, _STEPS = 0.02, 20
_DAY = 86_400_000_000
# Where histories ended is known for so many days, unless rows are kept for less: who goes on after that is new.
_TIP_DAYS = 90.0


class IngestThread:
    """The thread. What it counts may be read at any time: bytes that wait, rows, wrong lines, exchanges that were lost
    with a journal that somebody removed, and how often it failed.

    `tend` has the journal tended by whoever writes it; `tell` hears what the operator has to know. `problem` says why
    nothing can be moved at present.
    """

    def __init__(
        self,
        path: str,
        journal: Journal,
        *,
        days: float,
        tend: Callable[[bool], None],
        tell: Callable[[str, str], None],
        told: Told | None = None,
        every: float = EVERY,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._path = path
        self._folder = folder_of(path)
        self._journal = journal
        self._days = days
        self._tend = tend
        self._tell = tell
        self._told = told
        self._every = every
        self._clock = clock
        self._tables: RecordTables | None = None
        self._drainer: Ingester | None = None
        # How far `told` has heard of the journals of this worker.
        self._heard: dict[str, int] = {}
        self._orphans = 0
        # The journal that was drained last, and how far.
        self._applied: tuple[Path | None, int] = (None, 0)
        self._rotated = 0
        self._at_once = 100
        self._retained = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)
        self.rows = 0
        self.damaged = 0
        self.removed = 0
        self.lost = 0
        self.errors = 0
        self.problem = ""

    @property
    def backlog(self) -> int:
        """How many bytes of journals are not in the tables yet, as far as this worker sees to them."""
        path, applied = self._applied
        journal = self._journal
        own = journal.size - applied if path == journal.path else 0 if journal.is_bare else journal.size
        return max(own, 0) + self._orphans

    def hear(self, told: Told | None) -> None:
        """Have somebody else told of what is moved from now on, or nobody."""
        self._told = told

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, within: float) -> bool:
        """End after a last time; False if that took too long, and what is left is moved at the next start."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(within)
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            pause = self._step(pause)
        # The journal was closed before: it is an orphan now, and done with.
        self._step(pause, at_last=True)
        self._give_up()
        self._close()

    def _step(self, pause: float, *, at_last: bool = False) -> float:
        """Move what there is; give how long to wait for the next time."""
        try:
            self._look_after_journal()
            self._move()
            if not at_last:
                self._retain()
        except StoreBusy as error:
            self._count()
            return self._failed(error, pause)
        except (StoreError, ConfigError, OSError) as error:
            # Another file may be at its place by now.
            self._close()
            return self._failed(error, pause)
        except Exception as error:
            # The outer edge of the thread: what nobody thought of must not end the accounts of all that follows.
            self._close()
            return self._failed(error, pause)
        if self.problem:
            self.problem = ""
            self._tell("info", f"what exchanges came to is written to {self._path} again")
        return self._every

    def _look_after_journal(self) -> None:
        journal = self._journal
        # In this order: one that is closed removes its file by itself, after it says so.
        is_gone = journal.is_gone and not journal.is_closed
        asked = asked_to_rotate(self._folder)
        if is_gone:
            self._tell("warn", f"a journal was removed from {self._folder}, or moved away; another is begun")
        if is_gone or (asked > journal.begun and asked != self._rotated):
            # Once for each time that somebody asks, whatever clock they go by.
            self._rotated = asked
            self._tend(True)
        elif journal.problem:
            self._tend(False)

    def _move(self) -> None:
        journal = self._journal
        while journal.removed:
            path, descriptor = journal.removed[0]
            # Behind the last one of a worker that has ended, nothing goes on.
            is_last = journal.is_closed and path == journal.path
            crashed_by = self._clock() // 1000 if is_last else None
            lost = self._opened().drain_removed(descriptor, path, crashed_by=crashed_by)
            journal.removed.popleft()
            os.close(descriptor)
            self._lose(lost)
        own, size = journal.path, journal.size
        if own is not None and journal.descriptor >= 0 and not journal.is_bare and self._applied != (own, size):
            self._applied = (own, self._opened().drain(own))
        # Before the look into the folder: one that is let go of in between was none to be drained yet.
        held = journal.descriptor >= 0
        if any(found != own or not held for found in journals_in(self._folder)):
            self._orphans = self._opened().drain_orphans(self._clock() // 1000)
        self._count()

    def _give_up(self) -> None:
        """Count what nobody can read any more once this process has ended."""
        for path, descriptor in self._journal.removed:
            try:
                self._lose(count_exchanges(descriptor, self._heard.get(path.name, 0)))
            except OSError as error:
                words = f"what was not read of a journal that was removed from {self._folder} is lost"
                self._tell("error", f"{words}, nobody knows how much: {error.strerror}")
            os.close(descriptor)
        self._journal.removed.clear()

    def _lose(self, lost: int) -> None:
        self.lost += lost
        if lost:
            self._tell("error", f"{lost} exchanges were lost with a journal that was removed from {self._folder}")

    def _retain(self) -> None:
        now = time.monotonic()
        if now < self._retained or not Path(self._path).exists():
            return
        tables = self._opened().tables
        before = int(self._clock() // 1000 - self._days * _DAY)
        for _ in range(_STEPS):
            began = time.perf_counter()
            with tables.transaction():
                removed = tables.records.remove_before(before, self._at_once)
            took = time.perf_counter() - began
            self.removed += removed
            if removed < self._at_once:
                self._retained = now + _RETAIN_EVERY
                self._tidy(tables, before)
                return
            if took > _LONGEST:
                self._at_once = max(self._at_once // 2, _FEWEST)
            elif took < _SHORT:
                self._at_once = min(self._at_once * 2, _MOST)
            if self._stopping.wait(_BETWEEN):
                return

    def _tidy(self, tables: RecordTables, before: int) -> None:
        """Class threads anew that older rules have classed, and forget where old histories ended; in small steps."""
        before = max(before, int(self._clock() // 1000 - _TIP_DAYS * _DAY))
        for _ in range(_STEPS):
            with tables.transaction():
                removed = tables.speakers.remove_tips(before, self._at_once)
            # A part of the tips where few are old is done with, and the next one has its turn in a minute.
            if max(removed, reclassify(tables, self._at_once)) < self._at_once or self._stopping.wait(_BETWEEN):
                return
        # There is more of it.
        self._retained = 0.0

    def _opened(self) -> Ingester:
        if self._drainer is None:
            self._tables = open_account_tables(self._path, patience=_PATIENCE)
            self._drainer = Ingester(self._tables, self._folder, self._told, self._heard)
            self._drainer.remove_marks(self._clock() // 1000)
        self._drainer.told = self._told
        return self._drainer

    def _count(self) -> None:
        drainer = self._drainer
        if drainer is None:
            return
        if drainer.damaged:
            self._tell("warn", f"{drainer.damaged} lines of journals in {self._folder} could not be read")
        self.rows += drainer.rows
        self.damaged += drainer.damaged
        drainer.rows = drainer.damaged = 0

    def _failed(self, error: Exception, pause: float) -> float:
        self.errors += 1
        words = str(error) or type(error).__name__
        if words != self.problem:
            self.problem = words
            self._tell("warn", f"what exchanges came to waits in {self._folder}, since it cannot be moved: {words}")
        return min(max(pause, self._every) * 2, _AT_MOST)

    def _close(self) -> None:
        self._count()
        tables, self._tables, self._drainer = self._tables, None, None
        if tables is not None:
            tables.close()
