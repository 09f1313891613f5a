"""A file of one machine in a database of several: every row as it was, or a sentence and nothing changed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.config.configured_keys import configured_names
from dragoman.config.settings import Settings
from dragoman.database_location import PostgresDatabase
from dragoman.errors import DragomanError
from dragoman.identities.changes import LOCAL_MAKER
from dragoman.identities.members import KeyMembers
from dragoman.records.rows import Batch
from dragoman.store import postgres_database
from dragoman.store.connection import Connection, Row
from dragoman.store.contents import ExchangeRow
from dragoman.store.contents_database import open_contents
from dragoman.store.database import open_tables
from dragoman.store.file_import import check_import, import_file
from dragoman.store.machines import HISTORY_SECRET, Machines
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.postgres_database import administer, connect_to, set_up
from dragoman.store.record_tables import open_record_tables
from tests.postgres import PostgresServer
from tests.records.full_file import write_full_file
from tests.records.invented import entry
from tests.store.opened import ALICE, kept
from tests.waiting import LIMIT

Contents = dict[str, list[Row]]
# What a database has before its first row.
_EMPTY = {"generation": [(0,)], "turns_total": [(0,)]}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a statement than a gateway waits."""
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("full") / "state.db"
    write_full_file(path)
    return path


@pytest.fixture
def location(database: str, tmp_path: Path) -> PostgresDatabase:
    return PostgresDatabase(address=database, name="db1:5432/dragoman", path=str(tmp_path / "here.db"))


def _contents(db: Connection, tables: list[str]) -> Contents:
    return {table: sorted(db.rows(f"SELECT * FROM {table}"), key=repr) for table in tables}


