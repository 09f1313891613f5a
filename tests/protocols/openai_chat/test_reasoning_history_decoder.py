"""Reasoning in the history of a client of this protocol, in all its spellings."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Thinking
from dragoman.protocols.openai_chat import CODEC
from dragoman.translate import translate_request
from dragoman.wire.json import decode_object
from tests.protocols.holding import unheld
from tests.protocols.openai_chat.room import A, C, R, objects
from tests.protocols.openai_chat.second_turn import (
    BLOCK,
    ITEM,
    REDACTED,
    SIGNED,
    THOUGHT,
    call,
)

HISTORY: dict[str, JsonObject] = {
    "thinking_blocks": {"content": "x", "thinking_blocks": [BLOCK, REDACTED]},
    "thinking_blocks beside the text": {"content": "x", "reasoning_content": "I look", "thinking_blocks": [BLOCK]},
    "reasoning_items": {"content": "x", "reasoning_items": [ITEM]},
    "unsigned blocks": {"content": "x", "thinking_blocks": [{"type": "thinking", "thinking": "I look"}]},
    "opaque": {"content": "x", "reasoning_text": "I look", "reasoning_opaque": "o"},
    "Mistral": {"content": [THOUGHT, {"type": "text", "text": "x"}]},
    "blocks in content": {"content": [BLOCK, REDACTED, {"type": "text", "text": "x"}]},
    "proof of a call": {"content": "x", "tool_calls": [call(extra_content=SIGNED)]},
}


@pytest.mark.parametrize("name", HISTORY)
def test_item_3_a_chat_client_s_history_is_read_whole(name: str) -> None:
    message: JsonObject = {"role": "assistant", **HISTORY[name]}
    missing = unheld(message, CODEC.decode_request({"model": "m", "messages": [message]}))
    assert missing == []


@pytest.mark.parametrize(("more", "fields"), [({}, None), ({"mood": 1}, {"mood": 1})])
def test_unknown_members_of_reasoning_details_are_extras(more: JsonObject, fields: JsonObject | None) -> None:
    detail = {"type": "reasoning.text", "text": "r", "signature": "s", "format": "anthropic-claude-v1", **more}
    message: JsonObject = {"role": "assistant", "content": "x", "reasoning_details": [detail]}
    thinking = CODEC.decode_request({"model": "m", "messages": [message]}).messages[0].parts[0]
    assert isinstance(thinking, Thinking)
    assert (thinking.extras and thinking.extras.fields) == fields


@pytest.mark.parametrize("target", [A, R])
@pytest.mark.parametrize("name", HISTORY)
def test_item_3_what_a_chat_client_sends_is_restored_or_reported(name: str, target: str) -> None:
    messages: JsonList = [{"role": "user", "content": "hi"}, {"role": "assistant", **HISTORY[name]}]
    if name == "proof of a call":
        messages.append({"role": "tool", "tool_call_id": "c1", "content": "rain"})
    messages.append({"role": "user", "content": "more"})
    asked = translate_request({"model": "claude-opus-4-6", "messages": messages}, source=C, target=target)
    features = {loss["feature"] for loss in asked.losses if loss["fate"] == "dropped"}
    if target == A and "blocks" in name and name != "unsigned blocks":
        content = objects(decode_object(asked.body), "messages", 1, "content")
        signed = [block for block in content if block["type"] != "text"]
        assert signed == ([BLOCK, REDACTED] if "text" not in name else [BLOCK])
    elif target == R and name == "reasoning_items":
        assert ITEM in objects(decode_object(asked.body), "input")
    else:
        assert features & {"thinking", "thinking_signature"}


@pytest.mark.parametrize(
    "members",
    [
        {"thinking_blocks": [{"type": "tool_result", "tool_use_id": "t", "signature": "s"}]},
        {"reasoning_items": [{"type": "item_reference", "id": "rs_of_somebody_else", "encrypted_content": "e"}]},
        {"thinking_blocks": [{**BLOCK, "Type": "document"}]},
    ],
    ids=["another block", "a reference", "a block in disguise"],
)
@pytest.mark.parametrize("target", [A, R])
def test_item_3_what_is_no_reasoning_is_not_passed_on_as_such(members: JsonObject, target: str) -> None:
    messages: JsonList = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "x", **members},
        {"role": "user", "content": "more"},
    ]
    written = translate_request({"model": "claude-opus-4-6", "messages": messages}, source=C, target=target).body
    assert b"tool_result" not in written and b"item_reference" not in written and b"document" not in written


@pytest.mark.parametrize("target", [A, R])
@pytest.mark.parametrize(
    "members",
    [
        {"thinking_blocks": [{"type": "thinking", "thinking": "t", "signature": "s", "mood": 1}]},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "s", "mood": 1}]},
        {"reasoning_items": [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x", "mood": 1}]},
    ],
    ids=["thinking", "redacted", "item"],
)
def test_an_unknown_member_of_signed_reasoning_is_in_the_ledger(members: JsonObject, target: str) -> None:
    messages: JsonList = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello", **members},
        {"role": "user", "content": "Go on"},
    ]
    request = translate_request({"model": "m", "messages": messages}, source=C, target=target)
    assert b"mood" not in request.body
    # The member alone, or the reasoning with all of its members.
    lost = {line["at"] for line in request.losses}
    assert lost & {"messages[1].parts[0].extras.mood", "messages[1].parts[0]"}, request.losses
