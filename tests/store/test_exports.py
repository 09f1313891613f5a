"""Rows come one after the other, in order, and what is written meanwhile is not among them."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.errors import StoreError
from dragoman.store.record_queries import Exports
from tests.records.filled import fill, some_entries, speak
from tests.records.invented import NOON, entry
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

EVER = 1 << 60


def test_rows_are_told_in_the_order_of_their_times_however_many_are_read_at_once() -> None:
    with closing(opened_records()) as tables:
        entries = some_entries(1, 200)
        # Some at the very same moment.
        fill(tables, [*entries, *((entry(1000 + number), AssignedThread()) for number in range(50))])
        for at_once in (1, 7, 1000):
            found = list(Exports(tables.connection, at_once).rows(("time", "id"), 0, EVER))
            assert len(set(found)) == 250
            assert [time for time, _ in found] == sorted(time for time, _ in found)
        ids = [row[1] for row in found if row[0] == NOON]
        assert ids == sorted(ids)


def test_edges_are_those_that_were_asked_for() -> None:
    with closing(opened_records()) as tables:
        fill(tables, [(entry(number, time=NOON + number), AssignedThread()) for number in range(5)])
        assert list(Exports(tables.connection).rows(("time",), NOON + 1, NOON + 3)) == [(NOON + 1,), (NOON + 2,)]


def test_what_is_written_meanwhile_is_not_told() -> None:
    with closing(opened_records()) as tables:
        fill(tables, [(entry(number, time=NOON + number), AssignedThread()) for number in range(4)])
        rows = Exports(tables.connection, at_once=2).rows(("id",), 0, EVER)
        next(rows)
        fill(tables, [(entry(9, time=NOON + 9), AssignedThread())])
        assert len(list(rows)) == 3


def test_names_of_sessions_and_threads_are_told_as_far_as_they_are_known() -> None:
    with closing(opened_records()) as tables:
        fill(tables, [(entry(1), AssignedThread(1, 2)), (entry(2), AssignedThread()), (entry(3), AssignedThread(8, 9))])
        speak(tables, [(1, "alice", "first")], [(2, 1)])
        found = list(Exports(tables.connection).rows(("session_name", "thread_name", "thread_class"), 0, EVER))
    assert found == [("first", "thread-2", "main"), (None, None, None), (None, None, None)]


@pytest.mark.sqlite_only
def test_a_page_is_found_by_the_index_on_time() -> None:
    with closing(opened_records()) as tables:
        plan = tables.connection.rows(
            "EXPLAIN QUERY PLAN SELECT id FROM records r"
            " WHERE (r.time, r.number) > (1, 2) AND r.time < 9 ORDER BY r.time, r.number LIMIT 5"
        )
    assert "SEARCH r USING INDEX records_by_time (time>? AND time<?)" in str(plan)
    assert "B-TREE" not in str(plan)


@pytest.mark.sqlite_only
def test_what_sqlite_says_is_an_error_of_the_store() -> None:
    with closing(opened_records()) as tables:
        tables.connection.change("DROP TABLE records")
        with pytest.raises(StoreError, match="records"):
            list(Exports(tables.connection).rows(("id",), 0, 1))
