"""`status`, `models` and `me` of the admin API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.admin.recorded_gateway import ask, recorded_gateway, text_of
from tests.gateway.harness import House


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with recorded_gateway(tmp_path_factory.mktemp("recorded")) as house:
        yield house


def test_the_status_is_that_of_the_status_page(house: House) -> None:
    assert ask(house, "/status", "ada") == house.get("/status", authorization=f"Bearer {text_of('ada')}").json()


def test_models_are_those_of_the_list_of_names(house: House) -> None:
    key = f"Bearer {text_of('ada')}"
    page = house.get("/model-names?match=echo", authorization=key, anthropic_version="2023-06-01").json()
    assert page["names"]
    assert ask(house, "/models?match=echo", "ada") == page


def test_a_key_sees_its_own_permissions(house: House) -> None:
    own = ask(house, "/me", "alice")
    assert isinstance(own, dict)
    assert (own["name"], own["role"], own["models"], own["source"]) == ("alice", "client", None, "file")
