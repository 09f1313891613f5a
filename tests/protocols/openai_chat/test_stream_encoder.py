"""Streams for clients: events to chunks, accepted by the official accumulator, equal to the whole answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from openai.lib.streaming.chat._completions import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

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
    SealSet,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import unfold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Citation,
    HostedCall,
    HostedKind,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.request import Request
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.codec import TranslationContext
from dragoman.protocols.openai_chat import CODEC
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.json import decode_object
from tests.protocols.openai_chat.room import A, C, R, dig, losses, mint, objects, target, told

SAMPLE = json.loads((Path(__file__).parents[2] / "data" / "stream-samples.json").read_text())
SIGNED = Seal(
    origin=A,
    kind="thinking",
    body={"type": "thinking", "thinking": "Need the weather.", "signature": "EosnCkYICxIMMb3L"},
    model="m",
)


def client(*, usage: bool = True, legacy: bool = False, provider: str = A) -> TranslationContext:
    request = Request(origin=C, model="m", include_usage=usage or None, legacy_functions=legacy)
    return TranslationContext(
        request=request,
        target=target(),
        table=ToolTable(),
        origin=provider,
        render_turn=lambda parts: [{"type": type(part).__name__} for part in parts],
    )


def test_the_sample_stream_is_written_frame_for_frame() -> None:
    events: list[Event] = [
        Started(id="msg_s1", model="m"),
        PartStarted(0, Thinking(text="")),
        PartGrew(0, TextDelta("Need the ")),
        PartGrew(0, TextDelta("weather.")),
        PartGrew(0, SealSet(SIGNED)),
        PartEnded(0),
        PartStarted(1, Text(text="")),
        Heartbeat(),
        PartGrew(1, TextDelta("Let me ")),
        PartGrew(1, TextDelta("look.")),
        PartEnded(1),
        PartStarted(2, ToolCall(call_id="toolu_01", name="get_weather", arguments="")),
        PartGrew(2, ArgumentsDelta('{"city":')),
        PartGrew(2, ArgumentsDelta('"Paris"}')),
        PartEnded(2),
        PartStarted(3, ToolCall(call_id="toolu_02", name="get_time", arguments="")),
        PartEnded(3),
        UsageReported(Usage(input=12, output=25, cache_read=3, cache_write=2, thinking=6)),
        Stopped(Stop(reason=StopReason.TOOL_CALL, native="tool_use")),
        Ended(),
    ]
    frames = told(events, client())
    assert frames.pop() == "[DONE]"
    minted = dig(frames, 0, "id")
    assert frames == [{**frame, "id": minted} for frame in SAMPLE["chat"]]


SEARCH = HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments="{}")
ANSWERS: dict[str, tuple[tuple[Part, ...], Stop]] = {
    "text in blocks with a call between": (
        (Text(text="a"), Text(text="b"), ToolCall(call_id="c", name="f", arguments='{"x":1}'), Text(text="ä")),
        Stop(reason=StopReason.TOOL_CALL),
    ),
    "two messages of a Responses answer": (
        (Text(text="a", id="1"), Text(text="b", id="2")),
        Stop(reason=StopReason.END),
    ),
    "thinking twice": (
        (Thinking(text="x", seal=SIGNED), Text(text="a"), Thinking(text="y", seal=SIGNED), Text(text="b")),
        Stop(reason=StopReason.END),
    ),
    "no arguments": ((ToolCall(call_id="c", name="f", arguments=""),), Stop(reason=StopReason.TOOL_CALL)),
    "a refusal by a classifier": ((Text(text="a"),), Stop(reason=StopReason.REFUSAL, explanation="why")),
    "a refusal in words": ((Refusal(text="no"),), Stop(reason=StopReason.REFUSAL)),
    "truncation": ((ToolCall(call_id="c", name="f", arguments='{"x'),), Stop(reason=StopReason.LENGTH)),
    "citations after a search": (
        (Text(text="a"), SEARCH, Text(text="bc", citations=(Citation(origin=A, native={}, url="u", title="t"),))),
        Stop(reason=StopReason.END),
    ),
    "nothing": ((), Stop(reason=StopReason.END)),
}


def accumulated(frames: list[JsonObject | str]) -> JsonObject:
    """What the official accumulator makes of a stream."""
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for frame in frames:
        if isinstance(frame, dict):
            state.handle_chunk(ChatCompletionChunk.model_validate(frame))
    return decode_object(state.current_completion_snapshot.model_dump_json(warnings=False))


def listed(frame: JsonObject, key: str) -> list[JsonObject]:
    """The entries of a list in a chunk's delta."""
    delta = dig(frame, "choices", 0, "delta")
    return objects(delta, key) if isinstance(delta, dict) and key in delta else []


