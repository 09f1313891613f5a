"""`status`, `models` and `me` of the admin API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.gateway.admin.api import AdminApi
from dragoman.identities.identity import AcceptedDigest, Identity, Rights
from dragoman.identities.key_text import digest_of
from tests.cli.recorded_file import NOW
from tests.gateway.admin.recorded_gateway import ask, error_of, recorded_gateway, settings_with_roles, text_of
from tests.gateway.harness import House, running


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


def test_models_are_listed_for_keys_whose_paths_name_them(tmp_path: Path) -> None:
    def settings(port: int) -> Settings:
        made = settings_with_roles(port, str(tmp_path / "state.db"))
        keys = [
            replace(key, rights=Rights(paths=(path,))) for key, path in zip(made.keys, ("chat", "models"), strict=False)
        ]
        return replace(made, keys=tuple(keys))

    with running(settings=settings) as limited_house:
        assert error_of(ask(limited_house, "/models", "alice", 403))["type"] == "forbidden"
        assert ask(limited_house, "/models", "bob")


def test_a_key_sees_its_own_permissions(house: House) -> None:
    own = ask(house, "/me", "alice")
    assert isinstance(own, dict)
    assert (own["name"], own["role"], own["models"], own["source"]) == ("alice", "client", None, "file")


def test_without_a_key_everything_is_permitted_that_a_viewer_may() -> None:
    with running() as open_house:
        own = open_house.get("/admin/v1/me").json()
    assert (own["name"], own["role"], own["source"], own["expires"], own["former_until"]) == (
        "",
        "viewer",
        "",
        None,
        None,
    )


def test_a_rotated_key_sees_its_end_and_that_of_its_former_text(tmp_path: Path) -> None:
    seconds = NOW // 1_000_000
    digests = (
        AcceptedDigest(digest=digest_of(text_of("ann"))),
        AcceptedDigest(digest=digest_of(text_of("old")), until=seconds + 60.5),
    )
    rights = Rights(models=("claude-*",), strict="all", concurrency=2)
    ann = Identity(
        name="ann", owner=b"ann", digests=digests, rights=rights, tags=(("team", "web"),), expires=seconds + 3600.5
    )
    settings = replace(settings_with_roles(0, str(tmp_path / "state.db")), keys=(ann,))
    with running(settings=lambda port: settings) as house:
        house.app.admin = AdminApi(house.app._snapshots, lambda: house.app.runtime, now=lambda: NOW)
        own = ask(house, "/me", "ann")
    assert own == {
        "name": "ann",
        "role": "client",
        "models": ["claude-*"],
        "providers": None,
        "addresses": None,
        "paths": None,
        "strict": "all",
        "concurrency": 2,
        "tags": {"team": "web"},
        "expires": "2027-01-15T09:00:00Z",
        "former_until": "2027-01-15T08:01:00Z",
        "source": "file",
    }
