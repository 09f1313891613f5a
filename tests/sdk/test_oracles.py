"""The oracles themselves: they pass what is legal and see what is not."""

from __future__ import annotations

import pytest
from anthropic.types.message_create_params import MessageCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses import Response
from openai.types.responses.response_create_params import ResponseCreateParams

from tests.sdk.annotations import UNKNOWN, Fault, faults
from tests.sdk.digging import Object, dig_object
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import IN_ANSWERS, IN_REQUESTS, check_answer, check_request, check_stream
from tests.sdk.samples import SAMPLES, as_stream

HELLO: Object = {"role": "user", "content": "hi"}
ASKED: dict[str, Object] = {
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [HELLO]},
    CHAT: {"model": "m", "messages": [HELLO]},
    RESPONSES: {"model": "m", "input": [HELLO]},
}


@pytest.mark.parametrize("protocol", ASKED)
def test_a_plain_request_is_legal(protocol: str) -> None:
    check_request(protocol, ASKED[protocol])


WRONG_REQUESTS: list[tuple[str, Object, str]] = [
    (MESSAGES, {"max_tokens": None}, "max_tokens: wrong value"),
    (MESSAGES, {"max_tokens": 9.0}, "max_tokens: wrong value"),
    (MESSAGES, {"max_tokens": True}, "max_tokens: wrong value"),
    (MESSAGES, {"seed": 1}, "seed: unknown member"),
    (MESSAGES, {"betas": []}, "betas: unknown member"),
    (MESSAGES, {"messages": [{"role": "tool", "content": "x"}]}, r"messages\[0\]: wrong value"),
    (MESSAGES, {"messages": [{"role": "user", "content": [{"type": "text"}]}]}, r"content\[0\].text: missing member"),
    (MESSAGES, {"tools": [{"name": "f"}]}, r"tools\[0\]"),
    (CHAT, {"input": "hi"}, "input: unknown member"),
    (CHAT, {"reasoning_effort": "much"}, "reasoning_effort: wrong value"),
    (CHAT, {"messages": [{"role": "tool", "content": "x"}]}, r"messages\[0\].tool_call_id: missing member"),
    (CHAT, {"messages": [{**HELLO, "reasoning": "x", "thoughts": "y"}]}, r"messages\[0\].thoughts: unknown member"),
    (RESPONSES, {"stop": ["x"]}, "stop: unknown member"),
    (RESPONSES, {"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "call_id: missing member"),
    (RESPONSES, {"tools": [{"type": "function", "name": "f", "parameters": {}}]}, "strict: missing member"),
]


@pytest.mark.parametrize(("protocol", "change", "fault"), WRONG_REQUESTS)
def test_a_request_beyond_the_types_is_seen(protocol: str, change: Object, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_request(protocol, {**ASKED[protocol], **change})


def test_a_beta_member_needs_its_header() -> None:
    body = {**ASKED[MESSAGES], "context_management": {"edits": [{"type": "compact_20260112"}]}}
    check_request(MESSAGES, body, {"anthropic-beta": "compact-2026-01-12"})
    with pytest.raises(AssertionError, match="anthropic-beta"):
        check_request(MESSAGES, body, {})


ANSWERS: dict[str, Object] = {
    MESSAGES: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi", "citations": None}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    CHAT: {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    },
    RESPONSES: dig_object(SAMPLES[RESPONSES][-1], "response"),
}


@pytest.mark.parametrize("protocol", ANSWERS)
def test_a_plain_answer_is_understood(protocol: str) -> None:
    assert check_answer(protocol, ANSWERS[protocol])


WRONG_ANSWERS: list[tuple[str, Object, str]] = [
    (MESSAGES, {"stop_reason": "stop"}, "stop_reason: wrong value"),
    (MESSAGES, {"object": "x"}, "object: unknown member"),
    (CHAT, {"created": 1.5}, "created: wrong value"),
    (CHAT, {"choices": [{"index": 0, "message": {"role": "assistant"}, "finish_reason": "end"}]}, "finish_reason"),
    (RESPONSES, {"output": [{"type": "message", "role": "assistant", "content": []}]}, r"output\[0\].id: missing"),
    (RESPONSES, {"temperature": None}, "temperature: wrong value"),
    (RESPONSES, {"usage": {"input_tokens": 1}}, "usage.output_tokens: missing"),
]


@pytest.mark.parametrize(("protocol", "change", "fault"), WRONG_ANSWERS)
def test_an_answer_beyond_the_models_is_seen(protocol: str, change: Object, fault: str) -> None:
    with pytest.raises(AssertionError, match=fault):
        check_answer(protocol, {**ANSWERS[protocol], **change})


TOP_LEVEL = [
    (protocol, place)
    for table in (IN_REQUESTS, IN_ANSWERS)
    for protocol, allowed in table.items()
    for _, place in allowed
    if "." not in place
]


@pytest.mark.parametrize(("protocol", "place"), TOP_LEVEL)
def test_what_is_allowed_beyond_the_types_is_really_beyond_them(protocol: str, place: str) -> None:
    """A member that a newer SDK knows must leave the tables."""
    types = {MESSAGES: MessageCreateParams, CHAT: CompletionCreateParams, RESPONSES: ResponseCreateParams}
    beside = Response if (UNKNOWN, place) in IN_ANSWERS[protocol] else types[protocol]
    assert Fault(place, UNKNOWN).place in {fault.place for fault in faults(beside, {place: 1}) if fault.kind == UNKNOWN}


BROKEN_STREAMS = [
    (MESSAGES, "content_block_stop", "S2"),
    (MESSAGES, "message_stop", "S10"),
    (MESSAGES, "message_start", "opening"),
    (RESPONSES, "response.in_progress", "S8"),
    (RESPONSES, "response.completed", "terminal"),
]


@pytest.mark.parametrize(("protocol", "without", "fault"), BROKEN_STREAMS)
def test_a_stream_that_lacks_an_event_is_seen(protocol: str, without: str, fault: str) -> None:
    events = SAMPLES[protocol]
    place = next(count for count, event in enumerate(events) if event["type"] == without)
    with pytest.raises(AssertionError, match=fault):
        check_stream(protocol, as_stream(protocol, events[:place] + events[place + 1 :]))


def test_an_error_in_a_stream_is_what_the_client_raises() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    told = check_stream(MESSAGES, as_stream(MESSAGES, [SAMPLES[MESSAGES][0], error]))
    assert told.final is None and told.error is not None and "busy" in told.error
    chunk = {"error": {"message": "busy", "type": "server_error", "param": None, "code": None}}
    assert check_stream(CHAT, as_stream(CHAT, [SAMPLES[CHAT][0], chunk], done=False)).error == "busy"
