"""Keys of a gateway's own file, beside those of its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.cli.key_file import KeyFile, database_of
from dragoman.config.settings import Settings, Storage
from dragoman.errors import DragomanError
from dragoman.identities.errors import KeyExists, KeyMissing
from dragoman.identities.identity import Rights
from dragoman.identities.key_text import digest_of
from dragoman.identities.members import KeyMembers
from tests.identities.holders import holder


def settings(tmp_path: Path, *names: str) -> Settings:
    keys = tuple(holder(name, digest_of(name), rights=Rights(role="viewer")) for name in names)
    return Settings(keys=keys, storage=Storage(path=str(tmp_path / "state.db")))


def test_of_two_keys_of_one_name_that_of_the_configuration_is_in_force(tmp_path: Path) -> None:
    KeyFile(settings(tmp_path)).create("ci", KeyMembers())
    keys = KeyFile(settings(tmp_path, "ci"))
    assert keys.get("ci").source == "file"
    assert [(view.name, view.source) for view in keys.list_all()] == [("ci", "file")]
    # The one of the database can be removed from the way.
    assert keys.revoke("ci").source == "database"


def test_keys_of_the_configuration_are_changed_there(tmp_path: Path) -> None:
    keys = KeyFile(settings(tmp_path, "ci"))
    with pytest.raises(KeyExists, match="ci is a key of the configuration"):
        keys.rotate("ci", 60)
    with pytest.raises(KeyMissing, match="there is no key nope"):
        keys.get("nope")


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_keys_of_a_database_need_a_file(path: str) -> None:
    with pytest.raises(DragomanError, match=r"storage\.path names no file"):
        database_of(Settings(storage=Storage(path=path)))
