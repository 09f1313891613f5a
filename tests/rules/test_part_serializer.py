"""Parts told one after the other: S2 and S3 of mapping.md."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.events import (
    ArgumentsDelta,
    CitationAdded,
    Ended,
    Event,
    PartEnded,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    TextDelta,
)
from dragoman.model.folding import fold
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, Part, Text, ToolCall
from dragoman.model.response import Response, Stop, StopReason
from dragoman.rules.part_serializer import PartSerializer
from tests.model.event_order import OrderCheck

START = Started(id="x", model="m")
STOP = Stopped(Stop(reason=StopReason.END))


def serial(events: list[Event]) -> tuple[list[Event], Ledger]:
    told: list[Event] = []
    ledger = Ledger()
    serializer = PartSerializer(told.append, ledger)
    for event in events:
        serializer(event)
    return told, ledger


def call(name: str) -> ToolCall:
    return ToolCall(call_id=name, name=name, arguments="")


def test_interleaved_calls_come_one_after_the_other() -> None:
    told, _ = serial(
        [
            START,
            PartStarted(0, call("a")),
            PartStarted(1, call("b")),
            PartGrew(0, ArgumentsDelta("1")),
            PartGrew(1, ArgumentsDelta("2")),
            PartGrew(0, ArgumentsDelta("3")),
            PartEnded(1),
            PartEnded(0),
            STOP,
            Ended(),
        ]
    )
    assert [type(event).__name__ + str(getattr(event, "index", "")) for event in told] == [
        "Started",
        "PartStarted0",
        "PartGrew0",
        "PartGrew0",
        "PartEnded0",
        "PartStarted1",
        "PartGrew1",
        "PartEnded1",
        "Stopped",
        "Ended",
    ]


def test_text_is_announced_with_its_first_word() -> None:
    told, ledger = serial(
        [START, PartStarted(0, Text(text="")), PartGrew(0, TextDelta("\n")), PartGrew(0, TextDelta("hi")), PartEnded(0)]
    )
    assert told[1:] == [
        PartStarted(0, Text(text="")),
        PartGrew(0, TextDelta("\n")),
        PartGrew(0, TextDelta("hi")),
        PartEnded(0),
    ]
    assert len(ledger) == 0


def test_blank_text_makes_no_part_and_is_reported() -> None:
    told, ledger = serial(
        [START, PartStarted(0, Text(text="")), PartGrew(0, TextDelta(" \n")), PartEnded(0), PartStarted(1, call("a"))]
    )
    assert told == [START, PartStarted(0, call("a"))]
    assert [loss.feature.value for loss in ledger.losses] == ["empty_text"]


def test_a_citation_without_text_makes_no_part_and_is_reported() -> None:
    citation = Citation(origin="openai-responses", native={}, url="https://example.org")
    told, ledger = serial(
        [START, PartStarted(0, Text(text="")), PartGrew(0, CitationAdded(citation)), PartEnded(0), STOP]
    )
    assert told == [START, STOP]
    assert [loss.feature.value for loss in ledger.losses] == ["citations"]


def test_empty_text_makes_no_part_and_no_loss() -> None:
    told, ledger = serial([START, PartStarted(0, Text(text="")), PartEnded(0), STOP])
    assert told == [START, STOP]
    assert len(ledger) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("xyz")), max_size=30), st.permutations(range(4)))
def test_any_interleaving_tells_the_same_parts_serially(pieces: list[tuple[int, str]], ends: list[int]) -> None:
    events: list[Event] = [START, *(PartStarted(index, call(str(index))) for index in range(4))]
    events += [PartGrew(index, ArgumentsDelta(piece)) for index, piece in pieces]
    events += [*(PartEnded(index) for index in ends), STOP, Ended()]
    told, _ = serial(events)
    check = OrderCheck(serial=True)
    for event in told:
        check(event)
    before, after = fold(events, "x"), fold(told, "x")
    assert isinstance(before, Response)
    assert isinstance(after, Response)
    # What waits is told in order of first appearance.
    assert sorted(map(_arguments, before.parts)) == sorted(map(_arguments, after.parts))


def _arguments(part: Part) -> tuple[str, str]:
    assert isinstance(part, ToolCall)
    return part.call_id, part.arguments
