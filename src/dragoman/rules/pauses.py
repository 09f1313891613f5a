"""Pauses: joins the streams of a provider that pauses until the request is repeated (`pause_turn`) into one response
(mapping.md §13).

state     an event arrives
FIRST     passes; a pause ─▶ PAUSED
PAUSED    dropped: the rest of this stream has no content
LATER     `Started` is dropped, part indexes continue, token counts are added up; a pause ─▶ PAUSED

`resumed` moves the stage from PAUSED to LATER. After `RESUMES` continuations a pause passes through."""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from dragoman.model.events import Event, PartEnded, PartGrew, PartStarted, Started, Stopped, UsageReported
from dragoman.model.folding import Fold
from dragoman.model.parts import Part
from dragoman.model.response import StopReason, Usage

# Maximum continuations of a response. A further pause ends it.
RESUMES = 10


class _State(Enum):
    FIRST = "first"
    PAUSED = "paused"
    LATER = "later"


class PauseStage:
    __slots__ = ("_before", "_fold", "_latest", "_next", "_offset", "_resumes", "_state")

    def __init__(self, origin: str, resumes: int) -> None:
        self._state = _State.FIRST
        self._resumes = resumes
        self._fold = Fold(origin)
        self._offset = self._next = 0
        self._before: Usage | None = None
        self._latest: Usage | None = None

    @property
    def paused(self) -> bool:
        return self._state is _State.PAUSED

    @property
    def parts(self) -> tuple[Part, ...]:
        return self._fold.response().parts

    def resumed(self) -> None:
        self._state = _State.LATER
        self._offset = self._next
        self._before = self._latest

    def passed(self, events: list[Event]) -> list[Event]:
        emitted: list[Event] = []
        for event in events:
            if self._state is _State.PAUSED:
                break
            if isinstance(event, Stopped) and event.stop.reason is StopReason.PAUSE and self._resumes > 0:
                self._resumes -= 1
                self._state = _State.PAUSED
                break
            passed = self._joined(event) if self._state is _State.LATER else event
            if passed is not None:
                self._record(passed)
                emitted.append(passed)
        return emitted

    def _joined(self, event: Event) -> Event | None:
        if isinstance(event, Started):
            return None
        if isinstance(event, PartStarted):
            return PartStarted(event.index + self._offset, event.part)
        if isinstance(event, PartGrew):
            return PartGrew(event.index + self._offset, event.delta)
        if isinstance(event, PartEnded):
            return PartEnded(event.index + self._offset)
        if isinstance(event, UsageReported):
            return UsageReported(self.in_all(event.usage))
        return event

    def in_all(self, usage: Usage) -> Usage:
        """The usage of the response, with the counts of its latest stream."""
        return summed(self._before, usage)

    def _record(self, event: Event) -> None:
        self._fold(event)
        if isinstance(event, PartStarted):
            self._next = max(self._next, event.index + 1)
        elif isinstance(event, UsageReported):
            self._latest = event.usage


def summed(before: Usage | None, more: Usage) -> Usage:
    """Add the token counts of two calls. A count that neither reports stays unreported."""
    if before is None:
        return more
    return replace(
        more,
        input=before.input + more.input,
        output=before.output + more.output,
        cache_read=_added(before.cache_read, more.cache_read),
        cache_write=_added(before.cache_write, more.cache_write),
        thinking=_added(before.thinking, more.thinking),
        web_searches=_added(before.web_searches, more.web_searches),
    )


def beyond(before: Usage | None, total: Usage) -> Usage:
    """The usage of the last of several calls, given that of all earlier ones."""
    if before is None:
        return total
    return replace(
        total,
        input=max(total.input - before.input, 0),
        output=max(total.output - before.output, 0),
        cache_read=_less(total.cache_read, before.cache_read),
        cache_write=_less(total.cache_write, before.cache_write),
        thinking=_less(total.thinking, before.thinking),
        web_searches=_less(total.web_searches, before.web_searches),
    )


def _less(total: int | None, before: int | None) -> int | None:
    return total if total is None or before is None else max(total - before, 0)


def _added(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other
