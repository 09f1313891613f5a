"""A folder that belongs to somebody else is told in one sentence: which, whose process, and what mends it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.store import not_writable, open_tables
from tests.store.other_users import as_nobody, unwritable_folder

ELSEWHERE = "name a file elsewhere, or set store_responses = false"


@pytest.fixture
def folder() -> Iterator[Path]:
    with unwritable_folder() as place:
        yield place


def test_pitfall_630_a_volume_of_another_user_is_one_sentence(folder: Path) -> None:
    with as_nobody() as who, pytest.raises(ConfigError) as told:
        open_tables(str(folder / "state.db"), 30)
    uid = who.partition(":")[0]
    assert str(told.value) == (
        f"storage.path: {folder} cannot be written to by this user, uid {uid} "
        f"(as root: chown {who} {folder}; or {ELSEWHERE})"
    )


def test_pitfall_630_what_mends_it_is_for_a_folder_that_is_not_there_yet_to_make_it(folder: Path) -> None:
    missing = folder / "dragoman"
    with as_nobody() as who, pytest.raises(ConfigError) as told:
        open_tables(str(missing / "state.db"), 30)
    # Nobody is to give away the whole of what it lies in.
    assert f"{folder} cannot be written to" in told.value.problem
    assert f"(as root: mkdir -p {missing} && chown {who} {missing};" in str(told.value)


def test_pitfall_630_a_file_of_another_user_is_named_with_its_neighbours(folder: Path) -> None:
    folder.chmod(0o755)
    open_tables(str(folder / "state.db"), 30).close()
    (folder / "state.db").chmod(0o444)
    folder.chmod(0o777)
    with as_nobody() as who, pytest.raises(ConfigError) as told:
        open_tables(str(folder / "state.db"), 30)
    assert f"{folder}/state.db cannot be written to" in told.value.problem
    assert f"chown {who} {folder} {folder}/state.db*;" in told.value.remedy


def test_a_file_system_that_is_read_only_is_told_as_such(folder: Path) -> None:
    told = not_writable(
        folder / "state.db", OSError(errno.EROFS, "Read-only"), key="storage.path", otherwise="do otherwise"
    )
    assert str(told) == f"storage.path: {folder} is on a read-only file system (do otherwise)"


def test_a_read_only_file_system_is_not_taken_for_what_a_user_may_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mounted:
        f_flag = os.ST_RDONLY | os.ST_NOSUID

    monkeypatch.setattr(os, "statvfs", lambda place: Mounted())
    told = not_writable(
        folder / "state.db", sqlite3.OperationalError("unable to open database file"), key="storage.path", otherwise="x"
    )
    assert str(told) == f"storage.path: {folder} is on a read-only file system (x)"


def test_what_has_another_reason_is_not_told_as_this(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(b"no database")
    assert not_writable(file, sqlite3.DatabaseError("malformed"), key="storage.path", otherwise="x") is None
    with pytest.raises(ConfigError, match="the file cannot be opened: file is not a database"):
        open_tables(str(file), 30)
