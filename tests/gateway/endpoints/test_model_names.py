"""`GET /model-names`, as commands ask for it."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.errors import DragomanError
from dragoman.launching.gateway import fetch_names
from tests.gateway.harness import Received, Reply, running, settings_for, whole
from tests.gateway.says import with_provider
from tests.sdk.digging import dig_objects


def listing(received: Received) -> Reply:
    """A provider that lists one model."""
    return whole({"data": [{"id": "m", "context_length": 131072, "max_output_tokens": 8192}]})


def with_line(settings: Settings) -> Settings:
    """A name for one model."""
    return replace(settings, routes=(RouteConfig(pattern="mine", targets=("chat/m",)),))


def test_all_names_are_told_with_what_is_known_of_them() -> None:
    with running(listing, with_provider(with_line, models=None)) as house:
        names = {name.name: name for name in fetch_names(house.url, "")}
        assert {"mine", "chat/m", "all/m", "echo/text"} <= set(names)
        assert (names["mine"].window, names["mine"].output_cap) == (131072, 8192)
        assert [target.target for target in names["mine"].targets] == ["chat/m"]
        assert [name.name for name in fetch_names(house.url, "", match="m?ne")] == ["mine"]


def test_only_the_providers_of_the_names_that_are_asked_for_are_asked() -> None:
    with running(listing, with_provider(with_line, models=None)) as house:
        names = fetch_names(house.url, "", names=["mine", "no-such-name", "chat/ä&b"])
        assert [(name.name, name.window) for name in names] == [("mine", 131072), ("chat/ä&b", None)]
        assert len(house.provider.received) == 1


def test_a_provider_whose_models_the_configuration_names_is_asked_what_it_says_of_them_alone() -> None:
    with running(listing, with_provider(with_line, models=("m", "n"))) as house:
        (name,) = fetch_names(house.url, "", names=["chat/m"])
        assert (name.window, len(house.provider.received)) == (131072, 1)
        names = {name.name: name for name in fetch_names(house.url, "", match="chat/")}
        assert {name: found.window for name, found in names.items()} == {"chat/m": 131072, "chat/n": None}
        assert len(house.provider.received) == 1


def test_it_is_for_those_who_may_use_the_gateway() -> None:
    with running((), lambda port: settings_for(port, keys=["sk-of-a-client-0123456789"])) as house:
        assert fetch_names(house.url, "sk-of-a-client-0123456789")
        with pytest.raises(DragomanError, match="does not report its models: this gateway key is not known here"):
            fetch_names(house.url, "sk-of-another")
        with pytest.raises(DragomanError, match="a gateway key is required: set DRAGOMAN_KEY, or name"):
            fetch_names(house.url, "")


def test_too_many_names_are_refused() -> None:
    with running() as house:
        assert house.get("/model-names?" + "&".join(["name=" + quote("echo/text")] * 200)).status == 200
        assert house.get("/model-names?" + "&".join(["name=a"] * 201)).status == 400
        assert house.ask("POST", "/model-names", b"{}").status == 405
        assert len(dig_objects(house.get("/model-names?match=echo/text").json(), "names")) == 1
