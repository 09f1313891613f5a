"""Seals: reasoning and state that come back to their issuer through a client of any protocol (mapping.md §11)."""

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
    """Pack a seal into the one opaque string that a foreign client carries for us."""
    return seal(
        Envelope(
            origin=LETTERS[content.origin],
            model=content.model or "",
            upstream=content.upstream or "",
            kind=content.kind,
            data=content.body,
        )
    )


def from_envelope(text: str) -> Seal | None:
    """Unpack what `to_envelope` packed; None for anything else, which then belongs to the wire it came on."""
    if not is_envelope(text):
        return None
    found = unseal(text)
    if found is None or found.origin not in _ORIGINS or not _is_what_it_says(found):
        return None
    return Seal(
        origin=_ORIGINS[found.origin],
        kind=found.kind,
        body=found.data,
        model=found.model or None,
        upstream=found.upstream or None,
    )


# The wire types that a seal of a kind can hold. An envelope is not signed: without this a client could smuggle any item
# of the provider's protocol, such as a reference to somebody else's stored one, past whoever reads its own dialect.
_TYPES: dict[tuple[str, str], frozenset[str]] = {
    ("a", "thinking"): frozenset({"thinking"}),
    ("a", "redacted"): frozenset({"redacted_thinking"}),
    ("r", "item"): frozenset({"reasoning"}),
    ("a", "compaction"): frozenset({"compaction"}),
    ("r", "compaction"): frozenset({"compaction"}),
}
# What stands only on the user's side, steers the conversation, or refers to state.
_NOT_SAID_BY_A_MODEL = frozenset(
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


def _is_what_it_says(found: Envelope) -> bool:
    """Whether the content of an envelope is of its kind: what that issuer's model said, and nothing else."""
    if found.kind == "turn":
        blocks = found.data.get("blocks")
        return isinstance(blocks, list) and all(_said_by_a_model(block) for block in blocks)
    if found.kind == "compaction" and "type" not in found.data:
        # A summary of ours (K1).
        return True
    if found.kind == "call":
        # What hangs on a call of Chat; the members of it that are written are named there.
        return found.origin == "c" and isinstance(found.data.get("call_id"), str)
    allowed = _TYPES.get((found.origin, found.kind))
    return allowed is None or (found.data.get("type") in allowed and not _hides(found.data))


# What tells what a block is.
_TELLING = frozenset({"id", "type", "role"})
# What a block holds that its provider looks up by the id if it is missing; reasoning opens by itself, or not at all.
_HELD = {"image_generation_call": "result", "compaction": "encrypted_content"}


def _said_by_a_model(block: JsonValue) -> bool:
    if not isinstance(block, dict) or _hides(block):
        return False
    kind = block.get("type")
    # Without a type it would be a reference.
    if not isinstance(kind, str) or kind in _NOT_SAID_BY_A_MODEL or kind.endswith("_call_output"):
        return False
    if kind in _HELD and "id" in block and not _holds(block.get(_HELD[kind])):
        return False
    return block.get("role", "assistant") == "assistant"


def _hides(block: JsonObject) -> bool:
    """Whether readers that take no notice of case would take a block for another."""
    return any(folded(name) in _TELLING for name in block.keys() - _TELLING)


def _holds(value: JsonValue) -> bool:
    """Whether a member holds anything; of another form than text or objects it may be taken for missing."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, dict) for one in value)
    return isinstance(value, str) and value != ""


def opens(content: Seal, protocol: str, model: str, abilities: Capabilities, upstream: str | None = None) -> bool:
    """Whether a provider can open a seal: its own protocol, and its own model or one that shares with it (V2).

    Chat reasoning is bound to the upstream that emitted it as well (V7): pass `upstream` there.
    """
    if content.origin != protocol or _is_reference(content):
        return False
    if upstream is not None and content.upstream is not None and content.upstream != upstream:
        return False
    return content.model is None or content.model == model or content.model in abilities.shares_thinking_with


def _is_reference(content: Seal) -> bool:
    """Whether a seal holds no more than the id of an item that its provider keeps, perhaps for somebody else.

    An envelope is not signed, and who may read what is kept is told by those who made it.
    """
    item = content.body
    return content.kind == "item" and not _holds(item.get("encrypted_content")) and not _holds(item.get("content"))


def issued_by(content: Seal, model: str, upstream: str) -> Seal:
    """The seal with its issuer written on it."""
    return replace(content, model=model, upstream=upstream)
