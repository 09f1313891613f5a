"""Models as each protocol lists them."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.mock.answers.models import MAX_OUTPUT_TOKENS
from dragoman.mock.answers.response import CREATED
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.model.jsonvalue import JsonList, JsonObject

# `CREATED` as RFC 3339 writes it.
_CREATED_AT = "2026-01-01T00:00:00Z"


def listed(models: Mapping[str, str], protocol: str) -> JsonObject:
    """All models, by their names; to each belong the words that are shown where a protocol shows any."""
    data: JsonList = [one_listed(name, words, protocol) for name, words in models.items()]
    if protocol != MESSAGES:
        return {"object": "list", "data": data}
    names = list(models)
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def one_listed(name: str, words: str, protocol: str) -> JsonObject:
    if protocol == MESSAGES:
        return {
            "type": "model",
            "id": name,
            "display_name": words,
            "created_at": _CREATED_AT,
            "lifecycle": "active",
            "max_tokens": MAX_OUTPUT_TOKENS,
        }
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "dragoman"}
