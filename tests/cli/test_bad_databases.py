"""Databases that no command can use: one sentence with the remedy, no word of user or password, and nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.postgres_database import administer, set_up
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.postgres import PostgresServer, postgres_server
from tests.records.filled import filled_file, some_entries
from tests.transaction_pooler import transaction_pooler

# Commands that need the database, of which each kind opens it in its own way.
COMMANDS = (("db", "migrate"), ("db", "import", "old.db"), ("key", "list"), ("key", "new", "laptop"), ("usage",))


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    put_trusted(tmp_path, '[storage]\ndatabase = "$DATABASE_URL"\n', {"HOME": str(tmp_path)})
    filled_file(tmp_path / "old.db", some_entries(1, 5))
    return tmp_path


def _refused(machine: Path, address: str, remedy: str) -> None:
    """All commands refuse an address with one sentence."""
    for words in COMMANDS:
        status, out, err = piped(words, machine, {"DATABASE_URL": address})
        assert (status, out) == (1, ""), (words, out, err)
        assert err.count("\n") == 1 and remedy in err, (words, err)
        assert "canary" not in err


@pytest.mark.parametrize("address", ["mysql://canary@db/d", "postgresql://canary:canary/@db/d", "host='canary"])
def test_an_address_that_cannot_be_read(machine: Path, address: str) -> None:
    for words in COMMANDS:
        status, out, err = piped(words, machine, {"DATABASE_URL": address})
        assert (status, out) == (1, "")
        assert "the address of the database cannot be read" in err and "canary" not in err


def test_a_server_that_is_away(machine: Path) -> None:
    _refused(machine, "host=/nowhere dbname=d user=canary password=canary", "the database /nowhere/d does not answer")


def test_a_database_or_a_role_that_does_not_exist(machine: Path, postgres: PostgresServer) -> None:
    _refused(machine, postgres.address("nowhere"), "does not exist: create it, or correct its name in storage.database")
    _refused(machine, postgres.address(user="canary"), "refuses the user: correct user and password")


@pytest.fixture
def old(postgres: PostgresServer, database: str) -> Iterator[str]:
    """A server that reports an old version: a real one cannot be installed everywhere."""
    with transaction_pooler(postgres, "13.14") as pooler:
        yield pooler.address(database.rpartition("dbname=")[2])


def test_a_server_that_is_too_old(machine: Path, old: str, database: str) -> None:
    _refused(machine, old, "is of PostgreSQL 13.14: update it to 14 or newer")
    assert _versions(database) == (0, 0)


def _versions(address: str) -> tuple[int, int]:
    with closing(administer(PostgresDatabase(address=address, name="", path=""))) as db:
        return db.versions


def test_a_replica_alone(machine: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    with postgres_server("wal_level=replica", "max_wal_senders=4") as primary, ExitStack() as stack:
        set_up(PostgresDatabase(address=primary.address(), name="", path=""))
        replica = stack.enter_context(postgres_server("hot_standby=on", primary=primary))
        _refused(machine, replica.address(), "is read-only, as a replica is: name the primary in storage.database")
        # The host that accepts writes is found.
        both = f"host={replica.directory},{primary.directory} user=postgres dbname=postgres"
        status, _, err = piped(["key", "new", "laptop"], machine, {"DATABASE_URL": both})
        assert status == 0, err


def test_connections_that_are_used_up(machine: Path) -> None:
    with (
        postgres_server("max_connections=4", "superuser_reserved_connections=0") as server,
        ExitStack() as others,
    ):
        set_up(PostgresDatabase(address=server.address(), name="", path=""))
        for _ in range(4):
            others.enter_context(psycopg.connect(server.address()))
        _refused(machine, server.address(), "no connection left: raise max_connections, or lower storage.connections")


def test_a_role_without_privileges(machine: Path, postgres: PostgresServer, database: str) -> None:
    set_up(PostgresDatabase(address=database, name="", path=""))
    postgres.execute("CREATE ROLE canary LOGIN")
    try:
        for words in COMMANDS:
            status, out, err = piped(words, machine, {"DATABASE_URL": f"{database} user=canary"})
            assert (status, out) == (1, ""), (words, out, err)
            is_owners = words[0] == "db"
            assert (
                "may not change the tables" if is_owners else "lacks a privilege: the owner of the tables runs"
            ) in err, (words, err)
    finally:
        postgres.execute("DROP ROLE canary")


def test_a_newer_schema(machine: Path, database: str) -> None:
    set_up(PostgresDatabase(address=database, name="", path=""))
    with closing(administer(PostgresDatabase(address=database, name="", path=""))) as db:
        db.change("UPDATE schema_version SET version = 1000, oldest = 1000")
    _refused(machine, database, "newer version")
    assert _versions(database) == (1000, 1000)


def test_an_older_schema(machine: Path, database: str) -> None:
    """An empty one, for a command that does not make it."""
    for words in (("key", "list"), ("usage",)):
        status, out, err = piped(words, machine, {"DATABASE_URL": database})
        assert (status, out) == (1, "")
        assert "run dragoman db migrate" in err
