"""Seals: signatures and state that return to their issuer through a client of any protocol (mapping.md §11)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Seal
from dragoman.rules.capabilities import Capabilities
from dragoman.rules.envelope import Envelope, is_envelope, seal, unseal
from dragoman.wire.duplicate_keys import folded

LETTERS = {"anthropic-messages": "a", "openai-chat": "c", "openai-responses": "r"}
_ORIGINS = {letter: name for name, letter in LETTERS.items()}


def to_envelope(content: Seal) -> str:
    """Pack a seal into the one opaque string that a foreign client returns."""
    return seal(
        Envelope(
            origin=LETTERS[content.origin],
            model=content.model or "",
            vendor=content.vendor or "",
            kind=content.kind,
            data=content.body,
        )
    )


def from_envelope(text: str) -> Seal | None:
    """Unpack an envelope. None for any other text, which belongs to its own protocol."""
    if not is_envelope(text):
        return None
    envelope = unseal(text)
    if envelope is None or envelope.origin not in _ORIGINS or not _has_valid_content(envelope):
        return None
    return Seal(
        origin=_ORIGINS[envelope.origin],
        kind=envelope.kind,
        body=envelope.data,
        model=envelope.model or None,
        vendor=envelope.vendor or None,
    )


# The wire types that a seal of each kind may hold. An envelope is not signed: without this check a client could smuggle
# in other items, such as a reference to a foreign stored one.
_TYPES: dict[tuple[str, str], frozenset[str]] = {
    ("a", "thinking"): frozenset({"thinking"}),
    ("a", "redacted"): frozenset({"redacted_thinking"}),
    ("r", "item"): frozenset({"reasoning"}),
    ("a", "compaction"): frozenset({"compaction"}),
    ("r", "compaction"): frozenset({"compaction"}),
}
# Items of the user's side, steering items, and references to state.
_NOT_MODEL_OUTPUT = frozenset(
    {
        "tool_result",
        "image",
        "document",
        "search_result",
        "container_upload",
        "tool_addition",
        "tool_removal",
        "item_reference",
        "additional_tools",
        "configuration_update",
        "compaction_trigger",
        "mcp_approval_response",
    }
)


def _has_valid_content(envelope: Envelope) -> bool:
    """Whether an envelope contains only output of its issuer's model."""
    if envelope.kind == "turn":
        blocks = envelope.data.get("blocks")
        return isinstance(blocks, list) and all(_is_model_output(block) for block in blocks)
    if envelope.kind == "compaction" and "type" not in envelope.data:
        # A summary written by the model for the gateway (K1).
        return True
    if envelope.kind == "call":
        # Additions to a call of Chat. Only the members listed there are sent.
        return envelope.origin == "c" and isinstance(envelope.data.get("call_id"), str)
    allowed = _TYPES.get((envelope.origin, envelope.kind))
    return allowed is None or (envelope.data.get("type") in allowed and not _hides(envelope.data))


_IDENTIFYING = frozenset({"id", "type", "role"})
# Members that the provider looks up by ID if they are missing. Reasoning has none.
_HELD = {"image_generation_call": "result", "compaction": "encrypted_content"}


def _is_model_output(block: JsonValue) -> bool:
    if not isinstance(block, dict) or _hides(block):
        return False
    kind = block.get("type")
    # Without a type it would be a reference.
    if not isinstance(kind, str) or kind in _NOT_MODEL_OUTPUT or kind.endswith("_call_output"):
        return False
    if kind in _HELD and "id" in block and not _holds(block.get(_HELD[kind])):
        return False
    return block.get("role", "assistant") == "assistant"


def _hides(block: JsonObject) -> bool:
    """Whether case-insensitive readers would take a block for another."""
    return any(folded(name) in _IDENTIFYING for name in block.keys() - _IDENTIFYING)


def _holds(value: JsonValue) -> bool:
    """Whether a member has content. Forms other than text or objects may count as missing."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) for one in value)
    return isinstance(value, str) and value != ""


def opens(content: Seal, protocol: str, model: str, capabilities: Capabilities, vendor: str | None = None) -> bool:
    """Whether a provider can read a seal: its own protocol, and its own model or one that shares reasoning (V2). Chat
    reasoning is bound to its vendor as well (V7): pass `vendor` for it."""
    if content.origin != protocol or _is_reference(content):
        return False
    if vendor is not None and content.vendor is not None and content.vendor != vendor:
        return False
    return content.model is None or content.model == model or content.model in capabilities.shares_thinking_with


def _is_reference(content: Seal) -> bool:
    """Whether a seal holds only the ID of a stored item. An envelope is unsigned, so the item may be another
    client's."""
    item = content.body
    return content.kind == "item" and not _holds(item.get("encrypted_content")) and not _holds(item.get("content"))


def issued_by(content: Seal, model: str, vendor: str) -> Seal:
    return replace(content, model=model, vendor=vendor)
