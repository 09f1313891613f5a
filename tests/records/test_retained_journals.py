"""Retained journals bring back what a failover of the database took, once. A file that is replaced by an earlier copy
of itself is such a database."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records.forget import find, forget
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import ASIDE, directory_of, journals_in
from dragoman.records.journal_entry import CRASHED, OPEN
from dragoman.records.journal_ingest import Ingester
from dragoman.records.retained_journals import RetainedJournals
from dragoman.store.erasure import Erasure
from dragoman.store.record_tables import open_record_tables
from tests.records.agreement import sums_and_rows
from tests.records.invented import NOON, entry

HOUR = 3_600_000_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def ingest(path: str) -> None:
    """What an ingest thread does: first with kept journals, then with all others."""
    folder = directory_of(path)
    with closing(open_record_tables(path)) as tables:
        ingester = Ingester(tables, folder, keep=3600.0)
        ingester.restore_retained()
        ingester.ingest_orphans(NOON)
        for journal in journals_in(folder):
            ingester.ingest(journal)


def copy(path: str, other: str) -> None:
    with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(other)) as two:
        one.backup(two)


def fail_over(path: str, earlier: str) -> None:
    """Replace the database by an earlier copy of it."""
    for ending in ("-wal", "-shm"):
        Path(path + ending).unlink(missing_ok=True)
    shutil.copyfile(earlier, path)


def rows(path: str) -> Iterator[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT id, outcome FROM records ORDER BY number").fetchall()
    by_group, by_thread, by_row = sums_and_rows(path)
    assert by_group == by_thread == by_row
    for name, outcome in found:
        yield int(name[4:]), outcome


def test_what_a_failover_took_is_ingested_again_and_nothing_twice(path: str, tmp_path: Path) -> None:
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    ingest(path)
    copy(path, str(tmp_path / "replica.db"))
    journal.finalize(entry(2))
    journal.open(entry(3, outcome=OPEN))
    journal.rotate()
    journal.finalize(entry(4))
    ingest(path)
    assert [*rows(path)] == [(1, "answered"), (2, "answered"), (4, "answered")]
    assert [kept.name for kept in RetainedJournals(directory_of(path)).all()] != []
    fail_over(path, str(tmp_path / "replica.db"))
    assert [*rows(path)] == [(1, "answered")]
    ingest(path)
    assert [*rows(path)] == [(1, "answered"), (2, "answered"), (4, "answered")]
    # The exchange that continued in another journal did not crash.
    journal.finalize(entry(3))
    ingest(path)
    ingest(path)
    assert [*rows(path)] == [(1, "answered"), (2, "answered"), (4, "answered"), (3, "answered")]


def test_a_journal_that_was_continued_has_no_crashed_exchanges_when_it_comes_back_alone(
    path: str, tmp_path: Path
) -> None:
    journal = Journal(directory_of(path))
    journal.open(entry(1, outcome=OPEN))
    ingest(path)
    journal.rotate()
    journal.finalize(entry(1))
    journal.close()
    ingest(path)
    assert journals_in(directory_of(path)) == []
    first, second = RetainedJournals(directory_of(path)).all()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DELETE FROM journals WHERE name = ?", (first.name,))
    ingest(path)
    assert [*rows(path)] == [(1, "answered")]
    assert RetainedJournals(directory_of(path)).all() == [first, second]


def test_crashed_exchanges_come_back_with_their_journal(path: str, tmp_path: Path) -> None:
    ingest(path)
    copy(path, str(tmp_path / "replica.db"))
    journal = Journal(directory_of(path))
    journal.open(entry(1, outcome=OPEN))
    journal.close()
    for _ in range(2):
        ingest(path)
        assert [*rows(path)] == [(1, CRASHED)]
        fail_over(path, str(tmp_path / "replica.db"))


def test_offsets_outlive_retained_journals_for_a_machine_that_is_set_back(path: str, tmp_path: Path) -> None:
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    journal.close()
    assert journal.path is not None
    snapshot = journal.path.read_bytes()
    ingest(path)
    kept = RetainedJournals(directory_of(path))
    # When it was retained.
    now = max(file.stat().st_ctime_ns for file in kept.all()) // 1000
    with closing(open_record_tables(path)) as tables:
        ingester = Ingester(tables, directory_of(path), keep=3600.0)
        ingester.remove_retained(now)
        assert [*tables.offsets.all()] == [file.name for file in kept.all()] != []
        # Also where the journal has long been ingested, its offset is not taken for that of a lost one.
        ingester.remove_offsets(now + 90 * 24 * HOUR)
        assert [*tables.offsets.all()] == [file.name for file in kept.all()]
        ingester.remove_retained(now + 2 * HOUR)
        assert kept.all() == []
        ingester.remove_offsets(now + 2 * HOUR)
        assert [*tables.offsets.all()] == [journal.path.name]
    journal.path.write_bytes(snapshot)
    ingest(path)
    assert [*rows(path)] == [(1, "answered")]
    with closing(open_record_tables(path)) as tables:
        RetainedJournals(directory_of(path)).remove_before(now + 24 * HOUR)
        Ingester(tables, directory_of(path), keep=3600.0).remove_offsets(now + 90 * 24 * HOUR)
        assert tables.offsets.all() == {}


def test_pitfall_657_retained_journals_are_erased_with_what_is_forgotten(path: str) -> None:
    with closing(Journal(directory_of(path))) as journal:
        journal.finalize(entry(1, key="alice"))
    ingest(path)
    (kept,) = RetainedJournals(directory_of(path)).all()
    assert b"alice" in kept.read_bytes()
    with closing(open_record_tables(path, read_only=True)) as tables:
        scope = find(Erasure(tables.connection), "alice", None)
    assert forget(path, scope, clock=lambda: NOON).remaining == ()
    assert not kept.exists()


def test_an_exchange_that_goes_on_in_a_journal_that_was_set_aside_did_not_crash(path: str) -> None:
    folder = directory_of(path)
    with closing(Journal(folder)) as journal:
        journal.open(entry(1, outcome=OPEN))
        journal.rotate()
        assert journal.path is not None
        (folder / ASIDE).mkdir()
        journal.path.rename(folder / ASIDE / journal.path.name)
        ingest(path)
        # The journal that was set aside has its end: `dragoman db ingest` records it.
        assert [*rows(path)] == []
