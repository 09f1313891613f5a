"""Events to answers and back."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.events import (
    ArgumentsDelta,
    CitationAdded,
    Ended,
    Event,
    Failed,
    PartEnded,
    PartGrew,
    PartReplaced,
    PartStarted,
    SealSet,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import fold, unfold
from dragoman.model.parts import Citation, HostedCall, HostedKind, Refusal, Seal, Text, Thinking, ToolCall
from dragoman.model.response import Response, Stop, StopReason, Usage

SEAL = Seal(origin="a", kind="thinking", body={"signature": "s"})
CITATION = Citation(origin="a", native={"url": "https://example.org"}, url="https://example.org")
ANSWER = Response(
    origin="a",
    id="msg_1",
    model="m",
    created=5,
    parts=(
        Thinking(text="hm", seal=SEAL),
        Text(text="yes", citations=(CITATION,), logprobs=[{"token": "yes"}]),
        ToolCall(call_id="1", name="f", arguments='{"a":1}'),
        HostedCall(call_id="2", kind=HostedKind.WEB_SEARCH, name="web_search", arguments="{}"),
        Refusal(text="no"),
    ),
    stop=Stop(reason=StopReason.END),
    usage=Usage(input=1, output=2),
)


def test_an_answer_told_as_a_stream_is_the_same_answer() -> None:
    assert fold(unfold(ANSWER), "a") == ANSWER


def test_further_choices_are_told_with_it() -> None:
    several = replace(ANSWER, alternatives=({"index": 1, "message": {"content": "or"}}, {"index": 2}))
    assert fold(unfold(several), "a") == several


def test_deltas_are_joined() -> None:
    events: list[Event] = [
        Started(id="x", model="m"),
        PartStarted(0, Thinking(text="")),
        PartGrew(0, TextDelta("a")),
        PartGrew(0, TextDelta("b")),
        PartGrew(0, SealSet(SEAL)),
        PartEnded(0),
        PartStarted(1, ToolCall(call_id="1", name="f", arguments="")),
        PartGrew(1, ArgumentsDelta("{")),
        PartGrew(1, ArgumentsDelta("}")),
        PartEnded(1),
        PartStarted(2, Text(text="")),
        PartGrew(2, TextDelta("x", [1])),
        PartGrew(2, TextDelta("y", [2])),
        PartGrew(2, CitationAdded(CITATION)),
        PartEnded(2),
        PartStarted(3, Text(text="?")),
        PartGrew(3, PartReplaced(Refusal(text="no"))),
        PartEnded(3),
        UsageReported(Usage(input=1)),
        UsageReported(Usage(input=2)),
        Stopped(Stop(reason=StopReason.END)),
        Ended(),
    ]
    answer = fold(events, "a")
    assert isinstance(answer, Response)
    assert answer.parts == (
        Thinking(text="ab", seal=SEAL),
        ToolCall(call_id="1", name="f", arguments="{}"),
        Text(text="xy", logprobs=[1, 2], citations=(CITATION,)),
        Refusal(text="no"),
    )
    assert answer.usage == Usage(input=2)


def test_a_stream_that_fails_is_its_failure() -> None:
    failure = Failure(kind=FailureKind.OVERLOADED, message="busy", status=529)
    assert fold([Started(id="x", model="m"), Failed(failure)], "a") == failure
