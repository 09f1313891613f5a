"""The models as each protocol lists them."""

from __future__ import annotations

from dragoman.mock.answers.models import ECHO_MODELS, LONGEST
from dragoman.mock.answers.response import CREATED
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.model.jsonvalue import JsonList, JsonObject

# `CREATED` as RFC 3339 writes it.
_CREATED_AT = "2026-01-01T00:00:00Z"


def listed(protocol: str) -> JsonObject:
    """All models."""
    data: JsonList = [one_listed(name, protocol) for name in ECHO_MODELS]
    if protocol != MESSAGES:
        return {"object": "list", "data": data}
    names = list(ECHO_MODELS)
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def one_listed(name: str, protocol: str) -> JsonObject:
    """One model; the name must be in the table."""
    if protocol == MESSAGES:
        words = f"echo/{name}: {ECHO_MODELS[name].words}"
        return {
            "type": "model",
            "id": name,
            "display_name": words,
            "created_at": _CREATED_AT,
            "lifecycle": "active",
            "max_tokens": LONGEST,
        }
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "dragoman"}
