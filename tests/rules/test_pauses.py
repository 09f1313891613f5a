"""An answer that paused and was resumed is one answer."""

from __future__ import annotations

from dragoman.model.events import (
    Ended,
    Event,
    PartEnded,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.parts import Text
from dragoman.model.response import Stop, StopReason, Usage
from dragoman.rules.pauses import PauseStage, summed

PAUSE = Stopped(Stop(reason=StopReason.PAUSE, native="pause_turn"))
END = Stopped(Stop(reason=StopReason.END, native="end_turn"))


def said(text: str, stop: Stopped, usage: Usage) -> list[Event]:
    """A stream of one text."""
    parts: list[Event] = [PartStarted(0, Text(text="")), PartGrew(0, TextDelta(text)), PartEnded(0)]
    return [Started(id="m", model="x"), *parts, UsageReported(usage), stop, Ended()]


def test_the_second_stream_goes_on_where_the_first_stood() -> None:
    stage = PauseStage("anthropic-messages", 10)
    first = stage.passed(said("one", PAUSE, Usage(input=5, output=2, cache_read=1)))
    assert stage.paused
    assert [type(event).__name__ for event in first][-1] == "UsageReported"
    assert [part.text for part in stage.parts if isinstance(part, Text)] == ["one"]
    assert stage.passed([Ended()]) == []
    stage.resumed()
    assert stage.in_all(Usage(input=7, output=3)) == Usage(input=12, output=5, cache_read=1)
    second = stage.passed(said("two", END, Usage(input=7, output=3, thinking=4)))
    assert second == [
        PartStarted(1, Text(text="")),
        PartGrew(1, TextDelta("two")),
        PartEnded(1),
        UsageReported(Usage(input=12, output=5, cache_read=1, thinking=4)),
        END,
        Ended(),
    ]
    assert not stage.paused


def test_counts_of_three_calls_are_added_up_once_each() -> None:
    stage = PauseStage("anthropic-messages", 10)
    totals = []
    for count in range(3):
        events = stage.passed(said("x", PAUSE if count < 2 else END, Usage(input=10, output=1)))
        totals += [event.usage.input for event in events if isinstance(event, UsageReported)]
        if stage.paused:
            stage.resumed()
    assert totals == [10, 20, 30]


def test_the_last_pause_is_the_end() -> None:
    stage = PauseStage("anthropic-messages", 1)
    stage.passed(said("one", PAUSE, Usage()))
    stage.resumed()
    told = stage.passed(said("two", PAUSE, Usage()))
    assert told[-2:] == [PAUSE, Ended()]
    assert not stage.paused


def test_what_neither_call_reports_stays_unreported() -> None:
    total = summed(Usage(input=1, output=1), Usage(input=2, output=2, cache_write=0))
    assert total == Usage(input=3, output=3, cache_write=0)
