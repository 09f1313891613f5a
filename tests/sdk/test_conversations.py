"""Tool loops of two turns, driven by the real SDKs: what the first answer proved reaches the second request."""

from __future__ import annotations

import json

import pytest

from tests.sdk.digging import Object, dig, dig_object, dig_objects, dig_text
from tests.sdk.gateway import Gateway
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.providers import ENCRYPTED, SIGNATURE, Call, Turn
from tests.sdk.users import PIXEL, QUESTION, RESULTS, SCHEMA, TOOLS, USERS

CALLS: dict[str, tuple[Call, ...]] = {
    MESSAGES: (
        Call("toolu_01A09q90qw90lq917835lq9", "get_weather", '{"city": "Zürich 🌧"}'),
        Call("toolu_02", "get_time"),
        Call("toolu_03", "take_photo"),
    ),
    CHAT: (
        Call("call_a1", "get_weather", '{"city": "Zürich 🌧"}'),
        Call("call_a2", "get_time"),
        Call("call_a3", "take_photo", "{}"),
    ),
    RESPONSES: (
        Call("call_b1", "get_weather", '{"city": "Zürich 🌧"}'),
        Call("call_b2", "get_time"),
        Call("call_b3", "take_photo"),
    ),
}
CALLED = {MESSAGES: "tool_use", CHAT: "tool_calls", RESPONSES: "completed"}
ENDED = {MESSAGES: "end_turn", CHAT: "stop", RESPONSES: "completed"}
REASONING = "The user wants three things."
FINAL = '{"summary": "Mild, noon, grey."}'

PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def _turns(provider: str, *, reasoning: str = REASONING, text: str = "Let me look.") -> list[Turn]:
    return [
        Turn(stop=CALLED[provider], reasoning=reasoning, text=text, calls=CALLS[provider]),
        Turn(stop=ENDED[provider], text=FINAL),
    ]


@WAYS
@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_tool_loop_keeps_ids_pairs_and_proofs(client: str, provider: str, streamed: bool) -> None:
    gateway = Gateway(provider, _turns(provider))
    heard = USERS[client](gateway, streamed)

    expected = [(call.id, call.name, json.loads(call.arguments or "{}")) for call in CALLS[provider]]
    assert heard.calls == expected
    assert heard.reasoning == REASONING
    assert heard.text == "Let me look."
    assert heard.final == FINAL

    first, second = gateway.received
    assert _schema(provider, first) == _schema(provider, second)
    _CHECKS[provider](second, client, REASONING)


@WAYS
@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_calls_alone_make_a_turn(client: str, provider: str, streamed: bool) -> None:
    gateway = Gateway(provider, _turns(provider, reasoning="", text=""))
    heard = USERS[client](gateway, streamed)
    assert [name for _, name, _ in heard.calls] == list(TOOLS)
    assert (heard.text, heard.reasoning, heard.final) == ("", "", FINAL)
    _CHECKS[provider](gateway.received[1], client, "")


@pytest.mark.parametrize("provider", PROTOCOLS)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_streamed_loop_asks_the_provider_the_same_as_a_whole_one(client: str, provider: str) -> None:
    asked: list[Object] = []
    for streamed in (False, True):
        gateway = Gateway(provider, _turns(provider))
        USERS[client](gateway, streamed)
        second = {name: value for name, value in gateway.received[1].items() if not name.startswith("stream")}
        asked.append(_plain(second))
    if client != provider:
        assert asked[0] == asked[1]


def _plain(value: Object) -> Object:
    plain: Object = json.loads(json.dumps(value))
    return plain


def _schema(provider: str, body: Object) -> object:
    """The structured output asked for, which has to be there."""
    if provider == MESSAGES:
        schema = dig(body, "output_config", "format", "schema")
    elif provider == CHAT:
        schema = dig(body, "response_format", "json_schema", "schema")
    else:
        schema = dig(body, "text", "format", "schema")
    assert schema == SCHEMA
    return schema


