"""The table of unassigned rows: ranges, relations, and rows that are removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dragoman.records.thread_assignment import NOWHERE
from dragoman.store.record_tables import RecordTables
from dragoman.store.unassigned import RowScope
from tests.records.invented import NOON, entry, row_of
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

SECOND = 1_000_000


@pytest.fixture
def tables() -> Iterator[RecordTables]:
    with closing(opened_records()) as tables:
        keys = ("alice", "bob", "alice")
        rows = [row_of(entry(at, key=key, time=NOON + at * SECOND), NOWHERE) for at, key in enumerate(keys)]
        assert tables.records.add(rows) == 1
        tables.unassigned.add([(1, 1), (2, 3)], [(5, 1), (5, 3), (7, 2)])
        yield tables


def test_ranges_are_of_time_and_key(tables: RecordTables) -> None:
    unassigned = tables.unassigned
    assert unassigned.oldest(2) == [1, 2]
    assert unassigned.newest(RowScope(), 2) == [3, 2]
    assert unassigned.newest(RowScope(since=NOON + SECOND, until=NOON + 2 * SECOND), 9) == [2]
    assert unassigned.newest(RowScope(key="alice"), 9) == [3, 1]
    assert unassigned.count(RowScope(since=NOON + SECOND)) == 2
    assert unassigned.count(RowScope(key="bob")) == 1
    assert unassigned.present([4, 3, 2]) == [3, 2]


def test_rows_are_found_by_their_relations(tables: RecordTables) -> None:
    assert tables.unassigned.related([5, 6], 9) == [1, 3]
    assert tables.unassigned.related([5, 7], 1) == [1]
    (row,) = tables.unassigned.rows([2])
    assert (row.number, row.id, row.key, row.requested_model) == (2, entry(1).id, "bob", "large")


def test_what_is_assigned_waits_no_more(tables: RecordTables) -> None:
    tables.unassigned.assign([(0, 0, 1)], [(5, 1)])
    assert tables.unassigned.oldest(9) == [2, 3]
    assert tables.unassigned.related([5], 9) == [3]


def test_rows_that_are_removed_leave_relations_until_nothing_waits(tables: RecordTables) -> None:
    tables.records.remove_before(NOON + 2 * SECOND, 9)
    assert tables.unassigned.oldest(9) == [3]
    assert tables.unassigned.related([5, 7], 9) == [3]
    assert not tables.unassigned.has_stray_relations()
    tables.records.remove_before(NOON + 3 * SECOND, 9)
    assert tables.unassigned.has_stray_relations()
    tables.unassigned.remove_stray_relations()
    assert not tables.unassigned.has_stray_relations()
