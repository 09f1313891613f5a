"""Migrations of the contents: both engines get the same tables, and a later release's are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.contents_database import open_contents
from dragoman.store.errors import NewerContents
from dragoman.store.migrations.contents import CONTENTS_SCHEMA, NEWEST


def test_both_engines_have_the_same_tables(tmp_path: Path, database: str) -> None:
    place = str(tmp_path / "state.db")
    file = open_contents(place)
    names = [row[0] for row in file.connection.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    ours = {name: [row[1] for row in file.connection.rows(f"PRAGMA table_info({name})")] for name in names}
    assert file.connection.version == NEWEST
    file.close()
    location = PostgresDatabase(address=database, name="t", path=place)
    schema = open_contents(location)
    db = schema.connection
    theirs: dict[str, list[str]] = {}
    for table, column in db.rows(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?"
        " ORDER BY table_name, ordinal_position",
        (CONTENTS_SCHEMA,),
    ):
        theirs.setdefault(table, []).append(column)
    del theirs["schema_version"]
    assert ours == theirs and db.version == NEWEST
    open_contents(location).close()
    db.change("UPDATE schema_version SET version = ?", (NEWEST + 1,))
    schema.close()
    with pytest.raises(NewerContents):
        open_contents(location)
