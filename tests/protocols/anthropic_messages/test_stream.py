"""Streams: read from a provider, and written for a client."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from dragoman.model.events import (
    ArgumentsDelta,
    CitationAdded,
    Ended,
    Event,
    Failed,
    Heartbeat,
    OrderCheck,
    PartEnded,
    PartGrew,
    PartStarted,
    SealSet,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import fold, unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, Foreign, InputForm, Part, Refusal, Seal, Text, Thinking, ToolCall
from dragoman.model.request import Request
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.model.tools import TextTool, WebSearchTool
from dragoman.protocols.anthropic_messages import CODEC, NAME
from dragoman.protocols.anthropic_messages.stream import PING
from dragoman.rules.toolnames import ToolTable, Wrapped
from dragoman.wire.json import encode
from dragoman.wire.sse import Frame
from tests.protocols.anthropic_messages.support import (
    asked,
    at,
    decoded_stream,
    encoded_stream,
    frames,
    losses,
    mint,
    plain,
)
from tests.protocols.anthropic_messages.test_response import SEARCH

EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def start(index: int, **block: Any) -> JsonObject:  # noqa: ANN401 - test data is JSON
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: Any) -> JsonObject:  # noqa: ANN401 - test data is JSON
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def stop(index: int) -> JsonObject:
    return {"type": "content_block_stop", "index": index}


OPENING: JsonObject = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "served", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
}
CLOSING: list[JsonObject] = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]


def told(*blocks: JsonObject, given: list[JsonObject] | None = None) -> list[Event]:
    """The events of a whole stream around some blocks; they are legal in their order."""
    events = decoded_stream([OPENING, *blocks, *(CLOSING if given is None else given)])
    check = OrderCheck()
    for event in events:
        check(event)
    return events


def parts(events: list[Event]) -> tuple[Part, ...]:
    """The parts that a stream tells."""
    answer = fold(events, NAME)
    assert isinstance(answer, Response)
    return answer.parts


def test_text_is_announced_with_its_first_character() -> None:
    events = told(
        start(0, type="text", text=""), delta(0, "text_delta", text=""), delta(0, "text_delta", text="hi"), stop(0)
    )
    assert events[2:5] == [PartStarted(0, Text(text="")), PartGrew(0, TextDelta("hi")), PartEnded(0)]


def test_pitfall_016_an_empty_block_is_no_part() -> None:
    assert parts(told(start(0, type="text", text=""), stop(0))) == ()


def test_thinking_is_sealed_whole_at_its_end() -> None:
    events = told(
        start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="a"),
        delta(0, "thinking_delta", thinking="b"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
    )
    sealed = events[5]
    assert isinstance(sealed, PartGrew)
    assert isinstance(sealed.delta, SealSet)
    assert sealed.delta.seal.body == {"type": "thinking", "thinking": "ab", "signature": "s"}


def test_pitfall_107_a_signed_block_without_text_is_kept() -> None:
    (part,) = parts(
        told(start(0, type="thinking", thinking="", signature=""), delta(0, "signature_delta", signature="s"), stop(0))
    )
    assert isinstance(part, Thinking)
    assert part.seal is not None


@pytest.mark.parametrize(
    ("pieces", "given", "arguments"),
    [
        ((), {}, "{}"),
        (("",), {}, "{}"),
        ((), {"a": 1}, '{"a":1}'),
        (('{"a"', ": 1}"), {}, '{"a": 1}'),
        (('{"a":1}',), {"b": 2}, '{"a":1}'),
    ],
    ids=[
        "pitfall 46: no delta",
        "pitfall 46: an empty one",
        "the whole input at the start",
        "two pieces",
        "pitfall 47: the start is no fragment",
    ],
)
def test_arguments(pieces: tuple[str, ...], given: JsonObject, arguments: str) -> None:
    (part,) = parts(
        told(
            start(0, type="tool_use", id="toolu_1", name="f", input=given),
            *(delta(0, "input_json_delta", partial_json=piece) for piece in pieces),
            stop(0),
        )
    )
    assert part == ToolCall(call_id="toolu_1", name="f", arguments=arguments)


def test_free_text_is_unwrapped_as_it_arrives() -> None:
    table = ToolTable()
    table.add(TextTool(name="p"), Wrapped.INPUT)
    events = decoded_stream(
        [
            OPENING,
            start(0, type="tool_use", id="toolu_1", name="p", input={}),
            *(delta(0, "input_json_delta", partial_json=piece) for piece in ('{"in', 'put": "a\\', "nb", '"}')),
            stop(0),
            *CLOSING,
        ],
        asked(table=table),
    )
    grown = [event.delta for event in events if isinstance(event, PartGrew)]
    assert grown == [ArgumentsDelta("a"), ArgumentsDelta("\nb")]
    assert parts(events) == (ToolCall(call_id="toolu_1", name="p", arguments="a\nb", form=InputForm.TEXT),)


def test_calls_of_the_provider_are_told_whole() -> None:
    events = told(
        start(0, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"q"}'),
        stop(0),
    )
    opened = events[2]
    assert isinstance(opened, PartStarted)
    assert at(plain({"x": opened.part.extras.fields}), "x", "input") == {"query": "q"}  # type: ignore[union-attr]  # whole
    assert events[3] == PartEnded(0)


def test_pitfall_084_unknown_events_blocks_and_deltas_are_no_error() -> None:
    events = told(
        {"type": "brand_new"},
        start(0, type="hologram", data=1),
        delta(0, "hologram_delta", data=2),
        stop(0),
        start(1, type="text", text=""),
        delta(1, "sparkle_delta", x=1),
        delta(1, "text_delta", text="x"),
        stop(1),
        delta(7, "text_delta", text="nowhere"),
    )
    first, second = parts(events)
    assert isinstance(first, Foreign)
    assert second == Text(text="x")


def test_pitfall_079_later_counts_overwrite_earlier_ones() -> None:
    usages = [event.usage for event in told() if isinstance(event, UsageReported)]
    assert usages == [Usage(input=7, output=1), Usage(input=7, output=9)]


def test_pitfall_083_a_ping_is_a_heartbeat() -> None:
    assert Heartbeat() in told({"type": "ping"})


@pytest.mark.parametrize(
    ("ending", "last"),
    [
        (CLOSING, Ended()),
        (CLOSING[:1], Ended()),
        (CLOSING[1:], Ended()),
        ([], None),
    ],
    ids=["complete", "a reason and no end", "an end and no reason", "pitfall 69: cut"],
)
def test_ends(ending: list[JsonObject], last: Event | None) -> None:
    final = told(start(0, type="text", text="x"), given=ending)[-1]
    if last is None:
        assert isinstance(final, Failed)
        assert final.failure.message == "upstream stream ended unexpectedly"
    else:
        assert final == last


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"null",
        b'{"type":"content_block_delta"}',
        b'{"type":"content_block_start","index":"x"}',
        b'{"type":"message_start"}',
    ],
)
def test_what_cannot_be_read_is_a_bad_gateway(data: bytes) -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    (event,) = decoder.feed(Frame("message", data))
    assert isinstance(event, Failed)
    assert event.failure.kind is FailureKind.BAD_GATEWAY
    assert decoder.feed(Frame("ping", encode({"type": "ping"}))) == []
    assert decoder.close() == []


def test_an_error_ends_the_stream() -> None:
    error: JsonObject = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    (*_, final) = told(given=[error, *CLOSING])
    assert isinstance(final, Failed)
    assert final.failure.status == 529


def test_a_relayed_stream_can_tell_that_it_broke() -> None:
    decoder = CODEC.stream_decoder(asked(), mint(), Ledger())
    (error,) = frames(decoder.broken(Failure(kind=FailureKind.TIMEOUT, message="late")))
    assert error == {"type": "error", "error": {"type": "timeout_error", "message": "late"}}


ITEM = Seal(origin="openai-responses", kind="item", body={"id": "rs_1"}, model="g", upstream="openai")
ANSWER = Response(
    origin="openai-responses",
    id="resp_0123456789abcdef",
    model="served",
    parts=(
        Thinking(text="hm", seal=ITEM),
        Text(text="look\nhere"),
        ToolCall(call_id="call_1", name="f", arguments='{"a": "é"}'),
        ToolCall(call_id="call_2", name="g", arguments=""),
        ToolCall(call_id="call_3", name="h", arguments="[1]"),
    ),
    stop=Stop(reason=StopReason.TOOL_CALL, native="tool_calls"),
    usage=Usage(input=10, output=5, cache_read=4, thinking=2),
)


def accumulated(stream: bytes) -> JsonObject:
    """What the official client makes of a stream."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for value in frames(stream):
        snapshot = accumulate_event(event=EVENTS.validate_python(value), current_snapshot=snapshot, json_bufs=buffers)
    whole: JsonObject = snapshot.to_dict(mode="json")
    return whole


