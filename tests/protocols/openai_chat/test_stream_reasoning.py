"""Reasoning of a stream: told once, whatever members repeat it, and sealed in the form it came in."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_chat.stream_reasoning import ThinkingRun
from tests.protocols.openai_chat.room import target


def taken(*deltas: JsonObject) -> tuple[list[str], JsonObject]:
    run = ThinkingRun()
    told: list[str] = []
    for delta in deltas:
        text = run.take(delta)
        told.append(text)
        if text:
            run.pieces.append(text)
    return told, run.seal(target()).body


def test_text_in_two_members_is_told_once() -> None:
    told, body = taken({"reasoning": "a", "reasoning_content": "a"})
    assert told == ["a"]
    assert body == {"field": "reasoning_content", "text": "a", "also": "reasoning"}


def test_text_repeated_signed_at_the_end_is_not_told_again() -> None:
    signed: JsonObject = {"type": "reasoning.text", "text": "a b", "signature": "s", "index": 0}
    told, body = taken({"reasoning": "a"}, {"reasoning": " b"}, {"reasoning_details": [signed]})
    assert told == ["a", " b", ""]
    assert body == {"field": "reasoning", "text": "a b", "details": [signed]}


def test_text_repeated_unsigned_after_several_pieces_is_not_told_again() -> None:
    detail: JsonObject = {"type": "reasoning.text", "text": "a b", "index": 0}
    told, _ = taken({"reasoning": "a"}, {"reasoning": " b"}, {"reasoning_details": [detail]})
    assert told == ["a", " b", ""]


def test_details_alone_are_told() -> None:
    told, body = taken({"reasoning_details": [{"type": "reasoning.summary", "summary": "so", "index": 0}]})
    assert told == ["so"]
    assert body["field"] == "reasoning_details"


@pytest.mark.parametrize("delta", [{"reasoning": 7}, {"reasoning_content": {"a": 1}}, {"reasoning_details": "a"}])
def test_a_wrong_type_is_an_error(delta: JsonObject) -> None:
    with pytest.raises(WireError):
        ThinkingRun().take(delta)
