"""The tables of a file, from nothing to the present, and from the future not at all."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.database_location import MEMORY
from dragoman.errors import ConfigError
from dragoman.records.journal_entry import JournalEntry, LossEntry
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import NOWHERE, AssignedThread
from dragoman.store import open_tables
from dragoman.store.migrations import sqlite as migrations
from dragoman.store.migrations.sqlite import MEASURES, STEPS, m013_journals_of_version_2, migrate
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.records import KEY, ROW_COLUMNS, THREAD_KEY
from dragoman.store.sqlite import SQLiteConnection, connect
from tests.records.filled import fill, some_entries, speak
from tests.records.invented import entry, row_of
from tests.store.opened import ALICE, item, kept, names, opened
from tests.store.opened import sqlite as sqlite_of
from tests.waiting import LIMIT


def test_an_empty_file_gets_every_step_and_then_none() -> None:
    with closing(connect(MEMORY, 0)) as db:
        migrate(db)
        assert db.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
        tables = {
            row[0]
            for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        }
        known = {"responses", "items", "conversations", "events", "promises", "turns", "turns_total", "rests"}
        known |= {"records", "sums", "thread_sums", "sessions", "threads", "tips", "journals"}
        known |= {"long_sums", "quarter_sums", "thread_totals", "session_totals", "stored_bytes"}
        known |= {"identities", "digests", "key_names", "generation", "audit"}
        known |= {"unassigned", "unassigned_relations", "tag_sets", "tag_sums", "long_tag_sums"}
        assert tables == known
        migrate(db)


def test_a_new_step_finds_what_was_kept_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.db"
    with opened(file) as store:
        store.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])

    def m002_have_notes(db: SQLiteConnection) -> None:
        db.execute("CREATE TABLE notes (id TEXT)")

    monkeypatch.setattr(migrations, "STEPS", (*STEPS, m002_have_notes))
    with opened(file) as store:
        assert names(store.responses.chain(ALICE, "r1")) == ["q1", "a1"]
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)
        assert db.execute("SELECT * FROM notes").fetchall() == []


def test_a_file_of_the_release_before_records_keeps_all_that_it_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.db"
    with monkeypatch.context() as before:
        before.setattr(migrations, "STEPS", STEPS[:4])
        with opened(file) as store:
            store.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])
            store.turns.add(ALICE, "call_1", b"turn")
            store.cooldowns.persist("target", 4e9, b"rest")
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (4,)
    with closing(open_record_tables(str(file))) as tables:
        assert tables.records.count() == 0
        with tables.transaction():
            tables.records.add([row_of(entry(1), NOWHERE)])
    with opened(file) as store:
        assert names(store.responses.chain(ALICE, "r1")) == ["q1", "a1"]
        assert store.turns.find(ALICE, ["call_1"]) == {"call_1": b"turn"}
        assert store.cooldowns.current() == [("target", b"rest")]
    with closing(open_record_tables(str(file), read_only=True)) as tables:
        assert tables.records.count() == 1


def _fill_as_before(tables: RecordTables, placed: Iterable[tuple[JournalEntry, AssignedThread]]) -> None:
    """Write exchanges down as a release before `bookkeeping` and tags."""
    batch = Batch()
    for told, place in placed:
        batch.add(told, place)
    for table, columns, rows in (
        ("records", ROW_COLUMNS, [(*own, *shared) for own, shared in batch.rows]),
        ("sums", (*KEY, *MEASURES), batch.rollups()),
        ("thread_sums", (*THREAD_KEY, *MEASURES), batch.thread_rollups()),
    ):
        count = columns.index("bookkeeping")
        assert {*columns[count:]} <= {"bookkeeping", "tags"}
        marks = ", ".join("?" * count)
        statement = f"INSERT INTO {table} ({', '.join(columns[:count])}) VALUES ({marks})"
        tables.connection.many(statement, [row[:count] for row in rows])


def _totals(before: int, monkeypatch: pytest.MonkeyPatch, *done: str) -> list[list[tuple[int, ...]]]:
    """Totals of a file that was begun with so many steps, after more was written."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "STEPS", STEPS[:before])
        tables = open_record_tables(":memory:")
    with closing(tables):
        speak(tables, [(1, "alice", "first"), (2, "bob", "first")], [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)])
        (fill if before == len(STEPS) else _fill_as_before)(tables, some_entries(1, 300))
        for statement in done:
            tables.connection.change(statement)
        migrate(sqlite_of(tables.connection))
        fill(tables, [placed for placed in some_entries(2, 300) if placed[1].thread < 3])
        return [tables.connection.rows(f"SELECT * FROM {of}_totals ORDER BY 1") for of in ("thread", "session")]


