"""Streams written for a client, judged by the official one."""

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
    PartEnded,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    TextDelta,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, InputForm, Refusal, Seal, Text, Thinking, ToolCall
from dragoman.model.request import Request
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.model.tools import WebSearchTool
from dragoman.protocols.anthropic_messages import CODEC, NAME
from dragoman.protocols.anthropic_messages.stream_encoder import PING
from dragoman.translate import translate_response
from dragoman.wire.json import encode
from tests.protocols.anthropic_messages.support import (
    SEARCH,
    asked,
    at,
    encoded_stream,
    frames,
    losses,
    mint,
    plain,
)

EVENTS: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


ITEM = Seal(origin="openai-responses", kind="item", body={"id": "rs_1"}, model="g", vendor="openai")
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


def test_item_22_redacted_thinking_of_a_whole_answer_told_as_a_stream_stays_redacted() -> None:
    content: list[JsonObject] = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "text", "text": "Porto."},
    ]
    whole: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [*content]}
    whole |= {"stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    told = translate_response(encode(whole), source=NAME, target=NAME, stream=True)
    assert not told.losses
    read = accumulated(told.body)["content"]
    assert read == content


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


def test_a_refusal_of_white_space_only_makes_no_block_and_takes_no_number() -> None:
    stop = Stop(reason=StopReason.REFUSAL)
    parts = (Refusal(text=" "), Refusal(text=" \n no"), Text(text="hi"))
    told = frames(encoded_stream(list(unfold(Response(origin="openai-chat", id="", model="", parts=parts, stop=stop)))))
    starts = [at(event, "index") for event in told if event["type"] == "content_block_start"]
    texts = [at(event, "delta", "text") for event in told if event["type"] == "content_block_delta"]
    assert (starts, texts) == ([0, 1], [" \n no", "hi"])


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


def test_pitfall_048_arguments_that_come_with_the_name_are_told() -> None:
    call = ToolCall(call_id="c", name="f", arguments='{"a":1}')
    events: list[Event] = [Started(id="", model=""), PartStarted(0, call), PartEnded(0)]
    (opened, grew, _) = frames(encoded_stream(events))[1:]
    assert at(opened, "content_block", "input") == {}
    assert at(grew, "delta", "partial_json") == '{"a":1}'


def test_pitfall_077_082_every_event_is_named_and_none_is_done() -> None:
    stream = encoded_stream(list(unfold(ANSWER)))
    assert stream.count(b"event: ") == stream.count(b"data: ") == len(frames(stream))
    assert stream.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')


@pytest.mark.parametrize("arguments", ["[1]", "oops", "7"])
def test_wrapped_arguments_are_reported_as_in_a_whole_answer(arguments: str) -> None:
    part = ToolCall(call_id="c", name="f", arguments=arguments)
    answer = Response(
        origin="openai-chat", id="", model="", parts=(part,), stop=Stop(reason=StopReason.TOOL_CALL), usage=Usage()
    )
    streamed, whole = Ledger(), Ledger()
    encoded_stream(list(unfold(answer)), ledger=streamed)
    CODEC.encode_response(answer, asked(), mint(), whole)
    assert losses(streamed) == losses(whole) == [("approximated", "arguments", "parts[0].arguments")]


def test_log_probabilities_are_reported_once() -> None:
    events: list[Event] = [
        Started(id="", model=""),
        PartStarted(0, Text(text="")),
        PartGrew(0, TextDelta("a", [])),
        PartGrew(0, TextDelta("b", [])),
    ]
    ledger = Ledger()
    encoded_stream(events, ledger=ledger)
    assert losses(ledger) == [("dropped", "logprobs", "parts[0].logprobs")]


def test_the_end_of_a_stream_has_no_tier() -> None:
    answer = Response(
        origin="openai-chat",
        id="",
        model="",
        parts=(),
        stop=Stop(reason=StopReason.END),
        usage=Usage(service_tier="default"),
    )
    last = frames(encoded_stream(list(unfold(answer))))[-2]
    assert "service_tier" not in at(last, "usage")  # type: ignore[operator]  # an object
