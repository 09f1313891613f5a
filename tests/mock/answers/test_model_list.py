"""The list of models, as the SDKs' types have it."""

from __future__ import annotations

import pytest
from anthropic.types import ModelInfo
from openai.types import Model

from dragoman.mock.answers.model_list import listed, one_listed
from tests.sdk.names import CHAT, MESSAGES, RESPONSES

MODELS = {"first": "says one thing", "second": "says another"}


def test_a_messages_client_can_read_the_list() -> None:
    page = listed(MODELS, MESSAGES)
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("first", "second", False)
    assert page["data"] == [one_listed(name, words, MESSAGES) for name, words in MODELS.items()]
    for name, words in MODELS.items():
        found = ModelInfo.model_validate(one_listed(name, words, MESSAGES))
        assert (found.id, found.type, found.created_at.year) == (name, "model", 2026)
        assert found.display_name == words


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES])
def test_an_openai_client_can_read_the_list(protocol: str) -> None:
    page = listed(MODELS, protocol)
    data = page["data"]
    assert isinstance(data, list) and page["object"] == "list"
    assert [Model.model_validate(one).id for one in data] == ["first", "second"]
    assert one_listed("x", "a word", protocol)["object"] == "model"
