"""Writer: the thread that redacts and stores captured exchanges (decision 48). No exchange waits for it.

    state      a captured exchange                          leaves it when
    writing    is written                                   a write fails
    stopped    is dropped and counted                       a write succeeds: one is tried every 5 s
    closed     is dropped

A file that was deleted or replaced is opened anew, a damaged one moved aside, in both cases once per exchange.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from msgspec import Struct

from dragoman.contents.archive import Archive
from dragoman.contents.capture import QUEUE_FULL, Capture, CaptureBudget
from dragoman.contents.redaction import ContentsRedactor
from dragoman.contents.retention import RetentionLimits, retain
from dragoman.database_location import DatabaseLocation
from dragoman.errors import DragomanError
from dragoman.store.contents_database import contents_path, move_aside
from dragoman.store.errors import StoreDamaged, StoreReplaced

# Seconds between two tries while contents cannot be stored, and between two looks at what is too old.
_RETRY = 5.0
_RETAIN = 60.0
# Seconds for which the thread waits for work, and works on retention before it looks for other work.
_IDLE, _STEP = 1.0, 0.01
_MICRO = 1_000_000


class ContentsStatus(Struct, frozen=True, kw_only=True):
    """The state of storing contents: exchanges since the start, and why none can be stored at present."""

    written: int = 0
    dropped: int = 0
    removed: int = 0
    problem: str = ""


class ContentsWriter:
    """The thread, started by the first capture. `open_archive` opens the database; `log` takes level and words."""

    def __init__(
        self,
        database: DatabaseLocation,
        open_archive: Callable[[], Archive],
        limits: RetentionLimits,
        log: Callable[[str, str], None],
        *,
        budget: CaptureBudget | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._open = open_archive
        self._limits = limits
        self._log = log
        self._budget = budget or CaptureBudget()
        self._clock = clock
        self._monotonic = monotonic
        self._queue: SimpleQueue[Capture | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._archive: Archive | None = None
        self._stopping = threading.Event()
        self._retry_at = 0.0
        self._retain_at = 0.0
        # Replaced when keys or patterns change.
        self.redactor: ContentsRedactor | None = None
        self.written = self.dropped = self.removed = 0
        self.problem = ""

    @property
    def status(self) -> ContentsStatus:
        """The state at present."""
        return ContentsStatus(written=self.written, dropped=self.dropped, removed=self.removed, problem=self.problem)

    # Called on the loop.

    def begin(self, exchange: str, time: int, key: str) -> Capture:
        """Capture an exchange; `time` is in microseconds."""
        self._budget.settle()
        return Capture(exchange, time, key, self._budget)

    def submit(self, capture: Capture) -> None:
        """Have an exchange written. This never waits, and never fails."""
        if self._stopping.is_set():
            capture.clear()
            return
        self._queue.put(capture)
        if self._thread is None:
            self.start()

    def start(self) -> None:
        """Start the thread; without it nothing that is too old is removed."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="contents", daemon=True)
            self._thread.start()

    def close(self, within: float) -> bool:
        """Write what waits, and end; False if the time did not suffice."""
        self._stopping.set()
        self._queue.put(None)
        if self._thread is None:
            return True
        self._thread.join(within)
        return not self._thread.is_alive()

    # The thread.

    def _run(self) -> None:
        while True:
            with suppress(Empty):
                capture = self._queue.get(timeout=_IDLE)
                if capture is None:
                    break
                self._take(capture)
            self._retain()
        if self._archive is not None:
            self._archive.close()
            self._archive = None

    def _take(self, capture: Capture) -> None:
        try:
            may_write = not self.problem or self._monotonic() >= self._retry_at
            if may_write and self._write(capture):
                self.written += not capture.reason
                self.dropped += capture.reason == QUEUE_FULL
            else:
                self.dropped += 1
        finally:
            capture.clear()

    def _write(self, capture: Capture) -> bool:
        """Write an exchange, once more after the file was replaced or damaged; False if that failed, or it was erased
        before."""
        try:
            try:
                is_written = self._opened().write(capture.contents(), capture.secrets)
            except (StoreReplaced, StoreDamaged) as error:
                self._reopen(error)
                is_written = self._opened().write(capture.contents(), capture.secrets)
        except (DragomanError, OSError) as error:
            self._failed(error)
            return False
        except Exception as error:
            # The outermost place: a body that no part of the code can handle ends neither the thread nor the others.
            self._failed(DragomanError(f"unexpected {type(error).__name__}"))
            return False
        if self.problem:
            self.problem = ""
            self._log("info", "contents are stored again")
        return is_written

    def _opened(self) -> Archive:
        if self._archive is None:
            self._archive = self._open()
        if self.redactor is not None:
            self._archive.redactor = self.redactor
        return self._archive

    def _reopen(self, error: Exception) -> None:
        self._let_go()
        path = contents_path(self._database)
        if isinstance(error, StoreDamaged) and path is not None:
            aside = move_aside(path)
            self._log("error", f"the contents were damaged: the file was moved to {aside.name}, and a new one is used")

    def _failed(self, error: Exception) -> None:
        self._retry_at = self._monotonic() + _RETRY
        is_new = not self.problem
        self.problem = str(error) or type(error).__name__
        self._let_go()
        if is_new:
            self._log("error", f"cannot store contents: {self.problem}; requests and records go on")

    def _let_go(self) -> None:
        archive, self._archive = self._archive, None
        if archive is not None:
            with suppress(DragomanError):
                archive.close()

    def _retain(self) -> None:
        """Remove what is too old, for some milliseconds at a time."""
        now = self._monotonic()
        if now < self._retain_at or self.problem:
            return
        try:
            tables = self._opened().tables
            while True:
                if not (removed := retain(tables, self._limits, int(self._clock() * _MICRO))):
                    self._retain_at = now + _RETAIN
                    return
                self.removed += removed
                if self._monotonic() - now > _STEP:
                    return
        except (DragomanError, OSError):
            # The next write reports it.
            self._retain_at = now + _RETRY
            self._let_go()
