"""A gateway over the recorded file of the tests of commands, with a key of each role, and the answers of its admin API.

The file has rows of the keys `alice` and `bob`, who are clients here; `vera` is a viewer and `ada` an admin.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.gateway.admin.api import AdminApi
from dragoman.gateway.admin.query_runner import QUERY_SECONDS, QueryRunner
from dragoman.identities.identity import ADMIN, CLIENT, VIEWER, Rights
from dragoman.identities.key_text import digest_of
from dragoman.model.jsonvalue import JsonValue
from tests.cli.recorded_file import NOW, recorded_file
from tests.gateway.harness import House, running, settings_for
from tests.identities.holders import holder

ROLES = {"alice": CLIENT, "bob": CLIENT, "vera": VIEWER, "ada": ADMIN}


def text_of(name: str) -> str:
    """The key text of a name."""
    return f"key-of-{name}-0123456789"


def settings_with_roles(port: int, path: str) -> Settings:
    """Settings with a key of each role and a record file."""
    return replace(
        settings_for(port),
        keys=tuple(holder(name, digest_of(text_of(name)), rights=Rights(role=role)) for name, role in ROLES.items()),
        storage=Storage(path=path, store_responses=False, time_zone="UTC"),
    )


@contextmanager
def recorded_gateway(folder: Path, *, seconds: float = QUERY_SECONDS) -> Iterator[House]:
    """A gateway with keys over the recorded file in a folder, at the time that commands see there."""
    recorded_file(folder)
    with running(settings=lambda port: settings_with_roles(port, str(folder / "state.db"))) as house:
        house.app.admin = AdminApi(house.app._snapshots, lambda: house.app.runtime, QueryRunner(seconds), lambda: NOW)
        yield house


def ask(house: House, path: str, name: str = "vera", status: int = 200) -> JsonValue:
    """What the admin API answers to a key at a path; the status must be the expected one."""
    answer = house.get(f"/admin/v1{path}", authorization=f"Bearer {text_of(name)}")
    assert answer.status == status, answer.body
    assert answer.header("cache-control") == "no-store"
    document: JsonValue = json.loads(answer.body)
    return document


def error_of(document: JsonValue) -> dict[str, str]:
    """The members of an error."""
    assert isinstance(document, dict)
    assert list(document) == ["error"]
    error = document["error"]
    assert isinstance(error, dict)
    assert list(error) == ["type", "message", "remedy"]
    return {name: str(value) for name, value in error.items()}
