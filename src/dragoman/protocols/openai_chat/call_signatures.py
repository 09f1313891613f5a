"""Call signatures: members that a server adds to a call or message and requires back with it (mapping.md §11, V12).

extra_content             Gemini: https://ai.google.dev/gemini-api/docs/thought-signatures provider_specific_fields
LiteLLM, on the call or on its function: https://docs.litellm.ai/blog/gemini_3 thought_signature         proxies that
put Gemini's signature on the call itself"""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Part, Seal, Thinking, ThinkingKind
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.shapes import BESIDE, NAME
from dragoman.rules import ids

EXTRA_CONTENT = "extra_content"
CALL_SIGNATURE_MEMBERS = (EXTRA_CONTENT, BESIDE, "thought_signature")
_NAMES = frozenset(CALL_SIGNATURE_MEMBERS)
_SIGNATURES = frozenset({"thought_signature", "thought_signatures"})
_RULES = (ids.ANTHROPIC, ids.CHAT, ids.RESPONSES)


def call_signature(call: JsonObject) -> JsonObject:
    """The signature members of a call; those of its function under `function`."""
    members: JsonObject = {key: call[key] for key in CALL_SIGNATURE_MEMBERS if key in call and _is_filled(call[key])}
    inner = call.get("function")
    if isinstance(inner, dict) and not _NAMES.isdisjoint(inner):
        nested: JsonObject = {key: inner[key] for key in CALL_SIGNATURE_MEMBERS if _is_filled(inner.get(key))}
        if nested:
            members["function"] = nested
    return members


def message_signature(message: JsonObject) -> JsonObject:
    """The signature members of a message or a delta."""
    if _NAMES.isdisjoint(message):
        return {}
    return {key: _unmarked(message[key]) for key in CALL_SIGNATURE_MEMBERS[:2] if _signed(message.get(key))}


def is_thought(message: JsonObject) -> bool:
    """Whether text is marked as reasoning, or begins with it: https://ai.google.dev/gemini-api/docs/openai"""
    content = message.get(EXTRA_CONTENT)
    google = content.get("google") if isinstance(content, dict) else None
    return isinstance(google, dict) and google.get(_THOUGHT_FLAG) is True


_THOUGHT_FLAG = "thought"


def _unmarked(content: JsonValue) -> JsonValue:
    """The signature of a text, without the mark of the reasoning before it."""
    if not isinstance(content, dict):
        return content
    return {
        key: {name: one for name, one in value.items() if name != _THOUGHT_FLAG} if isinstance(value, dict) else value
        for key, value in content.items()
    }


def _is_filled(value: JsonValue) -> bool:
    return isinstance(value, dict | str) and bool(value)


def _signed(value: JsonValue) -> bool:
    """Whether an object contains a signature, on its own level or on the next."""
    if not isinstance(value, dict):
        return False
    inner = [one for one in value.values() if isinstance(one, dict)]
    return any(bool(one.get(key)) for one in (value, *inner) for key in _SIGNATURES)


def without_signature(call: JsonObject, signature: JsonObject) -> JsonObject:
    rest: JsonObject = {key: value for key, value in call.items() if key not in signature or key == "function"}
    inner, nested = call.get("function"), signature.get("function")
    if isinstance(inner, dict) and isinstance(nested, dict):
        rest["function"] = {key: value for key, value in inner.items() if key not in nested}
    return rest


def signature_part(call_id: str, signature: JsonObject, target: TargetModel) -> Thinking:
    """The part that carries a signature through a client. An empty ID means the message itself."""
    body: JsonObject = {"call_id": call_id, **signature}
    seal = Seal(origin=NAME, kind="call", body=body, model=target.model, vendor=target.vendor)
    return Thinking(text="", kind=ThinkingKind.WITHHELD, seal=seal)


def is_call_signature(part: Part) -> bool:
    return (
        isinstance(part, Thinking) and part.seal is not None and part.seal.kind == "call" and part.seal.origin == NAME
    )


def spellings(signed_id: str) -> set[str]:
    """The ID of a signed call, and the IDs by which clients may know it."""
    return {signed_id, *(ids.call_id(signed_id, rule) for rule in _RULES)}


def attach_signature(seal: Seal, owner: JsonObject) -> None:
    """Attach a signature to its call or message. An envelope is not signed, so only known members are sent."""
    body = seal.body
    for key in CALL_SIGNATURE_MEMBERS:
        if _is_filled(body.get(key)):
            owner[key] = body[key]
    inner, nested = owner.get("function"), body.get("function")
    if isinstance(inner, dict) and isinstance(nested, dict):
        inner.update({key: nested[key] for key in CALL_SIGNATURE_MEMBERS if _is_filled(nested.get(key))})


def stand_in(value: str, call: JsonObject) -> None:
    """Attach the documented placeholder to a call that the server did not make itself."""
    call[EXTRA_CONTENT] = {"google": {"thought_signature": value}}
