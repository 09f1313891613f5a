"""Thinking is configured as the model takes it, and comes back as it was said."""

from __future__ import annotations

import json

import pytest

from dragoman.mock.answers.signatures import MESSAGES
from dragoman.mock.strict.checks import record_response
from dragoman.mock.strict.common import Issued
from dragoman.mock.strict.thinking import merged, model_named
from dragoman.mock.turn import sign
from dragoman.wire.json import decode_object
from tests.mock.judging import judged
from tests.sdk.digging import Object

NONCE = "abcdefghijklmn"
MANUAL: Object = {"type": "enabled", "budget_tokens": 1024}


def asked(model: str, **more: object) -> Object:
    return {"model": model, "max_tokens": 4000, "messages": [{"role": "user", "content": "Go."}], **more}


@pytest.mark.parametrize(
    ("model", "takes", "refuses"),
    [
        ("claude-opus-5", "adaptive", "enabled"),
        ("claude-opus-5-5", "adaptive", "disabled"),
        ("claude-sonnet-5-5", "between_tools", "disabled"),
        ("claude-sonnet-4-6-20260101", "adaptive", "between_tools"),
        ("claude-sonnet-4-5", "disabled", "adaptive"),
        ("claude-3-7-sonnet", "disabled", "adaptive"),
        ("claude-of-tomorrow", "adaptive", "enabled"),
        ("llama-4", "disabled", "adaptive"),
        ("mock-text", "adaptive", "whatever"),
    ],
)
def test_each_family_has_its_ways_of_thinking(model: str, takes: str, refuses: str) -> None:
    assert judged(MESSAGES, asked(model, thinking={"type": takes})) == []
    found = judged(MESSAGES, asked(model, thinking={"type": refuses, "budget_tokens": 1024}))
    assert any("thinking.type" in reason for reason in found)


def test_families_differ_in_more_than_thinking() -> None:
    assert model_named("claude-opus-4-5").efforts == ("low", "medium", "high")
    assert not model_named("claude-opus-4-7").late_system and model_named("claude-opus-4-8").late_system
    assert model_named("eu.anthropic.claude-sonnet-4-20250514-v1:0").prefill


MANUALLY: list[tuple[str, Object]] = [
    ("at least 1024", {"thinking": {"type": "enabled", "budget_tokens": 1000}}),
    ("must be greater than", {"thinking": {"type": "enabled", "budget_tokens": 4000}}),
    ("may only be 1", {"thinking": MANUAL, "temperature": 0}),
    ("forced", {"thinking": MANUAL, "tool_choice": {"type": "any"}}),
    ("output_config.effort", {"output_config": {"effort": "low"}}),
    ("thinking.display", {"thinking": {"type": "disabled", "display": "omitted"}}),
]


@pytest.mark.parametrize(("words", "more"), MANUALLY, ids=[words for words, _ in MANUALLY])
def test_a_configuration_that_makes_no_sense_is_named(words: str, more: Object) -> None:
    found = judged(MESSAGES, asked("claude-sonnet-4-5", **more))
    assert any(words in reason for reason in found), found


def turn(text: str = "Hm.", signature: str | None = None) -> list[Object]:
    return [
        {"type": "thinking", "thinking": text, "signature": signature or sign("Hm.", NONCE)},
        {"type": "text", "text": "Wait."},
    ]


def after(blocks: list[Object], **more: object) -> Object:
    messages = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": blocks}]
    return asked("claude-sonnet-4-5", **more, messages=[*messages, {"role": "user", "content": "And?"}])


def remembered(text: str = "Hm.") -> Issued:
    issued = Issued()
    record_response(MESSAGES, decode_object(json.dumps({"content": turn(text, sign(text, NONCE))})), issued)
    return issued


def test_a_proof_is_good_with_and_without_memory() -> None:
    assert judged(MESSAGES, after(turn())) == []
    assert judged(MESSAGES, after(turn()), remembered()) == []


def test_a_changed_thought_is_noticed_with_and_without_memory() -> None:
    assert "Invalid `signature`" in judged(MESSAGES, after(turn("Hm!")))[0]
    assert "cannot be modified" in judged(MESSAGES, after(turn("Hm!")), remembered())[0]
    assert "cannot be modified" in judged(MESSAGES, after(turn()[::-1]), remembered())[0]
    assert "cannot be modified" in judged(MESSAGES, after(turn()[:1]), remembered())[0]
    assert "Invalid `data`" in judged(MESSAGES, after([{"type": "redacted_thinking", "data": "x"}]))[0]


def test_what_was_not_shown_is_not_looked_at() -> None:
    blocks = turn("anything", sign("", NONCE))
    assert judged(MESSAGES, after(blocks)) == []
    assert judged(MESSAGES, after(blocks), remembered("")) == []


def test_a_proof_stands_once_in_a_turn() -> None:
    assert any("is not unique" in reason for reason in judged(MESSAGES, after(turn() + turn())))


def test_a_tool_loop_keeps_its_thoughts_in_manual_mode() -> None:
    call: Object = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    result: Object = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    body = after([call], thinking=MANUAL)
    body["messages"] = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    assert any("must start with a thinking block" in reason for reason in judged(MESSAGES, body))


def test_messages_of_one_role_are_one_turn() -> None:
    turns = merged(
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "user", "content": [{"type": "text", "text": "b"}]},
                {"role": "system", "content": "c"},
                {"role": "assistant", "content": "d"},
            ]
        }
    )
    assert [(one.at, one.role, len(one.blocks)) for one in turns] == [(0, "user", 2), (3, "assistant", 1)]
