"""Rows are added, few or many."""

from __future__ import annotations

from contextlib import closing

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import StoreError
from dragoman.store.bulk_insert import BulkInsert
from dragoman.store.connection import Transaction
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
        "things", ("name", "number"), "ON CONFLICT (name) DO UPDATE SET number = things.number + excluded.number"
    )
    rows = [(f"name {number}", 1) for number in range(count)]
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (name TEXT PRIMARY KEY, number INTEGER)")
        grown.run(db, rows)
        grown.run(db, rows)
        assert db.execute("SELECT sum(number) FROM things").fetchone() == (2 * count,)
        assert db.execute("SELECT count(*) FROM things").fetchone() == (count,)


@pytest.mark.parametrize("count", [1, 40])
def test_a_row_that_cannot_be_added_takes_the_transaction_back(count: int) -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (name TEXT PRIMARY KEY, number INTEGER)")
        with pytest.raises(StoreError), Transaction(db):
            db.execute("INSERT INTO things VALUES ('name 0', 0)")
            BulkInsert("things", ("name", "number")).run(db, [(f"name {number}", 1) for number in range(count)])
        assert not db.in_transaction
        assert db.execute("SELECT count(*) FROM things").fetchone() == (0,)