def test_pitfall_078_the_official_client_reads_the_same_as_the_whole_answer() -> None:
    streamed = accumulated(encoded_stream(list(unfold(ANSWER))))
    whole = plain(CODEC.encode_response(ANSWER, asked(), mint(), Ledger()))
    assert streamed["content"] == whole["content"]
    for member in ("id", "model", "role", "stop_reason"):
        assert streamed[member] == whole[member]
    for member, count in (("input_tokens", 6), ("cache_read_input_tokens", 4), ("output_tokens", 5)):
        assert at(streamed, "usage", member) == count


def test_pitfall_076_one_start_one_end_and_no_done() -> None:
    stream = encoded_stream(list(unfold(ANSWER)))
    kinds = [frame["type"] for frame in frames(stream)]
    assert (kinds.count("message_start"), kinds[0], kinds[-2:]) == (
        1,
        "message_start",
        ["message_delta", "message_stop"],
    )
    assert b"[DONE]" not in stream


def test_pitfall_080_thinking_has_exactly_one_signature_before_its_end() -> None:
    for part in (Thinking(text="x"), Thinking(text="", seal=ITEM)):
        answer = Response(origin="openai-chat", id="", model="", parts=(part,), stop=Stop(reason=StopReason.END))
        kinds = [frame.get("delta", {}) for frame in frames(encoded_stream(list(unfold(answer))))]
        signatures = [one for one in kinds if isinstance(one, dict) and one.get("type") == "signature_delta"]
        assert len(signatures) == 1


