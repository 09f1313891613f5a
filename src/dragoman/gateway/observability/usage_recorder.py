"""Usage recorder: writes every exchange of this process before its client knows that it is complete (decision 32).
Files are opened in `start`, which a worker calls after the fork; without `start` nothing is recorded. Settings of
`[storage]` change at a restart only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.config.settings import Storage
from dragoman.gateway.observability.journal_entries import opened_entry
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.record import Record
from dragoman.records.journal_entry import JournalEntry
from dragoman.routing.target import Target
from dragoman.store.server_state import ServerState

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dragoman.records.ingest_thread import CaughtUp, IngestThread
    from dragoman.records.journal import Journal
    from dragoman.records.journal_ingest import OnIngested
    from dragoman.records.journal_sync import JournalSync
    from dragoman.store.record_tables import RecordTables

MACHINE, REJECT = "machine", "reject"
# Maximum records of rejected clients per minute, about 80 MB per day.
_MAX_UNAUTHENTICATED_PER_MINUTE = 60
_MINUTE = 60.0
# In nanoseconds.
_SECOND = 1_000_000_000


class RecordingStatus(Struct, frozen=True, kw_only=True):
    """The state of recording, for `/metrics` and `/readyz`."""

    rows: int = 0
    # Bytes of journals that are not in the tables yet.
    backlog: int = 0
    # Lines that could not be read, that could not be written, and unauthenticated requests that were not written down.
    damaged: int = 0
    lost: int = 0
    unauthenticated_skipped: int = 0
    # Failed table writes, expired rows, and unpriced exchanges.
    errors: int = 0
    removed: int = 0
    unpriced: int = 0


class UsageRecorder:
    """The journal of one process and its drain. It outlives changes of the configuration."""

    def __init__(
        self,
        storage: Storage,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        server: ServerState | None = None,
    ) -> None:
        self._storage = storage
        # How much of a client's address is recorded.
        self.addresses = storage.client_addresses
        self._log = log
        self._clock = clock
        self._server = server
        # The digest of the present configuration, for other machines.
        self.configuration = ""
        # Removes what requests left in memory.
        self.on_rotated: Callable[[], None] = lambda: None
        self._journal: Journal | None = None
        self._ingest_thread: IngestThread | None = None
        self._sync: JournalSync | None = None
        # Whether the end of a response waits until its record is on the disk.
        self.waits = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fails = False
        self._minute = 0.0
        self._unauthenticated_in_minute = 0
        self.unauthenticated_skipped = 0

    def start(self, on_ingested: OnIngested | None = None) -> None:
        """Start, if anything is recorded; the ingest thread calls `on_ingested` with what is in the tables."""
        storage = self._storage
        if self._journal is not None or not storage.record_requests or not storage.is_persistent:
            return
        # Here: commands that make a service to look something up account for nothing.
        from dragoman.records.ingest_thread import IngestThread
        from dragoman.records.journal import Journal
        from dragoman.records.journal_directory import directory_of
        from dragoman.records.journal_ingest import machine_at
        from dragoman.records.journal_sync import JournalSync

        self._loop = asyncio.get_running_loop()
        directory = directory_of(storage.location)
        try:
            machine = machine_at(storage.location, lambda: self.configuration)
        except OSError:
            # The journal has the same problem, and reports it.
            machine = None
        name = "" if machine is None else machine.owner
        if storage.durability == MACHINE:
            self._sync = JournalSync(self._not_synced)
            self._journal = Journal(directory, machine=name, retire=self._sync.retire)
            self.waits = True
        else:
            self._journal = Journal(directory, machine=name)
        if self._journal.problem:
            self._log_change()
        self._ingest_thread = IngestThread(
            storage.location,
            self._journal,
            days=storage.record_days,
            tend=self._have_tended,
            log=self._log_from_thread,
            on_ingested=on_ingested,
            clock=self._time,
            is_away=lambda: self._server is not None and self._server.is_away,
            machine=machine,
        )
        self._ingest_thread.start()

    def _time(self) -> int:
        """The time by which records expire, in nanoseconds since 1970."""
        return time.time_ns() if self._server is None else int(self._server.now() * _SECOND)

    def set_on_ingested(self, on_ingested: OnIngested | None) -> None:
        """Set the callback for ingested records, or None."""
        if self._ingest_thread is not None:
            self._ingest_thread.set_on_ingested(on_ingested)

    def catch_up(self, assign: Callable[[RecordTables], int] | None) -> Future[CaughtUp] | None:
        """Have everything ingested that was written until now, and sessions assigned; None if nothing is recorded."""
        return None if self._ingest_thread is None else self._ingest_thread.catch_up(assign)

    def open(self, record: Record, target: Target | None, size: int) -> None:
        """Record that a target is about to be called, with the size of the request."""
        if self._journal is not None and record.kind:
            self._journal.open(opened_entry(record, self.addresses, target, size))

    def finalize(self, entry: JournalEntry) -> None:
        """Write down an exchange that is finalized; one without a kind is none of its own."""
        journal = self._journal
        if journal is not None and entry.kind and journal.finalize(entry) is self._fails:
            self._log_change()

    def finalize_unauthenticated(self, entry: JournalEntry) -> None:
        """Record a rejected client, unless there are very many of them."""
        if self._journal is None or not entry.kind:
            return
        now = self._clock()
        if now - self._minute >= _MINUTE:
            self._minute, self._unauthenticated_in_minute = now, 0
        self._unauthenticated_in_minute += 1
        if self._unauthenticated_in_minute <= _MAX_UNAUTHENTICATED_PER_MINUTE:
            self.finalize(entry)
        else:
            self.unauthenticated_skipped += 1

    def synced(self) -> asyncio.Future[None] | None:
        """Done once all entries until now are on the disk; None if that is not waited for."""
        if self._sync is None or self._journal is None or self._journal.descriptor < 0:
            return None
        return self._sync.synced(self._journal.descriptor)

    @property
    def problem(self) -> str:
        """Why exchanges cannot be written down at present; "" if they can."""
        return "" if self._journal is None else self._journal.problem

    @property
    def delay(self) -> str:
        """Why journals cannot be ingested at present; "" if it can."""
        return "" if self._ingest_thread is None else self._ingest_thread.problem

    @property
    def refuses(self) -> bool:
        """Whether requests are rejected because they cannot be recorded."""
        return self._storage.on_write_failure == REJECT and bool(self.problem)

    def recorded(self) -> RecordingStatus | None:
        """The state of recording; None if nothing is."""
        journal, ingest_thread = self._journal, self._ingest_thread
        if journal is None or ingest_thread is None:
            return None
        return RecordingStatus(
            rows=ingest_thread.rows,
            backlog=ingest_thread.backlog,
            damaged=ingest_thread.damaged,
            lost=journal.lost + ingest_thread.lost,
            unauthenticated_skipped=self.unauthenticated_skipped,
            errors=ingest_thread.errors,
            removed=ingest_thread.removed,
        )

    async def close(self, seconds: float) -> None:
        """Ingest the rest within this many seconds; what remains is ingested at the next start."""
        journal, ingest_thread, sync = self._journal, self._ingest_thread, self._sync
        if journal is None or ingest_thread is None:
            return
        journal.close()
        if journal.lost:
            self._log_event("error", f"cannot record {journal.lost} requests")
        if sync is not None:
            await asyncio.to_thread(sync.close)
        if not await asyncio.to_thread(ingest_thread.stop, seconds):
            self._log_event("warn", "cannot ingest all journals in time: the next start ingests the others")
        self._journal = self._ingest_thread = self._sync = None
        self.waits = False

    def _have_tended(self, rotate: bool) -> None:
        self._in_loop(self._tended, rotate)

    def _tended(self, rotate: bool) -> None:
        journal = self._journal
        if journal is None:
            return
        if rotate:
            journal.rotate()
            # A rotation is the first step of `records.forget`.
            self.on_rotated()
        if journal.tend() is self._fails:
            self._log_change()

    def _log_change(self) -> None:
        """Log once that exchanges cannot be recorded, and once that they can again."""
        self._fails = not self._fails
        if self._fails:
            self._log_event("error", f"cannot record requests: {self.problem}")
        else:
            self._log_event("info", "requests are recorded again")

    def _not_synced(self, error: OSError) -> None:
        self._log_from_thread("error", f"cannot sync the journal: {error.strerror}")

    def _log_from_thread(self, level: str, words: str) -> None:
        self._in_loop(self._log_event, level, words)

    def _log_event(self, level: str, words: str) -> None:
        self._log.event(level, words)

    def _in_loop(self, act: Callable[..., None], *given: object) -> None:
        assert self._loop is not None
        # A closed loop serves no requests.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *given)
