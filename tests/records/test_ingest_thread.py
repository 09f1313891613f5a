"""The thread of a worker that drains: through locks, full disks and its own end."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from dragoman.records import ingest_thread
from dragoman.records.deferred_assignment import assign_scope_in
from dragoman.records.ingest_thread import CaughtUp, IngestThread
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, journals_in, request_rotation
from dragoman.records.journal_entry import OPEN
from dragoman.records.journal_ingest import ingest_all
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store.connection import AppendRow
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import open_record_tables
from dragoman.store.records import Records
from dragoman.store.session_tables import StoredThread
from dragoman.store.unassigned import RowScope
from tests.records.agreement import sums_and_rows
from tests.records.invented import NOON, entry
from tests.store.opened import sqlite
from tests.waiting import LIMIT, wait_until


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


# A clock that is a second later each time it is read: what failed is tried again at once.
_seconds = itertools.count(NOON // 10**6)


def clock() -> int:
    return next(_seconds) * 10**9


class Worker:
    """A journal and its drain; what the operator is told."""

    def __init__(self, path: str, days: float = 36500, most: int = 1 << 24) -> None:
        self.path = path
        self.journal = Journal(directory_of(path), max_bytes=most, clock=clock)
        self.told: list[str] = []
        self.drain = IngestThread(
            path,
            self.journal,
            days=days,
            tend=self._tend,
            log=lambda level, words: self.told.append(f"{level}: {words}"),
            every=0.01,
            clock=clock,
        )
        self._lock = threading.Lock()

    def _tend(self, rotate: bool) -> None:
        # In place of the loop, which is where a journal is used in a worker.
        with self._lock:
            if rotate:
                self.journal.rotate()
            self.journal.tend()

    def settle(self, number: int) -> None:
        with self._lock:
            self.journal.finalize(entry(number))


@contextmanager
def running(path: str, days: float = 36500, most: int = 1 << 24) -> Iterator[Worker]:
    worker = Worker(path, days, most)
    worker.drain.start()
    try:
        yield worker
    finally:
        worker.journal.close()
        assert worker.drain.stop(LIMIT)


def count(path: str) -> int:
    with closing(open_record_tables(path, read_only=True)) as tables:
        return tables.records.count()


def test_what_is_written_is_in_the_tables_soon_and_at_the_end_nothing_is_left(path: str) -> None:
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: worker.drain.rows == 1, "one row")
        wait_until(lambda: worker.drain.backlog == 0, "nothing waits")
        worker.settle(2)
        worker.settle(3)
    assert worker.drain.rows == 3
    assert count(path) == 3
    assert journals_in(directory_of(path)) == []
    assert worker.told == []


def test_sessions_are_assigned_in_idle_time(path: str) -> None:
    def unassigned() -> int:
        with closing(open_record_tables(path, read_only=True)) as tables:
            return tables.unassigned.count(RowScope())

    with running(path) as worker:
        with worker._lock:
            worker.journal.finalize(replace(entry(1), facts=ExchangeFacts(tip="one", opening="one")))
        wait_until(lambda: worker.drain.rows == 1, "one row")
        wait_until(lambda: unassigned() == 0, "its session is assigned")
    assert worker.told == []


def test_a_step_that_ingests_much_assigns_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_thread, "_IDLE_ROWS", 2)
    worker = Worker(path)
    for number in range(3):
        worker.journal.finalize(replace(entry(number), facts=ExchangeFacts(tip=f"{number}", opening=f"{number}")))
    left = []
    for _ in range(2):
        worker.drain._step(0)
        with closing(open_record_tables(path, read_only=True)) as tables:
            left.append(tables.unassigned.count(RowScope()))
    assert left == [3, 0]
    worker.journal.close()
    worker.drain._step(0, at_last=True)
    worker.drain._close()


def test_without_an_exchange_no_file_is_made(path: str) -> None:
    with running(path) as worker:
        assert worker.drain.backlog == 0
    assert not Path(path).exists()
    assert journals_in(directory_of(path)) == []


def test_orphans_are_drained_and_removed_and_those_of_others_left_alone(path: str) -> None:
    gone, other = Journal(directory_of(path)), Journal(directory_of(path))
    gone.open(entry(1, outcome=OPEN))
    gone.close()
    other.finalize(entry(2))
    with running(path) as worker:
        wait_until(lambda: worker.drain.rows == 1, "one row")
    assert journals_in(directory_of(path)) == [other.path]
    assert ingest_all(path, now=NOON).rows == 1


def test_pitfall_430_438_a_lock_of_hours_costs_disk_and_no_memory(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything waits in the journal: what is kept in memory of an exchange ends with it."""
    monkeypatch.setattr(ingest_thread, "_LOCK_TIMEOUT", 0.05)
    with closing(open_record_tables(path)):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other, running(path, most=250_000) as worker:
        other.execute("BEGIN IMMEDIATE")
        for number in range(1000):
            worker.settle(number)
            assert len(worker.journal._open) == 0
        wait_until(lambda: worker.drain.errors > 0, "the lock is noticed")
        assert worker.drain.backlog > 10_000
        assert len(worker.journal._waiting) == 0
        assert len(worker.told) == 1
        assert worker.told[0].startswith("warn: cannot ingest journals in ")
        assert worker.told[0].endswith(": database is locked")
        other.execute("ROLLBACK")
        wait_until(lambda: worker.drain.rows == 1000, "all rows")
    assert worker.told[1:] == [f"info: journals are ingested into {path} again"]
    assert count(path) == 1000


