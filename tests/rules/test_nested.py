"""Errors that proxies tell inside of their own, and what they are classed by."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.protocols.registry import codec_of
from dragoman.rules.failures import openai_failure
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_response
from dragoman.wire.json import encode
from dragoman.wire.sse import frame
from tests.step_counting import count_steps

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"
PROTOCOLS = (CHAT, RESPONSES, MESSAGES)
OVERFLOW = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
INNER: JsonObject = {"error": {"message": OVERFLOW, "type": "invalid_request_error", "code": None, "param": "messages"}}
TEXT = json.dumps(INNER, indent=2)


def openrouter(raw: JsonValue, code: int = 400, **more: JsonValue) -> JsonObject:
    metadata: JsonObject = {"raw": raw, "provider_name": "Azure", **more}
    return {"error": {"message": "Provider returned error", "code": code, "metadata": metadata}, "user_id": "user_1"}


SHAPES: dict[str, JsonValue] = {
    "OpenRouter, JSON as text": openrouter(TEXT),
    "OpenRouter, text": openrouter(OVERFLOW),
    "OpenRouter, JSON": openrouter(INNER),
    "OpenRouter, flat": {"message": "Provider returned error", "metadata": {"raw": TEXT}},
    "OpenRouter, beside": {"type": "error", "error": {"type": "x", "message": "no"}, "metadata": {"raw": TEXT}},
    "OpenRouter in OpenRouter": openrouter(json.dumps(openrouter(TEXT))),
    "LiteLLM": {
        "error": {
            "message": f"litellm.BadRequestError: AzureException - {TEXT}. Received Model Group=m\nFallbacks=None",
            "type": None,
            "param": None,
            "code": "400",
        }
    },
    "LiteLLM, by the name of its class": {
        "error": {"message": "litellm.ContextWindowExceededError: too much", "type": None, "code": "400"}
    },
    "LiteLLM, only a code": {
        "error": {
            "message": 'litellm.APIError: {"error":{"message":"x","code":"context_length_exceeded"}}',
            "code": "400",
        }
    },
    "a message that is JSON": {"error": {"message": TEXT + "\n", "type": "error", "code": None}},
    "a bare string that is JSON": {"error": TEXT},
    "details that are JSON": {"error": "Error: providerError", "details": TEXT},
    "a body that is a string": OVERFLOW,
    "a list of errors": [INNER, INNER],
    "a list as the error": {"error": [{"message": OVERFLOW}]},
    "an error in an error": {"error": {"error": INNER["error"]}},
    "an inner error of Azure": {
        "error": {"code": "BadRequest", "message": "no", "innererror": {"code": "context_length_exceeded"}}
    },
    "details of Azure": {
        "error": {"code": "BadRequest", "message": "no", "details": [{"code": "x", "message": OVERFLOW}]}
    },
    "an answer beside": {"error": {"message": "no", "upstreamResponse": INNER}},
    "Cloudflare": {"success": False, "result": None, "errors": [{"code": 5021, "message": OVERFLOW}]},
    "Databricks": {"error_code": "BAD_REQUEST", "message": TEXT},
    "FastAPI, text": {"detail": OVERFLOW},
    "FastAPI, an object": {"detail": INNER},
    "FastAPI, a list": {"detail": [{"loc": ["body", "messages"], "msg": OVERFLOW, "type": "value_error"}]},
}


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_item_16_an_overflow_is_found_wherever_a_proxy_hides_it(protocol: str, body: JsonValue) -> None:
    failure = codec_of(protocol).decode_failure(400, encode(body))
    assert failure.kind is FailureKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("provider", PROTOCOLS)
def test_item_16_the_client_is_told_what_the_provider_behind_the_proxy_said(client: str, provider: str) -> None:
    if client == provider:
        return
    told = translate_response(encode(openrouter(TEXT)), source=provider, target=client, status=400)
    error = json.loads(told.body)["error"]
    assert f"Provider returned error (Azure): {OVERFLOW}" in error["message"]
    assert told.status == 400
    if client == MESSAGES:
        assert error["message"].startswith("prompt is too long: 9001 tokens > 8192 maximum (")
    else:
        assert error["code"] == "context_length_exceeded"


@pytest.mark.parametrize("provider", [CHAT, RESPONSES, MESSAGES])
def test_item_16_in_a_stream_too(provider: str) -> None:
    body = openrouter(TEXT, 502)
    if provider != CHAT:
        body["type"] = "error"
    client = MESSAGES if provider != MESSAGES else CHAT
    translator = StreamPipeline(source=provider, target=client)
    translator.feed(frame(encode(body), None if provider == CHAT else "error"))
    assert translator.failure is not None
    # The proxy's own 502 says less than the error behind it.
    assert translator.failure.kind is FailureKind.CONTEXT_OVERFLOW
    assert OVERFLOW in translator.failure.message


def test_item_16_the_status_of_the_error_inside_counts_for_its_words() -> None:
    raw = json.dumps({"error": {"code": 400, "message": OVERFLOW}})
    failure = openai_failure(openrouter(raw, 502), None)
    assert (failure.kind, failure.status) == (FailureKind.CONTEXT_OVERFLOW, 502)
    assert openai_failure({"error": {"message": OVERFLOW}}, None).kind is FailureKind.CONTEXT_OVERFLOW


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (openrouter("  "), "Provider returned error"),
        (openrouter(None), "Provider returned error"),
        (openrouter({"x": 1}), "Provider returned error"),
        (openrouter('{"x": 1}'), 'Provider returned error (Azure): {"x": 1}'),
        (openrouter("<html>" + "x" * 900), "Provider returned error (Azure): <html>" + "x" * 494),
        ({"error": {"message": "use {braces} like this"}}, "use {braces} like this"),
        ({"error": {"message": '{"not": "an error"}'}}, '{"not": "an error"}'),
        ({"error": {"message": "m", "innererror": {"message": "m"}}}, "m"),
        ({"error": {"message": "m", "innererror": {"message": "more"}}}, "m: more"),
        ({"detail": [{"loc": ["body", 3], "msg": "x"}, {"msg": "y"}]}, "body.3: x; y"),
        ({"detail": [{"odd": "x"}]}, '[{"odd":"x"}]'),
        ({"errors": ["a", "b"]}, "a; b"),
        (["a", "b"], "a; b"),
        ("a", "a"),
    ],
)
def test_what_is_told_of_other_shapes(body: JsonValue, message: str) -> None:
    for protocol in PROTOCOLS:
        assert codec_of(protocol).decode_failure(400, encode(body)).message == message


def test_what_the_outer_error_does_not_say_the_inner_one_does() -> None:
    raw = json.dumps({"error": {"message": "no", "type": "insufficient_quota", "code": "c", "param": "p"}})
    failure = openai_failure(openrouter(raw, 429), 429)
    assert (failure.kind, failure.native, failure.code, failure.param) == (
        FailureKind.QUOTA,
        "insufficient_quota",
        "c",
        "p",
    )


def test_nesting_is_read_so_deep_and_no_deeper() -> None:
    raw = TEXT
    for _ in range(50):
        # Each level doubles what is escaped; nobody reads to the end of this.
        raw = json.dumps(openrouter(raw)) if len(raw) < 60_000 else raw
    failure = openai_failure(openrouter(raw), 400)
    assert failure.message.startswith("Provider returned error (Azure)")
    assert len(failure.message) < 2_000


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
def test_item_16_an_error_of_a_choice_is_heard(client: str) -> None:
    error = openrouter(TEXT, 502)["error"]
    choice: JsonObject = {"index": 0, "finish_reason": "error", "error": error}
    answer: JsonObject = {"id": "g", "object": "chat.completion", "created": 1, "model": "m"}
    whole: JsonObject = {**answer, "choices": [{**choice, "message": {"role": "assistant", "content": ""}}]}
    told = translate_response(encode(whole), source=CHAT, target=client)
    assert told.failure is not None
    translator = StreamPipeline(source=CHAT, target=client)
    chunk: JsonObject = {**answer, "object": "chat.completion.chunk", "choices": [{**choice, "delta": {"content": ""}}]}
    translator.feed(frame(encode(chunk)))
    assert translator.failure is not None
    for failure in (told.failure, translator.failure):
        assert failure.kind is FailureKind.CONTEXT_OVERFLOW
        assert OVERFLOW in failure.message


WORDS = "prompt is too long: 250000 tokens > 200000 maximum"


@pytest.mark.parametrize("protocol", ["anthropic-messages", "openai-chat", "openai-responses"])
@pytest.mark.parametrize(
    "body",
    [
        {"type": "error", "error": {"type": "request_fail", "upstream_error": {"error": {"message": WORDS}}}},
        {"error": {"message": "failed", "provider_error": {"message": WORDS}}},
        {"error": {"message": "failed", "originalError": json.dumps({"error": {"message": WORDS}})}},
        {"error": {"message": "failed", "response": {"error": {"message": WORDS}}}},
        {"msg": WORDS},
        {"error": "invalid_request", "error_description": WORDS},
        {"error_message": WORDS},
        {"base_resp": {"status_code": 1013, "status_msg": WORDS}},
        {"success": False, "data": {"message": WORDS}},
    ],
)
def test_item_16_words_under_any_proxys_names_are_found(protocol: str, body: JsonObject) -> None:
    failure = codec_of(protocol).decode_failure(400, json.dumps(body).encode())
    assert WORDS in failure.message
    assert failure.kind is FailureKind.CONTEXT_OVERFLOW


def test_item_16_of_a_body_of_many_errors_only_the_first_are_looked_at() -> None:
    def work_on(count: int) -> Callable[[], object]:
        body = {f"{'x' * (number % 40)}_error{number}": {"message": "m" * 40} for number in range(count)}
        raw = json.dumps({"error": body}).encode()
        return lambda: codec_of("openai-chat").decode_failure(400, raw)

    assert count_steps(work_on(1_000)) <= 1.1 * count_steps(work_on(500))
