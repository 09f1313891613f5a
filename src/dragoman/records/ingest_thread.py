"""Ingest thread: every second moves the journals of this and of ended workers into the tables. While the file is
locked, full or away it retries with growing pauses. It also removes old rows, reclassifies threads and, in idle time,
assigns sessions, in small steps."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.database_location import DatabaseLocation, database_exists, journal_keep_of
from dragoman.errors import ConfigError
from dragoman.records.deferred_assignment import STEP_ROWS, DeferredAssigner
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import ASIDE, directory_of, journals_in, machine_of, read_rotation_request
from dragoman.records.journal_ingest import Ingester, OnIngested, count_exchanges, journal_size, machine_at
from dragoman.records.retention import Retention
from dragoman.store import StoreBusy, StoreError
from dragoman.store.errors import StoreAway
from dragoman.store.record_tables import RecordTables, open_record_tables

if TYPE_CHECKING:
    from dragoman.records.machine import Machine
    from dragoman.records.machine_erasure import MachineErasure

# Seconds between two rounds, and their maximum after failures.
EVERY = 1.0
_MAX_INTERVAL = 30.0
# Their maximum if other machines wait for this one to be seen.
_MAX_SHARED_INTERVAL = 5.0
# Seconds to wait for a lock at a time.
_LOCK_TIMEOUT = 1.0
# Seconds between two steps of assignment, and their number in a row; then other work has its turn.
_BETWEEN, _STEPS = 0.02, 20
# Maximum rows since its last step for which it counts as idle, and assigns sessions.
_IDLE_ROWS = 10
_DAY = 86_400_000_000
# Seconds between two comparisons of offsets with retained journals.
_COMPARE_EVERY = 10.0
# Requests to ingest at once that may wait.
_MAX_REQUESTS = 16


class CaughtUp(Struct, frozen=True, kw_only=True):
    """The result of a request to ingest at once: how many rows of its scope have no session yet, and why the tables do
    not have all that was written until then; "" if they do."""

    left: int = 0
    problem: str = ""


class _Request(Struct, frozen=True, kw_only=True):
    """A request to ingest at once, and to assign sessions, which gives how many rows are left."""

    assign: Callable[[RecordTables], int] | None
    result: Future[CaughtUp]

    def end(self, result: CaughtUp) -> None:
        """Give the result, unless the client has disconnected."""
        if self.result.set_running_or_notify_cancel():
            self.result.set_result(result)


class IngestThread:
    """The thread. Its counters may be read at any time: waiting bytes, rows, damaged lines, exchanges lost with a
    removed journal, errors. `tend` makes the writer look after its journal; `log` informs the operator; `problem` is
    the reason why ingestion fails at present."""

    def __init__(
        self,
        database: DatabaseLocation,
        journal: Journal,
        *,
        days: float,
        tend: Callable[[bool], None],
        log: Callable[[str, str], None],
        on_ingested: OnIngested | None = None,
        every: float = EVERY,
        is_away: Callable[[], bool] = lambda: False,
        clock: Callable[[], int] = time.time_ns,
        machine: Machine | None = None,
    ) -> None:
        self._database = database
        # Made by the thread, if there are several machines and it is not given.
        self._machine = machine
        # The part of this worker in erasures of all machines, if there are several.
        self._erasure: MachineErasure | None = None
        self._directory = directory_of(database)
        self._journal_keep = journal_keep_of(database)
        # When offsets are compared with retained journals the next time.
        self._compares = 0.0
        self._journal = journal
        self._tend = tend
        self._log = log
        self._on_ingested = on_ingested
        self._every = every
        self._is_away = is_away
        self._clock = clock
        self._tables: RecordTables | None = None
        self._ingester: Ingester | None = None
        # The offset up to which `on_ingested` was called, by journal of this worker.
        self._notified_offsets: dict[str, int] = {}
        self._orphans = 0
        # The journal that was drained last, and how far.
        self._applied: tuple[Path | None, int] = (None, 0)
        self._rotated = 0
        self._stopping = threading.Event()
        self._retention = Retention(days, self._stopping)
        # Set when there is something to do before the next time.
        self._woken = threading.Event()
        self._requests: deque[_Request] = deque()
        self._thread = threading.Thread(target=self._run, name="drain", daemon=True)
        self.rows = 0
        self.damaged = 0
        self.lost = 0
        self.errors = 0
        self.problem = ""
        # Whether the problem was logged.
        self._is_logged = False

    @property
    def backlog(self) -> int:
        """The bytes of journals that this worker has not ingested yet."""
        path, applied = self._applied
        journal = self._journal
        own = journal.size - applied if path == journal.path else 0 if journal.is_bare else journal.size
        return max(own, 0) + self._orphans

    @property
    def removed(self) -> int:
        """The expired rows that were deleted."""
        return self._retention.removed

    def set_on_ingested(self, on_ingested: OnIngested | None) -> None:
        """Set the callback for ingested records, or None."""
        self._on_ingested = on_ingested

    def start(self) -> None:
        self._thread.start()

    def stop(self, within: float) -> bool:
        """End after a last time; False after a timeout; the rest is ingested at the next start."""
        self._stopping.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join(within)
        return not self._thread.is_alive()

    def catch_up(self, assign: Callable[[RecordTables], int] | None) -> Future[CaughtUp]:
        """Ingest all journals at once, as far as they are written now, and then assign sessions; from any thread."""
        request = _Request(assign=assign, result=Future())
        if len(self._requests) >= _MAX_REQUESTS or self._stopping.is_set():
            request.end(CaughtUp(problem="others wait for the same"))
        else:
            self._requests.append(request)
            self._woken.set()
        return request.result

    def _run(self) -> None:
        pause = 0.0
        while not self._has_to_stop(pause):
            pause = self._step(pause)
        # The journal was closed before: it is an orphan now, and done with.
        self._step(pause, at_last=True)
        self._refuse("the gateway is shutting down")
        self._give_up()
        self._close()

    def _has_to_stop(self, pause: float) -> bool:
        """Wait for the next time, or for a request."""
        self._woken.wait(pause)
        self._woken.clear()
        return self._stopping.is_set()

    def _step(self, pause: float, *, at_last: bool = False) -> float:
        """Move what there is; give how long to wait for the next time."""
        try:
            self._maintain_journal()
            if not self._is_joined():
                self._refuse("it is not known yet whether another machine has the id of this one")
                return self._every
            if self._journal_keep:
                self._compare()
            before = self.rows
            # Those who ask while entries are moved have the next turn, since theirs may not be among them.
            requests = len(self._requests)
            self._move()
            self._serve(requests)
            if not at_last:
                self._retain()
                if self.rows - before <= _IDLE_ROWS:
                    self._assign()
        except StoreBusy as error:
            self._count()
            return self._failed(error, pause)
        except (StoreError, ConfigError, OSError) as error:
            # Another file may be at its place by now.
            self._close()
            return self._failed(error, pause)
        except Exception as error:
            # The outer edge of the thread: an unexpected error must not stop all later records.
            self._close()
            return self._failed(error, pause)
        if self.problem:
            self.problem = ""
        if self._is_logged:
            self._is_logged = False
            self._log("info", f"journals are ingested into {self._database} again")
        return self._every

    def _maintain_journal(self) -> None:
        journal = self._journal
        # In this order: a journal that is closed reports it before it removes its file.
        is_gone = journal.is_gone and not journal.is_closed
        rotate_before = read_rotation_request(self._directory)
        if is_gone:
            self._log("warn", f"a journal was removed or moved away from {self._directory}; a new one is started")
        if is_gone or (rotate_before > journal.begun and rotate_before != self._rotated):
            # Once for each request to rotate, whatever its clock.
            self._rotated = rotate_before
            self._tend(True)
        elif journal.problem:
            self._tend(False)

    def _is_joined(self) -> bool:
        """Whether this machine may ingest: it has joined the others, and its journals have its id."""
        if isinstance(self._database, str):
            return True
        ingester = self._opened()
        machine = self._machine
        assert machine is not None
        if not machine.tend(ingester.tables.connection, ingester.backlog):
            return False
        journal = self._journal
        journal.machine = machine.owner
        name = "" if journal.path is None else journal.path.name
        # One from before it joined, and one whose id a clone has taken. The offset of one that lasts for long would be
        # removed soon after its file.
        is_old = not journal.is_bare and 0 < journal.begun < time.time_ns() // 1000 - _DAY
        if name and (is_old or machine_of(name)[0] != machine.file.id) and not journal.is_closed:
            self._tend(True)
        if self._erasure is None:
            from dragoman.records.machine_erasure import MachineErasure

            self._erasure = MachineErasure(self._directory)
        self._erasure.tend(ingester, machine)
        if moved := ingester.set_aside():
            aside = self._directory / ASIDE
            self._log(
                "warn",
                f"{moved} journals have the id of another machine, with whose disk this one was made: they are in"
                f" {aside}; if that machine is gone: dragoman db ingest {aside}",
            )
        return True

    def _compare(self) -> None:
        """See whether the database has lost what it had, as after a failover; then it gets that again."""
        now = time.monotonic()
        if now < self._compares:
            return
        ingester = self._opened()
        restored = ingester.restore_retained()
        if restored:
            self._log("warn", f"the database has lost records: {restored} journals are ingested again")
        # Files have the time of this machine, not that of the server.
        ingester.remove_retained(time.time_ns() // 1000)
        # The present journal is looked at even if it has not grown.
        self._applied = (None, 0)
        self._compares = now + _COMPARE_EVERY

    def _move(self) -> None:
        journal = self._journal
        while journal.removed:
            path, descriptor = journal.removed[0]
            # After the last journal of an ended worker, there is no successor.
            is_last = journal.is_closed and path == journal.path
            crashed_by = self._clock() // 1000 if is_last else None
            lost = self._opened().ingest_removed(descriptor, path, crashed_by=crashed_by)
            journal.removed.popleft()
            os.close(descriptor)
            self._lose(lost)
        own, size = journal.path, journal.size
        # Other machines are told of a backlog, of which the first line is none.
        has_lines = not journal.is_bare or self._machine is not None
        has_more = own is not None and has_lines and self._applied != (own, size)
        if own is not None and has_more and journal.descriptor >= 0 and self._opened().is_own(own):
            self._applied = (own, self._opened().ingest(own))
        # Before the look into the folder: one that is let go of in between was none to be drained yet.
        held = journal.descriptor >= 0
        if any(other != own or not held for other in journals_in(self._directory)):
            self._orphans = self._opened().ingest_orphans(self._clock() // 1000)
        self._count()

    def _serve(self, requests: int) -> None:
        """Ingest the entries of other workers, and assign sessions, for the first waiters."""
        if not requests:
            return
        # A worker exports its own journals alone.
        others = Ingester(self._opened().tables, self._directory, machine=self._machine)
        for journal in others.journals_here():
            if journal != self._journal.path:
                others.ingest(journal, until=journal_size(journal))
        for _ in range(requests):
            request = self._requests[0]
            left = 0 if request.assign is None else request.assign(self._opened().tables)
            self._requests.popleft()
            request.end(CaughtUp(left=left))

    def _refuse(self, problem: str) -> None:
        """Report to all waiters that the tables are incomplete."""
        while self._requests:
            self._requests.popleft().end(CaughtUp(problem=problem))

    def _give_up(self) -> None:
        """Count entries that are lost when this process ends."""
        for path, descriptor in self._journal.removed:
            try:
                self._lose(count_exchanges(descriptor, self._notified_offsets.get(path.name, 0)))
            except OSError as error:
                message = f"cannot read a journal that was removed from {self._directory}: {error.strerror}"
                self._log("error", f"{message}; an unknown number of requests is lost")
            os.close(descriptor)
        self._journal.removed.clear()

    def _lose(self, lost: int) -> None:
        self.lost += lost
        if lost:
            self._log("error", f"{lost} requests were lost with a journal that was removed from {self._directory}")

    def _retain(self) -> None:
        if self._retention.is_due and database_exists(self._database):
            self._retention.run(self._opened().tables, self._clock() // 1000)

    def _assign(self) -> None:
        """Assign sessions and threads of rows that have none yet, the first ingested ones first."""
        if self._ingester is None:
            return
        assigner = DeferredAssigner(self._ingester.tables)
        for _ in range(_STEPS):
            if assigner.assign_oldest() < STEP_ROWS or self._stopping.wait(_BETWEEN):
                return

    def _opened(self) -> Ingester:
        if self._ingester is None:
            if self._machine is None:
                self._machine = machine_at(self._database)
            self._tables = open_record_tables(self._database, timeout=_LOCK_TIMEOUT)
            self._ingester = Ingester(
                self._tables,
                self._directory,
                self._on_ingested,
                self._notified_offsets,
                self._journal_keep,
                self._machine,
            )
            self._ingester.remove_offsets(self._clock() // 1000)
        self._ingester.on_ingested = self._on_ingested
        return self._ingester

    def _count(self) -> None:
        ingester = self._ingester
        if ingester is None:
            return
        if ingester.damaged:
            self._log("warn", f"cannot read {ingester.damaged} lines of journals in {self._directory}")
        self.rows += ingester.rows
        self.damaged += ingester.damaged
        ingester.rows = ingester.damaged = 0

    def _failed(self, error: Exception, pause: float) -> float:
        self.errors += 1
        message = str(error) or type(error).__name__
        self._refuse(message)
        if message != self.problem:
            self.problem = message
            # The heartbeat logs that the server is away, once for all that the database has.
            if not (isinstance(error, StoreAway) or self._is_away()):
                self._is_logged = True
                self._log("warn", f"cannot ingest journals in {self._directory}: {message}")
        longest = _MAX_INTERVAL if self._machine is None else _MAX_SHARED_INTERVAL
        return min(max(pause, self._every) * 2, longest)

    def _close(self) -> None:
        self._count()
        tables, self._tables, self._ingester = self._tables, None, None
        if tables is not None:
            tables.close()