def test_a_file_without_totals_gets_those_that_would_have_been_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _totals(len(STEPS), monkeypatch)
    assert [[row[0] for row in rows] for rows in kept] == [[1, 2, 3, 4, 5], [1, 2]]
    assert _totals(5, monkeypatch) == kept


def test_what_was_forgotten_before_there_were_totals_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    done = ("DELETE FROM threads WHERE session = 2", "DELETE FROM sessions WHERE id = 2")
    found = _totals(5, monkeypatch, *done)
    assert [[(row[0], row[3]) for row in rows] for rows in found] == [
        [(1, 0), (2, 0), (3, 1), (4, 1), (5, 1)],
        [(-1, 1), (1, 0)],
    ]


def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.db"
    with opened(file):
        pass

    def m002_fail(db: SQLiteConnection) -> None:
        db.change("CREATE TABLE notes (id TEXT)")
        db.change("CREATE TABLE notes (id TEXT)")

    monkeypatch.setattr(migrations, "STEPS", (*STEPS, m002_fail))
    with pytest.raises(ConfigError):
        open_tables(str(file), 30)
    monkeypatch.setattr(migrations, "STEPS", STEPS)
    with opened(file):
        pass


def test_the_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with opened(file):
        pass
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    with pytest.raises(ConfigError, match=r"newer version.*use the release that wrote it"):
        open_tables(str(file), 30)
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(STEPS) + 1,)


def test_a_release_that_knows_no_journals_of_version_2_refuses_a_file_that_may_have_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, before = str(tmp_path / "state.db"), STEPS[: STEPS.index(m013_journals_of_version_2)]
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "STEPS", before)
        with closing(open_record_tables(file)) as tables, tables.transaction():
            tables.records.add([row_of(entry(1), NOWHERE)])
    with closing(open_record_tables(file)) as tables:
        assert tables.records.count() == 1
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "STEPS", before)
        with pytest.raises(ConfigError, match=r"newer version.*use the release that wrote it"):
            open_record_tables(file)


def test_several_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    file = str(tmp_path / "state.db")
    failed: list[BaseException] = []
    begin = threading.Barrier(8)

    def opening() -> None:
        begin.wait()
        try:
            open_tables(file, 30).close()
        except BaseException as error:
            # Whatever it is, the test tells it: a thread could not.
            failed.append(error)

    threads = [threading.Thread(target=opening) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not failed


def test_a_promise_of_an_older_file_is_kept() -> None:
    with closing(connect(MEMORY, 0)) as db:
        STEPS[0](db)
        db.execute("PRAGMA user_version = 1")
        row = ("r1", b"a", 9, None, "r1", "queued", 1, "chat", 7, b"{}")
        db.execute(f"INSERT INTO responses VALUES ({', '.join('?' * len(row))})", row)
        migrate(db)
        assert db.execute("SELECT holder, until FROM promises").fetchall() == [("r1", 7)]
        assert db.execute("SELECT id, body FROM responses").fetchall() == [("r1", b"{}")]


def test_a_file_from_before_weights_keeps_its_counts_and_adds_bookkeeping_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _totals(7, monkeypatch) == _totals(len(STEPS), monkeypatch)
    with monkeypatch.context() as earlier:
        earlier.setattr(migrations, "STEPS", STEPS[:7])
        tables = open_record_tables(":memory:")
    with closing(tables):
        speak(tables, [(1, "alice", "first")], [(1, 1)])
        lost = (
            LossEntry("sampling", "dropped"),
            LossEntry("cache_breakpoint", "dropped"),
            LossEntry("end_user", "approximated"),
        )
        told = [(replace(entry(1), losses=lost), AssignedThread(session=1, thread=1))]
        # As a release before weights counts them.
        _fill_as_before(tables, [(replace(told[0][0], losses=(lost[0],) * 3), told[0][1])])
        migrate(sqlite_of(tables.connection))
        fill(tables, told)
        for table in ("sums", "thread_sums", "quarter_sums", "thread_totals", "session_totals"):
            found = tables.connection.rows(f"SELECT losses, bookkeeping FROM {table}")
            assert found == [(4, 2)], table
        assert tables.connection.rows("SELECT DISTINCT losses, bookkeeping FROM long_sums") == [(4, 2)]
        rows = tables.connection.rows("SELECT losses, bookkeeping FROM records ORDER BY number")
        assert rows == [(3, 0), (1, 2)]
