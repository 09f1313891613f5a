"""The database of several machines: what a real server, a pooler before it and a restricted role are found to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.cli.doctor.disk import store
from dragoman.cli.doctor.report import SERVER, DoctorFinding, Section
from dragoman.config.settings import Server, Settings, Storage
from dragoman.database_location import PostgresDatabase
from dragoman.store import postgres_database, server_report
from dragoman.store.migrations.postgres import STEPS
from dragoman.store.postgres_database import administer, set_up
from dragoman.store.server_report import report_on
from tests.cli.machine import put_trusted
from tests.cli.screens import piped
from tests.postgres import PostgresServer
from tests.transaction_pooler import transaction_pooler
from tests.waiting import LIMIT


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a statement than a gateway waits."""
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    monkeypatch.setattr(server_report, "_round_trip", lambda db: 0.0005)


def _located(address: str) -> PostgresDatabase:
    return PostgresDatabase(address=address, name="db1:5432/dragoman", path="state.db")


def _section(address: str, workers: int = 1, connections: int = 2) -> Section:
    storage = Storage(database=_located(address), connections=connections)
    settings = Settings(server=Server(workers=workers), storage=storage)
    return store(settings)


def _messages(findings: Sequence[DoctorFinding]) -> list[str]:
    assert {finding.heading for finding in findings if finding.wrong} <= {SERVER}
    return [f"{finding.message}: {finding.advice}" for finding in findings]


def test_a_database_that_is_well_is_described(database: str) -> None:
    set_up(_located(database))
    section = _section(database, workers=4)
    facts = dict(section.facts)
    assert facts.pop("server").startswith("PostgreSQL 1")
    assert " used" in facts.pop("connections")
    assert facts == {
        "database": "db1:5432/dragoman",
        "round trip": "0.5 ms",
        "pooler": "none",
        "encryption": "none",
        "role": "postgres, which may change tables",
        "tables": f"version {len(STEPS)} of {len(STEPS)}",
    }
    assert section.findings == ()


def test_a_pooler_in_transaction_mode_is_found_and_used(postgres: PostgresServer, database: str) -> None:
    set_up(_located(database))
    with transaction_pooler(postgres) as pooler:
        section = _section(pooler.address(database.rpartition("dbname=")[2]), workers=100)
    assert dict(section.facts)["pooler"] == "in transaction mode"
    # It shares the connections of the server.
    assert section.findings == ()


def test_tables_that_are_missing_older_or_newer(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = _section(database).findings
    assert (finding.wrong, finding.advice) == (False, "the first start makes them")
    set_up(_located(database))
    with closing(administer(_located(database))) as db:
        db.change("UPDATE schema_version SET version = 0")
        assert (
            _messages(_section(database).findings)
            == ["db1:5432/dragoman has no tables yet: the first start makes them"]
            or dict(_section(database).facts)["tables"] == "cannot be read"
        )
        db.change("UPDATE schema_version SET version = 1000, oldest = 1000")
        assert _messages(_section(database).findings) == [
            "the tables of db1:5432/dragoman are newer than this release: update dragoman on this machine"
        ]


@pytest.fixture
def role(postgres: PostgresServer, database: str) -> Iterator[str]:
    postgres.execute("CREATE ROLE serving LOGIN")
    yield f"{database} user=serving"
    postgres.execute("DROP OWNED BY serving", database.rpartition("dbname=")[2])
    postgres.execute("DROP ROLE serving")


def test_privileges_that_the_role_lacks_are_named(database: str, role: str) -> None:
    (finding,) = _section(role).findings
    assert (finding.wrong, finding.advice) == (True, "run dragoman db migrate as another role")
    set_up(_located(database))
    section = _section(role)
    assert dict(section.facts)["tables"] == "cannot be read"
    (message,) = _messages(section.findings)
    assert message.startswith("the role serving lacks DELETE on ") and " more: " in message
    assert message.endswith("run dragoman db migrate --grant serving as the owner of the tables")


def test_more_connections_than_the_server_admits(database: str) -> None:
    set_up(_located(database))
    limit = report_on(_located(database)).max_connections
    (message,) = _messages(_section(database, workers=64, connections=64).findings)
    assert message.startswith(f"the gateways may have {64 * 66} = 66 × 64 workers × 1 machines connections")
    assert f"the server admits {limit - 3}: raise max_connections" in message


def test_a_server_that_is_far_away_is_a_note(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(_located(database))
    monkeypatch.setattr(server_report, "_round_trip", lambda db: 0.08)
    (finding,) = _section(database).findings
    assert not finding.wrong and "a round trip to db1:5432/dragoman takes 80 ms" in finding.message


def test_a_replica_is_found_to_be_one(database: str) -> None:
    set_up(_located(database))
    with closing(administer(_located(database))) as db:
        db.change("SELECT 1")
    (message,) = _messages(_section(f"{database} options='-c default_transaction_read_only=on'").findings)
    assert message.startswith("the database ") and "read-only, as a replica is: name the primary" in message


def test_a_server_that_cannot_be_reached_is_one_finding(tmp_path: Path) -> None:
    put_trusted(tmp_path, '[storage]\ndatabase = "$DATABASE_URL"\n', {"HOME": str(tmp_path)})
    environ = {"DATABASE_URL": "host=/nowhere dbname=d user=canary password=canary"}
    status, out, err = piped(["doctor", "--offline"], tmp_path, environ)
    assert status == 1
    assert "the database /nowhere/d does not answer" in out
    assert "canary" not in out + err


def test_a_report_has_all_that_was_found(database: str) -> None:
    report = replace(report_on(_located(database)), version="17.2", used_connections=1)
    assert report == replace(
        report,
        is_encrypted=False,
        has_pooler=False,
        changes_sessions=False,
        role="postgres",
        missing=(),
        may_migrate=True,
        has_tables=False,
        tables=0,
        oldest=0,
        is_read_only=False,
        machines=0,
    )
