"""The strict provider itself: it takes what is right, and each of its rules refuses what breaks it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from dragoman.mock.strict.checks import record_response
from dragoman.mock.strict.common import Issued
from dragoman.wire.json import decode_object
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, PROVIDER_KEY, RESPONSES, Received
from tests.gateway.strictness import Turned, refusal_of
from tests.sdk.digging import Object, dig_object, dig_objects
from tests.sdk.providers import ENCRYPTED, SIGNATURE, Call, Turn, answer

CITY: Object = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED: Object = {**CITY, "additionalProperties": False}
HEADERS = {
    MESSAGES: [("x-api-key", PROVIDER_KEY), ("anthropic-version", "2026-10-21")],
    CHAT: [("authorization", f"Bearer {PROVIDER_KEY}")],
    RESPONSES: [("authorization", f"Bearer {PROVIDER_KEY}")],
}
CALLS = (Call("call_1", "get_weather", '{"city": "Paris"}'), Call("call_2", "get_time"))
TURN = {
    MESSAGES: Turn(stop="tool_use", reasoning="Hm.", text="Wait.", calls=CALLS),
    CHAT: Turn(stop="tool_calls", reasoning="Hm.", text="Wait.", calls=CALLS),
    RESPONSES: Turn(stop="completed", reasoning="Hm.", text="Wait.", calls=CALLS),
}


def good(protocol: str) -> Object:
    """A second request of a tool loop, as its service takes it."""
    body: Object = json.loads(json.dumps(_GOOD[protocol]))
    return body


def issued() -> Issued:
    """What the provider reported before."""
    known = Issued()
    for protocol in PROTOCOLS:
        record_response(protocol, decode_object(json.dumps(answer(protocol, TURN[protocol]))), known)
    return known


def judged(protocol: str, body: Object, *more: tuple[str, str]) -> Turned | None:
    """What the provider makes of a request."""
    headers = [*HEADERS[protocol], ("content-type", "application/json"), *more]
    received = Received("POST", PATHS[protocol], headers, json.dumps(body).encode())
    return refusal_of(received, issued(), ("sk-client",))


def _messages(body: Object) -> list[Object]:
    return dig_objects(body, "messages")


def _blocks(body: Object, at: int) -> list[Object]:
    return dig_objects(body, "messages", at, "content")


def _items(body: Object) -> list[Object]:
    return dig_objects(body, "input")


_TOOLS = [
    {"name": "get_weather", "input_schema": CITY},
    {"name": "get_time", "input_schema": {"type": "object", "properties": {}}},
]
_GOOD: dict[str, Object] = {
    MESSAGES: {
        "model": "claude-sonnet-4-5",
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"format": {"type": "json_schema", "schema": CLOSED}},
        "tools": _TOOLS,
        "messages": [
            {"role": "user", "content": "Go."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE},
                    {"type": "text", "text": "Wait."},
                    {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Paris"}},
                    {"type": "tool_use", "id": "call_2", "name": "get_time", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "18"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "12:00"},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
    },
    CHAT: {
        "model": "llama-4",
        "tools": [
            {"type": "function", "function": {"name": "get_weather", "parameters": CITY}},
            {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CLOSED, "strict": True}},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Go."},
            {
                "role": "assistant",
                "content": "Wait.",
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}},
                    {"id": "call_2", "type": "function", "function": {"name": "get_time", "arguments": ""}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_2", "content": "12:00"},
            {"role": "tool", "tool_call_id": "call_1", "content": "18"},
            {"role": "user", "content": "Well?"},
        ],
    },
    RESPONSES: {
        "model": "gpt-5",
        "store": False,
        "tools": [{"type": "function", "name": "get_weather", "parameters": CITY, "strict": False}],
        "text": {"format": {"type": "json_schema", "name": "x", "schema": CLOSED, "strict": True}},
        "input": [
            {"role": "user", "content": "Go."},
            {
                "type": "reasoning",
                "id": "rs_up_0",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": ENCRYPTED,
            },
            {"role": "assistant", "content": "Wait."},
            {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Paris"}'},
            {"type": "function_call", "call_id": "call_2", "name": "get_time", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "18"},
            {"type": "function_call_output", "call_id": "call_2", "output": "12:00"},
        ],
    },
}


def _swap_schema(schema: Object) -> Callable[[Object], object]:
    return lambda body: dig_object(body, "output_config", "format").update(schema=schema)


Break = Callable[[Object], object]
# (protocol, what the refusal speaks of) -> how a good request is broken.
BROKEN: list[tuple[str, str, Break]] = [
    (MESSAGES, "Extra inputs", lambda body: body.update(seed=1)),
    (MESSAGES, "max_tokens: Field required", lambda body: body.pop("max_tokens")),
    (MESSAGES, "must be greater than", lambda body: body.update(max_tokens=2048)),
    (MESSAGES, "at least 1024", lambda body: dig_object(body, "thinking").update(budget_tokens=1000)),
    (MESSAGES, "thinking.type", lambda body: body.update(thinking={"type": "adaptive"})),
    (MESSAGES, "output_config.effort", lambda body: dig_object(body, "output_config").update(effort="low")),
    (MESSAGES, "not accepted by version", lambda body: body.update(temperature=1)),
    (MESSAGES, "forced", lambda body: body.update(tool_choice={"type": "any"})),
    (MESSAGES, "not declared", lambda body: body.update(tool_choice={"type": "tool", "name": "other"})),
    (MESSAGES, "while providing tools", lambda body: (body.pop("tools"), body.update(tool_choice={"type": "auto"}))),
    (MESSAGES, "first message", lambda body: _messages(body).insert(0, {"role": "assistant", "content": "Hi."})),
    (MESSAGES, "prefill", lambda body: _messages(body).append({"role": "assistant", "content": "So"})),
    (MESSAGES, "alternate", lambda body: _messages(body).append({"role": "user", "content": "So?"})),
    (MESSAGES, "must be non-empty", lambda body: _messages(body)[0].update(content="")),
    (MESSAGES, "text content blocks", lambda body: _blocks(body, 2)[2].update(text=" ")),
    (MESSAGES, "exactly their tool_result", lambda body: _blocks(body, 2).pop(1)),
    (MESSAGES, "without tool_result", lambda body: _messages(body).pop()),
    (MESSAGES, "come first", lambda body: _blocks(body, 2).insert(0, _blocks(body, 2).pop())),
    (MESSAGES, "is not unique", lambda body: _blocks(body, 1)[3].update(id="call_1")),
    (MESSAGES, "does not match the pattern", lambda body: _blocks(body, 1)[3].update(id="call.2")),
    (MESSAGES, "Invalid `signature`", lambda body: _blocks(body, 1)[0].update(signature=SIGNATURE[:-1])),
    (MESSAGES, "cannot be modified", lambda body: _blocks(body, 1)[0].update(thinking="Hm")),
    (MESSAGES, "cannot be modified", lambda body: _blocks(body, 1).insert(1, _blocks(body, 1).pop(0))),
    (MESSAGES, "must start with a thinking block", lambda body: _blocks(body, 1).pop(0)),
    (MESSAGES, "no name of a tool", lambda body: dig_object(body, "tools", 0).update(name="get weather")),
    (MESSAGES, "is not unique", lambda body: dig_object(body, "tools", 0).update(name="get_time")),
    (MESSAGES, "root has to be an object", lambda body: dig_object(body, "tools", 0).update(input_schema={})),
    (
        MESSAGES,
        "is no type",
        lambda body: dig_object(body, "tools", 0, "input_schema", "properties", "city").update(type="text"),
    ),
    (MESSAGES, "additionalProperties", _swap_schema(CITY)),
    (MESSAGES, "'maximum' is not supported", _swap_schema({"type": "integer", "maximum": 3})),
    (
        MESSAGES,
        "breakpoints",
        lambda body: [
            block.update(cache_control={"type": "ephemeral"}) for block in [*_blocks(body, 1)[1:], *_blocks(body, 2)]
        ],
    ),
    (CHAT, "Unrecognized", lambda body: body.update(store=False)),
    (CHAT, "only allowed when stream", lambda body: body.update(stream_options={"include_usage": True})),
    (CHAT, "is not supported", lambda body: _messages(body)[0].update(role="developer")),
    (CHAT, "unknown member", lambda body: _messages(body)[2].update(reasoning_details=[])),
    (CHAT, "reasoning_content", lambda body: _messages(body)[2].update(reasoning_content="Hm")),
    (CHAT, "got null", lambda body: _messages(body)[5].update(content=None)),
    (CHAT, "must be a response", lambda body: _messages(body)[3].update(tool_call_id="call_3")),
    (CHAT, "without response", lambda body: _messages(body).pop(4)),
    (CHAT, "without response", lambda body: _messages(body).insert(3, _messages(body).pop())),
    (
        CHAT,
        "is not unique",
        lambda body: [call.update(id="call_1") for call in dig_objects(body, "messages", 2, "tool_calls")],
    ),
    (CHAT, "too long", lambda body: dig_object(body, "messages", 2, "tool_calls", 0).update(id="c" * 41)),
    (CHAT, "tools: empty", lambda body: body.update(tools=[])),
    (CHAT, "no name of a tool", lambda body: dig_object(body, "tools", 0, "function").update(name="a.b")),
    (CHAT, "additionalProperties", lambda body: dig_object(body, "response_format", "json_schema").update(schema=CITY)),
    (RESPONSES, "unknown member", lambda body: body.update(messages=[])),
    (RESPONSES, "'temperature'", lambda body: body.update(temperature=1)),
    (RESPONSES, "minimum", lambda body: body.update(max_output_tokens=15)),
    (RESPONSES, "No tool call found", lambda body: _items(body).pop(3)),
    (RESPONSES, "No tool output found", lambda body: _items(body).pop()),
    (RESPONSES, "is not unique", lambda body: _items(body)[6].update(call_id="call_1")),
    (RESPONSES, "arguments: empty", lambda body: _items(body)[4].update(arguments="")),
    (RESPONSES, "Duplicate item", lambda body: [_items(body)[3].update(id="fc_1"), _items(body)[4].update(id="fc_1")]),
    (RESPONSES, "is no id of", lambda body: _items(body)[3].update(id="call_1")),
    (RESPONSES, "too long", lambda body: _items(body)[3].update(id="fc_" + "1" * 62)),
    (RESPONSES, "not persisted", lambda body: _items(body)[1].pop("encrypted_content")),
    (RESPONSES, "invalid_encrypted_content", lambda body: _items(body)[1].update(encrypted_content="x")),
    (RESPONSES, "not found", lambda body: _items(body)[1].update(id="rs_other")),
    (RESPONSES, "summary", lambda body: _items(body)[1].update(summary=[])),
    (RESPONSES, "required following item", lambda body: _items(body).pop(2)),
    (
        RESPONSES,
        "required 'reasoning' item",
        lambda body: (_items(body)[2].update(id="msg_up_1", status="completed", type="message"), _items(body).pop(1)),
    ),
    (
        RESPONSES,
        "is not supported for user",
        lambda body: _items(body)[0].update(content=[{"type": "output_text", "text": "Go.", "annotations": []}]),
    ),
    (RESPONSES, "additionalProperties", lambda body: dig_object(body, "tools", 0).update(strict=True)),
    (RESPONSES, "additionalProperties", lambda body: dig_object(body, "text", "format").update(schema=CITY)),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_good_request_is_taken(protocol: str) -> None:
    assert judged(protocol, good(protocol)) is None


@pytest.mark.parametrize(("protocol", "words", "how"), BROKEN, ids=[f"{place} {words}" for place, words, _ in BROKEN])
def test_a_broken_rule_is_named(protocol: str, words: str, how: Break) -> None:
    body = good(protocol)
    how(body)
    turned = judged(protocol, body)
    assert turned is not None and turned.status == 400
    assert any(words in reason for reason in turned.reasons), turned.reasons


@pytest.mark.parametrize(
    "header",
    [
        ("cookie", "a=b"),
        ("x-stainless-lang", "python"),
        ("x-forwarded-for", "192.0.2.7"),
        ("authorization", "Bearer sk-client"),
        ("x-api-key", "sk-client"),
        ("user-agent", "OpenAI/Python"),
    ],
    ids=lambda header: header[0],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_headers_of_the_client_are_noticed(protocol: str, header: tuple[str, str]) -> None:
    assert judged(protocol, good(protocol), header) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_strangers_key_and_model_are_refused(protocol: str) -> None:
    without = Received("POST", PATHS[protocol], [], json.dumps(good(protocol)).encode())
    assert refusal_of(without, issued()) == Turned(401, ("the provider's key is missing",))
    assert judged(protocol, {**good(protocol), "model": "served"}) == Turned(404, ("model: 'served'",))


def test_messages_need_a_version_that_is_known() -> None:
    headers = [("x-api-key", PROVIDER_KEY), ("content-type", "application/json"), ("anthropic-version", "2020-01-01")]
    received = Received("POST", PATHS[MESSAGES], headers, json.dumps(good(MESSAGES)).encode())
    turned = refusal_of(received, issued())
    assert turned is not None and "not a valid version" in turned.reasons[0]