def test_a_file_that_is_full_is_tried_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add, full = Records.add, threading.Event()
    full.set()

    def limited(self: Records, rows: list[AppendRow]) -> int:
        added = add(self, rows)
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        return added

    monkeypatch.setattr(Records, "add", limited)
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: worker.drain.problem == "database or disk is full", "the full disk is noticed")
        assert count(path) == 0
        full.clear()
        wait_until(lambda: worker.drain.rows == 1, "one row")
        wait_until(lambda: not worker.drain.problem, "the problem is over")
    assert count(path) == 1


def test_what_nobody_thought_of_does_not_end_it(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = threading.Event()
    broken.set()
    add = Records.add

    def strange(self: Records, rows: list[AppendRow]) -> int:
        if broken.is_set():
            raise ZeroDivisionError
        return add(self, rows)

    monkeypatch.setattr(Records, "add", strange)
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: worker.drain.problem == "ZeroDivisionError", "the error is noticed")
        broken.clear()
        wait_until(lambda: worker.drain.rows == 1, "one row")


def test_a_file_of_a_newer_version_is_told_in_one_sentence_and_left_as_it_is(path: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: bool(worker.drain.problem), "a problem is noticed")
        assert "written by a newer version" in worker.told[0]
        assert "\n" not in worker.told[0]
    assert len(journals_in(directory_of(path))) == 1
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_file_that_was_replaced_is_opened_again(path: str) -> None:
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: worker.drain.rows == 1, "one row")
        for name in ("", "-wal", "-shm"):
            Path(path + name).unlink(missing_ok=True)
        worker.settle(2)
        wait_until(lambda: worker.drain.rows >= 2, "two rows")
    # The journal still had the first one, too: the new file knows nothing of it.
    assert count(path) == 2


def test_whoever_asks_has_a_new_journal_and_the_old_one_is_gone(path: str) -> None:
    with running(path) as worker:
        worker.settle(1)
        old = worker.journal.path
        assert old is not None
        request_rotation(directory_of(path), worker.journal.begun + 1)
        wait_until(lambda: not old.exists(), "the old journal is gone")
        assert worker.journal.path != old
        assert count(path) == 1
        worker.settle(2)
    assert count(path) == 2


def test_a_journal_that_somebody_removed_is_told_and_followed_by_another(path: str) -> None:
    with running(path) as worker:
        old = worker.journal.path
        assert old is not None
        old.unlink()
        wait_until(lambda: worker.journal.path != old, "another journal is begun")
        worker.settle(1)
    assert count(path) == 1
    assert "was removed" in worker.told[0]


def test_what_was_not_read_of_a_journal_that_somebody_removed_is_read_all_the_same(path: str) -> None:
    folder = directory_of(path)
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: worker.drain.rows == 1, "one row")
        with worker._lock:
            # As many as there are in the second in which nobody has looked yet.
            shutil.rmtree(folder)
            for number in range(2, 50):
                worker.journal.finalize(entry(number))
        wait_until(lambda: worker.drain.rows == 49, "49 rows")
        worker.settle(50)
    assert count(path) == 50
    assert worker.drain.lost == 0
    assert [words[:23] for words in worker.told] == ["warn: a journal was rem"]


