"""Indexes that a migration builds while gateways write: by several processes at once, one of which is killed midway."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dragoman.store.errors import StoreBusy, StoreConflict
from dragoman.store.migrations import postgres as migrations
from dragoman.store.migrations.concurrent_index import ConcurrentIndex
from dragoman.store.migrations.postgres import STEPS, migrate
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from tests.waiting import LIMIT, wait_until

_RESTS = ConcurrentIndex(name="rests_by_body", table="rests", columns="(body)")
_RECORDS = ConcurrentIndex(name="records_by_model", table="records", columns="(model, time) WHERE model <> ''")

# A release with more steps: a table that is changed, and an index of it.
_RELEASE = """
import sys
from contextlib import closing
from dragoman.store.errors import StoreBusy, StoreConflict
from dragoman.store.migrations import postgres as migrations
from dragoman.store.migrations.concurrent_index import ConcurrentIndex
from dragoman.store.postgres import PostgresAddress, PostgresConnection

def add_column(db):
    db.script("ALTER TABLE rests ADD COLUMN note text")

index = ConcurrentIndex(name="rests_by_note", table="rests", columns="(note)")
migrations.STEPS = (*migrations.STEPS, (add_column, 1), (index.build, 1))
print("begins", flush=True)
with closing(PostgresConnection(PostgresAddress(sys.argv[1]), 120, 120)) as db:
    while True:
        try:
            migrations.migrate(db, timeout=120)
            break
        except StoreBusy:
            # The test holds the table.
            continue
"""


@contextmanager
def _connected(address: str) -> Iterator[PostgresConnection]:
    with closing(PostgresConnection(PostgresAddress(address), LIMIT, LIMIT)) as db:
        yield db


@contextmanager
def _release(address: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that migrates to that release."""
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", _RELEASE, address], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begins\n"
            yield process
        finally:
            process.kill()


def _is_valid(db: PostgresConnection, index: str) -> bool | None:
    row = db.row("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(?)", (f"dragoman.{index}",))
    return None if row is None else bool(row[0])


def _is_waiting(db: PostgresConnection) -> bool:
    waiting = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        " AND query LIKE ?"
    )
    return db.number(waiting, ("ALTER TABLE rests%",)) > 0


def _is_building(db: PostgresConnection) -> bool:
    return (
        db.number("SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database()") > 0
        and _is_valid(db, "rests_by_note") is False
    )


def _finish(address: str) -> None:
    """Have four processes migrate at once."""
    with _release(address) as one, _release(address) as two, _release(address) as three, _release(address) as four:
        for process in (one, two, three, four):
            _, error = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, error.decode()


def _add_index(monkeypatch: pytest.MonkeyPatch, index: ConcurrentIndex) -> None:
    monkeypatch.setattr(migrations, "STEPS", (*STEPS, (index.build, 1)))


@pytest.mark.parametrize("is_during", [_is_waiting, _is_building])
@pytest.mark.parametrize("ends", [False, True], ids=["the server goes on", "the server ends it"])
def test_pitfall_452_a_migration_that_was_killed_midway_is_finished_by_four_at_once(
    database: str, is_during: Callable[[PostgresConnection], bool], ends: bool
) -> None:
    with _connected(database) as db, _connected(database) as user:
        migrate(db)
        if is_during is _is_building:
            # The column is there already, and the index waits for this writer.
            db.script("ALTER TABLE dragoman.rests ADD COLUMN note text")
            db.change("UPDATE schema_version SET version = version + 1")
        user.begin()
        user.change("INSERT INTO rests (subject, expires, body) VALUES ('a', 1, '')")
        try:
            with _release(database) as process:
                wait_until(lambda: is_during(db), "the migration is midway")
                process.kill()
                process.wait(LIMIT)
            if ends:
                db.rows(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND wait_event_type = 'Lock'"
                )
                wait_until(lambda: not is_during(db), "the server has ended it")
        finally:
            user.commit()
        _finish(database)
        assert db.versions == (len(STEPS) + 2, 1)
        assert _is_valid(db, "rests_by_note")
        assert db.number("SELECT count(*) FROM rests WHERE note IS NULL") == 1


def test_an_invalid_index_is_dropped_and_built_again(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _connected(database) as db:
        migrate(db)
        db.change("INSERT INTO rests (subject, expires, body) VALUES ('a', 1, ''), ('b', 1, '')")
        with pytest.raises(StoreConflict):
            db.script("CREATE UNIQUE INDEX CONCURRENTLY rests_by_body ON dragoman.rests (body)")
        assert _is_valid(db, "rests_by_body") is False
        _add_index(monkeypatch, _RESTS)
        migrate(db)
        assert _is_valid(db, "rests_by_body")
        assert db.row("SELECT indisunique FROM pg_index WHERE indexrelid = 'rests_by_body'::regclass") == (False,)


def test_all_partitions_have_an_index_also_after_a_build_that_was_interrupted(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _connected(database) as db:
        migrate(db)
        for month in range(3):
            db.rows("SELECT ensure_month(?)", (month * 31 * 86_400_000_000,))
        # The first partition was done.
        db.script("CREATE INDEX records_by_model ON ONLY dragoman.records (model, time) WHERE model <> ''")
        db.script(
            "CREATE INDEX records_1970_01_records_by_model ON dragoman.records_1970_01 (model, time) WHERE model <> ''"
        )
        assert _is_valid(db, "records_by_model") is False
        _add_index(monkeypatch, _RECORDS)
        migrate(db)
        assert _is_valid(db, "records_by_model")
        assert _is_valid(db, "records_1970_03_records_by_model")
        # Built by the server itself.
        db.rows("SELECT ensure_month(?)", (100 * 86_400_000_000,))
        parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass('dragoman.records_by_model')"
        assert db.number(parts) == 4


def test_writers_do_not_wait_for_an_index(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They write between the statements of the build, and the others wait outside of a transaction."""
    seen: list[int] = []

    def observed(apart: PostgresConnection, statements: str) -> None:
        if "CONCURRENTLY" in statements:
            user.change("INSERT INTO rests (subject, expires, body) VALUES ('a', 1, '')")
            with pytest.raises(StoreBusy, match="too long"):
                migrate(user, timeout=0)
        script(apart, statements)
        if "CONCURRENTLY" in statements:
            seen.append(user.number("SELECT count(*) FROM rests"))

    with _connected(database) as db, _connected(database) as user:
        migrate(db)
        script = PostgresConnection.script
        monkeypatch.setattr(PostgresConnection, "script", observed)
        _add_index(monkeypatch, _RESTS)
        migrate(db)
        assert seen == [1]
        assert _is_valid(db, "rests_by_body")
