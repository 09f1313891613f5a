"""Proofs of calls: what a server hangs on a call, or on a message, and wants back with it (mapping.md §11, V12).

extra_content             Gemini: https://ai.google.dev/gemini-api/docs/thought-signatures
provider_specific_fields  LiteLLM, on the call or on its function: https://docs.litellm.ai/blog/gemini_3
thought_signature         proxies that put Gemini's signature on the call itself
"""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Part, Seal, Thinking, ThinkingKind
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.shapes import BESIDE, NAME
from dragoman.rules import ids

EXTRA_CONTENT = "extra_content"
PROVEN = (EXTRA_CONTENT, BESIDE, "thought_signature")
_NAMES = frozenset(PROVEN)
_SIGNATURES = frozenset({"thought_signature", "thought_signatures"})
_RULES = (ids.ANTHROPIC, ids.CHAT, ids.RESPONSES)


def call_proof(call: JsonObject) -> JsonObject:
    """The members of a call that prove it; those of its function under `function`."""
    found: JsonObject = {key: call[key] for key in PROVEN if key in call and _says(call[key])}
    inner = call.get("function")
    if isinstance(inner, dict) and not _NAMES.isdisjoint(inner):
        nested: JsonObject = {key: inner[key] for key in PROVEN if _says(inner.get(key))}
        if nested:
            found["function"] = nested
    return found


def message_proof(message: JsonObject) -> JsonObject:
    """The members of a message or a delta that prove its text: those with a signature in them."""
    if _NAMES.isdisjoint(message):
        return {}
    return {key: _unmarked(message[key]) for key in PROVEN[:2] if _signed(message.get(key))}


def is_thought(message: JsonObject) -> bool:
    """Whether the text of a message or a delta is marked as reasoning, or begins with it.

    https://ai.google.dev/gemini-api/docs/openai
    """
    content = message.get(EXTRA_CONTENT)
    google = content.get("google") if isinstance(content, dict) else None
    return isinstance(google, dict) and google.get(_MARK) is True


_MARK = "thought"


def _unmarked(content: JsonValue) -> JsonValue:
    """What proves a text, without the mark of the reasoning that stood before it."""
    if not isinstance(content, dict):
        return content
    return {
        key: {name: one for name, one in value.items() if name != _MARK} if isinstance(value, dict) else value
        for key, value in content.items()
    }


def _says(value: JsonValue) -> bool:
    return isinstance(value, dict | str) and bool(value)


def _signed(value: JsonValue) -> bool:
    """Whether there is a signature in an object, on its own level or on the next."""
    if not isinstance(value, dict):
        return False
    inner = [one for one in value.values() if isinstance(one, dict)]
    return any(bool(one.get(key)) for one in (value, *inner) for key in _SIGNATURES)


def without_proof(call: JsonObject, proof: JsonObject) -> JsonObject:
    """A call without what proves it."""
    rest: JsonObject = {key: value for key, value in call.items() if key not in proof or key == "function"}
    inner, nested = call.get("function"), proof.get("function")
    if isinstance(inner, dict) and isinstance(nested, dict):
        rest["function"] = {key: value for key, value in inner.items() if key not in nested}
    return rest


def proof_part(call_id: str, proof: JsonObject, target: TargetModel) -> Thinking:
    """The part that carries a proof through a client; an empty id means the message itself."""
    body: JsonObject = {"call_id": call_id, **proof}
    seal = Seal(origin=NAME, kind="call", body=body, model=target.model, upstream=target.upstream)
    return Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal)


def is_proof(part: Part) -> bool:
    """Whether a part is the proof of a call of this protocol."""
    return (
        isinstance(part, Thinking) and part.seal is not None and part.seal.kind == "call" and part.seal.origin == NAME
    )


def spellings(proven: str) -> set[str]:
    """The id of a call that was proven, and those that clients may know it by."""
    return {proven, *(ids.call_id(proven, rule) for rule in _RULES)}


def hang(seal: Seal, owner: JsonObject) -> None:
    """Put a proof back on its call or message; an envelope is not signed, and nothing else of it is written."""
    body = seal.body
    for key in PROVEN:
        if _says(body.get(key)):
            owner[key] = body[key]
    inner, nested = owner.get("function"), body.get("function")
    if isinstance(inner, dict) and isinstance(nested, dict):
        inner.update({key: nested[key] for key in PROVEN if _says(nested.get(key))})


def stand_in(value: str, call: JsonObject) -> None:
    """Write the value that a server documents for a call which it did not make itself."""
    call[EXTRA_CONTENT] = {"google": {"thought_signature": value}}
