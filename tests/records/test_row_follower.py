"""Rows are followed by their numbers, and none is missed or returned twice when numbers are given again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records import row_follower
from dragoman.records.row_follower import RowFollower
from dragoman.records.thread_assignment import NOWHERE
from dragoman.store.record_queries import RecordFilter
from dragoman.store.record_tables import RecordTables
from tests.records.filled import fill
from tests.records.invented import entry
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[RecordTables]:
    with closing(opened_records(tmp_path / "state.db")) as tables:
        yield tables


def add(tables: RecordTables, *numbers: int, key: str = "alice") -> None:
    fill(tables, [(entry(number, key=key), NOWHERE) for number in numbers])


def lose(tables: RecordTables, most: int) -> None:
    """Take the latest rows, as a failover does, or an erasure."""
    with tables.transaction():
        tables.connection.change("DELETE FROM records WHERE number > (SELECT max(number) FROM records) - ?", (most,))


def read(follower: RowFollower, tables: RecordTables, most: int = 100) -> list[int]:
    return [int(each.entry.id[4:]) for each in follower.read(tables, most)]


def begun(tables: RecordTables, wanted: RecordFilter | None = None, most: int = 0) -> RowFollower:
    follower = RowFollower(wanted or RecordFilter())
    follower.begin(tables, most)
    return follower


def test_rows_are_returned_as_they_are_added(tables: RecordTables) -> None:
    follower = RowFollower(RecordFilter())
    assert (follower.begin(tables, 5), follower.number) == ([], 0)
    add(tables, 1, 2)
    assert read(follower, tables) == [1, 2]
    assert read(follower, tables) == []
    add(tables, 3, 4, 5)
    assert read(follower, tables, most=2) == [3, 4]
    assert read(follower, tables, most=2) == [5]
    assert [each.entry.id for each in RowFollower(RecordFilter()).begin(tables, 2)] == [entry(4).id, entry(5).id]


def test_rows_that_match_are_returned_whatever_is_between(tables: RecordTables) -> None:
    add(tables, 1)
    follower = begun(tables, RecordFilter(key="bob"))
    add(tables, 2)
    assert read(follower, tables) == []
    add(tables, 3, key="bob")
    lose(tables, 1)
    add(tables, 4)
    add(tables, 3, 5, key="bob")
    assert read(follower, tables) == [3, 5]


def test_rows_that_a_failover_took_are_returned_once_with_those_that_took_their_numbers(tables: RecordTables) -> None:
    add(tables, *range(10))
    follower = begun(tables)
    add(tables, 10, 11)
    assert read(follower, tables) == [10, 11]
    add(tables, 12, 13)
    assert read(follower, tables) == [12, 13]
    lose(tables, 3)
    # Rows of another machine come before those that are ingested again.
    add(tables, 20, 11, 21, 12, 13)
    assert read(follower, tables) == [20, 21]
    add(tables, 22)
    assert read(follower, tables) == [22]


def test_also_rows_from_before_the_first_read_may_be_taken(tables: RecordTables) -> None:
    add(tables, *range(10))
    follower = begun(tables)
    lose(tables, 5)
    assert read(follower, tables) == []
    add(tables, 20, 5, 6, 7, 8, 9, 21)
    assert read(follower, tables) == [20, 21]


def test_if_no_known_row_is_left_new_ones_are_returned(tables: RecordTables) -> None:
    add(tables, 1, 2, 3)
    follower = begun(tables)
    lose(tables, 3)
    assert read(follower, tables) == []
    add(tables, 4)
    assert read(follower, tables) == [4]


def test_memory_is_bounded(tables: RecordTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_follower, "_READS", 4)
    monkeypatch.setattr(row_follower, "_RETURNED", 6)
    follower = begun(tables)
    for number in range(20):
        add(tables, number)
        assert read(follower, tables) == [number]
    assert (len(follower._known), len(follower._returned)) == (4, 6)
