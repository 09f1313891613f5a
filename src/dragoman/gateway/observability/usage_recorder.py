"""Accounting: writes down every exchange of this process before its client knows it complete (decision 32).

Nothing is opened before `start`, which a worker calls after it was forked; a service that is never started, as those
that only look something up, accounts for nothing. Settings of `[storage]` change with a restart alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.config.settings import Storage
from dragoman.gateway.observability.journal_entries import opened_entry, settled_entry
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.record import Record
from dragoman.records.rows import is_unpriced
from dragoman.routing.target import Target
from dragoman.store import MEMORY

if TYPE_CHECKING:
    from dragoman.records.ingest_thread import IngestThread
    from dragoman.records.journal import Journal
    from dragoman.records.journal_ingest import Told
    from dragoman.records.journal_sync import JournalSync

MACHINE, REFUSE = "machine", "refuse"
# Who is not let in has no account: so many of them are written down in a minute, some 80 MB a day.
_STRANGERS = 60
_MINUTE = 60.0


class RecordingStatus(Struct, frozen=True, kw_only=True):
    """What became of what was written down, for `/metrics` and `/readyz`."""

    rows: int = 0
    # Bytes of journals that are not in the tables yet.
    backlog: int = 0
    # Lines that could not be read, that could not be written, and exchanges of strangers that were not written down.
    damaged: int = 0
    lost: int = 0
    strangers: int = 0
    # How often the tables could not be written, rows that were too old, and exchanges that cost more than is known.
    errors: int = 0
    removed: int = 0
    unpriced: int = 0


class UsageRecorder:
    """The journal of one process and its drain. It outlives changes of the configuration."""

    def __init__(self, storage: Storage, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._storage = storage
        self._log = log
        self._clock = clock
        self._journal: Journal | None = None
        self._drain: IngestThread | None = None
        self._sync: JournalSync | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fails = False
        self._minute = 0.0
        self._let_down = 0
        self.strangers = 0
        self.unpriced = 0

    def start(self, told: Told | None = None) -> None:
        """Begin, if anything is to be accounted for; `told` hears in the drain's thread of what is in the tables."""
        storage = self._storage
        if self._journal is not None or not storage.records or storage.path in ("", MEMORY):
            return
        # Here: commands that make a service to look something up account for nothing.
        from dragoman.records.ingest_thread import IngestThread
        from dragoman.records.journal import Journal
        from dragoman.records.journal_directory import folder_of
        from dragoman.records.journal_sync import JournalSync

        self._loop = asyncio.get_running_loop()
        folder = folder_of(storage.path)
        if storage.durability == MACHINE:
            self._sync = JournalSync(self._not_synced)
            self._journal = Journal(folder, retire=self._sync.retire)
        else:
            self._journal = Journal(folder)
        self._tell_change(not self._journal.problem)
        self._drain = IngestThread(
            storage.path,
            self._journal,
            days=storage.record_days,
            tend=self._have_tended,
            tell=self._tell_from_thread,
            told=told,
        )
        self._drain.start()

    def hear(self, told: Told | None) -> None:
        """Have somebody else told of what is in the tables from now on, or nobody."""
        if self._drain is not None:
            self._drain.hear(told)

    def open(self, record: Record, target: Target | None, size: int) -> None:
        """Write down that a target is about to be asked, with a request of so many bytes."""
        if self._journal is not None and record.kind:
            self._journal.open(opened_entry(record, self._storage.addresses, target, size))

    def settle(self, record: Record) -> None:
        """Write down an exchange that is settled; one without a kind is none of its own."""
        journal = self._journal
        if journal is None or not record.kind:
            return
        entry = settled_entry(record, self._storage.addresses)
        if is_unpriced(entry):
            self.unpriced += 1
        self._tell_change(journal.settle(entry))

    def settle_stranger(self, record: Record) -> None:
        """Write down somebody who was not let in, unless there are very many of them."""
        if self._journal is None or not record.kind:
            return
        now = self._clock()
        if now - self._minute >= _MINUTE:
            self._minute, self._let_down = now, 0
        self._let_down += 1
        if self._let_down <= _STRANGERS:
            self.settle(record)
        else:
            self.strangers += 1

    @property
    def waits(self) -> bool:
        """Whether clients are told of the end of an answer once it is on the disk."""
        return self._sync is not None

    def synced(self) -> asyncio.Future[None] | None:
        """Done once what was written until now is on the disk; None if that is not waited for."""
        if self._sync is None or self._journal is None or self._journal.descriptor < 0:
            return None
        return self._sync.synced(self._journal.descriptor)

    @property
    def problem(self) -> str:
        """Why exchanges cannot be written down at present; "" if they can."""
        return "" if self._journal is None else self._journal.problem

    @property
    def delay(self) -> str:
        """Why what was written down cannot be moved into the tables at present; "" if it can."""
        return "" if self._drain is None else self._drain.problem

    @property
    def refuses(self) -> bool:
        """Whether nobody is to be asked, since it could not be written down."""
        return self._storage.when_full == REFUSE and bool(self.problem)

    def recorded(self) -> RecordingStatus | None:
        """What became of what was written down; None if nothing is."""
        journal, drain = self._journal, self._drain
        if journal is None or drain is None:
            return None
        return RecordingStatus(
            rows=drain.rows,
            backlog=drain.backlog,
            damaged=drain.damaged,
            lost=journal.lost + drain.lost,
            strangers=self.strangers,
            errors=drain.errors,
            removed=drain.removed,
            unpriced=self.unpriced,
        )

    async def close(self, seconds: float) -> None:
        """Move what is left into the tables, within some seconds; what remains is moved at the next start."""
        journal, drain, sync = self._journal, self._drain, self._sync
        if journal is None or drain is None:
            return
        journal.close()
        if journal.lost:
            self._tell("error", f"{journal.lost} exchanges could not be written down")
        if sync is not None:
            await asyncio.to_thread(sync.close)
        if not await asyncio.to_thread(drain.stop, seconds):
            self._tell("warn", "what exchanges came to is moved into the tables at the next start")
        self._journal = self._drain = self._sync = None

    def _have_tended(self, rotate: bool) -> None:
        self._in_loop(self._tended, rotate)

    def _tended(self, rotate: bool) -> None:
        journal = self._journal
        if journal is None:
            return
        if rotate:
            journal.rotate()
        self._tell_change(journal.tend())

    def _tell_change(self, written: bool) -> None:
        """Tell the operator once that exchanges cannot be written down, and once that they can."""
        if written is not self._fails:
            return
        self._fails = not written
        if written:
            self._tell("info", "exchanges can be written down again")
        else:
            self._tell("error", f"exchanges cannot be written down: {self.problem}")

    def _not_synced(self, error: OSError) -> None:
        self._tell_from_thread("error", f"a journal could not be brought to the disk: {error.strerror}")

    def _tell_from_thread(self, level: str, words: str) -> None:
        self._in_loop(self._tell, level, words)

    def _tell(self, level: str, words: str) -> None:
        self._log.event(level, words)

    def _in_loop(self, act: Callable[..., None], *given: object) -> None:
        assert self._loop is not None
        # A loop that was closed serves nobody any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(act, *given)