def test_redacted_thinking_comes_whole() -> None:
    body: JsonObject = {"type": "redacted_thinking", "data": "d"}
    part = Thinking(text="", seal=Seal(origin=NAME, kind="redacted", body=body))
    events: list[Event] = [Started(id="", model=""), PartStarted(0, part), PartEnded(0)]
    assert at(frames(encoded_stream(events))[1], "content_block") == body


def test_free_text_calls_are_wrapped_as_they_arrive() -> None:
    call = ToolCall(call_id="c", name="p", arguments="", form=InputForm.TEXT)
    events: list[Event] = [
        Started(id="", model=""),
        PartStarted(0, call),
        PartGrew(0, ArgumentsDelta('a"')),
        PartGrew(0, ArgumentsDelta("b")),
        PartEnded(0),
    ]
    pieces = [at(frame, "delta", "partial_json") for frame in frames(encoded_stream(events)) if "delta" in frame]
    assert pieces == ['{"input":"', 'a\\"', "b", '"}']


def test_a_refusal_marks_the_turn() -> None:
    answer = Response(
        origin="openai-chat", id="", model="", parts=(Refusal(text="no"),), stop=Stop(reason=StopReason.REFUSAL)
    )
    last = frames(encoded_stream(list(unfold(answer))))[-2]
    assert at(last, "delta", "stop_reason") == "refusal"
    assert at(last, "delta", "stop_details", "explanation") == "no"


def test_citations_are_attached_to_the_open_block() -> None:
    cited = Citation(origin="openai-chat", native={}, url="https://x", span=(0, 2))
    events: list[Event] = [
        Started(id="", model=""),
        PartStarted(0, Text(text="")),
        PartGrew(0, TextDelta("abc")),
        PartGrew(0, CitationAdded(cited)),
        PartEnded(0),
    ]
    ledger = Ledger()
    told_frames = frames(encoded_stream(events, ledger=ledger))
    assert at(told_frames[3], "delta", "citation", "cited_text") == "ab"
    assert losses(ledger) == [("approximated", "citations", "parts[0].citations")]


def test_blocks_are_numbered_without_gaps_although_a_part_makes_none() -> None:
    answer = Response(
        origin="openai-responses", id="", model="", parts=(*SEARCH, Text(text="x")), stop=Stop(reason=StopReason.END)
    )
    indices = [frame["index"] for frame in frames(encoded_stream(list(unfold(answer)))) if "index" in frame]
    assert set(indices) == {0}
    request = Request(origin=NAME, model="alias", tools=(WebSearchTool(),))
    streamed = accumulated(encoded_stream(list(unfold(answer)), asked(request)))
    assert [at(block, "type") for block in streamed["content"]] == [  # type: ignore[union-attr]  # a list
        "server_tool_use",
        "web_search_tool_result",
        "text",
    ]
    assert at(streamed, "content", 0, "input") == {"query": "q"}


@pytest.mark.parametrize("started", [True, False])
def test_pitfall_081_a_failure_is_an_error_event_and_nothing_follows(started: bool) -> None:
    failure = Failure(kind=FailureKind.CONTEXT_OVERFLOW, message="context window exceeded")
    events: list[Event] = [Started(id="", model=""), PartStarted(0, Thinking(text="x"))] if started else []
    kinds = frames(encoded_stream([*events, Failed(failure), Stopped(Stop(reason=StopReason.END)), Ended()]))
    assert kinds[-1]["type"] == "error"
    assert str(at(kinds[-1], "error", "message")).startswith("prompt is too long")


def test_upstream_heartbeats_are_not_passed_on() -> None:
    assert encoded_stream([Heartbeat()]) == b""
    assert PING == b'event: ping\ndata: {"type":"ping"}\n\n'
