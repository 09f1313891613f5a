"""The content of an assistant message: paragraphs, and thinking in its place."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.openai_chat.assistant_content import AssistantText, joined_content
from tests.protocols.openai_chat.second_turn import (
    CLIENTS,
    THOUGHT,
    Conversation,
    lost,
)


@pytest.mark.parametrize("client", CLIENTS)
def test_item_3_thinking_and_text_keep_their_places(client: str) -> None:
    other: JsonObject = {"type": "thinking", "thinking": [{"type": "text", "text": "I see"}]}
    content: JsonList = [THOUGHT, {"type": "text", "text": "Hm."}, other, {"type": "text", "text": "Rain."}]
    conversation = Conversation(client, "magistral-medium-latest", "mistral")
    conversation.hears({"content": content}, finish="stop")
    conversation.says("thanks")
    assert conversation.messages()[1]["content"] == content
    assert lost(conversation) == []


def test_item_3_parts_keep_text_apart_by_themselves() -> None:
    spoken = AssistantText()
    spoken.add({"type": "text", "text": "a"}, ("messages", 1, "parts", 0))
    spoken.put([dict(THOUGHT)])
    spoken.add({"type": "text", "text": "b"}, ("messages", 2, "parts", 0))
    assert spoken.content() == [{"type": "text", "text": "a"}, THOUGHT, {"type": "text", "text": "b"}]


def test_plain_texts_are_joined_as_paragraphs() -> None:
    assert joined_content([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "a\n\nb"
    marked: JsonObject = {"type": "text", "text": "b", "prompt_cache_breakpoint": {"mode": "explicit"}}
    assert joined_content([{"type": "text", "text": "a"}, marked]) == [{"type": "text", "text": "a"}, marked]
