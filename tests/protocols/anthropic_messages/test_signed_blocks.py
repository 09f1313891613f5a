"""Thinking and compaction: proofs stay whole, and come back to who issued them."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import (
    Compaction,
    Seal,
    Thinking,
    ThinkingKind,
)
from dragoman.protocols.anthropic_messages import NAME
from dragoman.protocols.anthropic_messages.parts import decode_block, encode_block
from dragoman.protocols.anthropic_messages.signed_blocks import decode_thinking, encode_compaction, plain_thinking
from dragoman.rules.seals import to_envelope
from dragoman.wire.fields import Fields
from tests.protocols.anthropic_messages.support import block

ITEM = Seal(
    origin="openai-responses", kind="item", body={"id": "rs_1", "type": "reasoning"}, model="g", vendor="openai"
)


def test_a_signed_block_is_sealed_whole() -> None:
    given = block(type="thinking", thinking="", signature="s")
    assert decode_block(given) == Thinking(
        text="", kind=ThinkingKind.SUMMARY, seal=Seal(origin=NAME, kind="thinking", body=given.value)
    )


def test_an_unsigned_block_has_no_seal() -> None:
    part = decode_block(block(type="thinking", thinking="t", signature=""))
    assert isinstance(part, Thinking)
    assert part.seal is None


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking"])
def test_an_envelope_gives_back_the_seal_of_its_issuer(kind: str) -> None:
    part = decode_block(block(type=kind, thinking="t", signature=to_envelope(ITEM), data=to_envelope(ITEM)))
    assert isinstance(part, Thinking)
    assert part.seal == ITEM


def test_a_compaction_of_another_issuer_is_opened() -> None:
    seal = Seal(origin="openai-chat", kind="compaction", body={"summary": "so far"})
    part = decode_block(block(type="compaction", content="[compacted]", signature=to_envelope(seal)))
    assert part == Compaction(summary="so far", seal=seal)


def test_a_foreign_seal_goes_home_in_its_envelope() -> None:
    assert encode_block(Thinking(text="t", seal=ITEM)) == {
        "type": "thinking",
        "thinking": "t",
        "signature": to_envelope(ITEM),
    }


def test_pitfall_105_a_signed_block_is_copied_to_the_letter() -> None:
    given = block(type="thinking", thinking=" t\u0301 ", signature="s==", index=0)
    assert encode_block(decode_block(given)) == given.value


def test_a_signed_block_takes_the_short_way_only_with_a_signature() -> None:
    signed: JsonObject = {"type": "thinking", "thinking": "t", "signature": "s"}
    assert plain_thinking(signed) == decode_thinking(Fields(signed))
    assert plain_thinking({**signed, "signature": ""}) is None
    assert plain_thinking({**signed, "thinking": None}) is None


def test_a_compaction_that_others_issued_is_carried_in_its_signature() -> None:
    seal = Seal(origin="openai-responses", kind="compaction", body={"id": "cmp_1"})
    written = encode_compaction(Compaction(summary=None, seal=seal))
    assert written == {"type": "compaction", "content": "[compacted]", "signature": to_envelope(seal)}