@pytest.mark.parametrize(("parts", "stop"), ANSWERS.values(), ids=ANSWERS)
def test_the_accumulated_stream_equals_the_whole_answer(parts: tuple[Part, ...], stop: Stop) -> None:
    response = Response(
        origin=A, id="msg_0123456789abcdef", model="x", parts=parts, stop=stop, usage=Usage(input=1, output=2)
    )
    whole = CODEC.encode_response(response, client(), mint(), Ledger())
    stream = accumulated(told(unfold(response), client()))
    assert dig(stream, "id") == dig(whole, "id") and dig(stream, "usage", "total_tokens") == 3
    assert dig(stream, "choices", 0, "finish_reason") == dig(whole, "choices", 0, "finish_reason")
    expected, found = dig(whole, "choices", 0, "message"), dig(stream, "choices", 0, "message")
    assert isinstance(expected, dict) and isinstance(found, dict)
    for key in ("content", "refusal", "reasoning_content"):
        assert (found.get(key) or None) == (expected.get(key) or None)
    for key in ("tool_calls", "annotations", "reasoning_details"):
        assert plain(found.get(key)) == plain(expected.get(key))


def plain(entries: JsonValue) -> JsonValue:
    """Entries without what only streams and the accumulator know."""
    if isinstance(entries, list):
        return [plain(entry) for entry in entries]
    if isinstance(entries, dict):
        return {key: plain(value) for key, value in entries.items() if key not in ("index", "parsed_arguments")}
    return entries


def simple(*middle: Event, stop: StopReason = StopReason.END) -> list[Event]:
    return [Started(id="x", model="m"), *middle, Stopped(Stop(reason=stop)), Ended()]


def test_pitfall_071_calls_have_a_counter_of_their_own() -> None:
    frames = told(
        simple(
            PartStarted(0, Text(text="")),
            PartGrew(0, TextDelta("x")),
            PartEnded(0),
            PartStarted(4, ToolCall(call_id="a", name="f", arguments="")),
            PartStarted(9, ToolCall(call_id="b", name="g", arguments="")),
            PartGrew(4, ArgumentsDelta("{}")),
            PartGrew(9, ArgumentsDelta("{}")),
            PartEnded(4),
            PartEnded(9),
            stop=StopReason.TOOL_CALL,
        )
    )
    indices = [
        call["index"]
        for frame in frames
        if isinstance(frame, dict) and frame["choices"]
        for call in listed(frame, "tool_calls")
    ]
    assert indices == [0, 1, 0, 1]


def test_pitfall_072_usage_stands_in_a_chunk_without_choices_or_nowhere() -> None:
    asked = told(simple(UsageReported(Usage(input=1, output=2))), client())
    assert [dig(frame, "choices") == [] for frame in asked[:-1]] == [False, False, True]
    assert [dig(frame, "usage") is None for frame in asked[:-1]] == [True, True, False]
    silent = told(simple(UsageReported(Usage(input=1, output=2))), client(usage=False))
    assert all("usage" not in frame and dig(frame, "choices") for frame in silent[:-1])


def test_pitfall_073_the_head_is_fixed_with_the_first_chunk() -> None:
    frames = told(simple(PartStarted(0, Text(text="")), PartGrew(0, TextDelta("x")), PartEnded(0)))
    heads = {(frame["id"], frame["created"], frame["model"]) for frame in frames if isinstance(frame, dict)}
    assert len(heads) == 1


def test_pitfall_057_absent_keys_are_omitted() -> None:
    frames = told(
        simple(
            PartStarted(0, ToolCall(call_id="a", name="f", arguments="")),
            PartGrew(0, ArgumentsDelta("{}")),
            PartEnded(0),
        )
    )
    assert dig(frames, 2, "choices", 0, "delta") == {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}


def test_pitfall_155_custom_calls_are_streamed_as_functions() -> None:
    frames = told(
        simple(
            PartStarted(0, ToolCall(call_id="a", name="p", arguments="", form=InputForm.TEXT)),
            PartGrew(0, ArgumentsDelta('a"')),
            PartGrew(0, ArgumentsDelta("\n😀")),
            PartEnded(0),
            PartStarted(1, ToolCall(call_id="b", name="p", arguments="", form=InputForm.TEXT)),
            PartEnded(1),
            stop=StopReason.TOOL_CALL,
        ),
        client(),
    )
    first, second = objects(accumulated(frames), "choices", 0, "message", "tool_calls")
    assert first["type"] == "function" and json.loads(str(dig(first, "function", "arguments"))) == {"input": 'a"\n😀'}
    assert json.loads(str(dig(second, "function", "arguments"))) == {"input": ""}


