"""The stream algebra: an answer as it grows, and the table of legal orders.

    stream = Started (part event | note)* (Stopped note*)? (Ended | Failed)  |  Failed
    note   = UsageReported | Heartbeat | ChoicesTold, which comes before Stopped
    each index: PartStarted once, PartGrew while open, PartEnded once

Parts may overlap; an encoder whose wire cannot say that serialises them first (`rules.serial`).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Citation, Part, Seal
from dragoman.model.response import Stop, Usage


class TextDelta(Struct, frozen=True):
    """More text, thinking or refusal for the open part."""

    text: str
    logprobs: JsonList | None = None


class TextRun(TextDelta, frozen=True, gc=False):
    """Several text deltas at once, never the first of their part; `text` is that of all.

    `strings` is the inside of the JSON string of each, as every encoder writes it (`rules.text_runs`).
    """

    strings: list[bytes] = []


class ArgumentsDelta(Struct, frozen=True):
    """More of a call's arguments."""

    text: str


class CitationAdded(Struct, frozen=True):
    """A citation for the open text."""

    citation: Citation


class SealSet(Struct, frozen=True):
    """The seal of the open thinking part, known only at its end."""

    seal: Seal


class PartReplaced(Struct, frozen=True):
    """The open part as a whole, known only at its end: hosted calls, compactions, foreign parts."""

    part: Part


Delta: TypeAlias = TextDelta | ArgumentsDelta | CitationAdded | SealSet | PartReplaced


class Started(Struct, frozen=True, kw_only=True):
    """The answer begins."""

    id: str
    model: str
    created: int | None = None


class PartStarted(Struct, frozen=True):
    """A part opens; text, thinking and arguments are empty here unless they came whole."""

    index: int
    part: Part


class PartGrew(Struct, frozen=True):
    """An open part grows."""

    index: int
    delta: Delta


class PartEnded(Struct, frozen=True):
    """A part is complete."""

    index: int


class UsageReported(Struct, frozen=True):
    """Token counts so far; the latest wins."""

    usage: Usage


class ChoiceReported(Struct, frozen=True):
    """The further choices of an answer that came whole, as its wire has them (`Response.alternatives`)."""

    choices: tuple[JsonObject, ...]


class Stopped(Struct, frozen=True):
    """Why the answer ended; no part event follows."""

    stop: Stop


class Ended(Struct, frozen=True):
    """The answer is whole."""


class Failed(Struct, frozen=True):
    """The answer broke off; nothing follows. `usage` is what it took in all, if that was told with it."""

    failure: Failure
    usage: Usage | None = None


class Heartbeat(Struct, frozen=True):
    """The provider is alive and has nothing to say."""


Event: TypeAlias = (
    Started | PartStarted | PartGrew | PartEnded | UsageReported | ChoiceReported | Stopped | Ended | Failed | Heartbeat
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
    """Runs events through the table; for tests and debugging."""

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
