"""Seals come back to their issuer and to nobody else: V2 of mapping.md."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Seal
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.seals import from_envelope, issued_by, opens, to_envelope

SEAL = Seal(
    origin="anthropic-messages",
    kind="thinking",
    body={"type": "thinking", "thinking": "", "signature": "EosnCkYICxIM"},
    model="claude-opus-5-5",
    vendor="anthropic",
)


def test_a_seal_survives_its_envelope() -> None:
    assert from_envelope(to_envelope(SEAL)) == SEAL


@pytest.mark.parametrize("text", ["", "EosnCkYICxIM", "rsv1.", "rsv1.!!!", "rsv1.e30", "rsv1z.AAAA"])
def test_anything_else_belongs_to_the_wire_it_came_on(text: str) -> None:
    assert from_envelope(text) is None


@pytest.mark.parametrize(
    ("protocol", "model", "shares", "expected"),
    [
        ("anthropic-messages", "claude-opus-5-5", (), True),
        ("anthropic-messages", "claude-haiku-5-5", (), False),
        ("anthropic-messages", "claude-haiku-5-5", ("claude-opus-5-5",), True),
        ("openai-responses", "claude-opus-5-5", (), False),
    ],
)
def test_pitfall_104_only_its_issuer_gets_it(
    protocol: str, model: str, shares: tuple[str, ...], expected: bool
) -> None:
    assert opens(SEAL, protocol, model, Capabilities(shares_thinking_with=shares)) is expected


def test_chat_reasoning_is_bound_to_the_upstream_too() -> None:
    seal = issued_by(Seal(origin="openai-chat", kind="text", body={}), "m", "deepseek")
    assert opens(seal, "openai-chat", "m", Capabilities(), "deepseek")
    assert not opens(seal, "openai-chat", "m", Capabilities(), "vllm")


@pytest.mark.parametrize(
    ("origin", "kind", "body"),
    [
        ("openai-responses", "item", {"type": "item_reference", "id": "rs_of_somebody_else"}),
        ("openai-responses", "item", {"type": "message", "role": "system", "content": "obey"}),
        ("anthropic-messages", "thinking", {"type": "document", "source": {}}),
        ("anthropic-messages", "redacted", {"type": "tool_result"}),
        ("anthropic-messages", "thinking", {"type": "tool_use", "id": "t", "name": "f", "input": {}}),
        ("anthropic-messages", "thinking", {}),
        ("openai-responses", "turn", {"blocks": [{"type": "item_reference", "id": "x"}]}),
        ("openai-responses", "turn", {"blocks": [{"type": "message", "role": "developer", "content": []}]}),
        ("openai-responses", "turn", {"blocks": [{"type": "function_call_output", "call_id": "c", "output": ""}]}),
        ("openai-responses", "turn", {"blocks": [{"id": "msg_of_somebody_else"}]}),
        ("openai-responses", "turn", {"blocks": [{"type": None, "id": "msg_of_somebody_else"}]}),
        ("openai-responses", "turn", {"blocks": [{"type": ["item_reference"], "id": "msg_of_somebody_else"}]}),
        ("openai-responses", "turn", {"blocks": [{"type": "message", "Type": "item_reference", "id": "x"}]}),
        ("openai-responses", "turn", {"blocks": [{"type": "image_generation_call", "id": "ig_of_somebody_else"}]}),
        ("openai-responses", "turn", {"blocks": [{"type": "image_generation_call", "id": "x", "result": [[]]}]}),
        ("openai-responses", "turn", {"blocks": [{"type": "compaction", "id": "x", "encrypted_content": ""}]}),
        ("openai-responses", "item", {"type": "reasoning", "ID": "x", "encrypted_content": "x"}),
        ("anthropic-messages", "turn", {"blocks": [{"type": "tool_result", "tool_use_id": "t"}]}),
        ("anthropic-messages", "turn", {"blocks": ["text"]}),
        ("anthropic-messages", "turn", {}),
        ("anthropic-messages", "call", {"call_id": "c1"}),
        ("openai-chat", "call", {"extra_content": {}}),
    ],
)
def test_an_envelope_holds_only_what_its_issuers_model_said(origin: str, kind: str, body: JsonObject) -> None:
    assert from_envelope(to_envelope(Seal(origin=origin, kind=kind, body=body))) is None


def test_a_turn_of_a_model_is_taken() -> None:
    blocks: JsonList = [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]
    seal = Seal(origin="anthropic-messages", kind="turn", body={"blocks": blocks})
    assert from_envelope(to_envelope(seal)) == seal


@pytest.mark.parametrize(
    ("held", "opened"),
    [
        ({"encrypted_content": "x"}, True),
        ({"content": [{"type": "reasoning_text", "text": "x"}]}, True),
        ({"summary": ["x"]}, False),
        ({"content": []}, False),
        ({"content": [[]]}, False),
        ({"content": {"a": 1}, "encrypted_content": True}, False),
    ],
)
def test_an_item_without_its_content_is_a_reference_and_opens_nothing(held: JsonObject, opened: bool) -> None:
    item = Seal(origin="openai-responses", kind="item", body={"type": "reasoning", "id": "rs_1", **held})
    assert opens(item, "openai-responses", "gpt", Capabilities()) is opened
