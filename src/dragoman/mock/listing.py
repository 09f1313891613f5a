"""The models as each protocol lists them: any name is answered, these are to begin with."""

from __future__ import annotations

from dragoman.mock.answers.models import ECHO_MODELS, LONGEST
from dragoman.mock.answers.response import CREATED
from dragoman.mock.answers.signatures import MESSAGES
from dragoman.mock.script_player import PREFIX
from dragoman.model.jsonvalue import JsonList, JsonObject

# `CREATED` as RFC 3339 writes it.
_CREATED_AT = "2026-01-01T00:00:00Z"
_CLAUDE = ("claude-opus-5", "claude-sonnet-5", "claude-haiku-5-5", "claude-sonnet-4-5")
_GPT = ("gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-4.1")


def names_for(protocol: str) -> tuple[str, ...]:
    """Models that are listed in a protocol."""
    return (*(_CLAUDE if protocol == MESSAGES else _GPT), *(PREFIX + name for name in ECHO_MODELS))


def listed(protocol: str) -> JsonObject:
    """All models."""
    names = names_for(protocol)
    data: JsonList = [one_listed(name, protocol) for name in names]
    if protocol != MESSAGES:
        return {"object": "list", "data": data}
    return {"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}


def one_listed(name: str, protocol: str) -> JsonObject:
    """One model, whatever its name."""
    if protocol == MESSAGES:
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": _CREATED_AT,
            "lifecycle": "active",
            "max_tokens": LONGEST,
        }
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "dragoman"}
