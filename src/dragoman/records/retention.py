"""Retention: deletes expired rows of exchanges and old heads of histories in small steps, so that other writers have
their turn; totals stay. Where the engine divides the table by months, whole months are dropped (decision 47)."""

from __future__ import annotations

import threading
import time

from dragoman.records.thread_assignment import reclassify
from dragoman.store import StoreBusy
from dragoman.store.record_tables import RecordTables

# Interval of searches for expired rows, in seconds, the number of rows per step, and the time limit of a step; then
# other work has its turn.
_EVERY = 60.0
_MIN_BATCH, _MAX_BATCH = 10, 1000
_MAX_STEP_SECONDS, _SHORT_STEP_SECONDS = 0.01, 0.004
_BETWEEN, _STEPS = 0.02, 20
_DAY = 86_400_000_000
# Days for which the ends of histories are known, unless rows expire earlier: a later continuation is a new thread.
_HEAD_DAYS = 90.0


class Retention:
    """The retention of one worker, for rows older than some days; it ends early once `stopping` is set. `removed`
    counts rows that were deleted one by one."""

    def __init__(self, days: float, stopping: threading.Event) -> None:
        self._days = days
        self._stopping = stopping
        self._at_once = 100
        self._due = 0.0
        self.removed = 0

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next search."""
        return time.monotonic() >= self._due

    def run(self, tables: RecordTables, now: int) -> None:
        """Take some steps, at a time in microseconds."""
        before = int(now - self._days * _DAY)
        due = time.monotonic() + _EVERY
        try:
            tables.records.drop_before(before)
        except StoreBusy:
            # A vacuum or a long reader has the month. Its rows are not deleted instead: later it goes at once.
            self._due = due
            return
        for _ in range(_STEPS):
            began = time.perf_counter()
            with tables.transaction():
                removed = tables.records.remove_before(before, self._at_once)
            took = time.perf_counter() - began
            self.removed += removed
            if removed < self._at_once:
                self._due = due
                self._tidy(tables, max(before, int(now - _HEAD_DAYS * _DAY)))
                return
            if took > _MAX_STEP_SECONDS:
                self._at_once = max(self._at_once // 2, _MIN_BATCH)
            elif took < _SHORT_STEP_SECONDS:
                self._at_once = min(self._at_once * 2, _MAX_BATCH)
            if self._stopping.wait(_BETWEEN):
                return

    def _tidy(self, tables: RecordTables, before: int) -> None:
        """Class threads anew that older rules have classed, and forget where old histories ended; in small steps."""
        for _ in range(_STEPS):
            with tables.transaction():
                removed = tables.sessions.remove_heads(before, self._at_once)
            # A part of the tips where few are old is done with, and the next one has its turn in a minute.
            if max(removed, reclassify(tables, self._at_once)) < self._at_once or self._stopping.wait(_BETWEEN):
                return
        # There is more of it.
        self._due = 0.0
