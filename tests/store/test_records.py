"""The table of exchanges."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.connection import Connection
from dragoman.store.records import COLUMNS
from tests.records.invented import NOON, entry, row_of
from tests.store.opened import opened_records, sqlite

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.sqlite_only
def test_the_columns_are_those_of_the_table() -> None:
    with closing(opened_records()) as tables:
        found = [row[1] for row in tables.connection.rows("PRAGMA table_info(records)")]
    assert tuple(found) == ("number", *COLUMNS)


def test_pitfall_427_two_exchanges_of_one_id_are_two_rows() -> None:
    """Ids of providers and clients are columns, and nothing else; what a row is told by is the file's own number."""
    with closing(opened_records()) as tables:
        tables.records.add([row_of(entry(1), AssignedThread()), row_of(entry(1), AssignedThread())])
        assert tables.records.count() == 2
        numbers = [row[0] for row in tables.connection.rows("SELECT number FROM records ORDER BY number")]
        assert numbers == [1, 2]


def test_rows_before_a_time_are_removed_some_at_a_time_the_oldest_first() -> None:
    with closing(opened_records()) as tables:
        tables.records.add([row_of(entry(number, time=NOON + number), AssignedThread()) for number in range(10)])
        assert tables.records.remove_before(NOON + 5, 3) == 3
        left = tables.connection.row("SELECT min(time) FROM records")
        assert left == (NOON + 3,)
        assert tables.records.remove_before(NOON + 5, 3) == 2
        assert tables.records.remove_before(NOON + 5, 3) == 0
        assert tables.records.count() == 5


@pytest.mark.sqlite_only
def test_lists_and_retention_go_by_the_index_on_time() -> None:
    with closing(opened_records()) as tables:
        plan = _plan(sqlite(tables.connection), "SELECT number FROM records WHERE time < 5 ORDER BY time LIMIT 3")
    assert "records_by_time" in plan


def _plan(db: Connection, question: str) -> str:
    return " ".join(str(row[3]) for row in db.rows(f"EXPLAIN QUERY PLAN {question}"))
