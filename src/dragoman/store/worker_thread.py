"""Thread: does units of work one after the other, with a connection of its own (decision 24).

    the store           what is to be written                             what is to be read
    takes it            with all that waits, in one transaction; then     at once
                        everybody is told
    is busy             is stuck: tried again soon, then every 50 ms,     likewise; what is read passes what is
                        until its time is over; soon again whenever       to be written and is stuck
                        another process has committed something
    fails               nothing of that transaction is kept: each unit    fails
                        again alone, once
    has a conflict      done again, three times at most                   done again, likewise
    does not confirm    done again at once, if the unit allows that       –
    is away             fails without a try until a heartbeat returns     likewise
    a unit raises       is undone alone, the others stand                 raised

The thread ends only on request: an unexpected error fails all work at hand.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from dragoman.store.database import Tables
from dragoman.store.errors import StoreAway, StoreBusy, StoreConflict, StoreError, StoreUnknown, store_error
from dragoman.store.server_state import ServerState
from dragoman.store.work_item import Attempts, Outcome, WorkItem, deliver

# Seconds between two tries of a busy store: other processes usually hold it for a moment only.
_MIN_PAUSE, _MAX_PAUSE = 0.001, 0.05
# Work items that are taken from the queue at once, so that one transaction does not delay later ones.
_AT_ONCE = 256
# How often a work item is done that conflicts with other transactions.
_MAX_RUNS = 4
# Seconds within which a commit was not confirmed because its connection was lost, not because its server is stopped.
_SOON = 0.5
# Seconds for which results of reads wait to be delivered with later ones.
_TOGETHER = 0.001

Alarm = Callable[[float, Callable[[], None]], None]


class StoreThread:
    """The thread of one store, started with its first item; `alarm` calls a function at a virtual `clock`'s time.
    `server` is the state of a database server, which a lost connection changes."""

    def __init__(
        self,
        tables: Tables,
        clock: Callable[[], float] = time.monotonic,
        alarm: Alarm | None = None,
        server: ServerState | None = None,
    ) -> None:
        self._tables = tables
        self._db = tables.connection
        self._clock = clock
        self._alarm = alarm
        self._server = server
        # A process that is forked has neither the thread nor the right to use the connection.
        self._process = os.getpid()
        # Held for a few steps at a time, by the loop too.
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # None is nothing but a reason to look.
        self._queue: SimpleQueue[WorkItem[object] | None] = SimpleQueue()
        # Number of queued work items, and of those handled, including stuck ones.
        self._submitted = 0
        self._taken = 0
        self._seen = 0
        # Whether stuck items are to be tried early.
        self._expedited = False
        # When the thread must end, and the callback for it.
        self._ends: float | None = None
        self._ended: list[Callable[[], None]] = []
        self._over = False
        # The rest is the thread's own.
        self._at_hand: deque[WorkItem[object]] = deque()
        self._stuck: deque[WorkItem[object]] = deque()
        self._pause = _MIN_PAUSE
        self._again = 0.0
        # When a transaction was last committed, by whichever process; how SQLite numbers those of others, while stuck.
        self._moved = 0.0
        self._version: int | None = None
        self._alarmed = False
        self._attempt = Attempts(tables)
        # The items of this round, delivered or not.
        self._under_way: list[WorkItem[object]] = []

    def submit(self, unit: WorkItem[object]) -> None:
        """Put a unit in the line."""
        if os.getpid() != self._process:
            raise StoreError("the store was opened by another process")
        with self._lock:
            if self._ends is not None:
                raise StoreError("the store is closed")
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="store", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise store_error(error) from None
                self._thread = thread
            self._submitted += 1
            self._queue.put(unit)

    def wake(self) -> None:
        """Let the thread look whether it is time to try again."""
        with self._lock:
            if not self._over:
                self._submitted += 1
                self._queue.put(None)

    def expedite(self) -> None:
        """Let the thread try stuck items at once."""
        self._expedited = True
        self.wake()

    def end(self, seconds: float, ended: Callable[[], None]) -> None:
        """Finish pending work within some seconds, close the file, and report it; callable from any thread."""
        if os.getpid() != self._process:
            ended()
            return
        with self._lock:
            over = self._over
            if not over:
                self._ends = self._clock() + seconds
                self._ended.append(ended)
        if over:
            ended()
        elif self._thread is None:
            self._close()
        else:
            self.wake()

    def is_working(self) -> bool:
        """Whether anything is done, or will be as soon as the thread has its turn; not while all it has is stuck."""
        return not self._over and self._thread is not None and self._submitted != self._seen

    def _serve(self) -> None:
        while True:
            try:
                if not self._turn():
                    break
            except BaseException as error:
                # The outermost place: only here can the waiters be informed.
                self._break(error)
        self._close()

    def _close(self) -> None:
        try:
            self._tables.close()
        finally:
            with self._lock:
                self._over = True
                callbacks, self._ended = self._ended, []
            for ended in callbacks:
                ended()

    def _turn(self) -> bool:
        """Wait for something to do, and do it; False at the end."""
        self._take()
        expedited, self._expedited = self._expedited, False
        due = not self._stuck or expedited or self._clock() >= self._again
        if due:
            self._stuck.extend(self._at_hand)
            self._at_hand, self._stuck = self._stuck, deque()
        self._under_way = list(self._at_hand)
        self._work_off()
        self._under_way = []
        if not self._stuck:
            self._pause, self._version = _MIN_PAUSE, None
        elif due:
            self._look_at_others()
            self._give_up_late_ones()
            self._again = self._clock() + self._pause
            self._pause = min(2 * self._pause, _MAX_PAUSE)
        return self._ends is None or bool(self._stuck) or not self._queue.empty()

    def _take(self) -> None:
        """Wait for units, or for the time to try those again that are stuck."""
        waits: float | None = None
        if self._stuck:
            waits = max(self._again - self._clock(), 0.0)
            if self._alarm is not None:
                if not self._alarmed:
                    self._alarmed = True
                    self._alarm(waits, self.wake)
                waits = None
        self._seen = self._taken
        with suppress(Empty):
            unit = self._queue.get(timeout=waits)
            while True:
                self._taken += 1
                if unit is None:
                    self._alarmed = False
                else:
                    self._at_hand.append(unit)
                if len(self._at_hand) >= _AT_ONCE or self._queue.empty():
                    break
                unit = self._queue.get()

    def _work_off(self) -> None:
        pending = self._at_hand
        while pending:
            if self._is_over_time():
                self._stuck.extend(pending)
                pending.clear()
            elif not pending[0].writes:
                self._read_some()
            elif self._stuck:
                # Writes keep their order.
                self._stuck.append(pending.popleft())
            else:
                self._write(self._next_writes())

    def _is_over_time(self) -> bool:
        return self._ends is not None and self._clock() >= self._ends

    def _read_some(self) -> None:
        """Run the next reads, and deliver them together unless that takes long."""
        pending = self._at_hand
        outcomes: list[Outcome] = []
        until = self._clock() + _TOGETHER
        while pending and not pending[0].writes:
            unit = pending.popleft()
            if unit.is_wanted:
                self._read(unit, outcomes)
                if self._clock() >= until:
                    break
        deliver(outcomes)

    def _next_writes(self) -> list[WorkItem[object]]:
        pending = self._at_hand
        units: list[WorkItem[object]] = []
        most = _AT_ONCE if self._db.shares_transactions else 1
        while pending and pending[0].writes and len(units) < most:
            unit = pending.popleft()
            if unit.is_wanted:
                units.append(unit)
        return units

    def _read(self, unit: WorkItem[object], outcomes: list[Outcome]) -> None:
        """Run a read in one snapshot of the database; only an exclusive lock can block it."""
        for _ in range(_MAX_RUNS):
            done, error = self._read_once(unit)
            if not isinstance(error, StoreConflict):
                break
        self._note(error)
        if isinstance(error, StoreBusy):
            self._stuck.append(unit)
        else:
            outcomes.append((unit, done, error))

    def _read_once(self, unit: WorkItem[object]) -> tuple[object, BaseException | None]:
        db = self._db
        try:
            self._refuse_if_away()
            db.begin(writes=False)
            done, error = self._attempt(unit.work)
            if error is None:
                db.commit()
        except StoreError as failure:
            done, error = None, failure
        finally:
            db.rollback()
        return done, store_error(error) if isinstance(error, StoreError) else error

    def _write(self, units: list[WorkItem[object]]) -> None:
        """Run items in one transaction and deliver; if that fails, each alone."""
        if not units:
            return
        failure = self._try_to_commit(units)
        if failure is None:
            self._moved = self._clock()
        elif isinstance(failure, StoreBusy):
            self._stuck.extend(units)
        elif len(units) == 1 or isinstance(failure, StoreUnknown):
            # What may have been committed is not done again.
            deliver([(unit, None, store_error(failure)) for unit in units])
        else:
            for unit in units:
                if self._stuck:
                    self._stuck.append(unit)
                else:
                    self._write([unit])

    def _try_to_commit(self, units: list[WorkItem[object]]) -> StoreError | None:
        """Run items in one transaction and deliver; if nothing was committed, give the reason."""
        failure: StoreError | None = None
        began = self._clock()
        try:
            for _ in range(_MAX_RUNS):
                try:
                    deliver(self._commit(units))
                    return None
                except StoreError as error:
                    failure = store_error(error)
                if isinstance(failure, StoreUnknown) and units[0].is_repeatable and self._clock() - began < _SOON:
                    self._tables.is_repeated = True
                elif not isinstance(failure, StoreConflict):
                    break
        finally:
            self._tables.is_repeated = False
        self._note(failure)
        return failure

    def _refuse_if_away(self) -> None:
        """Fail without a try if the server is away: each try would wait as long as the one that found that out."""
        server = self._server
        if server is not None and server.is_away:
            raise StoreAway(server.problem)

    def _note(self, error: BaseException | None) -> None:
        """Let nothing else wait for a server that a work item has just lost, until its heartbeat returns."""
        if self._server is not None and isinstance(error, StoreAway):
            self._server.lost(str(error))

    def _commit(self, units: list[WorkItem[object]]) -> list[Outcome]:
        """Run items in one transaction with savepoints; an error means that none was committed."""
        # Each statement may cost a change of threads, so that there are no more of them than needed.
        db, alone = self._db, len(units) == 1
        self._refuse_if_away()
        db.begin(lock=units[0].owner)
        outcomes: list[Outcome] = []
        try:
            db.in_unit = True
            for unit in units:
                if not alone:
                    db.savepoint("unit")
                done, error = self._attempt(unit.work)
                if not db.in_transaction:
                    raise store_error(error or StoreError("the transaction was taken back"))
                if error is not None:
                    if isinstance(error, StoreError):
                        error = store_error(error)
                        if isinstance(error, StoreBusy | StoreConflict):
                            raise error
                    if alone:
                        db.rollback()
                    else:
                        db.rollback_to("unit")
                if not alone:
                    db.release("unit")
                outcomes.append((unit, done, error))
            if db.in_transaction:
                db.commit()
        finally:
            db.in_unit = False
            db.rollback()
        return outcomes

    def _look_at_others(self) -> None:
        """See whether another process has committed since the last look: then its next turn is ours, and near."""
        try:
            version = self._db.commits()
        except StoreBusy:
            # Only the lock's holder may read.
            return
        if self._version not in (None, version):
            self._moved, self._pause = self._clock(), _MIN_PAUSE
        self._version = version

    def _give_up_late_ones(self) -> None:
        """Fail the items that are past their time."""
        now, over = self._clock(), self._is_over_time()
        late: list[Outcome] = []
        waiting: deque[WorkItem[object]] = deque()
        for unit in self._stuck:
            if not unit.is_wanted:
                continue
            if unit.is_late(now, self._moved):
                late.append((unit, None, StoreBusy("another process holds the file for too long")))
            elif over:
                late.append((unit, None, StoreError("the store was closed before this could be done")))
            else:
                waiting.append(unit)
        self._stuck = waiting
        deliver(late)

    def _break(self, error: BaseException) -> None:
        """Fail all work at hand, so that no caller waits for ever after an unexpected error."""
        units = {id(unit): unit for unit in (*self._under_way, *self._stuck, *self._at_hand) if not unit.is_delivered}
        self._under_way = []
        self._attempt = Attempts(self._tables)
        self._stuck.clear()
        self._at_hand.clear()
        with suppress(StoreError):
            self._db.rollback()
        deliver([(unit, None, store_error(error)) for unit in units.values()])
