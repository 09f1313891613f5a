"""Several writes that are one."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from dragoman.store.transaction import Transaction


def _values(db: sqlite3.Connection) -> list[int]:
    return [row[0] for row in db.execute("SELECT value FROM kept ORDER BY value")]


def test_all_is_written_or_nothing() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE TABLE kept (value INTEGER)")
        with Transaction(db):
            db.execute("INSERT INTO kept VALUES (1)")
            db.execute("INSERT INTO kept VALUES (2)")
        with pytest.raises(RuntimeError), Transaction(db):
            db.execute("INSERT INTO kept VALUES (3)")
            raise RuntimeError
        assert _values(db) == [1, 2]
        assert not db.in_transaction


def test_one_inside_another_is_a_part_of_it() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE TABLE kept (value INTEGER)")
        with pytest.raises(RuntimeError), Transaction(db):
            with Transaction(db):
                db.execute("INSERT INTO kept VALUES (1)")
            assert db.in_transaction
            raise RuntimeError
        assert _values(db) == []
