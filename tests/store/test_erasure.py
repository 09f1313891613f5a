"""What is forgotten goes a few rows at a time, with all that it was called; others keep theirs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.erasure import Erasure, ErasureCount, NamedSession
from dragoman.store.errors import StoreError
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.records.filled import fill, speak
from tests.records.invented import entry
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def tables() -> Iterator[RecordTables]:
    with closing(opened_records()) as tables:
        rows = [(entry(number, key="alice"), AssignedThread(1, 1 + number % 2)) for number in range(10)]
        rows += [(entry(number, key="bob"), AssignedThread(2, 3)) for number in range(5)]
        speak(tables, [(1, "alice", "first"), (2, "bob", "first")], [(1, 1), (2, 1), (3, 2)])
        fill(tables, rows)
        # A session that was forked from another, and a thread that another one's began.
        tables.connection.change("UPDATE sessions SET origin = 1, link = 'fork' WHERE id = 2")
        tables.connection.change("UPDATE threads SET parent = 2 WHERE id = 3")
        yield tables


def count(tables: RecordTables, table: str) -> int:
    return tables.connection.number(f"SELECT count(*) FROM {table}")


def test_it_is_known_how_much_there_is(tables: RecordTables) -> None:
    forgetting = Erasure(tables.connection)
    assert forgetting.amount_of_key("alice") == ErasureCount(rows=10, sessions=1, threads=2, heads=2)
    assert forgetting.amount_of_session(2) == ErasureCount(rows=5, sessions=1, threads=1, heads=1)
    assert forgetting.amount_of_key("nobody") == ErasureCount()
    assert [forgetting.has_key(key) for key in ("alice", "nobody")] == [True, False]


def test_sessions_are_found_by_their_names_and_keys(tables: RecordTables) -> None:
    forgetting = Erasure(tables.connection)
    alices, bobs = NamedSession(1, "alice", "first"), NamedSession(2, "bob", "first")
    assert forgetting.sessions_named("first", None) == [alices, bobs]
    assert forgetting.sessions_named("first", "bob") == [bobs]
    assert forgetting.sessions_named("fir", None) == forgetting.sessions_named("' OR 1=1 --", None) == []
    assert forgetting.sessions_of("alice") == [alices]


def test_rows_of_a_key_go_step_by_step(tables: RecordTables) -> None:
    forgetting = Erasure(tables.connection, looked_at=4)
    removed, at = [], 0
    while True:
        some, going_on = forgetting.remove_rows_of_key("alice", at)
        removed.append(some)
        if going_on is None:
            break
        at = going_on
    assert removed == [4, 4, 2, 0, 0]
    assert count(tables, "records") == 5


def test_rows_of_a_session_go_step_by_step(tables: RecordTables) -> None:
    forgetting = Erasure(tables.connection, at_once=3)
    assert [forgetting.remove_rows_of_session(2) for _ in range(3)] == [3, 2, 0]
    assert count(tables, "records") == 10


def test_a_session_goes_with_its_threads_and_nobody_refers_to_it_any_more(tables: RecordTables) -> None:
    Erasure(tables.connection).remove_sessions([1])
    assert [count(tables, table) for table in ("sessions", "threads", "tips")] == [1, 1, 1]
    assert tables.connection.rows("SELECT origin, link FROM sessions") == [(0, "")]
    assert tables.connection.rows("SELECT parent FROM threads") == [(0,)]
    assert [count(tables, table) for table in ("thread_sums", "thread_totals", "session_totals")] == [3, 3, 2]
    forgotten = "SELECT thread FROM thread_totals WHERE is_forgotten = 1 UNION ALL SELECT -session FROM session_totals"
    assert tables.connection.rows(f"{forgotten} WHERE is_forgotten = 1") == [(1,), (2,), (-1,)]
    Erasure(tables.connection, at_once=1).remove_sessions([2, 77])
    assert [count(tables, table) for table in ("sessions", "threads", "tips")] == [0, 0, 0]


def test_a_file_that_others_read_is_not_wiped_yet(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(open_record_tables(str(file), timeout=0.01)) as tables:
        fill(tables, [(entry(1), AssignedThread())])
        forgetting = Erasure(tables.connection)
        with closing(sqlite3.connect(file, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM records").fetchone() == (1,)
            forgetting.remove_rows_of_key("alice", 0)
            assert forgetting.wipe() is False
            reader.execute("ROLLBACK")
            assert forgetting.wipe() is True
        assert (tmp_path / "state.db-wal").stat().st_size == 0


@pytest.mark.sqlite_only
def test_what_sqlite_says_is_an_error_of_the_store(tables: RecordTables) -> None:
    tables.connection.change("DROP TABLE tips")
    forgetting = Erasure(tables.connection)
    with pytest.raises(StoreError, match="tips"):
        forgetting.amount_of_session(1)
    with pytest.raises(StoreError, match="tips"):
        forgetting.remove_sessions([1])
    # Nothing of it was done.
    assert count(tables, "threads") == 3
