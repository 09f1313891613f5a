"""The report on a server; what it leads to is in `tests/cli/doctor/test_database.py`."""

from __future__ import annotations

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store import postgres_database
from dragoman.store.migrations.postgres import STEPS
from dragoman.store.postgres_database import set_up
from dragoman.store.server_report import report_on
from tests.postgres import PostgresServer
from tests.transaction_pooler import transaction_pooler
from tests.waiting import LIMIT


def test_a_report_says_what_there_is_and_makes_nothing(
    database: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "TIMEOUT", LIMIT)
    location = PostgresDatabase(address=database, name="", path="")
    for _ in range(2):
        empty = report_on(location)
        assert (empty.has_tables, empty.tables, empty.missing, empty.may_migrate) == (False, 0, (), True)
    assert (empty.role, empty.is_encrypted, empty.has_pooler, empty.changes_sessions) == ("postgres", *[False] * 3)
    assert 0 < empty.used_connections < empty.max_connections and empty.round_trip > 0
    set_up(location)
    made = report_on(location)
    assert (made.has_tables, made.tables, made.newest, made.is_read_only) == (True, len(STEPS), len(STEPS), False)
    with transaction_pooler(postgres) as pooler:
        pooled = PostgresDatabase(address=pooler.address(database.rpartition("dbname=")[2]), name="", path="")
        report = report_on(pooled)
    assert (report.has_pooler, report.changes_sessions) == (True, True)
