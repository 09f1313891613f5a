"""The limit on the tool calls of one answer, streamed and whole, whoever sends and reads it."""

from __future__ import annotations

import pytest

from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.rules.tool_table import MAX_CALLS
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_response
from dragoman.wire.json import encode
from tests.laws.floods import FLOODS
from tests.laws.strategies import CHAT, MESSAGES, PROTOCOLS, RESPONSES

CALLS = {MESSAGES: "calls", CHAT: "calls, by index with ids with values", RESPONSES: "calls that end at once"}


def whole(protocol: str, count: int) -> JsonObject:
    """An answer with so many calls."""
    if protocol == MESSAGES:
        calls: list[JsonObject] = [{"type": "tool_use", "id": f"t{i}", "name": "f", "input": {}} for i in range(count)]
        return {
            "id": "m",
            "model": "x",
            "role": "assistant",
            "content": [*calls],
            "stop_reason": "tool_use",
            "usage": {},
        }
    if protocol == CHAT:
        calls = [
            {"id": f"t{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(count)
        ]
        message: JsonObject = {"role": "assistant", "content": None, "tool_calls": [*calls]}
        return {"id": "c", "model": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    calls = [
        {"type": "function_call", "id": f"i{i}", "call_id": f"t{i}", "name": "f", "arguments": "{}"}
        for i in range(count)
    ]
    return {"id": "r", "object": "response", "model": "x", "status": "completed", "output": [*calls]}


# Of a relayed Chat stream calls pass unread, and nothing is kept of them.
PAIRS = [(client, provider) for client in PROTOCOLS for provider in PROTOCOLS if (client, provider) != (CHAT, CHAT)]


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_item_22_a1_a_stream_with_more_calls_than_the_limit_breaks(client: str, provider: str) -> None:
    for count, fails in ((MAX_CALLS, False), (MAX_CALLS + 1, True)):
        translator = StreamPipeline(source=provider, target=client)
        out = translator.feed(FLOODS[provider][CALLS[provider]](count)) + translator.close()
        failure = translator.failure
        assert (failure is not None) is fails, failure
        if failure is not None:
            assert failure.kind is FailureKind.BAD_GATEWAY
            assert b"more than 1024 tool calls" in out


@pytest.mark.parametrize(("client", "provider"), [(CHAT, MESSAGES), (MESSAGES, CHAT), (CHAT, RESPONSES)])
def test_item_22_a1_so_does_a_whole_answer(client: str, provider: str) -> None:
    for count, fails in ((MAX_CALLS, False), (MAX_CALLS + 1, True)):
        told = translate_response(encode(whole(provider, count)), source=provider, target=client)
        assert (told.failure is not None) is fails
        assert fails is (b"more than 1024 tool calls" in told.body)
