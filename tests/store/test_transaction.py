"""Several writes that are one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dragoman.store.errors import is_busy
from dragoman.store.transaction import StoreConnection, Transaction


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


def test_one_inside_another_is_undone_alone_by_whoever_catches_its_error() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("CREATE TABLE kept (value INTEGER)")
        with Transaction(db):
            db.execute("INSERT INTO kept VALUES (1)")
            with suppress(RuntimeError), Transaction(db):
                db.execute("INSERT INTO kept VALUES (2)")
                with Transaction(db):
                    db.execute("INSERT INTO kept VALUES (3)")
                raise RuntimeError
            with Transaction(db):
                db.execute("INSERT INTO kept VALUES (4)")
        assert _values(db) == [1, 4]


def test_nothing_is_written_behind_a_transaction_that_a_full_disk_took_back() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None, factory=StoreConnection)) as db:
        db.execute("CREATE TABLE kept (value)")
        db.execute("PRAGMA max_page_count = 20")
        db.execute("BEGIN IMMEDIATE")
        db.in_unit = True
        with pytest.raises(sqlite3.OperationalError, match="full"), Transaction(db):
            db.execute("INSERT INTO kept VALUES (zeroblob(1000000))")
        assert not db.in_transaction
        with pytest.raises(sqlite3.OperationalError, match="taken back"), Transaction(db):
            db.execute("INSERT INTO kept VALUES (1)")
        assert _values(db) == []


def test_nobody_waits_for_a_writer_that_does_not_end(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as db,
    ):
        other.execute("CREATE TABLE kept (value INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as told, Transaction(db):
            pass
        assert is_busy(told.value)
        assert not db.in_transaction
        other.execute("ROLLBACK")
        with Transaction(db):
            db.execute("INSERT INTO kept VALUES (1)")
        assert _values(db) == [1]


def test_what_fails_by_itself_is_not_busy() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        with pytest.raises(sqlite3.OperationalError) as told, Transaction(db):
            db.execute("INSERT INTO nowhere VALUES (1)")
        assert not is_busy(told.value)
        assert not is_busy(sqlite3.IntegrityError())


def test_what_cannot_be_committed_is_not_left_open() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("CREATE TABLE kept (value INTEGER PRIMARY KEY)")
        db.execute("CREATE TABLE of (value INTEGER REFERENCES kept DEFERRABLE INITIALLY DEFERRED)")
        with pytest.raises(sqlite3.IntegrityError), Transaction(db):
            db.execute("INSERT INTO of VALUES (1)")
        assert not db.in_transaction
