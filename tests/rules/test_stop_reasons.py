"""Words for the end of an answer: of all servers, in all protocols, whole and streamed."""

from __future__ import annotations

import json

import pytest

from dragoman.model.failure import FailureKind
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, Text, ToolCall
from dragoman.model.response import Stop, StopReason, Usage
from dragoman.rules.stop_reasons import (
    FAILURES,
    STOP_REASONS,
    at_cap,
    broken_off,
    finalize_stop,
    has_open_call,
    reason_of,
    stated_reason,
)
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request, translate_response

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"

MEANT = {
    "stop": StopReason.END,
    "eos_token": StopReason.END,
    "EOS": StopReason.END,
    "COMPLETE": StopReason.END,
    "stopped_word": StopReason.END,
    "tool-calls": StopReason.END,
    "FINISH_REASON_STOP": StopReason.END,
    "MAX_TOKENS": StopReason.LENGTH,
    "FINISH_REASON_MAX_TOKENS": StopReason.LENGTH,
    "stopped_limit": StopReason.LENGTH,
    "max_new_tokens": StopReason.LENGTH,
    "repetition_truncation": StopReason.LENGTH,
    "time_limit": StopReason.LENGTH,
    "model_length": StopReason.CONTEXT_FULL,
    "model_context_window_exceeded": StopReason.CONTEXT_FULL,
    "context_window_overflow": StopReason.CONTEXT_FULL,
    "SAFETY": StopReason.FILTER,
    "content_filter: RECITATION": StopReason.FILTER,
    "content-filter": StopReason.FILTER,
    "guardrail_intervened": StopReason.FILTER,
    "moderation_blocked": StopReason.FILTER,
    "mystery": StopReason.OTHER,
    "OTHER": StopReason.OTHER,
}


@pytest.mark.parametrize("word", MEANT)
def test_item_14_words_of_servers_mean_what_they_say(word: str) -> None:
    assert broken_off(word) is None
    assert reason_of(word) is MEANT[word]
    assert stated_reason(word) == word


@pytest.mark.parametrize("word", ["", "null", "None", "not_finished", "FINISH_REASON_UNSPECIFIED", None])
def test_item_14_some_words_are_no_reason(word: str | None) -> None:
    assert stated_reason(word) == ""
    assert broken_off(word) is None


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("error", FailureKind.INTERNAL),
        ("abort", FailureKind.INTERNAL),
        ("user_cancelled", FailureKind.INTERNAL),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", FailureKind.INTERNAL),
        ("upstream_error", FailureKind.INTERNAL),
        ("insufficient_system_resource", FailureKind.OVERLOADED),
        ("server_overloaded", FailureKind.OVERLOADED),
    ],
)
def test_item_14_words_that_are_failures(word: str, kind: FailureKind) -> None:
    failure = broken_off(word)
    assert failure is not None
    assert (failure.kind, failure.native) == (kind, word)


def test_the_table_says_nothing_twice() -> None:
    assert not STOP_REASONS.keys() & FAILURES.keys()
    assert all(word == word.lower() for word in (*STOP_REASONS, *FAILURES))


CALL = ToolCall(call_id="c", name="f", arguments='{"a":')


@pytest.mark.parametrize(
    ("parts", "open_call"),
    [
        ((CALL,), True),
        ((ToolCall(call_id="c", name="f", arguments='{"a":1}'),), False),
        ((ToolCall(call_id="c", name="f", arguments=""),), False),
        ((Text(text='{"a":'),), False),
    ],
)
def test_a_call_without_the_end_of_its_arguments_is_open(parts: tuple[Part, ...], open_call: bool) -> None:
    assert has_open_call(parts) is open_call


def test_an_answer_at_its_cap_took_all_that_it_was_given() -> None:
    assert at_cap(Usage(output=5), 5)
    assert not at_cap(Usage(output=4), 5)
    assert not at_cap(Usage(output=4), None)
    assert not at_cap(None, 5)


@pytest.mark.parametrize(
    ("stop", "cut", "reason"),
    [
        (Stop(reason=StopReason.OTHER, native="mystery"), True, StopReason.LENGTH),
        (Stop(reason=StopReason.OTHER, native="mystery"), False, StopReason.OTHER),
        (Stop(reason=StopReason.TOOL_CALL, native="mystery"), True, StopReason.LENGTH),
        (Stop(reason=StopReason.END), True, StopReason.LENGTH),
        (Stop(reason=StopReason.END), False, StopReason.END),
        (Stop(reason=StopReason.END, native="stop"), True, StopReason.END),
        (Stop(reason=StopReason.REFUSAL), True, StopReason.REFUSAL),
    ],
)
def test_item_14_an_unknown_end_of_a_cut_answer_is_a_cut(stop: Stop, cut: bool, reason: StopReason) -> None:
    ledger = Ledger()
    assert finalize_stop(stop, ledger, cut=cut).reason is reason
    assert [loss.at for loss in ledger.losses] == ["stop.reason"] * (reason is StopReason.LENGTH)


