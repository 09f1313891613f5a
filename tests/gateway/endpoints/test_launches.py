"""`GET /launches/NAME`: what a launch came to, told under its own key; providers never hear of it."""

from __future__ import annotations

import pytest

from tests.gateway.harness import MESSAGES, PATHS, RESPONSES, running, settings_for
from tests.gateway.says import PAIRS, question, tells

KEY, OTHER = "sesame-open-the-gate", "another-key-of-this-gateway"
NAME = "claude-7"


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_a_launch_is_told_and_no_provider_hears_its_name(client: str, provider: str) -> None:
    with running(lambda _: tells(provider), lambda port: settings_for(port, keys=(KEY,))) as house:
        given = {"authorization": f"Bearer {KEY}"}
        for _ in range(2):
            assert house.post(PATHS[client], question(client, provider), x_dragoman_launch=NAME, **given).status == 200
        assert house.post(PATHS[client], question(client, provider), **given).status == 200
        assert house.get("/v1/models", x_dragoman_launch=NAME, **given).status == 200
        told = house.get(f"/launches/{NAME}", **given).json()
        received = house.provider.received
    assert (told["name"], told["calls"], told["requests"], told["failed"]) == (NAME, 2, 3, 0)
    assert isinstance(told["input_tokens"], int) and told["input_tokens"] > 0
    assert isinstance(told["processes"], list) and len(told["processes"]) == 1
    assert received
    assert not [call for call in received if NAME in str(call.headers) or NAME.encode() in call.body]


def test_another_path_of_a_provider_does_not_tell_it_either() -> None:
    with running(lambda _: tells(MESSAGES)) as house:
        house.post("/v1/embeddings", {"model": "chat/served", "input": "x"}, x_dragoman_launch=NAME)
        assert house.provider.received
        assert not [call for call in house.provider.received if NAME in str(call.headers)]


def test_losses_are_told_by_name() -> None:
    with running(lambda _: tells(RESPONSES)) as house:
        body = question(MESSAGES, RESPONSES, top_k=5)
        assert house.post(PATHS[MESSAGES], body, x_dragoman_launch=NAME).status == 200
        losses = house.get(f"/launches/{NAME}").json()["losses"]
    assert losses == {"top_k": 1}


def test_who_has_another_key_is_told_of_a_launch_of_its_own() -> None:
    with running(lambda _: tells(MESSAGES), lambda port: settings_for(port, keys=(KEY, OTHER))) as house:
        body = question(MESSAGES, MESSAGES)
        assert house.post(PATHS[MESSAGES], body, x_dragoman_launch=NAME, x_api_key=KEY).status == 200
        assert house.get(f"/launches/{NAME}", x_api_key=OTHER).json()["calls"] == 0
        assert house.get(f"/launches/{NAME}").status == 401
        # Who is refused at the door is counted for nobody.
        assert house.post(PATHS[MESSAGES], body, x_dragoman_launch=NAME, x_api_key="wrong").status == 401
        assert house.get(f"/launches/{NAME}", x_api_key=KEY).json()["requests"] == 1


def test_what_is_no_name_of_a_launch_is_not_there() -> None:
    with running(()) as house:
        assert house.get("/launches/two%20words").status == 404
        assert house.get("/launches/a/b").status == 404
        assert house.post("/launches/one", {}).status == 405


def test_without_keys_nobody_is_told_through_a_proxy() -> None:
    with running(()) as house:
        assert house.get("/launches/one").status == 200
        assert house.get("/launches/one", x_forwarded_for="203.0.113.1").status == 403
