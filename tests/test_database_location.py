"""Where a gateway stores its data."""

from __future__ import annotations

from pathlib import Path

from dragoman.database_location import (
    MEMORY,
    PostgresDatabase,
    database_exists,
    is_persistent,
    journal_keep_of,
    path_of,
)


def test_memory_and_no_path_are_not_persistent() -> None:
    assert [is_persistent(location) for location in (MEMORY, "", "/var/lib/state.db")] == [False, False, True]


def test_a_file_exists_once_it_was_made(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    assert not database_exists(str(file))
    file.touch()
    assert database_exists(str(file))
    assert not database_exists(MEMORY)


def test_a_database_of_postgresql_is_known_by_its_name_alone() -> None:
    database = PostgresDatabase(
        address="postgresql://dragoman:canary@db1/dragoman", name="db1/dragoman", path="/var/lib/state.db"
    )
    assert f"{database} {database!r} {[database]}".count("canary") == 0
    assert (str(database), path_of(database), path_of("state.db")) == ("db1/dragoman", "/var/lib/state.db", "state.db")
    assert is_persistent(database) and database_exists(database)
    assert (journal_keep_of(database), journal_keep_of("state.db")) == (3600.0, 0.0)