# The same end in the protocols: what is read, and what the clients of the others are told.

TOLD: dict[str, dict[str, str | None]] = {
    "end": {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: None},
    "length": {MESSAGES: "max_tokens", CHAT: "length", RESPONSES: "max_output_tokens"},
    "context": {MESSAGES: "model_context_window_exceeded", CHAT: "length", RESPONSES: "max_output_tokens"},
    "filter": {MESSAGES: "refusal", CHAT: "content_filter", RESPONSES: "content_filter"},
}
WORDS = {
    "": "end",
    "eos": "end",
    "max_tokens": "length",
    "MAX_TOKENS": "length",
    "length": "length",
    "repetition": "length",
    "model_length": "context",
    "model_context_window_exceeded": "context",
    "SAFETY": "filter",
    "sensitive": "filter",
    "mystery": "end",
}


def whole(source: str, word: str | None) -> bytes:
    if source == CHAT:
        message = {"role": "assistant", "content": "Hello."}
        body: dict[str, object] = {
            "id": "c",
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": word}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 8},
        }
    elif source == MESSAGES:
        body = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Hello."}],
            "stop_reason": word,
            "usage": {"input_tokens": 3, "output_tokens": 8},
        }
    else:
        content = [{"type": "output_text", "text": "Hello.", "annotations": []}]
        body = {
            "id": "resp_1",
            "object": "response",
            "model": "m",
            "status": "incomplete",
            "incomplete_details": {"reason": word},
            "output": [{"type": "message", "id": "msg_1", "role": "assistant", "content": content}],
            "usage": {"input_tokens": 3, "output_tokens": 8},
        }
    return json.dumps(body).encode()


def streamed(source: str, word: str | None) -> bytes:
    answer = json.loads(whole(source, word))
    events: list[dict[str, object]]
    if source == CHAT:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        delta = {"role": "assistant", "content": "Hello."}
        events = [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": word}], "usage": answer["usage"]},
        ]
    elif source == MESSAGES:
        block = {"type": "text", "text": ""}
        events = [
            {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": word}, "usage": answer["usage"]},
            {"type": "message_stop"},
        ]
    else:
        events = [
            {"type": "response.created", "response": {"id": "resp_1", "model": "m"}},
            {"type": "response.output_item.done", "output_index": 0, "item": answer["output"][0]},
            {"type": "response.incomplete", "response": answer},
        ]
    frames = [
        (f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n" for event in events
    ]
    return "".join(frames).encode() + (b"data: [DONE]\n\n" if source == CHAT else b"")


def end_of(target: str, body: dict[str, object]) -> object:
    if target == CHAT:
        choices = body["choices"]
        assert isinstance(choices, list)
        return choices[0]["finish_reason"]
    if target == MESSAGES:
        return body["stop_reason"]
    details = body["incomplete_details"]
    return details["reason"] if isinstance(details, dict) else None


PAIRS = [(CHAT, MESSAGES), (CHAT, RESPONSES), (MESSAGES, CHAT), (MESSAGES, RESPONSES)]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_item_14_an_end_is_told_in_the_clients_word(source: str, target: str, word: str) -> None:
    expected = TOLD[WORDS[word]][target]
    told = translate_response(whole(source, word), source=source, target=target)
    assert end_of(target, json.loads(told.body)) == expected
    translator = StreamPipeline(source=source, target=target, collect=True)
    translator.feed(streamed(source, word))
    assert end_of(target, json.loads(translator.close())) == expected
    translator = StreamPipeline(source=source, target=target)
    out = translator.feed(streamed(source, word)) + translator.close()
    assert translator.failure is None
    if expected is not None:
        assert f'"{expected}"'.encode() in out
    if word == "mystery":
        assert "stop_reason" in [loss["feature"] for loss in told.losses]
        assert "stop_reason" in [loss["feature"] for loss in translator.losses]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("mystery", "length"),
        ("SAFETY", "filter"),
        ("model_length", "context"),
        ("max_tokens", "length"),
        (None, "length"),
    ],
)
@pytest.mark.parametrize("target", [CHAT, MESSAGES])
def test_item_14_an_incomplete_response_is_never_a_good_end(target: str, word: str | None, meant: str) -> None:
    told = translate_response(whole(RESPONSES, word), source=RESPONSES, target=target)
    assert end_of(target, json.loads(told.body)) == TOLD[meant][target]
    translator = StreamPipeline(source=RESPONSES, target=target, collect=True)
    translator.feed(streamed(RESPONSES, word))
    assert end_of(target, json.loads(translator.close())) == TOLD[meant][target]


