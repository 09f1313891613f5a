"""The file as records and sums are written to it: whole, on the disk, and only by a release that knows it."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store import StoreBusy, StoreError
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.records.invented import entry, row_of
from tests.store.opened import sqlite


def test_the_file_is_its_users_alone_and_what_is_committed_is_on_the_disk(tmp_path: Path) -> None:
    file = tmp_path / "new" / "state.db"
    with closing(open_record_tables(str(file))) as tables:
        found = {name: tables.connection.rows(f"PRAGMA {name}")[0][0] for name in _PRAGMAS}
    assert found == _PRAGMAS
    assert file.stat().st_mode & 0o777 == 0o600


_PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "busy_timeout": 5000}


def test_to_add_to_sums_makes_no_file_beside_the_log(tmp_path: Path) -> None:
    """Whatever SQLite keeps for a statement that could fail is in memory: a file of it would be open until the end."""
    batch = Batch()
    for number in range(2000):
        batch.add(entry(number), AssignedThread(number + 1, number + 1))
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
        for _ in range(2):
            with tables.transaction():
                before = len(list(Path("/dev/fd").iterdir()))
                tables.rollups.add_to_threads(batch.thread_rollups())
                assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with closing(open_record_tables(str(tmp_path / "state.db"))) as tables:
        with pytest.raises(RuntimeError), tables.transaction():
            tables.records.add([row_of(entry(1), AssignedThread())])
            raise RuntimeError
        assert tables.records.count() == 0
        with pytest.raises(StoreError, match="no such table"), tables.transaction():
            tables.records.add([row_of(entry(1), AssignedThread())])
            tables.connection.change("SELECT * FROM nowhere")
        assert tables.records.count() == 0


def test_a_lock_is_an_error_of_a_busy_store_once_patience_ends(tmp_path: Path) -> None:
    file = str(tmp_path / "state.db")
    with closing(open_record_tables(file, timeout=0.01)) as tables, closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy), tables.transaction():
            tables.records.add([])


def test_reading_between_writes_changes_no_setting_for_which_statements_are_prepared_again() -> None:
    with closing(open_record_tables(":memory:")) as tables:
        statements: list[str] = []
        sqlite(tables.connection).set_trace_callback(statements.append)
        for count in range(2):
            with tables.reading():
                assert tables.records.count() == count
            with tables.transaction():
                tables.records.add([row_of(entry(1), AssignedThread())])
    assert not [statement for statement in statements if "PRAGMA" in statement]


def test_who_reads_makes_nothing_and_sees_one_moment(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(open_record_tables(str(file), read_only=True)) as tables:
        assert tables.records.count() == 0
    assert not file.exists()
    with (
        closing(open_record_tables(str(file))) as writer,
        closing(open_record_tables(str(file), read_only=True)) as reader,
    ):
        with reader.reading():
            assert reader.records.count() == 0
            with writer.transaction():
                writer.records.add([row_of(entry(1), AssignedThread())])
            assert reader.records.count() == 0
        with reader.reading():
            assert reader.records.count() == 1
        with pytest.raises(StoreError), reader.transaction():
            reader.records.add([row_of(entry(1), AssignedThread())])
        with pytest.raises(StoreError), reader.reading():
            reader.connection.change("SELECT * FROM nowhere")


@pytest.mark.parametrize("read_only", [False, True])
def test_pitfall_453_a_file_of_a_newer_version_is_refused_in_one_sentence(tmp_path: Path, read_only: bool) -> None:
    file = tmp_path / "state.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    before = file.read_bytes()
    with pytest.raises(ConfigError, match="written by a newer version") as refused:
        open_record_tables(str(file), read_only=read_only)
    assert "\n" not in str(refused.value)
    assert "use the release that wrote it" in str(refused.value)
    # What differs is the write-ahead log, at most: nothing that is in it.
    assert file.read_bytes()[100:] == before[100:]


def test_who_reads_does_not_change_a_file_of_an_older_version(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA user_version = 4")
    with pytest.raises(ConfigError, match="older version"):
        open_record_tables(str(file), read_only=True)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"storage\.path"):
        open_record_tables(str(tmp_path))


def test_pitfall_452_four_that_start_at_once_find_the_same_tables(tmp_path: Path) -> None:
    def start_one(file: str, opened: list[RecordTables]) -> None:
        opened.append(open_record_tables(file))

    for number in range(5):
        opened: list[RecordTables] = []
        given = (str(tmp_path / f"{number}.db"), opened)
        starts = [threading.Thread(target=start_one, args=given) for _ in range(4)]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        assert len(opened) == 4
        for tables in opened:
            assert tables.connection.row("PRAGMA user_version") == (len(STEPS),)
            tables.close()
