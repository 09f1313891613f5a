"""The public journey of requests, answers and errors."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import DragomanError, RefusedError, StrictError, WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.rules.capabilities import CapabilityRow, capabilities_of
from dragoman.translate import translate_failure, translate_headers, translate_request, translate_response

NAMES: list[str] = list(PROTOCOL_NAMES)
MESSAGES, CHAT, RESPONSES = NAMES

ODD = (
    b'{ "model":"m", "max_tokens":1.0,\n "messages":[{"role":"user","content":"hi"}], '
    b'"x":1e400, "x":[ ], "input":"hi" }'
)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_protocol_is_byte_exact(name: str) -> None:
    out = translate_request(ODD, source=name, target=name)
    assert out.body == ODD
    assert out.losses == ()
    answer = translate_response(ODD, source=name, target=name)
    assert answer.body == ODD


@pytest.mark.parametrize("name", NAMES)
def test_a_renamed_model_is_spliced_in(name: str) -> None:
    out = translate_request(ODD, source=name, target=name, model="other")
    assert out.body == ODD.replace(b'"m"', b'"other"')


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"[" * 3000])
def test_what_is_no_object_is_refused_in_every_direction(name: str, body: bytes) -> None:
    for target in NAMES:
        with pytest.raises(WireError):
            translate_request(body, source=name, target=target)


CLAUDE_BODY: JsonObject = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
CHAT_BODY: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "seed": 7}


def test_the_protocol_is_recognised_from_the_shape() -> None:
    assert translate_request(CHAT_BODY, target=RESPONSES).source == CHAT
    claude: JsonObject = {"model": "m", "max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "hi"}]}
    assert translate_request(claude, target=RESPONSES).source == MESSAGES
    assert translate_request({"model": "m", "input": "hi"}, target=CHAT).source == RESPONSES
    with pytest.raises(WireError, match="messages"):
        translate_request({"model": "m"}, target=CHAT)


def test_an_unknown_protocol_is_named_with_the_known_ones() -> None:
    with pytest.raises(Exception, match="unknown protocol 'smoke-signals'; known are anthropic-messages, openai-chat"):
        translate_request(CHAT_BODY, target="smoke-signals")


def test_losses_are_plain_and_strict_mode_refuses_them() -> None:
    out = translate_request(CHAT_BODY, source=CHAT, target=MESSAGES)
    assert {loss["at"] for loss in out.losses} >= {"sampling.seed", "max_tokens"}
    json.dumps(out.losses)
    with pytest.raises(StrictError) as caught:
        translate_request(CHAT_BODY, source=CHAT, target=MESSAGES, strict=True)
    assert len(caught.value.losses) == len(out.losses)


def test_capabilities_are_data_that_the_caller_overrides() -> None:
    row = CapabilityRow(protocol=MESSAGES, changes={"max_output": 1000})
    assert json.loads(translate_request(CHAT_BODY, target=MESSAGES, capability_rows=(row,)).body)["max_tokens"] == 1000
    whole = capabilities_of(MESSAGES, "m", rows=(row,))
    assert json.loads(translate_request(CHAT_BODY, target=MESSAGES, capabilities=whole).body)["max_tokens"] == 1000


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", NAMES)
def test_an_error_stays_an_error_in_the_clients_form(source: str, target: str) -> None:
    bodies = {
        MESSAGES: b'{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}',
        CHAT: b'{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}',
        RESPONSES: b'{"error":{"message":"slow down","type":"rate_limit_error","param":null,"code":null}}',
    }
    out = translate_response(bodies[source], source=source, target=target, status=429, request_id="req_1")
    assert (out.status, out.failed) == (429, True)
    error = json.loads(out.body)["error"]
    assert (error["type"], error["message"]) == ("rate_limit_error", "slow down")


@pytest.mark.parametrize("target", NAMES)
def test_errors_of_the_library_have_the_clients_form_too(target: str) -> None:
    refused = translate_failure(RefusedError("audio", "messages[0].parts[1]", "no audio here"), target=target)
    assert (refused.status, refused.failed) == (400, True)
    assert "no audio here" in json.loads(refused.body)["error"]["message"]
    broken = translate_failure(WireError("/messages/0", "object", "number"), target=target, request_id="req_9")
    assert json.loads(broken.body)["error"]["message"] == "messages[0]: expected an object, found a number"


def test_rate_limits_change_names_and_units() -> None:
    headers = {"X-RateLimit-Remaining-Requests": "9", "x-ratelimit-reset-requests": "6m0s", "Retry-After": "7"}
    out = translate_headers(headers, source=CHAT, target=MESSAGES, now=0)
    assert out["anthropic-ratelimit-requests-remaining"] == "9"
    assert out["anthropic-ratelimit-requests-reset"] == "1970-01-01T00:06:00Z"
    assert out["retry-after"] == "7"


ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "one STOP two"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 2},
}


def test_stop_strings_that_the_wire_lacks_are_watched_for() -> None:
    asked = translate_request({**CHAT_BODY, "stop": "STOP"}, source=CHAT, target=RESPONSES)
    answer = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed",
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "one STOP two", "annotations": []}],
            }
        ],
    }
    out = translate_response(json.dumps(answer), source=RESPONSES, target=CHAT, request=asked)
    choice = json.loads(out.body)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one ", "stop")


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_pitfall_135_a_pause_is_described_to_the_caller(target: str) -> None:
    answer = {**ANSWER, "stop_reason": "pause_turn"}
    out = translate_response(json.dumps(answer), source=MESSAGES, target=target)
    assert out.resume == ({"type": "text", "text": "one STOP two"},)
    assert "stop" not in json.loads(out.body).get("choices", [{}])[0].get("finish_reason", "")
    assert any(loss["feature"] == "pause" for loss in out.losses)


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_pitfall_206_a_whole_answer_is_told_as_a_stream(target: str) -> None:
    out = translate_response(json.dumps(ANSWER), source=MESSAGES, target=target, stream=True)
    assert out.body.endswith(b"data: [DONE]\n\n")
    assert b"one STOP two" in out.body


def test_a_thread_that_cannot_be_kept_is_refused_so_that_tool_runners_fall_back() -> None:
    body: JsonObject = {**CLAUDE_BODY, "thread": {"type": "create"}}
    with pytest.raises(RefusedError) as caught:
        translate_request(body, source=MESSAGES, target=CHAT)
    told = json.loads(translate_failure(caught.value, target=MESSAGES).body)
    assert told["error"]["type"] == "invalid_request_error"
    assert told["error"]["details"] == {"error_code": "thread_unsupported_request"}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
def test_a_spent_quota_is_not_tried_again(target: str) -> None:
    body = b'{"type":"error","error":{"type":"billing_error","message":"no credit"}}'
    out = translate_response(body, source=MESSAGES, target=target, status=402)
    assert (out.status, out.headers) == (429, {"x-should-retry": "false"})


@pytest.mark.parametrize("body", [None, [], 7, {"model": float("nan")}, {"model": {1, 2}}, {1: 2}, "\ud800"])
@pytest.mark.parametrize("target", NAMES)
def test_values_that_no_json_could_have_given_are_refused(body: object, target: str) -> None:
    with pytest.raises(WireError):
        translate_request(body, source=CHAT, target=target)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(WireError):
        translate_response(body, source=CHAT, target=target)  # type: ignore[arg-type]  # wrong on purpose


def test_an_answer_is_read_only_against_a_request_to_its_own_protocol() -> None:
    asked = translate_request(CHAT_BODY, source=CHAT, target=RESPONSES)
    with pytest.raises(DragomanError, match="translated for openai-responses"):
        translate_response(json.dumps(ANSWER), source=MESSAGES, target=CHAT, request=asked)


def test_a_refusal_names_the_place_in_the_clients_words() -> None:
    error = RefusedError("audio", "messages[0].parts[1]", "no audio here")
    assert json.loads(translate_failure(error, target=CHAT).body)["error"]["param"] == "messages[0].content[1]"
    assert json.loads(translate_failure(error, target=RESPONSES).body)["error"]["param"] == "input[0].content[1]"


def test_one_stray_member_does_not_hide_the_others() -> None:
    body: JsonObject = {**CHAT_BODY, "object": "x", "background": True, "conversation": "c1"}
    out = translate_request(body, source=CHAT, target=MESSAGES)
    assert {"extras.object", "extras.background", "extras.conversation"} <= {loss["at"] for loss in out.losses}


QUESTIONS: dict[str, JsonObject] = {
    MESSAGES: {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    RESPONSES: {"input": "hi"},
}

SAID = {"role": "assistant", "content": "Hello."}
ANSWERS: dict[str, JsonObject] = {
    MESSAGES: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": [{"type": "text", "text": "Hello."}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    CHAT: {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [{"index": 0, "message": {**SAID}, "finish_reason": "stop"}],
    },
    RESPONSES: {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "served",
        "output": [
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
            }
        ],
    },
}


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_a_body_without_model_takes_the_one_that_is_named(source: str, target: str) -> None:
    """Azure, Bedrock and Vertex name the model in the URL."""
    for body in (QUESTIONS[source], json.dumps(QUESTIONS[source]).encode()):
        out = translate_request(body, source=source, target=target, model="deployed")
        assert json.loads(out.body)["model"] == "deployed"
    if source == target:
        written = json.dumps(QUESTIONS[source]).encode()
        assert out.body == written[:-1] + b',"model":"deployed"}'
    else:
        back = translate_response(ANSWERS[target], source=target, target=source, request=out)
        assert json.loads(back.body)["model"] == "deployed"


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
def test_a_body_without_model_needs_one(target: str) -> None:
    with pytest.raises(WireError, match="model: expected text"):
        translate_request(QUESTIONS[CHAT], source=CHAT, target=target)


MARKED: JsonObject = {
    **CLAUDE_BODY,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}],
}


def test_strict_mode_ignores_bookkeeping_unless_it_is_all() -> None:
    assert translate_request(MARKED, target=CHAT, strict=True).losses[0]["weight"] == "bookkeeping"
    with pytest.raises(StrictError) as raised:
        translate_request(MARKED, target=CHAT, strict="all")
    assert [loss.feature.value for loss in raised.value.losses] == ["cache_breakpoint"]
    both = {**MARKED, "top_k": 3}
    with pytest.raises(StrictError) as raised:
        translate_request(both, target=RESPONSES, strict=True)
    assert [loss.feature.value for loss in raised.value.losses] == ["max_tokens", "top_k"]
    with pytest.raises(StrictError) as raised:
        translate_request(both, target=RESPONSES, strict="all")
    assert {loss.feature.value for loss in raised.value.losses} == {"max_tokens", "top_k", "cache_breakpoint"}
