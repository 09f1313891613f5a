"""What is said of a kept file, and that nothing happens to it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dragoman.store import open_tables
from dragoman.store.file_state import inspect
from dragoman.store.migrations.sqlite import STEPS


def test_a_good_file_has_its_version_and_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    open_tables(str(path), 1).close()
    before = path.read_bytes()
    found = inspect(str(path))
    assert (found.version, found.newest, found.problem) == (len(STEPS), len(STEPS), "")
    assert path.read_bytes() == before
    # However little time there is, what was not looked at is no problem.
    assert inspect(str(path), 0.0).problem == ""


def test_an_open_file_can_be_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    tables = open_tables(str(path), 1)
    try:
        assert inspect(str(path)).problem == ""
    finally:
        tables.close()


def test_what_is_no_store_is_told(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"not a database at all" * 100)
    assert "not a database" in inspect(str(path)).problem
    assert inspect(str(tmp_path / "nowhere.db")).problem
    assert not (tmp_path / "nowhere.db").exists()


def test_a_file_of_a_newer_version_is_told(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    db.close()
    found = inspect(str(path))
    assert (found.version, found.problem) == (len(STEPS) + 1, "it was written by a newer version")


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    tables = open_tables(str(path), 1)
    tables.write_trial(200_000)
    tables.close()
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 12] = b"\xff" * (4096 * 11)
    path.write_bytes(data)
    assert inspect(str(path)).problem