def test_one_that_nobody_had_begun_to_read_is_read_from_its_beginning(path: str) -> None:
    worker = Worker(path)
    worker.settle(1)
    worker.settle(2)
    shutil.rmtree(directory_of(path))
    worker.drain.start()
    wait_until(lambda: worker.drain.rows == 2, "two rows")
    worker.settle(3)
    worker.journal.close()
    assert worker.drain.stop(LIMIT)
    assert count(path) == 3
    assert worker.drain.lost == 0
    assert [words[:23] for words in worker.told] == ["warn: a journal was rem"]


def test_of_one_whose_mark_was_forgotten_it_is_told_how_much_is_lost(path: str) -> None:
    folder = directory_of(path)
    with running(path) as worker:
        worker.settle(1)
        wait_until(lambda: worker.drain.rows == 1, "one row")
        with worker._lock:
            shutil.rmtree(folder)
            worker.journal.finalize(entry(2))
            worker.journal.finalize(entry(3))
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("DELETE FROM journals")
        wait_until(lambda: worker.drain.lost == 2, "two lost exchanges")
        worker.settle(4)
    assert count(path) == 2
    assert worker.told[1] == f"error: 2 requests were lost with a journal that was removed from {folder}"


def test_of_one_that_is_removed_right_before_the_end_everything_is_moved(path: str) -> None:
    worker = Worker(path)
    worker.journal.open(entry(0, outcome=OPEN))
    worker.settle(1)
    shutil.rmtree(directory_of(path))
    for number in range(2, 12):
        worker.settle(number)
    worker.journal.close()
    worker.drain.start()
    assert worker.drain.stop(LIMIT)
    assert worker.drain.lost == 0
    assert worker.told == []
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT outcome, count(*) FROM records GROUP BY outcome").fetchall()
    assert found == [("answered", 11), ("crashed", 1)]


@pytest.mark.parametrize("readable", [True, False])
def test_what_cannot_be_moved_of_one_at_the_end_is_counted_and_told(path: str, readable: bool) -> None:
    worker = Worker(path)
    worker.settle(1)
    shutil.rmtree(directory_of(path))
    for number in range(2, 12):
        worker.settle(number)
    worker.journal.close()
    if not readable:
        ((_, descriptor),) = worker.journal.removed
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), descriptor)
    Path(path).mkdir()
    worker.drain.start()
    assert worker.drain.stop(LIMIT)
    folder = directory_of(path)
    assert not worker.journal.removed
    if readable:
        assert worker.drain.lost == 11
        assert worker.told[-1] == f"error: 11 requests were lost with a journal that was removed from {folder}"
    else:
        assert ": Bad file descriptor; an unknown number of requests is lost" in worker.told[-1]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_folder_that_was_moved_away_and_comes_back_is_not_moved_into_the_tables_twice(
    path: str, tmp_path: Path, restarted: bool
) -> None:
    folder, elsewhere = directory_of(path), tmp_path / "elsewhere"
    with running(path) as worker:
        with worker._lock:
            worker.journal.open(entry(1, outcome=OPEN))
        worker.settle(2)
        wait_until(lambda: worker.drain.rows == 1, "one row")
        with worker._lock:
            folder.rename(elsewhere)
            worker.journal.finalize(entry(3))
        wait_until(lambda: worker.drain.rows == 2, "two rows")
        if not restarted:
            for journal in journals_in(elsewhere):
                journal.rename(folder / journal.name)
        worker.settle(1)
    if restarted:
        with running(path) as other:
            other.settle(4)
            wait_until(lambda: other.drain.rows == 1, "one row of the other worker")
            for journal in journals_in(elsewhere):
                journal.rename(folder / journal.name)
            wait_until(lambda: journals_in(folder) == [other.journal.path], "the journals that came back are gone")
    assert count(path) == 3 + restarted
    assert journals_in(folder) == []
    by_group, by_thread, by_row = sums_and_rows(path)
    assert by_group == by_thread == by_row


def test_a_journal_without_room_is_tended(path: str) -> None:
    with running(path) as worker:
        with worker._lock:
            worker.journal._wait(b"a line that waits\n")
            worker.journal.problem = "no space left on device"
        wait_until(lambda: not worker.journal.problem, "the journal has no problem")


def test_lines_that_cannot_be_read_are_told(path: str) -> None:
    folder = directory_of(path)
    folder.mkdir()
    (folder / "strange.log").write_text("what is this?\n")
    with running(path) as worker:
        wait_until(lambda: worker.drain.damaged == 1, "one damaged line")
    assert worker.told == [f"warn: cannot read 1 lines of journals in {folder}"]