def _of_file(path: Path) -> Contents:
    with closing(open_record_tables(str(path), read_only=True)) as tables:
        names = tables.connection.rows(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
        return _contents(tables.connection, [name for (name,) in names])


def _of_database(location: PostgresDatabase, tables: list[str]) -> Contents:
    with closing(connect_to(location)) as db:
        return _contents(db, tables)


def _import(path: Path, location: PostgresDatabase) -> dict[str, int]:
    return import_file(path, location, lambda words: None).rows


def test_every_row_of_every_table_is_imported_as_it_was(full: Path, location: PostgresDatabase) -> None:
    expected = _of_file(full)
    assert [table for table, rows in expected.items() if not rows] == []
    rows = _import(full, location)
    assert rows == {table: len(content) for table, content in expected.items()}
    assert _of_database(location, list(expected)) == expected
    # The file is as it was.
    assert _of_file(full) == expected


def test_what_comes_after_goes_on_from_what_was(full: Path, location: PostgresDatabase) -> None:
    expected = _of_file(full)
    _import(full, location)
    tables = open_tables(location, 30)
    with closing(tables), closing(open_record_tables(location)) as records:
        created = tables.identity_changes.create(
            "new", KeyMembers(), b"n" * 32, maker=LOCAL_MAKER, configured=configured_names(Settings())
        )
        assert created.generation == expected["generation"][0][0] + 1
        assert len(tables.identities.audit()) == len(expected["audit"]) + 1
        assert tables.responses.add(ALICE, kept("resp_new", "resp_alice"))
        with records.transaction():
            assert records.offsets.move("01800000000000000-1-1.log", 4711, 5000)
            batch = Batch()
            batch.add_unassigned(entry(1_000_000))
            batch.write_rows(records)
            batch.write_rollups(records)
            last = max(row[0] for row in expected["records"])
            assert records.connection.number("SELECT max(number) FROM records") == last + 1


def test_the_secret_of_the_file_is_that_of_all_machines(full: Path, location: PostgresDatabase) -> None:
    set_up(location)
    with closing(administer(location)) as db:
        # That of a machine that was started before.
        assert Machines(db).shared(HISTORY_SECRET, "00") == "00"
        import_file(full, location, lambda words: None, b"secret")
        assert Machines(db).shared(HISTORY_SECRET, "00") == b"secret".hex()


def test_a_database_that_a_gateway_uses_is_refused(full: Path, location: PostgresDatabase) -> None:
    set_up(location)
    with closing(administer(location)) as db:
        assert Machines(db).add("id", "eu-1", 1, "instance", erased=0)
        with pytest.raises(DragomanError, match=r"a gateway uses the database .*; nothing was changed: stop it"):
            check_import(full, location)
        db.change("UPDATE machines SET seen = seen - 60")
    _import(full, location)


def test_it_may_be_killed_and_run_again(full: Path, location: PostgresDatabase) -> None:
    """It is one transaction, which ends with the connection."""
    set_up(location)

    def die(words: str) -> None:
        if words.startswith("copying threads"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_file(full, location, die)
    expected = _of_file(full)
    assert _of_database(location, list(expected)) == {table: _EMPTY.get(table, []) for table in expected}
    _import(full, location)
    assert _of_database(location, list(expected)) == expected


def _of_a_newer_release(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")


def _damaged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sessions_by_last'").fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = db.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)


def _overwritten(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_of_a_newer_release, "newer version; nothing was changed: import it with the release that wrote it"),
        (_damaged, "is damaged .*; nothing was changed: restore it"),
        (_overwritten, "is damaged .*; nothing was changed: restore it"),
        (_empty, "has no records; nothing was changed: name the file of storage.path"),
        (Path.unlink, "does not exist; nothing was changed: name the file of storage.path"),
    ],
)
def test_a_file_that_cannot_be_imported_is_refused_and_nothing_changed(
    change: Callable[[Path], None], message: str, full: Path, location: PostgresDatabase, tmp_path: Path
) -> None:
    path = tmp_path / "copy.db"
    path.write_bytes(full.read_bytes())
    path.chmod(0o600)
    change(path)
    before = path.read_bytes() if path.exists() else None
    for refuse in (lambda: check_import(path, location), lambda: import_file(path, location, lambda words: None)):
        with pytest.raises(DragomanError, match=message):
            refuse()
    assert (path.read_bytes() if path.exists() else None) == before
    with closing(administer(location)) as db:
        assert db.versions == (0, 0)


_OPENED = """
import sys
from dragoman.store.database import open_tables
tables = open_tables(sys.argv[1], 30)
print("open", flush=True)
sys.stdin.read()
"""


def test_a_file_that_a_gateway_has_open_is_refused(full: Path, location: PostgresDatabase) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OPENED, str(full)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gateway:
        assert gateway.stdin is not None and gateway.stdout is not None
        assert gateway.stdout.readline() == b"open\n"
        with pytest.raises(DragomanError, match="in use by a gateway or a command; nothing was changed: stop it"):
            _import(full, location)
        with closing(administer(location)) as db:
            assert db.versions == (0, 0)
        gateway.stdin.close()
    _import(full, location)


def test_a_database_with_contents_is_refused(full: Path, location: PostgresDatabase) -> None:
    set_up(location)
    with closing(open_contents(location)) as contents:
        check_import(full, location)
        contents.add_exchange(ExchangeRow(id="a", time=0, key="ann"))
    for refused in (check_import, _import):
        with pytest.raises(DragomanError, match="is not empty: it has contents; nothing was changed: import into a"):
            refused(full, location)


def test_a_database_that_is_not_empty_is_refused(full: Path, location: PostgresDatabase) -> None:
    set_up(location)
    with closing(connect_to(location)) as db:
        db.change("INSERT INTO key_names (name, owner) VALUES ('a', '')")
    with pytest.raises(DragomanError, match="is not empty: it has key_names; nothing was changed: import into a new"):
        check_import(full, location)
    with pytest.raises(DragomanError, match="is not empty"):
        _import(full, location)
    expected = {table: _EMPTY.get(table, []) for table in _of_file(full)} | {"key_names": [("a", b"")]}
    assert _of_database(location, list(expected)) == expected


@pytest.fixture
def restricted(postgres: PostgresServer, location: PostgresDatabase) -> Iterator[PostgresDatabase]:
    """The same database by a role that does not own its tables."""
    set_up(location)
    with closing(administer(location)) as db:
        db.script("CREATE ROLE importer LOGIN; GRANT USAGE ON SCHEMA dragoman TO importer")
        db.script("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dragoman TO importer")
        yield PostgresDatabase(address=f"{location.address} user=importer", name="db1", path=location.path)
        db.script("DROP OWNED BY importer; DROP ROLE importer")


def test_a_role_that_does_not_own_the_tables_is_refused(full: Path, restricted: PostgresDatabase) -> None:
    with pytest.raises(DragomanError, match="may not change the tables"):
        _import(full, restricted)
    expected = {table: _EMPTY.get(table, []) for table in _of_file(full)}
    assert _of_database(restricted, list(expected)) == expected
