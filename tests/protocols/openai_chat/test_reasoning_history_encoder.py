"""The reasoning of earlier turns on its way back: of which messages, and what stands for none."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from tests.protocols.openai_chat.room import A
from tests.protocols.openai_chat.second_turn import (
    CLIENTS,
    MODES,
    Conversation,
    call,
    lost,
)


def tool_turn(client: str, model: str, upstream: str, mode: str = "whole") -> Conversation:
    """A question, a call, its result, the final answer, and the next question."""
    conversation = Conversation(client, model, upstream)
    first: JsonObject = {"content": None, "reasoning_content": "I look", "tool_calls": [call()]}
    last: JsonObject = {"content": "Rain.", "reasoning_content": "I saw"}
    if mode == "whole":
        conversation.hears(first)
        conversation.results()
        conversation.hears(last, finish="stop")
    else:
        conversation.streams({"reasoning_content": "I look"}, {"tool_calls": [{"index": 0, **call()}]})
        conversation.results()
        conversation.streams({"reasoning_content": "I saw"}, {"content": "Rain."}, finish="stop")
    conversation.says("thanks")
    return conversation


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("model", "upstream"),
    [
        ("deepseek-v4-pro", "deepseek"),
        ("any", "deepseek"),
        ("kimi-k2.6", "moonshot"),
        ("deepseek-ai/DeepSeek-V3.2", "together"),
        ("moonshotai/Kimi-K2-Thinking", "somewhere"),
    ],
)
def test_item_1_the_reasoning_of_a_tool_turn_goes_back_with_its_final_answer(
    client: str, mode: str, model: str, upstream: str
) -> None:
    messages = tool_turn(client, model, upstream, mode).messages()
    said = [message.get("reasoning_content") for message in messages if message["role"] == "assistant"]
    assert said == ["I look", "I saw"]


@pytest.mark.parametrize("client", CLIENTS)
def test_item_1_other_servers_get_it_beside_calls_only(client: str) -> None:
    conversation = tool_turn(client, "m", "elsewhere")
    said = [message.get("reasoning_content") for message in conversation.messages() if message["role"] == "assistant"]
    assert said == ["I look", None]
    assert ("dropped", "thinking") in lost(conversation)


@pytest.mark.parametrize("client", CLIENTS)
def test_item_1_a_turn_without_calls_keeps_its_reasoning_to_itself(client: str) -> None:
    conversation = Conversation(client, "deepseek-v4-pro", "deepseek")
    conversation.hears({"content": "Hello.", "reasoning_content": "I greet"}, finish="stop")
    conversation.says("and the weather?")
    conversation.hears({"content": None, "reasoning_content": "I look", "tool_calls": [call()]})
    conversation.results()
    said = [message.get("reasoning_content") for message in conversation.messages() if message["role"] == "assistant"]
    assert said == [None, "I look"]


def test_item_1_a_reminder_beside_results_does_not_end_the_turn() -> None:
    conversation = Conversation(A, "deepseek-v4-pro", "deepseek")
    conversation.hears({"content": None, "reasoning_content": "I look", "tool_calls": [call()]})
    blocks: JsonList = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "rain"},
        {"type": "text", "text": "be brief"},
    ]
    conversation.history.append({"role": "user", "content": blocks})
    conversation.hears({"content": "Rain.", "reasoning_content": "I saw"}, finish="stop")
    conversation.says("thanks")
    said = [message.get("reasoning_content") for message in conversation.messages() if message["role"] == "assistant"]
    assert said == ["I look", "I saw"]


@pytest.mark.parametrize(
    ("model", "upstream", "blank", "lines"),
    [
        ("deepseek-v4-pro", "deepseek", "", []),
        ("kimi-k2.6", "moonshot", " ", [("invented", "thinking"), ("invented", "thinking")]),
    ],
)
def test_item_1_what_is_demanded_and_not_to_be_had_is_blank(
    model: str, upstream: str, blank: str, lines: list[tuple[str, str]]
) -> None:
    conversation = Conversation(A, model, upstream)
    use: JsonObject = {"type": "tool_use", "id": "c1", "name": "weather", "input": {}}
    conversation.history.append({"role": "assistant", "content": [use]})
    conversation.history.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "rain"}]}
    )
    conversation.history.append({"role": "assistant", "content": "Rain."})
    conversation.says("thanks")
    said = [message.get("reasoning_content") for message in conversation.messages() if message["role"] == "assistant"]
    assert said == [blank, blank]
    assert lost(conversation) == lines


def test_item_1_reasoning_alone_is_not_sent_and_not_lost_in_silence() -> None:
    conversation = Conversation(A, "deepseek-v4-pro", "deepseek")
    conversation.hears({"content": None, "reasoning_content": "I look", "tool_calls": [call()]})
    conversation.results()
    conversation.hears({"content": "", "reasoning_content": "I thought too long"}, finish="length")
    conversation.says("go on")
    conversation.losses.clear()
    assert [message["role"] for message in conversation.messages()] == ["user", "assistant", "tool", "user"]
    assert lost(conversation) == [("dropped", "thinking")]