def test_a_legacy_client_gets_function_call_deltas() -> None:
    ledger = Ledger()
    frames = told(
        simple(
            PartStarted(0, ToolCall(call_id="a", name="f", arguments="")),
            PartGrew(0, ArgumentsDelta("{}")),
            PartEnded(0),
            PartStarted(1, ToolCall(call_id="b", name="g", arguments="")),
            PartEnded(1),
            stop=StopReason.TOOL_CALL,
        ),
        client(legacy=True),
        ledger,
    )
    deltas = [dig(frame, "choices", 0, "delta") for frame in frames[1:3]]
    assert deltas == [{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": "{}"}}]
    assert dig(frames, 3, "choices", 0, "finish_reason") == "function_call"
    assert "parallel_calls" in {feature for _, feature, _ in losses(ledger)}


def test_pitfall_186_a_failure_is_one_frame_and_the_end() -> None:
    failure = Failure(kind=FailureKind.OVERLOADED, status=529, message="busy", native="overloaded_error")
    frames = told(
        [Started(id="x", model="m"), PartStarted(0, Text(text="")), PartGrew(0, TextDelta("a")), Failed(failure)]
    )
    assert frames[-1] == {
        "error": {
            "message": "busy",
            "type": "service_unavailable_error",
            "param": None,
            "code": "server_is_overloaded",
        }
    }
    assert told([Failed(failure)]) == frames[-1:]


@pytest.mark.parametrize("provider", [A, R, C])
def test_a_turn_that_the_echo_would_not_rebuild_is_sealed_at_the_end(provider: str) -> None:
    events = simple(
        PartStarted(0, SEARCH), PartEnded(0), PartStarted(1, Text(text="")), PartGrew(1, TextDelta("x")), PartEnded(1)
    )
    frames = told(events, client(provider=provider))
    formats = [
        entry["format"]
        for frame in frames
        if isinstance(frame, dict) and frame["choices"]
        for entry in listed(frame, "reasoning_details")
    ]
    assert formats == ([] if provider == C else ["gw-turn-v1"])


def test_log_probabilities_ride_on_their_delta() -> None:
    frames = told(simple(PartStarted(0, Text(text="")), PartGrew(0, TextDelta("x", [{"token": "x"}])), PartEnded(0)))
    assert dig(frames, 1, "choices", 0, "logprobs") == {"content": [{"token": "x"}], "refusal": None}


def test_a_streamed_citation_counts_from_the_start_of_the_answer() -> None:
    page = Citation(origin=R, native={}, url="u", title="t", span=(0, 1))
    frames = told(
        simple(
            PartStarted(0, Text(text="", id="1")),
            PartGrew(0, TextDelta("ab")),
            PartEnded(0),
            PartStarted(1, Text(text="", id="2")),
            PartGrew(1, TextDelta("cd")),
            PartGrew(1, CitationAdded(page)),
            PartEnded(1),
        ),
        client(provider=""),
    )
    annotations = dig(frames, -4, "choices", 0, "delta", "annotations")
    assert annotations == [
        {
            "index": 0,
            "type": "url_citation",
            "url_citation": {"url": "u", "title": "t", "start_index": 4, "end_index": 5},
        }
    ]


@pytest.mark.parametrize("usage_asked", [False, True])
def test_the_official_accumulator_finds_all_choices_of_a_whole_answer(usage_asked: bool) -> None:
    call: JsonObject = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    # Where a call stands is said by its place, whatever a server says beside that.
    odd: JsonObject = {**call, "index": 0}
    choices: list[JsonValue] = [
        {"index": 0, "message": {"role": "assistant", "content": "One."}, "finish_reason": "stop"},
        {"index": 1, "message": {"role": "assistant", "content": "Two."}, "finish_reason": "length"},
        {"index": 2, "message": {"role": "assistant", "tool_calls": [call, odd]}, "finish_reason": "tool_calls"},
        # What is no choice of this wire does no harm.
        {"text": "Four.", "finish_reason": None},
    ]
    answer = CODEC.decode_response({"id": "1", "model": "m", "choices": choices}, client(), Ledger())
    assert isinstance(answer, Response)
    frames = told([*unfold(answer)], client(usage=usage_asked, provider=C))
    assert frames.pop() == "[DONE]"
    state = ChatCompletionStreamState()
    for frame in frames:
        state.handle_chunk(ChatCompletionChunk.model_validate(frame))
    found = state.current_completion_snapshot.choices
    assert [choice.message.content for choice in found[:2]] == ["One.", "Two."]
    assert [choice.finish_reason for choice in found[:3]] == ["stop", "length", "tool_calls"]
    calls = found[2].message.tool_calls
    assert calls is not None and [one.function.arguments for one in calls] == ['{"a":1}'] * 2
