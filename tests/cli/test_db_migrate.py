"""`dragoman db migrate`: tables of this release for either engine, and the privileges of a role that only serves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.migrations import sqlite
from dragoman.store.migrations.postgres import STEPS
from dragoman.store.postgres_database import administer
from dragoman.store.postgres_privileges import missing_privileges
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.postgres import PostgresServer


class _Machine:
    """A folder with a configuration that names a database."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        put_trusted(folder, '[storage]\ndatabase = "$DATABASE_URL"\n', {"HOME": str(folder)})

    def migrate(self, *words: str, user: str = "postgres") -> tuple[int, str, str]:
        """Call the command as a user of the database."""
        return piped(["db", "migrate", *words], self.folder, {"DATABASE_URL": f"{self.address} user={user}"})

    def versions(self) -> tuple[int, int]:
        """The versions of the tables."""
        location = PostgresDatabase(address=self.address, name="", path="")
        with closing(administer(location)) as db:
            return db.versions

    def set_version(self, version: int) -> None:
        """Have tables of another release."""
        with closing(administer(PostgresDatabase(address=self.address, name="", path=""))) as db:
            db.change("UPDATE schema_version SET version = ?, oldest = ?", (version, version))

    def missing(self, user: str) -> list[str]:
        """The privileges that a user lacks."""
        location = PostgresDatabase(address=f"{self.address} user={user}", name="", path="")
        with closing(administer(location)) as db:
            return missing_privileges(db)


@pytest.fixture
def machine(database: str, tmp_path: Path) -> _Machine:
    return _Machine(tmp_path, database)


@pytest.fixture
def role(postgres: PostgresServer, machine: _Machine) -> Iterator[str]:
    """A role whose name needs quotes."""
    postgres.execute('CREATE ROLE "web-Gateway" LOGIN')
    yield "web-Gateway"
    name = machine.address.rpartition("dbname=")[2]
    postgres.execute('DROP OWNED BY "web-Gateway"', name)
    postgres.execute('DROP ROLE "web-Gateway"')


def test_an_empty_database_gets_its_tables_once(machine: _Machine) -> None:
    status, out, err = machine.migrate()
    assert (status, err) == (0, "")
    assert out.endswith(f": tables of version {len(STEPS)}, migrated\n")
    assert machine.versions()[0] == len(STEPS)
    assert machine.migrate()[1].endswith(f": tables of version {len(STEPS)}, no change\n")


def test_a_role_gets_what_serve_needs_and_no_more(machine: _Machine, role: str) -> None:
    assert machine.migrate()[0] == 0
    missing = machine.missing(role)
    assert "USAGE on schema dragoman" in missing and "INSERT on records" in missing
    assert "INSERT on dragoman_contents.bodies" in missing
    status, out, err = machine.migrate("--grant", role)
    assert (status, err, out.splitlines()[1:]) == (0, "", [f"{role} has the privileges of serve"])
    assert machine.missing(role) == []
    # It may not change tables, of which there is no need.
    assert machine.migrate(user=role)[1].endswith("no change\n")
    machine.set_version(0)
    status, out, err = machine.migrate(user=role)
    assert (status, out) == (1, "")
    assert "may not change the tables" in err and "use the role that owns them" in err
    assert machine.versions() == (0, 0)


def test_a_role_without_a_right_to_make_tables_is_refused(machine: _Machine, role: str) -> None:
    status, _, err = machine.migrate(user=role)
    assert status == 1 and "GRANT CREATE ON DATABASE" in err
    assert err.count("\n") == 1
    assert machine.versions() == (0, 0)


def test_a_role_that_does_not_exist_is_refused(machine: _Machine) -> None:
    status, _, err = machine.migrate("--grant", "nobody")
    assert status == 1 and "there is no role nobody: create it with CREATE ROLE nobody LOGIN" in err


def test_a_newer_schema_is_refused(machine: _Machine) -> None:
    assert machine.migrate()[0] == 0
    machine.set_version(1000)
    status, _, err = machine.migrate()
    assert status == 1 and "newer version; nothing was changed: use the release that migrated it" in err
    assert machine.versions() == (1000, 1000)


def test_a_file_gets_its_tables_too(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\npath = "state.db"\n', {"HOME": str(tmp_path)})
    for expected in ("migrated", "no change"):
        status, out, err = piped(["db", "migrate"], tmp_path)
        assert (status, err) == (0, "")
        assert out == f"{tmp_path / 'state.db'}: tables of version {len(sqlite.STEPS)}, {expected}\n"
    status, _, err = piped(["db", "migrate", "--grant", "serve"], tmp_path)
    assert status == 1 and "--grant needs storage.database" in err
