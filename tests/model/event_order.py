"""The order in which events of a stream may come, as a table, and a check of events against it."""

from __future__ import annotations

from enum import Enum

from dragoman.errors import WireError
from dragoman.model.events import (
    ChoiceReported,
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartEnded,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    UsageReported,
)


class StreamPhase(Enum):
    """Where a stream stands."""

    FRESH = "fresh"
    RUNNING = "running"
    STOPPED = "stopped"
    OVER = "over"


# (phase, event) -> next phase; what is not in the table is illegal.
ORDERS: dict[tuple[StreamPhase, type], StreamPhase] = {
    (StreamPhase.FRESH, Started): StreamPhase.RUNNING,
    (StreamPhase.FRESH, Failed): StreamPhase.OVER,
    (StreamPhase.FRESH, Heartbeat): StreamPhase.FRESH,
    (StreamPhase.RUNNING, PartStarted): StreamPhase.RUNNING,
    (StreamPhase.RUNNING, PartGrew): StreamPhase.RUNNING,
    (StreamPhase.RUNNING, PartEnded): StreamPhase.RUNNING,
    (StreamPhase.RUNNING, UsageReported): StreamPhase.RUNNING,
    (StreamPhase.RUNNING, ChoiceReported): StreamPhase.RUNNING,
    (StreamPhase.RUNNING, Heartbeat): StreamPhase.RUNNING,
    (StreamPhase.RUNNING, Stopped): StreamPhase.STOPPED,
    (StreamPhase.RUNNING, Failed): StreamPhase.OVER,
    (StreamPhase.STOPPED, UsageReported): StreamPhase.STOPPED,
    (StreamPhase.STOPPED, Heartbeat): StreamPhase.STOPPED,
    (StreamPhase.STOPPED, Ended): StreamPhase.OVER,
    (StreamPhase.STOPPED, Failed): StreamPhase.OVER,
}


class OrderCheck:
    """Runs events through the table."""

    def __init__(self, *, serial: bool = False) -> None:
        self.phase = StreamPhase.FRESH
        self._serial = serial
        self._open: set[int] = set()
        self._seen: set[int] = set()

    def __call__(self, event: Event) -> None:
        """Accept the next event or raise WireError."""
        following = ORDERS.get((self.phase, type(event)))
        if following is None:
            raise WireError("", f"a legal event in phase {self.phase.value}", type(event).__name__)
        self.phase = following
        if isinstance(event, PartStarted):
            if event.index in self._seen or (self._serial and self._open):
                raise WireError("", "one start for each part", f"another for part {event.index}")
            self._seen.add(event.index)
            self._open.add(event.index)
        elif isinstance(event, PartGrew | PartEnded):
            if event.index not in self._open:
                raise WireError("", "an open part", f"part {event.index}")
            if isinstance(event, PartEnded):
                self._open.discard(event.index)
        elif isinstance(event, Stopped) and self._open:
            raise WireError("", "all parts ended", f"{len(self._open)} open")
