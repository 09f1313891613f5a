"""Records on PostgreSQL: every row is there once, also after a failover that took the latest ones."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from dragoman.records import ingest_thread as module
from dragoman.records.journal_entry import OPEN
from dragoman.store import postgres_database
from tests.postgres import PostgresServer
from tests.records.invented import entry
from tests.records.machines import located, numbers, running
from tests.waiting import LIMIT, wait_until


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine takes longer for a statement, and for its turn, than a gateway waits."""
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    monkeypatch.setattr(module, "_LOCK_TIMEOUT", LIMIT)


def replace_by_copy(server: PostgresServer, name: str, copy: str) -> None:
    """Let an earlier copy of a database answer under its name, as a promoted replica does."""
    server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    def renamed() -> bool:
        try:
            server.execute(f"ALTER DATABASE {name} RENAME TO {name}_lost")
        except psycopg.errors.ObjectInUse:
            # The terminated sessions have not ended yet.
            return False
        return True

    wait_until(renamed, "the former database has another name")
    server.execute(f"ALTER DATABASE {copy} RENAME TO {name}")


def test_pitfall_750_records_that_a_failover_took_are_ingested_again(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COMPARE_EVERY", 0.0)
    name = postgres.create()
    database = located(postgres, name, tmp_path)
    with running(database) as machine:
        for number in range(1, 4):
            machine.journal.finalize(entry(number))
        wait_until(lambda: machine.thread.rows == 3, "three rows")
    copy = postgres.create(template=name)
    with running(database) as machine:
        machine.journal.finalize(entry(4))
        machine.journal.open(entry(5, outcome=OPEN))
        machine.journal.rotate()
        machine.journal.finalize(entry(6))
        wait_until(lambda: machine.thread.rows == 2, "two more rows")
        assert numbers(database) == [1, 2, 3, 4, 6]
        replace_by_copy(postgres, name, copy)
        wait_until(lambda: numbers(database) == [1, 2, 3, 4, 6], "the rows are there again")
        machine.journal.finalize(entry(5))
        wait_until(lambda: numbers(database) == [*range(1, 7)], "another row")
        assert any("has lost records: " in words for words in machine.log)
    with running(database):
        pass
    assert numbers(database) == [*range(1, 7)]


def test_two_machines_add_to_the_same_totals_at_once(postgres: PostgresServer, tmp_path: Path) -> None:
    """Without their lock they would wait for each other: totals are changed in another order than they are sorted."""
    name = postgres.create()
    one, other = (located(postgres, name, tmp_path / machine) for machine in ("one", "other"))
    with running(one) as first, running(other) as second:
        for number in range(200):
            (first if number % 2 else second).journal.finalize(entry(number, key=f"key-{number * 7 % 5}"))
        wait_until(lambda: first.thread.rows + second.thread.rows == 200, "all rows")
        assert first.log == second.log == []
    assert numbers(one) == [*range(200)]


def test_an_outage_of_the_database_is_a_backlog_on_the_disk(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_INTERVAL", 0.05)
    name = postgres.create()
    database = located(postgres, name, tmp_path)
    with running(database) as machine:
        machine.journal.finalize(entry(1))
        wait_until(lambda: machine.thread.rows == 1, "one row")
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        for number in range(2, 50):
            machine.journal.finalize(entry(number))
        wait_until(lambda: bool(machine.thread.problem), "ingestion fails")
        assert machine.thread.backlog > 0
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        wait_until(lambda: machine.thread.rows == 49, "the rest of the rows")
        wait_until(lambda: not machine.thread.problem, "ingestion is right again")
    assert numbers(database) == [*range(1, 50)]
    # The heartbeat logs that the server is away.
    assert machine.log == []
