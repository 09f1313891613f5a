"""Looking before the leap, in front of a gateway that runs: what ends a launch, and what is a note."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.cli.launch import preflight
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError
from dragoman.identities.identity import ALL_RIGHTS, VIEWER, Rights
from dragoman.launching.clients import CLIENTS
from dragoman.launching.gateway import PageError
from dragoman.launching.keys import PLACEHOLDER, GivenKey
from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import House, running, settings_for, whole

KEY = "sesame-open-the-gate"
# Nobody listens there.
NOWHERE = 9


def looked(
    house: House, *models: str | None, key: str = PLACEHOLDER, settings: Settings | None = None, client: str = "claude"
) -> None:
    preflight(CLIENTS[client], models, settings or Settings(), GivenKey(text=key), house.url)


@pytest.mark.parametrize("models", [["echo/text", None], ["echo/text[1m]", "echo/text"]])
def test_what_is_well_is_not_spoken_of(models: Sequence[str | None], capsys: pytest.CaptureFixture[str]) -> None:
    with running(()) as house:
        looked(house, *models)
    assert capsys.readouterr() == ("", "")


def test_a_name_that_leads_nowhere_ends_the_launch_in_the_gateways_words() -> None:
    with running(()) as house, pytest.raises(DragomanError, match=r"^the model `ecko/text` is not known here; did you"):
        looked(house, "ecko/text")


def test_where_a_provider_is_the_users_own_configuration_says() -> None:
    def settings(_: int) -> Settings:
        return settings_for(NOWHERE, keys=(KEY,), rights=ALL_RIGHTS)

    with running((), settings) as house:
        with pytest.raises(DragomanError, match=r"^chat/m cannot be used now: chat refused the connection$"):
            looked(house, "chat/m", key=KEY)
        with pytest.raises(DragomanError, match=r"now: chat at http://127\.0\.0\.1:9/v1 refused the connection$"):
            looked(house, "chat/m", key=KEY, settings=settings(NOWHERE))


def test_a_key_that_may_not_have_providers_called_launches_without_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    with running((), lambda _: settings_for(NOWHERE, keys=(KEY,))) as house:
        looked(house, "chat/m", key=KEY)
        with pytest.raises(DragomanError, match="is not known here"):
            looked(house, "nobody-knows-this", key=KEY)
    limited = Rights(models=("chat/n",))
    with running((), lambda _: settings_for(NOWHERE, keys=(KEY,), rights=limited)) as house:
        with pytest.raises(DragomanError, match=r"^this key may not use `chat/m`; see /v1/models$"):
            looked(house, "chat/m", key=KEY)
        # A model of the client's own choice is a guess.
        looked(house, None, key=KEY, client="codex")
    assert "codex uses its default models: this key may not use `gpt-5.1`" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["chat/m", None])
def test_a_key_that_calls_no_model_ends_the_launch(model: str | None) -> None:
    rights = Rights(role=VIEWER)
    with (
        running((), lambda _: settings_for(NOWHERE, keys=(KEY,), rights=rights)) as house,
        pytest.raises(DragomanError, match="the gateway key has the role viewer, which calls no model"),
    ):
        looked(house, model, key=KEY, client="codex")


def test_what_is_in_doubt_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    with running(lambda _: whole({}, 503)) as house:
        looked(house, "chat/m")
        assert f"note: chat at 127.0.0.1:{house.provider.port} answered 503" in capsys.readouterr().err


def test_a_gateway_that_does_not_take_the_key_ends_the_launch() -> None:
    with (
        running((), lambda port: settings_for(port, keys=(KEY,))) as house,
        pytest.raises(DragomanError, match="rejected the key: this gateway key is not known here"),
    ):
        looked(house, "echo/text", key="another-key-than-that")


def test_a_gateway_that_does_not_tell_is_a_note(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(url: str, *_: object) -> JsonObject:
        raise PageError(url, "does not explain the route", 403, "it is told on its own machine")

    monkeypatch.setattr("dragoman.cli.launch.route_of", refused)
    with running(()) as house:
        looked(house, "echo/text")
        assert f"note: the gateway at {house.url} does not explain the route" in capsys.readouterr().err


def test_models_of_the_clients_own_choice_are_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    with running(lambda _: whole({"data": []})) as house:
        looked(house, None, client="claude")
        assert capsys.readouterr().err == ""
        looked(house, None, client="codex")
    assert (
        "note: codex uses its default models: `gpt-5.1` is a model of openai, "
        "and openai has no key here: set OPENAI_API_KEY (--model NAME)\n"
    ) in capsys.readouterr().err
