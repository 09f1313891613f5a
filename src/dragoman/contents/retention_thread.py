"""Retention thread: removes contents that are too old, or too many bytes, in a gateway that stores none any more
(decision 48). Where contents are stored, the writer's thread does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dragoman.contents.retention import RetentionLimits, retain
from dragoman.database_location import DatabaseLocation
from dragoman.errors import DragomanError
from dragoman.store.contents_database import has_contents, open_contents

# Seconds between two looks at what is too old, and between two steps.
_INTERVAL, _PAUSE = 3600.0, 0.01
_MICRO = 1_000_000


class RetentionThread:
    """The thread; it needs no encryption key, and makes no file. `log` takes level and words."""

    def __init__(
        self,
        database: DatabaseLocation,
        limits: RetentionLimits,
        log: Callable[[str, str], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._limits = limits
        self._log = log
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="contents", daemon=True)
        self.removed = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self, within: float) -> bool:
        """End after the present step; False if the time did not suffice."""
        self._stopping.set()
        self._thread.join(within)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._retain()
            except (DragomanError, OSError) as error:
                self._log("warn", f"cannot remove contents that are too old: {error}")
            self._stopping.wait(_INTERVAL)

    def _retain(self) -> None:
        if not has_contents(self._database):
            return
        tables = open_contents(self._database)
        try:
            while not self._stopping.is_set():
                removed = retain(tables, self._limits, int(self._clock() * _MICRO))
                if not removed:
                    return
                self.removed += removed
                self._stopping.wait(_PAUSE)
        finally:
            tables.close()
