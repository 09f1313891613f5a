"""A provider's stream, read: deltas once, `done` events for what they did not bring."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.model.events import ArgumentsDelta, Ended, Event, Failed, PartGrew, PartStarted, SealSet, TextDelta
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import HostedCall, InputForm, Refusal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.model.response import Response, StopReason
from dragoman.model.tools import TextTool
from dragoman.protocols.openai_responses import CODEC, NAME
from dragoman.protocols.openai_responses.shapes import REPEATED
from dragoman.rules.tool_table import ToolTable, Wrapped
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import Frame, SseReader
from tests.protocols.openai_responses.asking import MINT, asked_abroad, read, response_body
from tests.sdk.open_responses import WIRE

SAMPLE = json.loads((Path(__file__).parents[2] / "data/stream-samples.json").read_text(encoding="utf-8"))["responses"]
CREATED: JsonObject = {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5", "created_at": 1}}
DONE: JsonObject = {"type": "response.completed", "response": response_body()}


def at(kind: str, index: int = 0, **members: JsonValue) -> JsonObject:
    return {"type": f"response.{kind}", "output_index": index, **members}


def folded(events: list[Event]) -> Response:
    response = fold(events, NAME)
    assert isinstance(response, Response), response
    return response


def pieces(events: list[Event]) -> list[str]:
    return [
        event.delta.text
        for event in events
        if isinstance(event, PartGrew) and isinstance(event.delta, TextDelta | ArgumentsDelta)
    ]


def test_the_sample_is_read_as_its_whole_answer_is() -> None:
    events = [decode_object(json.dumps(event)) for event in SAMPLE]
    whole = CODEC.decode_response(decode_object(json.dumps(SAMPLE[-1]["response"])), asked_abroad(), Ledger())
    assert isinstance(whole, Response)
    assert folded(read(events)) == replace(whole, extras=None)


CALL: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f"}


@pytest.mark.parametrize(
    "events",
    [
        [at("function_call_arguments.delta", delta='{"a":'), at("function_call_arguments.delta", delta="1}")],
        [at("function_call_arguments.done", arguments='{"a":1}')],
        [at("function_call_arguments.delta", delta='{"a":'), at("function_call_arguments.done", arguments='{"a":1}')],
        [at("function_call_arguments.delta", delta=text) for text in ('{"a"', '{"a":', "1}", '{"a":1}')],
        [],
    ],
    ids=["deltas", "done alone", "done with more", "all so far", "item alone"],
)
def test_pitfall_049_arguments_are_told_once(events: list[JsonObject]) -> None:
    stream = [
        CREATED,
        at("output_item.added", item={**CALL, "arguments": ""}),
        *events,
        at("function_call_arguments.done", arguments='{"a":1}'),
        at("output_item.done", item={**CALL, "arguments": '{"a":1}'}),
        DONE,
    ]
    (part,) = folded(read(stream)).parts
    assert part == ToolCall(call_id="c", name="f", arguments='{"a":1}', id="fc_1")


def test_pitfall_098_items_come_from_their_own_events() -> None:
    stream = [CREATED, at("output_item.done", item={**CALL, "arguments": "{}"}), DONE]
    response = folded(read(stream))
    assert (len(response.parts), response.stop.reason) == (1, StopReason.TOOL_CALL)


def test_the_terminal_output_brings_what_no_event_did() -> None:
    message: JsonObject = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "a"}]}
    final: JsonObject = {"type": "response.completed", "response": response_body({**CALL, "arguments": "{}"}, message)}
    stream = [CREATED, at("output_item.done", item={**CALL, "arguments": "{}"}), final]
    assert [type(part) for part in folded(read(stream)).parts] == [ToolCall, Text]


def test_a_longer_done_text_is_one_more_delta() -> None:
    stream = [
        CREATED,
        at("output_item.added", item={"type": "message", "id": "m", "content": []}),
        at("output_text.delta", content_index=0, delta="a"),
        at("output_text.done", content_index=0, text="abc"),
        at("content_part.done", content_index=0, part={"type": "output_text", "text": "abc"}),
        at("output_item.done", item={"type": "message", "content": [{"type": "output_text", "text": "abc"}]}),
        DONE,
    ]
    assert pieces(read(stream)) == ["a", "bc"]


def test_interleaved_items_are_told_apart() -> None:
    stream = [
        CREATED,
        at("output_item.added", 0, item={**CALL, "arguments": ""}),
        at("output_item.added", 1, item={**CALL, "id": "fc_2", "call_id": "d", "arguments": ""}),
        at("function_call_arguments.delta", 1, delta="[2"),
        at("function_call_arguments.delta", 0, delta="[1"),
        at("function_call_arguments.delta", 1, delta="]"),
        at("output_item.done", 1, item={**CALL, "arguments": "[2]"}),
        at("output_item.done", 0, item={**CALL, "arguments": "[1]"}),
        DONE,
    ]
    assert [part.arguments for part in folded(read(stream)).parts if isinstance(part, ToolCall)] == ["[1]", "[2]"]


REASONING: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": []}


def test_pitfall_102_the_seal_is_that_of_the_done_item() -> None:
    done: JsonObject = {**REASONING, "encrypted_content": "final"}
    stream = [
        CREATED,
        at("output_item.added", item={**REASONING, "encrypted_content": "partial"}),
        at("output_item.done", item=done),
        DONE,
    ]
    seals = [
        event.delta.seal for event in read(stream) if isinstance(event, PartGrew) and isinstance(event.delta, SealSet)
    ]
    assert [seal.body for seal in seals] == [done]
    assert (seals[0].model, seals[0].vendor) == ("gpt-5", "openai")


def test_a_second_summary_is_set_apart_and_the_reasoning_itself_not_repeated() -> None:
    stream = [
        CREATED,
        at("output_item.added", item=REASONING),
        at("reasoning_summary_text.delta", summary_index=0, delta="a"),
        at("reasoning_summary_text.delta", summary_index=1, delta="b"),
        at("reasoning_text.delta", content_index=0, delta="hidden"),
        at("reasoning_summary_text.done", summary_index=1, text="bc"),
        at(
            "output_item.done",
            item={**REASONING, "summary": [{"text": "a"}, {"text": "bc"}], "content": [{"text": "hidden"}]},
        ),
        DONE,
    ]
    assert pieces(read(stream)) == ["a", "\n\nb", "c"]


@pytest.mark.parametrize("name", ["reasoning_text", "reasoning"])
def test_the_reasoning_itself_is_told_where_no_summary_came(name: str) -> None:
    stream = [
        CREATED,
        at("output_item.added", item=REASONING),
        at(f"{name}.delta", content_index=0, delta="a"),
        at("output_item.done", item={**REASONING, "content": [{"type": "reasoning_text", "text": "ab"}]}),
        DONE,
    ]
    part = folded(read(stream)).parts[0]
    assert isinstance(part, Thinking)
    assert (part.text, part.kind) == ("ab", ThinkingKind.FULL)


def test_refusals_and_annotations() -> None:
    annotation: JsonObject = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    body: list[JsonValue] = [
        {"type": "output_text", "text": "a", "annotations": [annotation, annotation]},
        {"type": "refusal", "refusal": "no"},
    ]
    stream = [
        CREATED,
        at("output_item.added", item={"type": "message", "id": "m", "phase": "commentary", "content": []}),
        at("output_text.delta", content_index=0, delta="a", logprobs=[{"token": "a"}]),
        at("output_text.annotation.added", content_index=0, annotation_index=0, annotation=annotation),
        at("refusal.delta", content_index=1, delta="no"),
        at("output_item.done", item={"type": "message", "id": "m", "phase": "commentary", "content": body}),
        DONE,
    ]
    response = folded(read(stream))
    text, refusal = response.parts
    assert isinstance(text, Text)
    assert (len(text.citations), text.logprobs, refusal) == (2, [{"token": "a"}], Refusal(text="no", id="m"))
    assert text.extras is not None
    assert text.extras.fields == {"phase": "commentary"}
    assert response.stop.reason is StopReason.REFUSAL


def test_a_free_text_call_wrapped_as_a_function_is_unwrapped_as_it_comes() -> None:
    table = ToolTable()
    table.add(TextTool(name="patch"), Wrapped.INPUT)
    item: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "patch"}
    stream = [
        CREATED,
        at("output_item.added", item={**item, "arguments": ""}),
        at("function_call_arguments.delta", delta='{"input":"a\\'),
        at("function_call_arguments.delta", delta='nb"}'),
        at("output_item.done", item={**item, "arguments": '{"input":"a\\nb"}'}),
        DONE,
    ]
    events = read(stream, asked_abroad(table))
    (part,) = folded(events).parts
    assert part == ToolCall(call_id="c", name="patch", arguments="a\nb", form=InputForm.TEXT, id="fc_1")
    assert pieces(events) == ["a", "\nb"]


def test_whole_items_come_at_their_end() -> None:
    shell: JsonObject = {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}}
    search: JsonObject = {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "q"}}
    stream = [
        CREATED,
        at("output_item.added", 0, item=search),
        at("web_search_call.searching", 0, item_id="w"),
        at("output_item.done", 0, item=search),
        at("output_item.done", 1, item=shell),
        DONE,
    ]
    parts = [event.part for event in read(stream) if isinstance(event, PartStarted)]
    assert isinstance(parts[0], HostedCall)
    assert isinstance(parts[2], ToolCall)
    assert (parts[2].name, pieces(read(stream))) == ("shell", ['{"commands":["ls"]}'])


def test_pitfall_040_a_call_without_an_id_gets_one() -> None:
    stream = [CREATED, at("output_item.done", item={"type": "function_call", "name": "f", "arguments": "{}"}), DONE]
    (part,) = folded(read(stream)).parts
    assert isinstance(part, ToolCall)
    assert part.call_id.startswith("call_")


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, FailureKind.RATE_LIMITED),
        ({"type": "error", "error": {"type": "server_error", "message": "x"}}, FailureKind.INTERNAL),
        (
            {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "x"}}},
            FailureKind.CONTEXT_OVERFLOW,
        ),
        ({"type": "response.failed", "response": {}}, FailureKind.INTERNAL),
        (at("output_item.done", item={"type": "function_call", "name": 1}), FailureKind.BAD_GATEWAY),
    ],
)
def test_failures_end_the_stream(event: JsonObject, kind: FailureKind) -> None:
    events = read([CREATED, event, DONE])
    assert isinstance(events[-1], Failed)
    assert events[-1].failure.kind is kind


def test_pitfall_084_unknown_events_and_odd_members_are_ignored() -> None:
    odd: list[JsonObject] = [
        {"type": "response.brand_new", "x": 1},
        {"type": "keepalive"},
        at("output_text.delta", delta=None),
        at("output_text.delta", content_index="x", delta=3),
        at("output_item.added", item=3),
        {"type": "response.output_item.done"},
    ]
    events = read([CREATED, *odd, DONE])
    assert isinstance(events[-1], Ended)
    assert folded(events).parts == ()


def test_a_stream_that_ends_early_has_failed() -> None:
    decoder = CODEC.stream_decoder(asked_abroad(), MINT, Ledger())
    assert decoder.feed(Frame(None, b"{not json"))[0] == decoder_failure(decoder)
    fresh = CODEC.stream_decoder(asked_abroad(), MINT, Ledger())
    fresh.feed(Frame("response.created", encode(CREATED)))
    (failed,) = fresh.feed(Frame(None, b"[DONE]"))
    assert isinstance(failed, Failed)
    assert failed.failure.message == "upstream stream ended unexpectedly"
    assert fresh.close() == []


def decoder_failure(decoder: object) -> Event:
    del decoder
    fresh = CODEC.stream_decoder(asked_abroad(), MINT, Ledger())
    return fresh.feed(Frame(None, b"{not json"))[0]


def test_a_relayed_stream_breaks_off_in_order() -> None:
    decoder = CODEC.stream_decoder(asked_abroad(), MINT, Ledger())
    item: JsonObject = {**CALL, "arguments": "{}"}
    for number, event in enumerate([CREATED, at("output_item.done", item=item)]):
        decoder.feed(Frame(str(event["type"]), encode({**event, "sequence_number": number})))
    frames = SseReader().feed(decoder.broken(Failure(kind=FailureKind.INTERNAL, message="x")))
    error, failed = [decode_object(frame.data) for frame in frames[:2]]
    response = failed["response"]
    assert isinstance(response, dict)
    assert (error["sequence_number"], failed["sequence_number"]) == (2, 3)
    assert (response["id"], response["status"], response["output"]) == ("resp_1", "failed", [item])
    assert frames[2].data == b"[DONE]"


def test_arguments_that_are_no_text_are_written_as_text() -> None:
    item: JsonObject = {**CALL, "arguments": {"a": 1}}
    response = folded(read([CREATED, at("output_item.added", item=CALL), at("output_item.done", item=item), DONE]))
    assert [part.arguments for part in response.parts if isinstance(part, ToolCall)] == ['{"a":1}']


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"type": "", "error": "out of luck"}, "out of luck"),
        (
            {"type": "response.completed", "response": {"status": "failed", "error": {"message": "out of luck"}}},
            "out of luck",
        ),
    ],
    ids=["an error that is a word", "an end that says it failed"],
)
def test_a_failure_in_disguise_is_one(event: JsonObject, message: str) -> None:
    last = read([CREATED, event])[-1]
    assert isinstance(last, Failed) and last.failure.message == message


def test_events_that_say_nothing_new_are_named_as_the_vendor_names_them() -> None:
    assert REPEATED - {"keepalive"} <= WIRE["responses_events"].keys()
