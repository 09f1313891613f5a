"""Reasoning in all its spellings, read once and written back as it was."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.openai_chat.reasoning_details import Blocks
from tests.protocols.openai_chat.room import A, objects
from tests.protocols.openai_chat.second_turn import (
    BLOCK,
    CLIENTS,
    ITEM,
    MODES,
    REDACTED,
    THOUGHT,
    Conversation,
    Deltas,
    answered,
    call,
    lost,
)

SPELLINGS: dict[str, tuple[JsonObject, Deltas]] = {
    "reasoning_text": (
        {"reasoning_text": "I look", "reasoning_opaque": "opaque-a"},
        [{"reasoning_text": "I "}, {"reasoning_text": "look"}, {"reasoning_opaque": "opaque-a"}],
    ),
    "reasoning_opaque alone": ({"reasoning_opaque": "opaque-a"}, [{"content": "", "reasoning_opaque": "opaque-a"}]),
    "thinking_blocks": (
        {"thinking_blocks": [BLOCK, REDACTED]},
        [
            {"thinking_blocks": [{"type": "thinking", "thinking": "I ", "signature": ""}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "look"}]},
            {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "sig-b"}]},
            {"thinking_blocks": [REDACTED]},
        ],
    ),
    "thinking_blocks beside the text": (
        {"reasoning_content": "I look", "thinking_blocks": [BLOCK]},
        [
            {"reasoning_content": "I ", "thinking_blocks": [{"type": "thinking", "thinking": "I "}]},
            {"reasoning_content": "look", "thinking_blocks": [{"type": "thinking", "thinking": "look"}]},
            {"thinking_blocks": [BLOCK]},
        ],
    ),
    "thinking_blocks elsewhere": (
        {"thinking_blocks": [BLOCK]},
        [{"provider_specific_fields": {"thinking_blocks": [BLOCK]}}],
    ),
    "reasoning_items": ({"reasoning_items": [ITEM]}, [{"reasoning_items": [ITEM]}]),
    "thinking": ({"thinking": "I look"}, [{"thinking": "I "}, {"thinking": "look"}]),
    "content": (
        {"content": [THOUGHT, {"type": "text", "text": "Hm."}]},
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I "}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "look"}], "closed": True}]},
            {"content": "Hm."},
        ],
    ),
    "encrypted details": (
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "e", "id": "c1", "format": "google-gemini-v1"}]},
        [
            {
                "reasoning_details": [
                    {"type": "reasoning.encrypted", "data": "e", "id": "c1", "format": "google-gemini-v1"}
                ]
            }
        ],
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_item_3_reasoning_comes_home_as_it_was_spelled(client: str, mode: str, spelling: str) -> None:
    members, deltas = SPELLINGS[spelling]
    conversation = answered(
        client,
        mode,
        {"content": None, **members, "tool_calls": [call()]},
        [*deltas, {"tool_calls": [{"index": 0, **call()}]}],
    )
    assert conversation.messages()[1] == {"role": "assistant", "content": None, **members, "tool_calls": [call()]}
    assert lost(conversation) == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "spelling", [name for name in SPELLINGS if name not in ("reasoning_opaque alone", "encrypted details")]
)
def test_item_3_clients_read_the_text_once(mode: str, spelling: str) -> None:
    members, deltas = SPELLINGS[spelling]
    conversation = answered(
        A,
        mode,
        {"content": None, **members, "tool_calls": [call()]},
        [*deltas, {"tool_calls": [{"index": 0, **call()}]}],
    )
    thoughts = [
        block["thinking"] for block in objects(conversation.answers[0], "content") if block["type"] == "thinking"
    ]
    assert "".join(str(thought) for thought in thoughts) == "I look"


def test_item_3_other_parts_of_an_answer_are_not_lost_in_silence() -> None:
    conversation = Conversation(A)
    conversation.hears(
        {"content": [{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}]}, "stop"
    )
    assert lost(conversation) == [("dropped", "unsupported_content")]
    conversation = Conversation(A)
    conversation.streams(
        {"content": [{"type": "text", "text": "a"}, {"type": "reference", "reference_ids": [1]}]}, finish="stop"
    )
    assert lost(conversation) != []


def test_item_3_reasoning_in_a_list_is_read_and_goes_back_as_a_list() -> None:
    said: JsonList = [{"type": "text", "text": "I "}, {"type": "text", "text": "look"}]
    conversation = answered(A, "whole", {"content": None, "reasoning_content": said, "tool_calls": [call()]}, [])
    assert objects(conversation.answers[0], "content")[0]["thinking"] == "I look"
    assert conversation.messages()[1]["reasoning_content"] == said


def test_item_3_another_use_of_a_name_is_no_reasoning() -> None:
    conversation = answered(A, "whole", {"content": None, "thinking": {"type": "enabled"}, "tool_calls": [call()]}, [])
    assert [block["type"] for block in objects(conversation.answers[0], "content")] == ["tool_use"]
    assert lost(conversation) == [("dropped", "unknown_field")]


def test_item_3_a_signed_block_is_closed() -> None:
    blocks = Blocks()
    blocks.add({"type": "thinking", "thinking": "a", "signature": None})
    blocks.add(BLOCK)
    blocks.add({"type": "thinking", "thinking": "b"})
    assert blocks.merged() == [
        {"type": "thinking", "thinking": "aI look", "signature": "sig-b"},
        {"type": "thinking", "thinking": "b"},
    ]
