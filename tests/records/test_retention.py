"""Expired rows go: single ones from a file, whole months from a server, where no reader waits for that."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

from dragoman.records.retention import Retention
from dragoman.records.rows import Batch
from dragoman.store.connection import Transaction
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.records.invented import entry
from tests.waiting import LIMIT

# The first microseconds of months of 2026, UTC.
SEPTEMBER, OCTOBER, NOVEMBER = 1_788_220_800_000_000, 1_790_812_800_000_000, 1_793_491_200_000_000
DAY = 86_400_000_000
MONTHS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'records'::regclass ORDER BY 1"


def _fill(tables: RecordTables, times: list[int]) -> None:
    batch = Batch()
    for number, time in enumerate(times):
        batch.add_unassigned(entry(number, time=time))
    with tables.transaction():
        batch.write_rows(tables)
        batch.write_rollups(tables)


def _times(tables: RecordTables) -> list[int]:
    return [row[0] for row in tables.connection.rows("SELECT time FROM records ORDER BY time")]


def _requests(tables: RecordTables) -> int:
    return tables.connection.number("SELECT sum(requests) FROM quarter_sums")


def test_single_rows_go_from_a_file_and_totals_stay(tmp_path: Path) -> None:
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
        _fill(tables, [SEPTEMBER, OCTOBER, OCTOBER + 10 * DAY, NOVEMBER])
        retention = Retention(30, threading.Event())
        assert retention.is_due
        retention.run(tables, OCTOBER + 31 * DAY)
        assert _times(tables) == [OCTOBER + 10 * DAY, NOVEMBER]
        assert (retention.removed, _requests(tables), retention.is_due) == (2, 4, False)


def test_pitfall_753_whole_months_go_from_a_server_and_no_reader_waits(database: str) -> None:
    address = PostgresAddress(database)
    with (
        closing(PostgresConnection(address, LIMIT, LIMIT)) as db,
        closing(PostgresConnection(address, LIMIT, LIMIT)) as reader,
    ):
        migrate(db)
        tables = RecordTables(db)
        _fill(tables, [SEPTEMBER, SEPTEMBER + DAY, OCTOBER, OCTOBER + 10 * DAY, NOVEMBER])
        retention = Retention(30, threading.Event())
        with Transaction(reader):
            assert reader.number("SELECT count(*) FROM records") == 5
            retention.run(tables, OCTOBER + 31 * DAY)
            # The month is in use: nothing of it is gone, and others can read and write it.
            assert len(_times(tables)) == reader.number("SELECT count(*) FROM records") == 5
            _fill(tables, [OCTOBER + 11 * DAY])
        assert not retention.is_due
        retention.run(tables, OCTOBER + 31 * DAY)
        assert [row[0] for row in db.rows(MONTHS)] == ["records_2026_10", "records_2026_11"]
        assert _times(tables) == [OCTOBER + 10 * DAY, OCTOBER + 11 * DAY, NOVEMBER]
        # Of the month at the boundary single rows go.
        assert retention.removed == 1
        assert _requests(tables) == 6
        retention.run(tables, NOVEMBER + 60 * DAY)
        assert (_times(tables), db.rows(MONTHS)) == ([], [])
