"""The table of legal orders."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.events import (
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartEnded,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.parts import Text
from dragoman.model.response import Stop, StopReason, Usage
from tests.model.event_order import OrderCheck, StreamPhase

START = Started(id="x", model="m")
OPEN = PartStarted(0, Text(text=""))
STOP = Stopped(Stop(reason=StopReason.END))
FAIL = Failed(Failure(kind=FailureKind.INTERNAL, message="m"))
NOTE = UsageReported(Usage())


@pytest.mark.parametrize(
    "events",
    [
        [START, OPEN, PartGrew(0, TextDelta("a")), PartEnded(0), NOTE, STOP, NOTE, Ended()],
        [START, OPEN, Heartbeat(), FAIL],
        [FAIL],
        [START, STOP, FAIL],
        [START, OPEN, PartStarted(1, Text(text="")), PartEnded(0), PartEnded(1), STOP, Ended()],
    ],
)
def test_legal(events: list[Event]) -> None:
    check = OrderCheck()
    for event in events:
        check(event)
    assert check.phase is StreamPhase.OVER


@pytest.mark.parametrize(
    "events",
    [
        [OPEN],
        [START, START],
        [START, Ended()],
        [START, OPEN, STOP],
        [START, OPEN, OPEN],
        [START, PartGrew(0, TextDelta("a"))],
        [START, OPEN, PartEnded(0), PartEnded(0)],
        [START, STOP, OPEN],
        [FAIL, START],
        [START, STOP, Ended(), NOTE],
    ],
)
def test_illegal(events: list[Event]) -> None:
    check = OrderCheck()
    with pytest.raises(WireError):
        for event in events:
            check(event)


def test_serial_streams_have_one_open_part() -> None:
    check = OrderCheck(serial=True)
    check(START)
    check(OPEN)
    with pytest.raises(WireError):
        check(PartStarted(1, Text(text="")))