def test_pitfall_434_435_662_old_rows_go_in_small_steps_and_sums_stay(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Journal(directory_of(path))
    for number in range(1200):
        old.finalize(entry(number, time=NOON - 10**13 + number))
    old.finalize(entry(5000, time=NOON))
    old.close()
    ingest_all(path, now=NOON)
    before = sums_and_rows(path)[:2]
    steps: list[int] = []
    remove = Records.remove_before

    def counted(self: Records, time: int, most: int) -> int:
        steps.append(most)
        return remove(self, time, most)

    monkeypatch.setattr(Records, "remove_before", counted)
    with running(path, days=30) as worker:
        wait_until(lambda: worker.drain.removed == 1200, "all old rows are removed")
    assert count(path) == 1
    assert sums_and_rows(path)[:2] == before
    assert len(steps) > 2
    assert max(steps) <= 1000


def test_it_ends_in_its_time_also_where_the_file_is_locked(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_thread, "_LOCK_TIMEOUT", LIMIT)
    with closing(open_record_tables(path)):
        pass
    worker = Worker(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        worker.settle(1)
        worker.drain.start()
        worker.journal.close()
        assert not worker.drain.stop(0.0)
        other.execute("ROLLBACK")
        assert worker.drain.stop(LIMIT)
    assert ingest_all(path, now=NOON).rows + worker.drain.rows == 1
    assert count(path) == 1


def test_one_that_never_began_has_ended(path: str) -> None:
    worker = Worker(path)
    assert worker.drain.stop(0.0)
    worker.journal.close()


def test_pitfall_519_threads_of_older_rules_are_classed_anew_and_old_tips_forgotten(path: str) -> None:
    facts = msgspec.json.encode(ExchangeFacts(client="codex", session="s", said_class="compaction"))
    old = [
        StoredThread(number, 1, f"t{number}", "main", "", "", 0, "", 0, 0, 1, NOON, NOON, facts)
        for number in range(1, 250)
    ]
    with closing(open_record_tables(path)) as tables:
        tables.sessions.add_threads(old)
        tables.sessions.save_heads([(f"t{number:04}", 1, 2, number) for number in range(250)])
        tables.sessions.save_heads([("kept", 1, 2, NOON)])
    with running(path), closing(open_record_tables(path, read_only=True)) as tables:
        ask = sqlite(tables.connection).execute
        wait_until(lambda: ask("SELECT count(*) FROM tips").fetchone() == (1,), "one tip is left")
        wait_until(
            lambda: ask("SELECT count(*) FROM threads WHERE rules = 0").fetchone() == (0,),
            "all threads are classed anew",
        )
        assert ask("SELECT DISTINCT class, rule, sure FROM threads").fetchall() == [("compaction", "said", 100)]


def test_who_asks_gets_all_that_was_written_by_any_worker_with_its_sessions(path: str) -> None:
    told = replace(entry(2), facts=ExchangeFacts(tip="one", opening="one"))
    with closing(Journal(directory_of(path), clock=clock)) as other, running(path) as worker:
        # Rows of a living worker are moved by that one, unless somebody asks.
        other.finalize(told)
        worker.settle(1)
        caught_up = worker.drain.catch_up(lambda tables: assign_scope_in(tables, RowScope()))
        assert caught_up.result(LIMIT) == CaughtUp()
        assert count(path) == 2
        with closing(open_record_tables(path, read_only=True)) as tables:
            assert tables.unassigned.count(RowScope()) == 0
    assert worker.told == []


def test_who_asks_is_told_what_is_left_and_why_nothing_could_be_ingested(path: str) -> None:
    with running(path) as worker:
        assert worker.drain.catch_up(lambda tables: 7).result(LIMIT) == CaughtUp(left=7)
        assert worker.drain.catch_up(None).result(LIMIT) == CaughtUp()
        # One that nobody waits for any more ends nothing.
        gone = worker.drain.catch_up(lambda tables: 7)
        gone.cancel()
        with closing(sqlite3.connect(path)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            worker.settle(1)
            assert "locked" in worker.drain.catch_up(None).result(LIMIT).problem
            holder.execute("ROLLBACK")
        wait_until(lambda: count(path) == 1, "the row is moved")
    assert worker.drain.catch_up(None).result(LIMIT).problem
