"""Models as Messages lists them; the official SDK's type is the judge."""

from __future__ import annotations

import datetime

from anthropic.types import ModelInfo

from dragoman.model.listing import ListedModel
from dragoman.model.parts import Extras
from dragoman.protocols.anthropic_messages import CODEC, NAME


def read(model: ListedModel) -> ModelInfo:
    """A model as the SDK understands it."""
    return ModelInfo.model_validate(CODEC.models.encode_one(model))


def test_all_that_is_known_has_a_member() -> None:
    found = read(ListedModel(id="m", title="M", created=1700000000, retires=1800000000, window=200000, cap=64000))
    assert (found.id, found.display_name, found.max_input_tokens, found.max_tokens) == ("m", "M", 200000, 64000)
    assert found.created_at == datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    assert (found.lifecycle, found.retires_at is not None) == ("deprecated", True)


def test_what_is_not_known_is_left_out_or_the_epoch() -> None:
    assert CODEC.models.encode_one(ListedModel(id="m")) == {
        "type": "model",
        "id": "m",
        "display_name": "m",
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
    }


def test_what_else_a_provider_of_this_very_form_said_is_told_and_never_in_place_of_what_is_known() -> None:
    said = Extras(origin=NAME, fields={"line": "opus", "lifecycle": "retired", "max_tokens": 5})
    told = CODEC.models.encode_one(ListedModel(id="m", cap=4, extras=said))
    assert (told["line"], told["lifecycle"], told["max_tokens"]) == ("opus", "retired", 4)
    other = Extras(origin="openai", fields={"context_length": 5})
    assert "context_length" not in CODEC.models.encode_one(ListedModel(id="m", extras=other))


def test_a_list_is_one_page() -> None:
    told = CODEC.models.encode_all([ListedModel(id="a"), ListedModel(id="b")])
    assert (told["has_more"], told["first_id"], told["last_id"]) == (False, "a", "b")
    assert CODEC.models.encode_all([]) == {"data": [], "has_more": False, "first_id": None, "last_id": None}
