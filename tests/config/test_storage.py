"""`[storage]` with a database of PostgreSQL: its address, what is shown of it, and what is wrong with it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from dragoman.config.config_file import ConfigFile, FileOrigin
from dragoman.config.effective_settings import list_effective_settings
from dragoman.config.load import read_settings
from dragoman.config.settings import Storage
from dragoman.config.trust_summary import describe
from dragoman.database_location import PostgresDatabase
from dragoman.providers.catalogue import catalogue
from tests.config.support import CATALOGUE, named, problems_of, settings_of

CANARY = "canary%40%2F%3A%3F%23%5B%5D%25%27%22%20"
ADDRESS = f"postgresql://user-{CANARY}:pass-{CANARY}@db1,db2:6432/dragoman?target_session_attrs=read-write"
VERIFIED = f"{ADDRESS}&sslmode=verify-full"
NAMED = '[storage]\ndatabase = "$DATABASE_URL"\npath = "/state/state.db"\n'


def storage_of(tmp_path: Path, more: str = "", address: str = VERIFIED) -> Storage:
    """The settings of a database."""
    return settings_of(tmp_path, NAMED + more, {"DATABASE_URL": address}).storage


def problem_of(tmp_path: Path, address: str, text: str = NAMED) -> str:
    """The one problem with an address."""
    (problem,) = problems_of(tmp_path, text, {"DATABASE_URL": address} if address else {})
    return problem


def test_a_database_has_the_address_of_the_environment_and_what_this_machine_says(tmp_path: Path) -> None:
    storage = storage_of(tmp_path, 'machine = "eu-1"\nconnections = 4\njournal_keep = "2 h"\n')
    assert storage.location == PostgresDatabase(
        address=VERIFIED,
        name="db1,db2:6432/dragoman",
        path="/state/state.db",
        journal_keep=7200.0,
        machine="eu-1",
    )
    assert (storage.connections, storage.is_persistent) == (4, True)


def test_a_machine_is_called_as_its_host(tmp_path: Path) -> None:
    database = storage_of(tmp_path).location
    assert isinstance(database, PostgresDatabase)
    assert (database.machine, database.journal_keep) == (socket.gethostname(), 3600.0)


def test_no_text_of_the_settings_has_user_or_password(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(NAMED)
    file, environ = ConfigFile(path=path, origin=FileOrigin.NAMED), {"DATABASE_URL": VERIFIED}
    settings = settings_of(tmp_path, NAMED, environ)
    listed = [str(each) for each in list_effective_settings(settings, file, environ, catalogue())]
    assert f"storage.database = db1,db2:6432/dragoman ({path}:2)" in listed
    assert "canary" not in f"{listed}{settings!r}"


def test_an_address_in_the_file_is_a_secret_of_the_file(tmp_path: Path) -> None:
    text = NAMED.replace("$DATABASE_URL", VERIFIED)
    settings_of(tmp_path, text)
    (tmp_path / "dragoman.toml").chmod(0o644)
    warnings = read_settings(named(tmp_path / "dragoman.toml"), {}, CATALOGUE).warnings
    assert [warning for warning in warnings if "can be read by others" in warning]
    told = describe({"storage": {"database": VERIFIED, "path": "a"}}, catalogue())
    assert {"sets storage.database = an address in the file", "sets storage.path = a"} <= set(told)
    assert "canary" not in f"{told}{warnings}"


@pytest.mark.parametrize("mode", ["", "&sslmode=disable", "&sslmode=prefer", "&sslmode=require", "&sslmode=verify-ca"])
def test_a_connection_to_another_machine_is_verified(tmp_path: Path, mode: str) -> None:
    problem = problem_of(tmp_path, ADDRESS + mode)
    assert "storage.database: the connection to db1,db2:6432/dragoman is not verified" in problem
    assert "sslmode=verify-full" in problem and "canary" not in problem


def test_an_unverified_connection_may_be_allowed_and_is_warned_of(tmp_path: Path) -> None:
    text = f"{NAMED}allow_unverified_database = true\n"
    settings = settings_of(tmp_path, text, {"DATABASE_URL": ADDRESS})
    assert [warning for warning in settings.warnings if "allow_unverified_database" in warning]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://127.0.0.1/dragoman",
        "postgresql://[::1],localhost/dragoman",
        "postgresql:///dragoman?host=/run/postgresql",
        "host=@abstract dbname=dragoman",
        "host=db1 hostaddr=127.0.0.1 dbname=dragoman",
    ],
)
def test_on_this_machine_nothing_needs_to_be_verified(tmp_path: Path, address: str) -> None:
    assert isinstance(storage_of(tmp_path, address=address).location, PostgresDatabase)


@pytest.mark.parametrize(
    "address",
    ["host=localhost,db1 dbname=d", "host=localhost hostaddr=10.0.0.1 dbname=d", "service=mine", "dbname=d"],
)
def test_every_host_counts_and_those_of_the_environment_do(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "db9")
    assert "is not verified" in problem_of(tmp_path, address)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", "the environment variable DATABASE_URL is not set (export DATABASE_URL=…)"),
        ("mysql://canary@db/dragoman", "the address of the database cannot be read"),
        ("postgresql://user:canary/x@db/dragoman", "percent-encode special characters of user and password"),
    ],
)
def test_an_address_that_cannot_be_used_is_told_without_it(tmp_path: Path, address: str, expected: str) -> None:
    problem = problem_of(tmp_path, address)
    assert expected in problem and "canary" not in problem


def test_journals_need_a_path(tmp_path: Path) -> None:
    text = NAMED.replace("/state/state.db", ":memory:")
    assert "needs a directory for the journals of this machine" in problem_of(tmp_path, VERIFIED, text)


def test_without_the_driver_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "dragoman.store.postgres", raising=False)
    assert "psycopg, which is not installed (pip install '.[postgres]' in a clone of dragoman)" in problem_of(
        tmp_path, VERIFIED
    )


@pytest.mark.parametrize("name", ["two words", "", "-x", "a" * 65])
def test_a_machine_has_a_name_that_logs_can_show(tmp_path: Path, name: str) -> None:
    text = f'{NAMED}machine = "{name}"\n'
    (problem,) = problems_of(tmp_path, text, {"DATABASE_URL": VERIFIED})
    assert "storage.machine: expected" in problem
