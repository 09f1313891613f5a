"""The pooler for tests breaks what a real one breaks in transaction mode, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres import PostgresServer
from tests.transaction_pooler import TransactionPooler, transaction_pooler
from tests.waiting import wait_until


@pytest.fixture
def pooler(postgres: PostgresServer) -> Iterator[TransactionPooler]:
    with transaction_pooler(postgres) as running:
        yield running


def _backend(db: psycopg.Connection[tuple[object, ...]]) -> object:
    row = db.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return row[0]


def test_each_transaction_has_another_connection_to_the_server_and_only_one(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.address(), autocommit=True, prepare_threshold=None) as db:
        assert db.info.server_version >= 140000
        for _ in range(20):
            with db.transaction():
                during = _backend(db)
                assert _backend(db) == during
            assert _backend(db) != during


def test_what_is_set_for_a_session_is_missing_in_the_next_transaction(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.address(), autocommit=True, prepare_threshold=None) as db:
        db.execute("SET search_path TO elsewhere")
        row = db.execute("SHOW search_path").fetchone()
        assert row is not None and row[0] != "elsewhere"
        db.execute("PREPARE named AS SELECT 1")
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            db.execute("EXECUTE named")


def test_errors_copies_and_pipelines_pass(pooler: TransactionPooler) -> None:
    with psycopg.connect(pooler.address(), prepare_threshold=None) as db:
        with db.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE numbers (n bigint) ON COMMIT DROP")
            with cursor.copy("COPY numbers FROM STDIN") as copy:
                for number in range(1000):
                    copy.write_row((number,))
            row = cursor.execute("SELECT sum(n) FROM numbers").fetchone()
            assert row is not None and int(row[0]) == 499500
        with pytest.raises(psycopg.errors.DivisionByZero):
            db.execute("SELECT 1 / 0")
        db.rollback()
        with db.pipeline():
            results = [db.execute("SELECT %s", (number,)) for number in range(10)]
        assert [result.fetchone() for result in results] == [(number,) for number in range(10)]


def test_a_client_that_goes_takes_its_transaction_along(pooler: TransactionPooler, postgres: PostgresServer) -> None:
    gone = psycopg.connect(pooler.address(), prepare_threshold=None)
    gone.execute("SELECT pg_advisory_xact_lock(1)")
    gone.close()
    with psycopg.connect(postgres.address(), autocommit=True) as db:

        def is_free() -> bool:
            return db.execute("SELECT pg_try_advisory_xact_lock(1)").fetchone() == (True,)

        wait_until(is_free, "the lock is free")


def test_a_client_gets_the_reason_for_which_it_is_not_let_in(pooler: TransactionPooler) -> None:
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(pooler.address("nowhere"))
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        psycopg.connect(f"{pooler.address()} options='-c search_path=elsewhere'")