def _check_messages(body: Object, client: str, reasoning: str) -> None:
    question, turn, results = dig_objects(body, "messages")
    assert question["role"] == "user" and QUESTION in json.dumps(question["content"])
    blocks = dig_objects(turn, "content")
    if reasoning:
        assert blocks[0] == {"type": "thinking", "thinking": reasoning, "signature": SIGNATURE}
        assert blocks[1]["type"] == "text"
    calls = [block for block in blocks if block["type"] == "tool_use"]
    given = [(call["id"], call["name"], call["input"]) for call in calls]
    assert given == [(call.id, call.name, json.loads(call.arguments or "{}")) for call in CALLS[MESSAGES]]
    answers = dig_objects(results, "content")
    assert [answer["tool_use_id"] for answer in answers] == [call.id for call in CALLS[MESSAGES]]
    assert "18 degrees" in json.dumps(answers[0]["content"])
    assert RESULTS["get_time"] in json.dumps(answers[1]["content"])
    if client != CHAT:
        image = dig_objects(answers[2], "content")[0]
        assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}


def _check_chat(body: Object, client: str, reasoning: str) -> None:
    messages = dig_objects(body, "messages")
    assert [message["role"] for message in messages[:5]] == ["user", "assistant", "tool", "tool", "tool"]
    turn = messages[1]
    if reasoning:
        assert turn["reasoning_content"] == reasoning
        assert turn["content"] == "Let me look."
    calls = [(call["id"], dig_text(call, "function", "name")) for call in dig_objects(turn, "tool_calls")]
    assert calls == [(call.id, call.name) for call in CALLS[CHAT]]
    arguments = [dig_text(call, "function", "arguments") for call in dig_objects(turn, "tool_calls")]
    # A client of the same protocol sends back what the provider gave it, "" for no arguments included.
    expected = ["{}" if client != CHAT else call.arguments for call in CALLS[CHAT][1:]]
    assert (json.loads(arguments[0]), arguments[1:]) == ({"city": "Zürich 🌧"}, expected)
    assert [message["tool_call_id"] for message in messages[2:5]] == [call.id for call in CALLS[CHAT]]
    assert [message["content"] for message in messages[2:4]] == list(RESULTS.values())
    if client == CHAT:
        assert len(messages) == 5
    else:
        # Results hold no images in Chat: it follows in a user message, behind the id of its call (§6).
        assert messages[5]["role"] == "user" and len(messages) == 6
        label, image = dig_objects(messages[5], "content")
        assert "call_a3" in dig_text(label, "text")
        assert dig(image, "image_url", "url") == f"data:image/png;base64,{PIXEL}"


def _check_responses(body: Object, client: str, reasoning: str) -> None:
    items = dig_objects(body, "input")
    kinds = [item.get("type", "message") for item in items]
    led = ["reasoning", "message"] if reasoning else []
    assert kinds == ["message", *led, *["function_call"] * 3, *["function_call_output"] * 3]
    if reasoning:
        proof = items[1]
        assert proof["id"] == "rs_up_0" and proof["encrypted_content"] == ENCRYPTED
        assert proof["summary"] == [{"type": "summary_text", "text": reasoning}]
        assert "Let me look." in json.dumps(items[2]["content"])
    calls, results = items[-6:-3], items[-3:]
    assert [(call["call_id"], call["name"]) for call in calls] == [(call.id, call.name) for call in CALLS[RESPONSES]]
    arguments = [dig_text(call, "arguments") for call in calls]
    assert (json.loads(arguments[0]), arguments[1:]) == ({"city": "Zürich 🌧"}, ["{}", "{}"])
    assert [result["call_id"] for result in results] == [call.id for call in CALLS[RESPONSES]]
    assert [result["output"] for result in results[:2]] == list(RESULTS.values())
    if client != CHAT:
        image = dig_object(results[2], "output", 0)
        assert (image["type"], image["image_url"]) == ("input_image", f"data:image/png;base64,{PIXEL}")
    assert body["store"] is False
    assert "reasoning.encrypted_content" in json.dumps(body["include"])


_CHECKS = {MESSAGES: _check_messages, CHAT: _check_chat, RESPONSES: _check_responses}
