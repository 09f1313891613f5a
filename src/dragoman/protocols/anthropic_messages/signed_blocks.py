"""Blocks with their issuer's signature, thinking and compaction, decoded and encoded (mapping.md §11). A signature must
return byte for byte, so the seal holds the full block. Another issuer's signature is in an envelope."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Compaction, Seal, Thinking, ThinkingKind
from dragoman.protocols.anthropic_messages.shapes import COMPACTED, NAME
from dragoman.rules.seals import from_envelope, to_envelope
from dragoman.wire.fields import Fields


def decode_thinking(block: Fields) -> Thinking:
    """Readable thinking. Its seal is the full block."""
    text = block.text("thinking")
    signature = block.value.get("signature")
    if signature is not None and type(signature) is not str:
        raise block.fail("signature", "string", signature)
    if not signature:
        # No provider can read it. The text in place of the signature returns unchanged.
        return Thinking(text=text, kind=ThinkingKind.SUMMARY, extras=block.rest(NAME))
    seal = from_envelope(signature) or Seal(origin=NAME, kind="thinking", body=block.value)
    return Thinking(text=text, kind=ThinkingKind.SUMMARY, seal=seal)


def plain_thinking(block: JsonObject) -> Thinking | None:
    """A signed block with exactly three members, as nearly all are; None leaves it to the full reader."""
    text, signature = block.get("thinking"), block.get("signature")
    if len(block) != 3 or type(text) is not str or type(signature) is not str or not signature:
        return None
    seal = from_envelope(signature) or Seal(origin=NAME, kind="thinking", body=block)
    return Thinking(text=text, kind=ThinkingKind.SUMMARY, seal=seal)


def decode_redacted(block: Fields) -> Thinking:
    seal = from_envelope(block.text("data")) or Seal(origin=NAME, kind="redacted", body=block.value)
    return Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal)


def decode_compaction(block: Fields) -> Compaction:
    content = block.optional_text("content")
    block.optional_text("encrypted_content")
    seal = from_envelope(block.optional_text("signature") or "")
    if seal is None:
        return Compaction(summary=content, seal=Seal(origin=NAME, kind="compaction", body=block.value))
    summary = seal.body.get("summary")
    if not isinstance(summary, str):
        summary = None if content == COMPACTED else content
    return Compaction(summary=summary, seal=seal)


def encode_thinking(part: Thinking) -> JsonObject:
    """A thinking block: the issuer's own, or one with another issuer's signature."""
    seal = part.seal
    if seal is None:
        return {"type": "thinking", "thinking": part.text}
    if seal.origin == NAME:
        return dict(seal.body)
    return {"type": "thinking", "thinking": part.text, "signature": to_envelope(seal)}


def encode_compaction(part: Compaction) -> JsonObject:
    """A compaction block: the issuer's own, or one with an envelope (V9)."""
    if part.seal is not None and part.seal.origin == NAME:
        return dict(part.seal.body)
    block: JsonObject = {"type": "compaction", "content": part.summary or COMPACTED}
    if part.seal is not None:
        block["signature"] = to_envelope(part.seal)
    return block
