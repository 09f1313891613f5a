"""Histories as programs really keep them: instructions, odd turns, broken tool loops, forced tools."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from anthropic.types import MessageParam, ToolChoiceParam, ToolParam
from openai.types.chat import (
    ChatCompletionMessageParam,
    ChatCompletionToolChoiceOptionParam,
    ChatCompletionToolParam,
)
from openai.types.responses import FunctionToolParam, ResponseInputItemParam
from openai.types.responses.response_create_params import ToolChoice

from tests.gateway.harness import CHAT, MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.sdk.desk import MODELS, Desk
from tests.sdk.digging import dig
from tests.sdk.providers import Turn
from tests.sdk.test_conversations import ENDED
from tests.sdk.users import CITY

MANUAL = "messages/claude-sonnet-4-5"
TARGETS = [*MODELS.items(), (MESSAGES, MANUAL)]
every_target = pytest.mark.parametrize(("provider", "model"), TARGETS, ids=[model for _, model in TARGETS])

MESSAGES_HISTORIES: dict[str, list[MessageParam]] = {
    "turns": [
        {"role": "user", "content": "first said"},
        {"role": "assistant", "content": "then answered"},
        {"role": "user", "content": [{"type": "text", "text": "last asked"}]},
    ],
    "blocks of several kinds": [
        {"role": "user", "content": [{"type": "text", "text": "first said"}, {"type": "text", "text": "also said"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "then "}, {"type": "text", "text": "answered"}]},
        {"role": "user", "content": "last asked"},
    ],
    "a failed call": [
        {"role": "user", "content": "first said"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "x"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "it broke", "is_error": True},
                {"type": "text", "text": "last asked"},
            ],
        },
    ],
}
CHAT_HISTORIES: dict[str, list[ChatCompletionMessageParam]] = {
    "turns": [
        {"role": "user", "content": "first said"},
        {"role": "assistant", "content": "then answered"},
        {"role": "user", "content": [{"type": "text", "text": "last asked"}]},
    ],
    "neighbours of one role": [
        {"role": "user", "content": "first said"},
        {"role": "user", "content": "also said"},
        {"role": "assistant", "content": "then"},
        {"role": "assistant", "content": "answered"},
        {"role": "user", "content": "last asked"},
    ],
    "instructions in the middle": [
        {"role": "user", "content": "first said"},
        {"role": "assistant", "content": "then answered"},
        {"role": "system", "content": "now be kind"},
        {"role": "user", "content": "last asked"},
    ],
    "an assistant that begins": [
        {"role": "assistant", "content": "first said"},
        {"role": "user", "content": "last asked"},
    ],
    "empty turns": [
        {"role": "user", "content": "first said"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "last asked"},
    ],
    "results in another order": [
        {"role": "user", "content": "first said"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city": "x"}'}},
                {"id": "call_2", "type": "function", "function": {"name": "look", "arguments": '{"city": "y"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_2", "content": "second result"},
        {"role": "tool", "tool_call_id": "call_1", "content": "first result"},
        {"role": "user", "content": "last asked"},
    ],
    "arguments that are none": [
        {"role": "user", "content": "first said"},
        {
            "role": "assistant",
            "content": "then answered",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"city'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": ""},
        {"role": "user", "content": "last asked"},
    ],
}
# What only a provider of another protocol can be spared: in its own, the program's mistakes are relayed as they are.
CHAT_MISTAKES: dict[str, list[ChatCompletionMessageParam]] = {
    "a call that nobody answered": [
        {"role": "user", "content": "first said"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
        {"role": "user", "content": "last asked"},
    ],
    "a result of no call": [
        {"role": "user", "content": "first said"},
        {"role": "tool", "tool_call_id": "call_9", "content": "lost result"},
        {"role": "user", "content": "last asked"},
    ],
}
RESPONSES_HISTORIES: dict[str, list[ResponseInputItemParam]] = {
    "turns": [
        {"role": "user", "content": "first said"},
        {"role": "assistant", "content": "then answered"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "last asked"}]},
    ],
    "instructions in the middle": [
        {"role": "user", "content": "first said"},
        {"role": "assistant", "content": "then answered"},
        {"role": "developer", "content": "now be kind"},
        {"role": "user", "content": "last asked"},
    ],
    "results after a message": [
        {"role": "user", "content": "first said"},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": '{"city": "x"}'},
        {"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "first result"},
        {"role": "user", "content": "last asked"},
        {"type": "function_call_output", "call_id": "call_2", "output": "second result"},
    ],
}
WORDS = "first said|also said|then|answered|now be kind|first result|second result|lost result|it broke|last asked"


@every_target
@pytest.mark.parametrize("kept", MESSAGES_HISTORIES)
def test_a_messages_history_is_taken(desk: Desk, provider: str, model: str, kept: str) -> None:
    history = MESSAGES_HISTORIES[kept]
    with desk.scripted(Turn(stop=ENDED[provider], text="Yes.")) as strict:
        desk.anthropic.messages.create(
            model=model,
            max_tokens=500,
            system="be brief",
            messages=history,
            tools=_messages_tools(),
            stop_sequences=["X"],
        )
    _check_words(strict.asked[0], history)


@every_target
@pytest.mark.parametrize("kept", CHAT_HISTORIES)
def test_a_chat_history_is_taken(desk: Desk, provider: str, model: str, kept: str) -> None:
    _tell_chat(desk, provider, model, CHAT_HISTORIES[kept])


@pytest.mark.parametrize("model", [MODELS[MESSAGES], MODELS[RESPONSES], MANUAL])
@pytest.mark.parametrize("kept", CHAT_MISTAKES)
def test_a_program_is_spared_its_mistakes(desk: Desk, model: str, kept: str) -> None:
    provider = RESPONSES if model == MODELS[RESPONSES] else MESSAGES
    _tell_chat(desk, provider, model, CHAT_MISTAKES[kept])


def _tell_chat(desk: Desk, provider: str, model: str, history: list[ChatCompletionMessageParam]) -> None:
    with desk.scripted(Turn(stop=ENDED[provider], text="Yes.")) as strict:
        desk.openai.chat.completions.create(
            model=model, messages=[{"role": "system", "content": "be brief"}, *history], tools=_chat_tools(), stop=["X"]
        )
    _check_words(strict.asked[0], history)


@every_target
@pytest.mark.parametrize("kept", RESPONSES_HISTORIES)
def test_a_responses_history_is_taken(desk: Desk, provider: str, model: str, kept: str) -> None:
    history = RESPONSES_HISTORIES[kept]
    with desk.scripted(Turn(stop=ENDED[provider], text="Yes.")) as strict:
        desk.openai.responses.create(
            model=model, instructions="be brief", input=history, tools=_responses_tools(), metadata={"run": "7"}
        )
    _check_words(strict.asked[0], history)


def _check_words(asked: object, history: object) -> None:
    """Nothing that was said is missing."""
    there, said = json.dumps(asked), json.dumps(history)
    assert "be brief" in there
    for words in WORDS.split("|"):
        assert words not in said or words in there


def _messages_tools() -> list[ToolParam]:
    return [{"name": "look", "description": "Looks.", "input_schema": CITY}]


def _chat_tools() -> list[ChatCompletionToolParam]:
    return [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": CITY}}]


def _responses_tools() -> list[FunctionToolParam]:
    return [{"type": "function", "name": "look", "description": "Looks.", "parameters": CITY, "strict": False}]


# How each protocol forces a call: any one, or a certain one.
_FORCED_MESSAGES: dict[str, ToolChoiceParam] = {
    "any": {"type": "any", "disable_parallel_tool_use": True},
    "one": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
}
_FORCED_CHAT: dict[str, ChatCompletionToolChoiceOptionParam] = {
    "any": "required",
    "one": {"type": "function", "function": {"name": "look"}},
}
_FORCED_RESPONSES: dict[str, ToolChoice] = {"any": "required", "one": {"type": "function", "name": "look"}}
_PLACES: dict[str, tuple[str, ...]] = {
    MESSAGES: ("tool_choice", "disable_parallel_tool_use"),
    CHAT: ("parallel_tool_calls",),
    RESPONSES: ("parallel_tool_calls",),
}
_WORDED: dict[str, dict[str, object]] = {
    MESSAGES: {name: {**choice} for name, choice in _FORCED_MESSAGES.items()},
    CHAT: dict(_FORCED_CHAT),
    RESPONSES: dict(_FORCED_RESPONSES),
}


@every_target
@pytest.mark.parametrize("forced", ["any", "one"])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_forced_call_is_forced_and_alone(desk: Desk, client: str, provider: str, model: str, forced: str) -> None:
    with desk.scripted(Turn(stop=ENDED[provider], text="Yes.")) as strict:
        _FORCERS[client](desk, model, forced)
    assert strict.asked[0]["tool_choice"] == _WORDED[provider][forced]
    assert dig(strict.asked[0], *_PLACES[provider]) is (provider == MESSAGES)


def _force_messages(desk: Desk, model: str, forced: str) -> None:
    desk.anthropic.messages.create(
        model=model,
        max_tokens=2000,
        messages=[{"role": "user", "content": "Look."}],
        tools=_messages_tools(),
        tool_choice=_FORCED_MESSAGES[forced],
    )


def _force_chat(desk: Desk, model: str, forced: str) -> None:
    desk.openai.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "Look."}],
        tools=_chat_tools(),
        tool_choice=_FORCED_CHAT[forced],
        parallel_tool_calls=False,
        reasoning_effort="medium",
    )


def _force_responses(desk: Desk, model: str, forced: str) -> None:
    desk.openai.responses.create(
        model=model,
        input="Look.",
        tools=_responses_tools(),
        tool_choice=_FORCED_RESPONSES[forced],
        parallel_tool_calls=False,
        reasoning={"effort": "medium"},
    )


_FORCERS: dict[str, Callable[[Desk, str, str], None]] = {
    MESSAGES: _force_messages,
    CHAT: _force_chat,
    RESPONSES: _force_responses,
}
