"""Where a gateway stores its data."""

from __future__ import annotations

from pathlib import Path

from dragoman.database_location import MEMORY, database_exists, is_persistent


def test_memory_and_no_path_are_not_persistent() -> None:
    assert [is_persistent(location) for location in (MEMORY, "", "/var/lib/state.db")] == [False, False, True]


def test_a_file_exists_once_it_was_made(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    assert not database_exists(str(file))
    file.touch()
    assert database_exists(str(file))
    assert not database_exists(MEMORY)
