"""The registry: which protocols there are, and how they are told apart."""

from __future__ import annotations

import pytest

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import PROTOCOL_NAMES, codec_of, recognise, recognise_response
from dragoman.rules.seals import LETTERS


def test_the_protocols_in_reading_order() -> None:
    assert list(PROTOCOL_NAMES) == ["anthropic-messages", "openai-chat", "openai-responses"]
    assert list(LETTERS) == list(PROTOCOL_NAMES)
    with pytest.raises(DragomanError, match="unknown protocol 'x'"):
        codec_of("x")


REQUESTS: dict[str, tuple[JsonObject, str | None]] = {
    "messages with max_tokens and system": ({"max_tokens": 1, "system": "x", "messages": []}, "anthropic-messages"),
    "messages with Anthropic tools": (
        {"messages": [], "tools": [{"name": "f", "input_schema": {}}]},
        "anthropic-messages",
    ),
    "chat": ({"messages": [{"role": "user", "content": "x"}]}, "openai-chat"),
    "chat with a system message": ({"messages": [{"role": "system", "content": "x"}], "max_tokens": 5}, "openai-chat"),
    "responses": ({"input": "x"}, "openai-responses"),
    "responses that continue": ({"previous_response_id": "resp_1"}, "openai-responses"),
    "neither": ({"model": "m"}, None),
}


@pytest.mark.parametrize(("body", "expected"), REQUESTS.values(), ids=REQUESTS.keys())
def test_requests_are_recognised(body: JsonObject, expected: str | None) -> None:
    found = recognise(body)
    assert (found.name if found else None) == expected


ANSWERS: dict[str, tuple[JsonObject, str | None]] = {
    "a message": ({"type": "message"}, "anthropic-messages"),
    "a Messages stream": ({"type": "message_start"}, "anthropic-messages"),
    "a Messages error": ({"type": "error", "error": {}}, "anthropic-messages"),
    "a completion": ({"object": "chat.completion"}, "openai-chat"),
    "a chunk without an object": ({"choices": []}, "openai-chat"),
    "a response": ({"object": "response"}, "openai-responses"),
    "a Responses stream": ({"type": "response.created"}, "openai-responses"),
    "a Responses error": ({"type": "error", "message": "x"}, "openai-responses"),
    "anything else": ({}, None),
}


@pytest.mark.parametrize(("body", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answers_are_recognised(body: JsonObject, expected: str | None) -> None:
    found = recognise_response(body)
    assert (found.name if found else None) == expected
