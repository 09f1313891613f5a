"""Turns without the reasoning that a provider demands."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.protocols.openai_chat.missing_reasoning import repair_reasoning
from dragoman.rules.capabilities import Capabilities

HEAD = b'{ "model":"m", "messages":[{"role":"user","content":"assistant"}, '
TAIL = b' , {"role":"tool","tool_call_id":"c","content":"4"} ]%b}'
CALL = b'{"role":"assistant","content":null, "tool_calls":[{"id":"c","n":1.0}]%b}'


def settled(body: bytes, ledger: Ledger) -> bytes:
    return repair_reasoning(body, Capabilities(), ledger, demanded=True)


def told(ledger: Ledger) -> list[tuple[str, str, str]]:
    return [(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses]


def test_item_5_reasoning_that_is_not_to_be_had_is_empty() -> None:
    ledger = Ledger()
    body = HEAD + CALL % b"" + b"," + CALL % b',"reasoning_content":"hm"' + b"," + CALL % b',"reasoning_content":null'
    expected = CALL % b',"reasoning_content":""'
    assert settled(body + TAIL % b"", ledger) == (
        HEAD + expected + b"," + CALL % b',"reasoning_content":"hm"' + b"," + expected + TAIL % b""
    )
    assert told(ledger) == [("invented", "thinking", f"messages[{number}]") for number in (1, 3)]


@pytest.mark.parametrize("said", [b"", b',"thinking":{"type":"enabled"}'])
def test_item_5_where_that_is_not_taken_thinking_is_off(said: bytes) -> None:
    ledger = Ledger()
    body = HEAD + CALL % b',"reasoning_content":""' + TAIL
    off = b',"thinking":{"type":"disabled"}'
    assert settled(body % said, ledger) == body % off
    assert told(ledger) == [("approximated", "thinking", "reasoning")]
    assert settled(body % off, Ledger()) == body % off


def test_what_nobody_demanded_keeps_every_byte() -> None:
    body = HEAD + CALL % b"" + TAIL % b""
    assert repair_reasoning(body, Capabilities(), Ledger(), demanded=False) is body
