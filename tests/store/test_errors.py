"""SQLite's errors, as everybody else sees them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.errors import DragomanError
from dragoman.store import StoreBusy, StoreError
from dragoman.store.errors import store_error


def test_a_file_that_another_one_holds_is_busy_and_anything_else_failed(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as db,
    ):
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as held:
            db.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as failed:
            other.execute("INSERT INTO nowhere VALUES (1)")
    assert type(store_error(held.value)) is StoreBusy
    assert type(store_error(failed.value)) is StoreError
    assert str(store_error(failed.value)) == "no such table: nowhere"
    assert issubclass(StoreBusy, StoreError) and issubclass(StoreError, DragomanError)


def test_an_error_without_words_is_given_some_and_nothing_leads_back() -> None:
    told = store_error(sqlite3.Error())
    assert str(told) == "the store failed"
    assert told.__traceback__ is None and told.__cause__ is None and told.__context__ is None
