"""`dragoman db import`: what a person is told who names the wrong file or database; see also `test_both_engines.py`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.store.postgres_database import administer, set_up
from dragoman.store.record_tables import open_record_tables
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.records.filled import filled_file, some_entries
from tests.records.invented import entry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put_trusted(tmp_path, '[storage]\ndatabase = "$DATABASE_URL"\n', {"HOME": str(tmp_path)})
    return tmp_path


def _imported(folder: Path, database: str, file: str = "old.db") -> tuple[int, str, str]:
    return piped(["db", "import", file], folder, {"DATABASE_URL": database})


def _number(database: str, statement: str) -> int:
    with closing(administer(PostgresDatabase(address=database, name="", path=""))) as db:
        return db.number(statement)


def test_exchanges_that_are_only_in_journals_are_imported_too(folder: Path, database: str) -> None:
    filled_file(folder / "old.db", some_entries(1, 10))
    with closing(Journal(directory_of(str(folder / "old.db")))) as journal:
        for number in (100, 101):
            journal.finalize(entry(number))
    status, out, err = _imported(folder, database)
    assert (status, err) == (0, "")
    assert ": 12 records, 3 sessions, 0 stored responses, 0 gateway keys\n" in out
    assert _number(database, "SELECT count(*) FROM records") == 12
    assert journals_in(directory_of(str(folder / "old.db"))) == []


def test_nothing_is_changed_by_a_second_import(folder: Path, database: str) -> None:
    filled_file(folder / "old.db", some_entries(1, 10))
    assert _imported(folder, database)[0] == 0
    status, out, err = _imported(folder, database)
    assert (status, out) == (1, "")
    assert "is not empty: it has " in err and err.endswith("nothing was changed: import into a new one\n")
    assert _number(database, "SELECT count(*) FROM records") == 10


def test_a_file_that_is_not_there_is_not_made(folder: Path, database: str) -> None:
    status, _, err = _imported(folder, database)
    assert status == 1 and "old.db does not exist; nothing was changed: name the file of storage.path" in err
    assert not (folder / "old.db").exists()


def test_without_a_database_nothing_can_be_imported(tmp_path: Path) -> None:
    status, _, err = piped(["db", "import", "old.db"], tmp_path)
    assert status == 1 and "storage.database is not set" in err


def test_a_database_that_is_away_is_one_sentence(folder: Path) -> None:
    filled_file(folder / "old.db", some_entries(1, 1))
    status, _, err = _imported(folder, "host=/nowhere dbname=d password=canary")
    assert status == 1 and err == "dragoman: the database /nowhere/d does not answer\n"


def test_a_newer_schema_is_refused(folder: Path, database: str) -> None:
    filled_file(folder / "old.db", some_entries(1, 1))
    location = PostgresDatabase(address=database, name="", path="")
    set_up(location)
    with closing(administer(location)) as db:
        db.change("UPDATE schema_version SET version = 1000, oldest = 1000")
    status, _, err = _imported(folder, database)
    assert status == 1 and "newer version; nothing was changed" in err
    with closing(open_record_tables(str(folder / "old.db"), read_only=True)) as tables:
        assert tables.connection.number("SELECT count(*) FROM records") == 1
