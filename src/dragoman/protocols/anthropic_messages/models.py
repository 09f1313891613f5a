"""Model lists of Messages: https://platform.claude.com/docs/en/api/models-list."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.model.jsonvalue import JsonObject, present
from dragoman.model.listing import ListedModel
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.rules.model_lists import EPOCH, extras_for
from dragoman.rules.timestamps import format_instant


def encode_model(model: ListedModel) -> JsonObject:
    """One model, without unknown members where that is allowed."""
    encoded: JsonObject = {
        "type": "model",
        "id": model.id,
        "display_name": model.title or model.id,
        "created_at": format_instant(EPOCH if model.created is None else model.created),
        "lifecycle": "active" if model.retires is None else "deprecated",
    }
    more = extras_for(model, NAME)
    if model.retires is not None:
        encoded["retires_at"] = format_instant(model.retires)
    encoded |= present({"max_input_tokens": model.window, "max_tokens": model.cap})
    # The provider's list is authoritative for the lifecycle.
    return {**encoded, **{name: value for name, value in more.items() if name == "lifecycle" or name not in encoded}}


def encode_models(models: Sequence[ListedModel]) -> JsonObject:
    return {
        "data": [encode_model(model) for model in models],
        "has_more": False,
        "first_id": models[0].id if models else None,
        "last_id": models[-1].id if models else None,
    }