@pytest.mark.parametrize("details", [None, {"reason": "max_output_tokens"}])
def test_item_14_an_incomplete_event_says_enough(details: object) -> None:
    done = {"id": "resp_1", "model": "m", "output": [], "incomplete_details": details}
    events = [{"type": "response.created", "response": done}, {"type": "response.incomplete", "response": done}]
    translator = StreamPipeline(source=RESPONSES, target=CHAT, collect=True)
    translator.feed(b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events))
    assert end_of(CHAT, json.loads(translator.close())) == "length"


def test_item_14_a_cancelled_response_is_no_good_end_in_a_stream_either() -> None:
    done = {"id": "resp_1", "model": "m", "output": [], "status": "cancelled"}
    translator = StreamPipeline(source=RESPONSES, target=CHAT)
    translator.feed(b"data: %b\n\n" % json.dumps({"type": "response.completed", "response": done}).encode())
    assert translator.failure is not None
    assert translator.failure.native == "cancelled"


def test_item_14_a_stop_reason_is_not_undone_by_none() -> None:
    whole_stream = streamed(MESSAGES, "max_tokens")
    again = b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":""}}\n\n'
    at = whole_stream.index(b"event: message_stop")
    translator = StreamPipeline(source=MESSAGES, target=CHAT, collect=True)
    translator.feed(whole_stream[:at] + again + whole_stream[at:])
    assert end_of(CHAT, json.loads(translator.close())) == "length"


@pytest.mark.parametrize("word", ["error", "network_error", "aborted"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_item_14_a_word_for_an_error_is_an_error(source: str, target: str, word: str) -> None:
    assert translate_response(whole(source, word), source=source, target=target).failed
    translator = StreamPipeline(source=source, target=target)
    translator.feed(streamed(source, word))
    translator.close()
    assert translator.failure is not None
    assert translator.failure.native == word


@pytest.mark.parametrize("word", ["mystery", "", None])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_item_14_an_unknown_end_at_the_cap_is_a_cut(source: str, target: str, word: str | None) -> None:
    asked = {"model": "m", "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]}
    if target == RESPONSES:
        asked = {"model": "m", "max_output_tokens": 8, "input": "Hi"}
    request = translate_request(json.dumps(asked).encode(), source=target, target=source)
    expected = TOLD["length"][target]
    told = translate_response(whole(source, word), source=source, target=target, request=request)
    assert end_of(target, json.loads(told.body)) == expected
    assert "stop_reason" in [loss["feature"] for loss in told.losses]
    translator = StreamPipeline(source=source, target=target, request=request, collect=True)
    translator.feed(streamed(source, word))
    assert end_of(target, json.loads(translator.close())) == expected
    assert "stop_reason" in [loss["feature"] for loss in translator.losses]


@pytest.mark.parametrize("word", ["mystery", "", None])
def test_item_14_an_unknown_end_inside_arguments_is_a_cut(word: str | None) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":"b'}}
    chunks: list[dict[str, object]] = [
        {"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": word}]},
    ]
    translator = StreamPipeline(source=CHAT, target=MESSAGES)
    out = translator.feed(b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks))
    out += translator.feed(b"data: [DONE]\n\n") + translator.close()
    assert b'"stop_reason":"max_tokens"' in out
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": word}
    told = translate_response(json.dumps({"id": "c", "choices": [choice]}).encode(), source=CHAT, target=MESSAGES)
    assert json.loads(told.body)["stop_reason"] == "max_tokens"


def test_a_word_of_the_table_says_one_thing() -> None:
    """It is found there before anything else is asked: it breaks nothing off, and is never no reason."""
    assert STOP_REASONS.keys().isdisjoint(FAILURES)
    for word, reason in STOP_REASONS.items():
        assert (stated_reason(word), reason_of(word), broken_off(word)) == (word, reason, None)
        assert reason_of(word.upper()) is reason
