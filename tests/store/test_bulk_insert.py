"""Rows are added, few or many."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import StoreError
from dragoman.store.bulk_insert import BulkInsert, RunInsert
from dragoman.store.sqlite import connect


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 32, 50])
def test_all_rows_are_added_in_their_order(count: int) -> None:
    rows = [(f"name {number}", number) for number in range(count)]
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (name TEXT, number INTEGER)")
        BulkInsert("things", ("name", "number")).run(db, rows)
        assert db.execute("SELECT name, number FROM things ORDER BY rowid").fetchall() == rows


@pytest.mark.parametrize("count", [1, 40])
def test_rows_that_are_there_grow(count: int) -> None:
    grown = BulkInsert(
        "things", ("name", "number"), "ON CONFLICT (name) DO UPDATE SET number = number + excluded.number"
    )
    rows = [(f"name {number % 30}", 1) for number in range(count)]
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (name TEXT PRIMARY KEY, number INTEGER)")
        grown.run(db, rows)
        grown.run(db, rows)
        assert db.execute("SELECT sum(number) FROM things").fetchone() == (2 * count,)
        assert db.execute("SELECT count(*) FROM things").fetchone() == (min(count, 30),)


@pytest.mark.parametrize("count", [1, 40])
def test_a_row_that_cannot_be_added_takes_the_transaction_back(count: int) -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (name TEXT PRIMARY KEY, number INTEGER)")
        db.execute("BEGIN")
        db.execute("INSERT INTO things VALUES ('name 0', 0)")
        with pytest.raises(StoreError):
            BulkInsert("things", ("name", "number")).run(db, [(f"name {number}", 1) for number in range(count)])
        assert not db.in_transaction
        assert db.execute("SELECT count(*) FROM things").fetchone() == (0,)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40, 41, 75])
def test_runs_of_rows_are_those_that_were_handed_in(count: int) -> None:
    insert = RunInsert("things", ("number", "size", "name", "kind"), own=2, optional="size")
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (kind TEXT, name TEXT, size INTEGER, number INTEGER)")
        # Runs of many lengths.
        rows = [((at, at % 3), (f"n{at // 17}", "k")) for at in range(count)]
        insert.run(db, rows)
        found = db.execute("SELECT number, coalesce(size, 0), name, kind FROM things ORDER BY rowid").fetchall()
        assert found == [(*own, *others) for own, others in rows]
        assert db.execute("SELECT count(*) FROM things WHERE size = 0").fetchone() == (0,)
