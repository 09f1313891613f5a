"""The list of models, as the SDKs' types have it."""

from __future__ import annotations

import pytest
from anthropic.types import ModelInfo
from openai.types import Model

from dragoman.mock.answers.model_list import listed, one_listed
from dragoman.mock.answers.models import echo_models
from tests.sdk.names import CHAT, MESSAGES, RESPONSES


def test_a_messages_client_can_read_the_list() -> None:
    page = listed(MESSAGES)
    assert (page["first_id"], page["last_id"], page["has_more"]) == (echo_models()[0], echo_models()[-1], False)
    for name in echo_models():
        found = ModelInfo.model_validate(one_listed(name, MESSAGES))
        assert (found.id, found.type, found.created_at.year) == (name, "model", 2026)
        assert found.display_name.startswith(f"echo/{name}: ")


@pytest.mark.parametrize("protocol", [CHAT, RESPONSES])
def test_an_openai_client_can_read_the_list(protocol: str) -> None:
    data = listed(protocol)["data"]
    assert isinstance(data, list)
    assert [Model.model_validate(one).id for one in data] == list(echo_models())
