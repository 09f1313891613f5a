"""Evidence: what is looked for in requests that reached the provider."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject, JsonValue


def entries(body: JsonObject) -> list[JsonObject]:
    """Messages, or items of a Responses request."""
    found = body.get("messages", body.get("input"))
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict)]


def proofs(value: JsonValue) -> list[str]:
    """Every signature, encrypted reasoning and text of reasoning in a body, in order."""
    if isinstance(value, list):
        return [proof for one in value for proof in proofs(one)]
    if not isinstance(value, dict):
        return []
    names = ("signature", "encrypted_content", "reasoning_content")
    own = [str(value[name]) for name in names if value.get(name)]
    return own + [proof for one in value.values() for proof in proofs(one)]
