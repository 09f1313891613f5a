"""Several writes that are one."""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

import pytest

from dragoman.database_location import MEMORY
from dragoman.store.connection import Connection, Transaction
from dragoman.store.errors import StoreBusy, StoreError, StoreFull
from dragoman.store.sqlite import connect


def _values(db: Connection) -> list[int]:
    return [row[0] for row in db.rows("SELECT value FROM kept ORDER BY value")]


def test_all_is_written_or_nothing() -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.change("CREATE TABLE kept (value INTEGER)")
        with Transaction(db):
            db.change("INSERT INTO kept VALUES (1)")
            db.change("INSERT INTO kept VALUES (2)")
        with pytest.raises(RuntimeError), Transaction(db):
            db.change("INSERT INTO kept VALUES (3)")
            raise RuntimeError
        assert _values(db) == [1, 2]
        assert not db.in_transaction


def test_one_inside_another_is_a_part_of_it() -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.change("CREATE TABLE kept (value INTEGER)")
        with pytest.raises(RuntimeError), Transaction(db):
            with Transaction(db):
                db.change("INSERT INTO kept VALUES (1)")
            assert db.in_transaction
            raise RuntimeError
        assert _values(db) == []


def test_one_inside_another_is_undone_alone_by_whoever_catches_its_error() -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.change("CREATE TABLE kept (value INTEGER)")
        with Transaction(db):
            db.change("INSERT INTO kept VALUES (1)")
            with suppress(RuntimeError), Transaction(db):
                db.change("INSERT INTO kept VALUES (2)")
                with Transaction(db):
                    db.change("INSERT INTO kept VALUES (3)")
                raise RuntimeError
            with Transaction(db):
                db.change("INSERT INTO kept VALUES (4)")
        assert _values(db) == [1, 4]


def test_nothing_is_written_behind_a_transaction_that_a_full_disk_took_back() -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.change("CREATE TABLE kept (value)")
        db.change("PRAGMA max_page_count = 20")
        db.begin()
        db.in_unit = True
        with pytest.raises(StoreFull, match="full"), Transaction(db):
            db.change("INSERT INTO kept VALUES (zeroblob(1000000))")
        assert not db.in_transaction
        with pytest.raises(StoreError, match="taken back"), Transaction(db):
            db.change("INSERT INTO kept VALUES (1)")
        assert _values(db) == []


def test_nobody_waits_for_a_writer_that_does_not_end(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with (
        closing(connect(str(path), 0)) as other,
        closing(connect(str(path), 0)) as db,
    ):
        other.change("CREATE TABLE kept (value INTEGER)")
        other.begin()
        with pytest.raises(StoreBusy), Transaction(db):
            pass
        assert not db.in_transaction
        other.rollback()
        with Transaction(db):
            db.change("INSERT INTO kept VALUES (1)")
        assert _values(db) == [1]


def test_what_fails_by_itself_is_not_busy() -> None:
    with closing(connect(MEMORY, 0)) as db:
        with pytest.raises(StoreError) as told, Transaction(db):
            db.change("INSERT INTO nowhere VALUES (1)")
        assert not isinstance(told.value, StoreBusy)


def test_what_cannot_be_committed_is_not_left_open() -> None:
    with closing(connect(MEMORY, 0)) as db:
        db.change("PRAGMA foreign_keys = ON")
        db.change("CREATE TABLE kept (value INTEGER PRIMARY KEY)")
        db.change("CREATE TABLE of (value INTEGER REFERENCES kept DEFERRABLE INITIALLY DEFERRED)")
        with pytest.raises(StoreError), Transaction(db):
            db.change("INSERT INTO of VALUES (1)")
        assert not db.in_transaction
