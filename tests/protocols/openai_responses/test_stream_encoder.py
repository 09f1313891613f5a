"""Streams for a client: the grammar of items and parts, whatever the provider."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.model.events import (
    ArgumentsDelta,
    Ended,
    Event,
    Failed,
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
from dragoman.model.parts import (
    Citation,
    Compaction,
    HostedCall,
    HostedKind,
    HostedResult,
    InputForm,
    Part,
    Refusal,
    Seal,
    Text,
    Thinking,
    ToolCall,
    WebSource,
)
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.openai_responses import NAME
from dragoman.translate import translate_response
from tests.protocols.openai_responses.asking import MESSAGES, answer, asked_here, kinds, output, streamed, told

SAMPLE = json.loads((Path(__file__).parents[2] / "data/stream-samples.json").read_text(encoding="utf-8"))["responses"]
SEAL = Seal(
    origin=MESSAGES,
    kind="thinking",
    body={"type": "thinking", "thinking": "Need the weather.", "signature": "EosnCkYICxIMMb3L"},
    model="m",
    vendor="anthropic",
)
BEGIN = Started(id="msg_0123456789abcdefgh", model="claude")
END: tuple[Event, ...] = (UsageReported(Usage(input=1, output=1)), Stopped(Stop(reason=StopReason.END)), Ended())


def whole(events: list[JsonObject]) -> JsonObject:
    response = events[-1]["response"]
    assert isinstance(response, dict)
    return response


def test_a_turn_is_told_as_the_sample_tells_it() -> None:
    events: list[Event] = [
        Started(id="msg_s1", model="m"),
        PartStarted(0, Thinking(text="")),
        PartGrew(0, TextDelta("Need the ")),
        PartGrew(0, TextDelta("weather.")),
        PartGrew(0, SealSet(SEAL)),
        PartEnded(0),
        PartStarted(1, Text(text="")),
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
        Stopped(Stop(reason=StopReason.TOOL_CALL)),
        Ended(),
    ]
    found = streamed(events, asked_here({"model": "m", "store": False}))
    # The sample's ids have another suffix, and its clock moved on.
    text = json.dumps(found, ensure_ascii=False).replace("AbCdEfGhIjKlMnOpQrStUvWx", "s1")
    expected = json.loads(json.dumps(SAMPLE))
    expected[-1]["response"]["completed_at"] = 1_700_000_000
    assert json.loads(text) == expected


CALL = ToolCall(call_id="c", name="f", arguments='{"a":1}')
SEARCH = HostedCall(call_id="s", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}')
FOUND = HostedResult(call_id="s", kind=HostedKind.WEB_SEARCH, sources=(WebSource(url="https://a.example"),))
CITED = Text(text="bc", citations=(Citation(origin=MESSAGES, native={}, url="https://a.example", title="A"),))
CUSTOM = ToolCall(call_id="p", name="patch", arguments="raw", form=InputForm.TEXT)
SHELL = ToolCall(call_id="s", name="shell", arguments='{"commands":["ls"]}')
ANSWERS: dict[str, Response] = {
    "text": answer(Text(text="a")),
    "adjacent text with citations": answer(Text(text="a"), CITED, Text(text="d")),
    "reasoning with and without text": answer(Thinking(text="t", seal=SEAL), Thinking(text="", seal=SEAL), CALL),
    "text after a call": answer(Text(text="a"), CALL, Text(text="b"), Thinking(text="t"), Text(text="c")),
    "refusal after text": answer(Text(text="a"), Refusal(text="no"), reason=StopReason.REFUSAL),
    "text after refusal": answer(Refusal(text="no"), Text(text="a"), Refusal(text="no"), reason=StopReason.REFUSAL),
    "refusal by a classifier": answer(Text(text="a"), reason=StopReason.REFUSAL, explanation="unsafe"),
    "explanation alone": answer(reason=StopReason.REFUSAL, explanation="unsafe"),
    "free text": answer(CUSTOM, CUSTOM, reason=StopReason.TOOL_CALL),
    "cut free text": answer(CUSTOM, reason=StopReason.LENGTH),
    "cut call": answer(Text(text="a"), ToolCall(call_id="c", name="f", arguments='{"a'), reason=StopReason.LENGTH),
    "cut text": answer(CALL, Text(text="a"), reason=StopReason.LENGTH),
    "whole call in a cut answer": answer(CALL, reason=StopReason.LENGTH),
    "vendor's call": answer(SHELL, Text(text="a")),
    "vendor's call with other arguments": answer(ToolCall(call_id="s", name="shell", arguments="[]")),
    "search": answer(SEARCH, FOUND, Text(text="a")),
    "search without result": answer(SEARCH, Text(text="a")),
    "search at the end": answer(Text(text="a"), SEARCH),
    "compaction": answer(Compaction(summary="so far"), reason=StopReason.COMPACTED),
    "nothing": answer(),
    "nothing, cut": answer(reason=StopReason.LENGTH),
    "white space": answer(Text(text=" \n"), CALL),
    "log probabilities": answer(Text(text="a", logprobs=[{"token": "a"}])),
}


@pytest.mark.parametrize("response", ANSWERS.values(), ids=ANSWERS.keys())
def test_pitfall_097_206_the_stream_tells_the_whole_answer(response: Response) -> None:
    asked = asked_here({"tools": [{"type": "shell"}]})
    events = streamed(unfold(response), asked)
    body, _ = told(response, asked)
    assert whole(events) == body
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == output(body)


@pytest.mark.parametrize("response", ANSWERS.values(), ids=ANSWERS.keys())
def test_pitfall_087_089_090_091_094_items_are_serial_and_keep_their_names(response: Response) -> None:
    events = streamed(unfold(response), asked_here({"tools": [{"type": "shell"}]}))
    open_index: object = None
    expected = 0
    ids: dict[object, object] = {}
    for event in events:
        item = event.get("item")
        if event["type"] == "response.output_item.added":
            assert isinstance(item, dict)
            assert (open_index, event["output_index"]) == (None, expected)
            open_index, ids[expected] = expected, item["id"]
        elif event["type"] == "response.output_item.done":
            assert isinstance(item, dict)
            assert (event["output_index"], item["id"]) == (open_index, ids[open_index])
            open_index, expected = None, expected + 1
        elif "item_id" in event:
            assert (event["output_index"], event["item_id"]) == (open_index, ids[open_index])
    assert open_index is None
    assert str(events[-1]["type"]) in ("response.completed", "response.incomplete")


def test_pitfall_085_092_095_the_order_of_a_messages_events() -> None:
    events = streamed(unfold(answer(Text(text="a"), CITED, Refusal(text="no"), reason=StopReason.REFUSAL)))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
        "refusal.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["content_index"] for event in events if "content_index" in event] == [0] * 6 + [1] * 4
    assert events[6]["annotation"] == {
        "type": "url_citation",
        "url": "https://a.example",
        "title": "A",
        "start_index": 1,
        "end_index": 3,
    }


def test_pitfall_086_093_reasoning_has_a_summary_part_of_its_own() -> None:
    events = streamed(unfold(answer(Thinking(text="t", seal=SEAL), Text(text="a"))))
    assert kinds(events)[2:8] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]
    assert all(event["summary_index"] == 0 for event in events[3:7])


def test_redacted_reasoning_has_no_summary() -> None:
    events = streamed(unfold(answer(Thinking(text="", seal=SEAL), Text(text="a"))))
    assert kinds(events)[2:4] == ["output_item.added", "output_item.done"]


def test_free_text_calls_have_their_own_events() -> None:
    events = streamed(unfold(answer(CUSTOM, reason=StopReason.TOOL_CALL)))
    assert kinds(events)[2:6] == [
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
    ]
    assert events[4]["input"] == "raw"


def test_a_hosted_search_is_announced_and_completed() -> None:
    events = streamed(unfold(answer(SEARCH, FOUND)))
    assert kinds(events)[2:7] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
    ]


def test_a_call_is_done_as_soon_as_its_arguments_are_whole() -> None:
    events = streamed([BEGIN, PartStarted(0, CALL), PartEnded(0)])
    assert kinds(events)[-1] == "output_item.done"


def test_text_waits_only_for_text() -> None:
    begun: list[Event] = [BEGIN, PartStarted(0, Text(text="")), PartGrew(0, TextDelta("a")), PartEnded(0)]
    assert kinds(streamed(begun))[-1] == "output_text.delta"


FAILURE = Failed(Failure(kind=FailureKind.OVERLOADED, message="busy", status=529))


def test_pitfall_096_100_a_failure_is_one_flat_error_and_a_failed_response() -> None:
    events = streamed([BEGIN, PartStarted(0, CALL), PartEnded(0), PartStarted(1, Text(text="a")), FAILURE])
    error, failed = events[-2:]
    assert {name: error[name] for name in ("type", "code", "message", "param")} == {
        "type": "error",
        "code": "server_is_overloaded",
        "message": "busy",
        "param": None,
    }
    body = whole(events)
    assert (failed["type"], body["status"]) == ("response.failed", "failed")
    assert body["error"] == {"code": "server_error", "message": "busy"}
    assert body["id"] == whole(events[:1])["id"]
    assert [item["type"] for item in output(body)] == ["function_call"]
    assert kinds(events).count("output_item.done") == 1


def test_a_failure_at_once_still_creates_the_response() -> None:
    assert kinds(streamed([FAILURE])) == ["created", "in_progress", "error", "failed"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FailureKind.RATE_LIMITED, "rate_limit_exceeded"),
        (FailureKind.CONTEXT_OVERFLOW, "context_length_exceeded"),
        (FailureKind.INTERNAL, "server_error"),
    ],
)
def test_the_code_of_a_failed_response(kind: FailureKind, code: str) -> None:
    error = whole(streamed([Failed(Failure(kind=kind, message="x"))]))["error"]
    assert error == {"code": code, "message": "x"}


def test_what_was_finished_but_not_closed_is_closed_before_a_failure() -> None:
    parts: tuple[Part, ...] = (CUSTOM,)
    events = streamed([BEGIN, PartStarted(0, parts[0]), PartEnded(0), FAILURE])
    assert [item["type"] for item in output(whole(events))] == ["custom_tool_call"]


def test_nothing_follows_the_end() -> None:
    assert kinds(streamed([BEGIN, *END, FAILURE]))[-1] == "completed"


def test_item_23_reasoning_that_shares_an_id_is_told_under_two() -> None:
    body: JsonObject = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "Zmlyc3Q"}
    twice: list[JsonValue] = [body, {**body, "encrypted_content": "c2Vjb25k"}]
    whole: JsonObject = {"id": "resp_1", "object": "response", "created_at": 5, "model": "m", "status": "completed"}
    stream = translate_response({**whole, "output": twice}, source=NAME, target=NAME, stream=True)
    events = [json.loads(line[6:]) for line in stream.body.splitlines() if line.startswith(b"data: {")]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["encrypted_content"] for item in done] == ["Zmlyc3Q", "c2Vjb25k"]
    assert done[0]["id"] == "rs_1" != done[1]["id"]
    added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    assert added == [item["id"] for item in done] == [item["id"] for item in events[-1]["response"]["output"]]
    assert [loss["at"] for loss in stream.losses if loss["feature"] == "thinking"] == ["output[1].id"]
