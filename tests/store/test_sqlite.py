"""Connections of SQLite: what they raise, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import StoreBusy, StoreError
from dragoman.store.connection import AppendTable, Connection, Transaction
from dragoman.store.errors import StoreFull, StoreInterrupted
from dragoman.store.sqlite import SQLiteConnection, connect, connect_to_read

# Ends after more steps than any test waits for.
_ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
_CALLS: dict[str, Callable[[Connection, str], object]] = {
    "change": lambda db, statement: db.change(statement),
    "many": lambda db, statement: db.many(f"{statement} /* ? */", [()]),
    "row": lambda db, statement: db.row(statement),
    "rows": lambda db, statement: db.rows(statement),
    "number": lambda db, statement: db.number(statement),
    "each": lambda db, statement: [*db.each(statement)],
}


def _kept(db: SQLiteConnection) -> SQLiteConnection:
    db.change("CREATE TABLE kept (value INTEGER)")
    return db


@pytest.mark.parametrize("call", _CALLS.values(), ids=list(_CALLS))
def test_what_the_driver_raises_is_an_error_of_the_store(call: Callable[[Connection, str], object]) -> None:
    with closing(connect(MEMORY, 0)) as db:
        with pytest.raises(StoreError, match="no such table") as raised:
            call(db, "DELETE FROM nowhere" if call is _CALLS["many"] else "SELECT 1 FROM nowhere")
        assert raised.value.__cause__ is None


def test_rows_and_changes() -> None:
    with closing(_kept(connect(MEMORY, 0))) as db:
        assert db.change("INSERT INTO kept VALUES (?), (?)", (1, 2)) == 2
        db.many("INSERT INTO kept VALUES (?)", ((value,) for value in (3, 4)))
        assert db.rows("SELECT value FROM kept WHERE value > ? ORDER BY value", (1,)) == [(2,), (3,), (4,)]
        assert [*db.each("SELECT value FROM kept ORDER BY value")] == [(1,), (2,), (3,), (4,)]
        assert db.row("SELECT value FROM kept WHERE value = ?", (4,)) == (4,)
        assert db.row("SELECT value FROM kept WHERE value = ?", (5,)) is None
        assert db.number("SELECT count(*) FROM kept") == 4
        assert db.number("INSERT INTO kept VALUES (9) RETURNING value") == 9


def test_a_transaction_that_reads_writes_nothing_and_the_next_one_may() -> None:
    with closing(_kept(connect(MEMORY, 0))) as db:
        db.guards_reads = True
        db.begin(writes=False)
        with pytest.raises(StoreError, match="readonly"):
            db.change("INSERT INTO kept VALUES (1)")
        db.rollback()
        with Transaction(db):
            db.change("INSERT INTO kept VALUES (1)")
        assert db.number("SELECT count(*) FROM kept") == 1


def test_a_held_file_is_busy_and_a_full_one_is_full(tmp_path: Path) -> None:
    path = str(tmp_path / "kept.db")
    with closing(_kept(connect(path, 0))) as other, closing(connect(path, 0)) as db:
        other.begin()
        with pytest.raises(StoreBusy):
            db.begin()
        other.rollback()
        db.change("PRAGMA max_page_count = 3")
        with pytest.raises(StoreFull):
            db.change("INSERT INTO kept VALUES (?)", (bytes(100_000),))


def test_commits_of_others_are_seen_and_own_ones_are_not(tmp_path: Path) -> None:
    path = str(tmp_path / "kept.db")
    with closing(_kept(connect(path, 0))) as db, closing(connect(path, 0)) as other:
        before = db.commits()
        db.change("INSERT INTO kept VALUES (1)")
        assert db.commits() == before
        other.change("INSERT INTO kept VALUES (2)")
        assert db.commits() != before


def test_a_query_is_ended_before_it_begins_and_while_it_runs() -> None:
    with closing(connect(MEMORY, 0)) as db:
        asked = 0

        def must_end() -> bool:
            nonlocal asked
            asked += 1
            return asked > 2

        db.set_interrupt(must_end, 1000)
        with pytest.raises(StoreInterrupted):
            db.rows(_ENDLESS)
        with pytest.raises(StoreInterrupted):
            db.rows("SELECT 1")


def test_who_reads_makes_no_file_and_changes_none(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with pytest.raises(StoreError, match="unable to open"):
        connect_to_read(path, 0)
    assert not path.exists()
    with (
        closing(_kept(connect(str(path), 0))),
        closing(connect_to_read(path, 0)) as db,
        pytest.raises(StoreError, match="readonly"),
    ):
        db.change("INSERT INTO kept VALUES (1)")


def test_a_connection_that_is_closed_says_so() -> None:
    db = connect(MEMORY, 0)
    db.close()
    for call in _CALLS.values():
        with pytest.raises(StoreError, match="closed"):
            call(db, "SELECT 1")


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 40, 41, 75])
def test_appended_rows_are_those_that_were_passed(count: int) -> None:
    table = AppendTable(name="things", own=("number", "size"), shared=("name", "kind"), optional="size")
    with closing(connect(MEMORY, 0)) as db:
        db.execute("CREATE TABLE things (kind TEXT, name TEXT, size INTEGER, number INTEGER)")
        # Runs of many lengths.
        rows = [((at, at % 3), (f"n{at // 17}", "k")) for at in range(count)]
        db.append(table, rows)
        found = db.execute("SELECT number, coalesce(size, 0), name, kind FROM things ORDER BY rowid").fetchall()
        assert found == [(*own, *others) for own, others in rows]
        assert db.execute("SELECT count(*) FROM things WHERE size = 0").fetchone() == (0,)
