"""Echo: paths, errors in each envelope, and headers."""

from __future__ import annotations

import asyncio
import gc
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.http.upstream_call import UpstreamRequest, header
from dragoman.mock.answers.models import echo_models
from dragoman.mock.echo import respond_to
from dragoman.protocols.registry import codec_of
from tests.mock.calling import (
    PROTOCOLS,
    URLS,
    Json,
    answered,
    asked,
    capped,
    collected,
    fly,
    message_of,
    question,
    text_of,
)
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

BASES = {MESSAGES: "echo:/v1", CHAT: "echo:", RESPONSES: "echo:"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_unknown_model_is_not_found(protocol: str) -> None:
    status, error = asked(protocol, question(protocol, "nobody"))
    assert status == 404
    assert "nobody" in message_of(protocol, error)
    inner = error["error"]
    assert isinstance(inner, dict)
    assert inner["type" if protocol == MESSAGES else "code"] == (
        "not_found_error" if protocol == MESSAGES else "model_not_found"
    )


MALFORMED: dict[str, object] = {
    "no JSON": b'{"model": "text"',
    "no object": b"[]",
    "nothing": b"",
    "no model": {"messages": [{"role": "user", "content": "a"}], "input": "a", "max_tokens": 9},
    "a model that is a number": {"model": 1, "messages": [{"role": "user", "content": "a"}], "input": "a"},
    "messages that are a number": {"model": "text", "messages": 1, "input": 1, "max_tokens": 9},
    "nothing said": {"model": "text", "messages": [], "max_tokens": 9},
    "depth without end": b'{"model":"text","input":' + b"[" * 100_000,
    "bytes that are no text": b'{"model":"\xff"}',
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_request_is_refused_in_the_envelope(body: object, protocol: str) -> None:
    status, error = asked(protocol, body)
    assert status in (400, 404)
    assert message_of(protocol, error)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_schemas_as_deep_as_can_be_read_never_raise(protocol: str, stream: bool) -> None:
    for depth in (50, 400, 490, 900, 960, 1000):
        schema = b'{"properties":{"a":' * depth + b"{}" + b"}}" * depth
        body = json.dumps(question(protocol, "tools", tools=("weather",), stream=stream)).encode()
        body = body.replace(b'{"type": "string"}', schema)
        assert fly(protocol, body).status in (200, 400)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_cap_below_one_is_refused(protocol: str) -> None:
    status, error = asked(protocol, {**question(protocol, "text"), **capped(protocol, -1)})
    assert status == 400
    assert "expected at least" in message_of(protocol, error)


def test_messages_demands_an_output_cap() -> None:
    body = question(MESSAGES, "text")
    del body["max_tokens"]
    status, error = asked(MESSAGES, body)
    assert (status, message_of(MESSAGES, error)) == (400, "max_tokens: Field required")


def test_several_choices_are_refused() -> None:
    status, error = asked(CHAT, question(CHAT, "text", n=2))
    assert (status, message_of(CHAT, error)) == (400, "n: an echo gives one answer")


@pytest.mark.parametrize("member", ["previous_response_id", "conversation"])
def test_what_would_have_to_be_stored_is_refused(member: str) -> None:
    status, error = asked(RESPONSES, {**question(RESPONSES, "text"), member: "resp_1"})
    assert status == 400
    assert message_of(RESPONSES, error).startswith(member)


def test_a_result_without_its_call_is_refused() -> None:
    items = [{"type": "function_call_output", "call_id": "call_x", "output": "rain"}]
    status, error = asked(RESPONSES, question(RESPONSES, "tools", input=items))
    assert status == 400
    assert "call_x" in message_of(RESPONSES, error)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 418, 422, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_error_model_answers_with_the_status_asked_for(protocol: str, status: int) -> None:
    found, error = asked(protocol, question(protocol, "error", f"Please, a {status}!", stream=True))
    assert found == status
    assert message_of(protocol, error).endswith(f"{status}.")
    assert codec_of(protocol).decode_failure(found, json.dumps(error).encode()).status == status


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rate_limit_says_when_to_try_again(protocol: str) -> None:
    flight = fly(protocol, question(protocol, "error"))
    assert flight.status == 429
    assert header(flight.headers, b"retry-after") == b"1"
    assert header(flight.headers, b"content-type") == b"application/json"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_answers_carry_a_request_id_and_rate_limits(protocol: str) -> None:
    headers = fly(protocol, question(protocol, "text", stream=True)).headers
    names = {name for name, _ in headers}
    assert header(headers, b"content-type") == b"text/event-stream; charset=utf-8"
    if protocol == MESSAGES:
        assert (header(headers, b"request-id") or b"").startswith(b"req_")
        assert {b"anthropic-ratelimit-requests-remaining", b"anthropic-ratelimit-tokens-reset"} <= names
    else:
        assert (header(headers, b"x-request-id") or b"").startswith(b"req_")
        assert {b"x-ratelimit-remaining-requests", b"x-ratelimit-reset-tokens"} <= names
    assert b"retry-after" not in names


@pytest.mark.parametrize("protocol", [MESSAGES, RESPONSES])
def test_counting_gives_what_the_answer_will_say(protocol: str) -> None:
    body = question(protocol, "text", tools=("weather",))
    path = "/messages/count_tokens" if protocol == MESSAGES else "/responses/input_tokens"
    usage = answered(protocol, body)["usage"]
    assert isinstance(usage, dict)
    body.pop("max_tokens", None)
    status, counted = asked(protocol, body, BASES[protocol] + path)
    assert status == 200
    assert counted["input_tokens"] == usage["input_tokens"]
    assert asked(protocol, {**body, "model": "nobody"}, BASES[protocol] + path)[0] == 404


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_models_are_listed_and_found_by_name(protocol: str) -> None:
    status, found = asked(protocol, b"", f"{BASES[protocol]}/models", "GET")
    assert status == 200
    data = found["data"]
    assert isinstance(data, list)
    assert tuple(model["id"] for model in data) == echo_models()
    assert asked(protocol, b"", f"{BASES[protocol]}/models/text", "GET") == (200, data[0])
    assert asked(protocol, b"", f"{BASES[protocol]}/models/nobody", "GET")[0] == 404
    if protocol == MESSAGES:
        assert all(model["display_name"].startswith(f"echo/{model['id']}: ") for model in data)


WRONG: list[tuple[str, str, int]] = [
    ("echo:/v1/nowhere", "POST", 404),
    ("echo:", "POST", 404),
    ("echo:/models", "DELETE", 405),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("url", "method", "status"), WRONG)
def test_other_paths_and_methods_are_refused(url: str, method: str, status: int, protocol: str) -> None:
    found, error = asked(protocol, question(protocol, "text"), url, method)
    assert found == status
    assert message_of(protocol, error)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_reading_from_a_path_to_write_to_is_refused(protocol: str) -> None:
    assert asked(protocol, b"", URLS[protocol], "GET")[0] == 405


def test_no_protocol_is_spoken_under_the_path_of_another() -> None:
    assert asked(MESSAGES, question(MESSAGES, "text"), URLS[CHAT])[0] == 404


@pytest.mark.parametrize("url", ["echo:/v1/messages?beta=true", "echo:/messages/"])
def test_paths_are_taken_in_every_form(url: str) -> None:
    body: Json = question(MESSAGES, "text")
    assert text_of(MESSAGES, asked(MESSAGES, body, url)[1]) == "You said: Hello there"


FAST = [name for name in echo_models() if name not in ("slow", "error", "broken", "failing")]
# fmt: off
MEMBERS = (
    "model", "messages", "input", "role", "content", "type", "text", "tools", "function", "name",
    "parameters", "properties", "required", "items", "tool_choice", "tool_calls", "id", "call_id",
    "arguments", "output", "max_tokens", "stop", "n", "stream", "thinking", "reasoning", "format", "schema",
    "anyOf", "$ref", "system", "image_url", "source", "data", "media_type", "url", "minimum", "enum", "const",
    "tool_use_id", "tool_call_id", "metadata",
)
# fmt: on
NAMES = st.sampled_from(MEMBERS)
LEAVES = st.none() | st.booleans() | st.integers(-5, 5000) | st.floats() | st.text(max_size=8)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(members=st.dictionaries(NAMES, JSON, max_size=6), model=st.sampled_from(FAST), stream=st.booleans())
def test_whatever_is_said_is_answered_or_refused(
    protocol: str, members: dict[str, object], model: str, stream: bool
) -> None:
    flight = fly(protocol, {**question(protocol, model), "stream": stream, **members})
    assert flight.status in (200, 400, 404)

    async def run() -> int:
        return len(await collected(flight))

    assert asyncio.run(run()) > 0


@pytest.mark.parametrize("body", [b"{", b'{"model":"text","input":' + b"[" * 100_000], ids=["no JSON", "too deep"])
def test_a_refusal_leaves_nothing_for_the_collector(body: bytes) -> None:
    call = UpstreamRequest(method="POST", url=URLS[RESPONSES], headers=[], body=body)
    respond_to(call, RESPONSES)
    # The collector looks only at what is new.
    gc.freeze()
    try:
        for _ in range(10):
            assert respond_to(call, RESPONSES).status == 400
        assert gc.collect() == 0
    finally:
        gc.unfreeze()
