"""Reasoning that clients send back: every format, under the seal of its issuer."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Part, Seal, Text, Thinking
from dragoman.model.request import Message
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.reasoning import encode_details, indexed, turn_entry
from dragoman.protocols.openai_chat.reasoning_details import repeats
from dragoman.rules.seals import to_envelope
from tests.protocols.openai_chat.room import A, C, R


def echoed(**members: JsonValue) -> Message:
    message: JsonObject = {"role": "assistant", "content": "x", **members}
    return CODEC.decode_request({"model": "m", "messages": [message]}).messages[0]


def seals(parts: tuple[Part, ...]) -> list[Seal | None]:
    return [part.seal for part in parts if isinstance(part, Thinking)]


THINKING = Seal(origin=A, kind="thinking", body={"type": "thinking", "thinking": "t", "signature": "s"}, model="claude")
REDACTED = Seal(origin=A, kind="redacted", body={"type": "redacted_thinking", "data": "d"}, model="claude")
ITEM = Seal(
    origin=R,
    kind="item",
    body={
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        "encrypted_content": "e",
    },
    model="gpt",
)
WHOLE = Seal(
    origin=R,
    kind="item",
    body={"id": "rs_2", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
    model="gpt",
    vendor="openai",
)


@pytest.mark.parametrize("seal", [THINKING, REDACTED, ITEM, WHOLE], ids=["thinking", "redacted", "item", "whole item"])
def test_a_proof_survives_the_round_trip_through_a_client(seal: Seal) -> None:
    entries = indexed(encode_details(Thinking(text="t", seal=seal)))
    assert [entry["index"] for entry in entries] == list(range(len(entries)))
    parts = echoed(reasoning_details=list[JsonValue](entries)).parts
    assert seals(parts) == [seal]


def test_several_proofs_keep_their_order_and_equal_text_counts_once() -> None:
    entries = indexed(
        entry for seal in (THINKING, ITEM, REDACTED) for entry in encode_details(Thinking(text="", seal=seal))
    )
    parts = echoed(reasoning_content="t\n\na\n\nb", reasoning_details=list[JsonValue](entries)).parts
    assert seals(parts) == [THINKING, ITEM, REDACTED]
    assert [part.text for part in parts if isinstance(part, Thinking)] == ["t", "a\n\nb", ""]
    assert parts[-1] == Text(text="x")


def test_text_beside_proofs_that_do_not_say_it_is_kept() -> None:
    entries = indexed(encode_details(Thinking(text="", seal=REDACTED)))
    plain, redacted = seals(echoed(reasoning="why", reasoning_details=list[JsonValue](entries)).parts)
    assert plain is not None and plain.body == {"field": "reasoning", "text": "why"}
    assert redacted == REDACTED


def test_unsigned_text_is_sealed_as_this_protocols_own() -> None:
    (seal,) = seals(echoed(reasoning_content="why").parts)
    assert seal == Seal(origin=C, kind="text", body={"field": "reasoning_content", "text": "why"})


def test_details_of_unknown_format_stay_together() -> None:
    entry: JsonObject = {"index": 0, "type": "reasoning.encrypted", "data": "d", "format": "google-gemini-v1"}
    (seal,) = seals(echoed(reasoning_details=[entry]).parts)
    assert seal is not None and seal.body == {"field": "reasoning_details", "text": "", "details": [entry]}


def test_a_sealed_turn_is_no_reasoning() -> None:
    turn = Seal(origin=A, kind="turn", body={"blocks": [{"type": "text", "text": "x"}]}, model="claude")
    message = echoed(reasoning_details=[{"index": 0, **turn_entry(turn)}])
    assert message.turn == turn
    assert message.parts == (Text(text="x"),)


def test_an_envelope_under_any_format_is_opened() -> None:
    entry: JsonObject = {"type": "reasoning.encrypted", "data": to_envelope(THINKING), "format": "whatever"}
    assert seals(echoed(reasoning_details=[entry]).parts) == [THINKING]


def test_an_unknown_model_is_left_out_of_the_details() -> None:
    body: JsonObject = {"type": "thinking", "thinking": "a", "signature": "s"}
    seal = Seal(origin="anthropic-messages", kind="thinking", body=body, model="")
    assert "model" not in encode_details(Thinking(text="a", seal=seal))[0]


@pytest.mark.parametrize(
    ("text", "other", "same"), [("a b", "a b", True), ("a b", "a\n\nb", True), ("a b", "a", False)]
)
def test_texts_are_the_same_but_for_white_space(text: str, other: str, same: bool) -> None:
    assert repeats(text, other) is same
