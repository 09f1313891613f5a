"""What journals say is in the tables once, whoever drains them and however often they are killed."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_entry import CRASHED, OPEN, JournalEntry
from dragoman.records.journal_ingest import Ingested, Ingester, ingest_all
from dragoman.store import StoreBusy
from dragoman.store.record_tables import JournalOffsets, RecordTables, open_record_tables
from tests.records.agreement import sums_and_rows, tagged_sums_and_rows
from tests.records.filled import DAY
from tests.records.invented import NOON, entry


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


@pytest.fixture
def tables(path: str) -> Iterator[RecordTables]:
    with closing(open_record_tables(path, timeout=0.01)) as opened:
        yield opened


def rows(path: str) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT id, outcome FROM records ORDER BY number").fetchall()
    by_group, by_thread, by_row = sums_and_rows(path)
    assert by_group == by_thread == by_row
    by_tags, by_tagged_row = tagged_sums_and_rows(path)
    assert by_tags == by_tagged_row
    return [(int(name[4:]), outcome) for name, outcome in found]


def marks(path: str) -> dict[str, int]:
    with closing(open_record_tables(path)) as tables:
        return tables.offsets.all()


def test_before_anything_was_written_nothing_is_made(path: str) -> None:
    assert ingest_all(path, now=NOON) == Ingested()
    assert ingest_all(":memory:", now=NOON) == Ingested()
    assert not Path(path).exists()


def test_a_journal_that_is_being_written_is_moved_as_far_as_it_goes(path: str) -> None:
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    assert ingest_all(path, now=NOON) == Ingested(rows=1)
    journal.finalize(entry(2))
    journal.open(entry(3, outcome=OPEN))
    assert ingest_all(path, now=NOON) == Ingested(rows=1)
    assert ingest_all(path, now=NOON) == Ingested()
    assert rows(path) == [(1, "answered"), (2, "answered")]
    assert journal.path is not None
    assert marks(path) == {journal.path.name: journal.size}


def test_one_whose_worker_is_gone_is_removed_and_what_it_left_open_has_crashed(path: str) -> None:
    journal = Journal(directory_of(path))
    journal.open(entry(1, outcome=OPEN))
    journal.open(entry(2, outcome=OPEN, tokens=None, money=None, status=0, size=400))
    journal.finalize(entry(1))
    journal.close()
    # Nothing is known of it after the last line of its journal.
    (file,) = journals_in(directory_of(path))
    os.utime(file, ns=(0, (NOON + 7) * 1000))
    assert ingest_all(path, now=NOON + 9) == Ingested(rows=2, journals=1)
    assert rows(path) == [(1, "answered"), (2, CRASHED)]
    assert journals_in(directory_of(path)) == []
    assert marks(path) == {}
    with closing(sqlite3.connect(path)) as db:
        found = db.execute(
            "SELECT input, output, estimated, cost, unpriced, took FROM records WHERE outcome = 'crashed'"
        )
        assert found.fetchone() == (100, 0, 1, 0, 1, 7)


def test_what_goes_on_in_another_journal_has_not_crashed(path: str) -> None:
    journal = Journal(directory_of(path))
    journal.open(entry(1, outcome=OPEN))
    journal.finalize(entry(2))
    journal.rotate()
    assert ingest_all(path, now=NOON) == Ingested(rows=1, journals=1)
    journal.finalize(entry(1))
    assert ingest_all(path, now=NOON) == Ingested(rows=1)
    journal.open(entry(3, outcome=OPEN))
    journal.rotate()
    journal.close()
    # Both are nobody's any more: the second waits for the first, which has to see that it goes on.
    assert ingest_all(path, now=NOON) == Ingested(rows=1, journals=2)
    assert rows(path) == [(2, "answered"), (1, "answered"), (3, CRASHED)]


def test_a_later_one_is_not_done_with_before_the_one_that_it_follows(path: str, tables: RecordTables) -> None:
    folder = directory_of(path)
    journal = Journal(folder)
    journal.open(entry(1, outcome=OPEN))
    journal.rotate()
    journal.close()
    first, second = journals_in(folder)
    with first.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        drainer = Ingester(tables, folder)
        assert drainer.ingest_orphans(NOON) == second.stat().st_size
        assert journals_in(folder) == [first, second]
    assert drainer.ingest_orphans(NOON) == 0
    assert rows(path) == [(1, CRASHED)]


def test_a_torn_tail_is_nobodys_answer(path: str) -> None:
    journal = Journal(directory_of(path))
    for number in range(3):
        journal.finalize(entry(number))
    journal.close()
    (file,) = journals_in(directory_of(path))
    with file.open("rb+") as opened:
        opened.truncate(file.stat().st_size - 3)
    assert ingest_all(path, now=NOON) == Ingested(rows=2, journals=1)
    assert rows(path) == [(0, "answered"), (1, "answered")]


def test_damage_in_the_middle_is_counted_and_costs_its_line_alone(path: str) -> None:
    journal = Journal(directory_of(path))
    for number in range(3):
        journal.finalize(entry(number))
    assert journal.path is not None
    lines = journal.path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"alice", b"mallo")
    journal.path.write_bytes(b"".join(lines))
    assert ingest_all(path, now=NOON) == Ingested(rows=2, damaged=1)
    assert rows(path) == [(0, "answered"), (2, "answered")]


def test_pitfall_428_429_a_mark_that_somebody_else_moved_takes_everything_back(path: str, tables: RecordTables) -> None:
    folder = directory_of(path)
    journal = Journal(folder)
    for number in range(4):
        journal.finalize(entry(number))
    assert journal.path is not None

    class Late(Ingester):
        """Has read the mark before somebody else moves it."""

        def _applied(self, found: Path) -> int:
            before = super()._applied(found)
            ingest_all(path, now=NOON)
            return before

    late = Late(tables, folder)
    assert late.ingest(journal.path) == journal.size
    assert late.ingested == Ingested()
    journal.finalize(entry(4))
    assert Ingester(tables, folder).ingest(journal.path) == journal.size
    assert rows(path) == [(number, "answered") for number in range(5)]


def test_one_that_was_removed_meanwhile_is_not_moved_again(path: str, tables: RecordTables) -> None:
    """Neither its mark nor its file is there any more: its bytes are in the hands of who was late alone."""
    folder = directory_of(path)
    journal = Journal(folder)
    journal.finalize(entry(1))
    assert journal.path is not None
    file = journal.path
    late = Ingester(tables, folder)
    descriptor = os.open(file, os.O_RDONLY)
    journal.close()
    assert ingest_all(path, now=NOON) == Ingested(rows=1, journals=1)
    assert marks(path) == {}
    late._ingest(descriptor, file)
    os.close(descriptor)
    assert rows(path) == [(1, "answered")]


@pytest.mark.parametrize("known", ["no mark", "a mark", "a mark that was forgotten"])
def test_one_that_was_moved_away_and_comes_back_counts_nothing_again(
    path: str, tables: RecordTables, known: str
) -> None:
    folder, away = directory_of(path), Path(path).with_name("away")
    journal = Journal(folder)
    drainer = Ingester(tables, folder)
    journal.open(entry(1, outcome=OPEN))
    if known != "no mark":
        journal.finalize(entry(2))
        assert journal.path is not None
        drainer.ingest(journal.path)
    journal.finalize(entry(3))
    if known == "a mark that was forgotten":
        with tables.transaction():
            tables.offsets.remove(journal.path.name if journal.path is not None else "")
    folder.rename(away)
    journal.rotate()
    ((moved, descriptor),) = journal.removed
    lost = int(known == "a mark that was forgotten")
    assert drainer.ingest_removed(descriptor, moved) == lost
    # Also if it is not known that this was done.
    assert drainer.ingest_removed(descriptor, moved) == 0
    os.close(descriptor)
    journal.finalize(entry(1))
    journal.close()
    ingest_all(path, now=NOON)
    (away / moved.name).rename(moved)
    assert ingest_all(path, now=NOON) == Ingested(journals=1)
    numbers = [1] + [2] * (known != "no mark") + [3] * (not lost)
    assert sorted(rows(path)) == [(number, "answered") for number in numbers]
    assert marks(path) == {}


@pytest.mark.parametrize("killed", ["before the file is removed", "before the mark is removed"])
def test_whoever_is_killed_while_a_journal_is_removed_leaves_nothing_twice(
    path: str, killed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(directory_of(path))
    journal.open(entry(1, outcome=OPEN))
    journal.finalize(entry(2))
    journal.close()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if killed == "before the file is removed":
            patched.setattr(Path, "unlink", die)
        else:
            patched.setattr(JournalOffsets, "remove", die)
        with pytest.raises(KeyboardInterrupt):
            ingest_all(path, now=NOON)
    ingest_all(path, now=NOON)
    assert rows(path) == [(2, "answered"), (1, CRASHED)]
    assert journals_in(directory_of(path)) == []
    with closing(open_record_tables(path)) as tables:
        # One that may come back is not forgotten yet.
        for days, left in ((0, killed == "before the mark is removed"), (31, False)):
            Ingester(tables, directory_of(path)).remove_offsets(journal.begun + days * DAY)
            assert bool(tables.offsets.all()) is left


def test_a_lock_leaves_everything_for_later(path: str, tables: RecordTables) -> None:
    folder = directory_of(path)
    journal = Journal(folder)
    journal.finalize(entry(1))
    assert journal.path is not None
    drainer = Ingester(tables, folder)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy):
            drainer.ingest(journal.path)
        assert drainer.ingested == Ingested()
    drainer.ingest(journal.path)
    assert rows(path) == [(1, "answered")]


def test_whoever_wants_to_know_hears_of_what_is_on_the_disk(path: str, tables: RecordTables) -> None:
    heard: list[Sequence[JournalEntry]] = []
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    assert journal.path is not None
    Ingester(tables, directory_of(path), heard.append).ingest(journal.path)
    assert heard == [[entry(1)]]


def test_files_of_others_are_left_alone_but_for_journals(path: str, tables: RecordTables) -> None:
    folder = directory_of(path)
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "strange.log").write_text("what is this?\n")
    drainer = Ingester(tables, folder)
    drainer.ingest_orphans(NOON)
    assert drainer.ingested == Ingested(damaged=1, journals=1)
    assert [found.name for found in folder.iterdir()] == ["notes.txt"]


def test_a_worker_is_told_all_of_its_own_journal_once_whoever_moves_it(path: str, tables: RecordTables) -> None:
    told: list[str] = []
    heard: dict[str, int] = {}

    def hears(entries: Sequence[JournalEntry]) -> None:
        told.extend(entry.id for entry in entries)

    def ids(*numbers: int) -> list[str]:
        return [entry(number).id for number in numbers]

    journal = Journal(directory_of(path))
    assert journal.path is not None
    drainer = Ingester(tables, directory_of(path), hears, heard)
    journal.finalize(entry(1))
    # A command looks before the worker's own drain does.
    ingest_all(path, now=NOON)
    journal.finalize(entry(2))
    drainer.ingest(journal.path)
    assert told == ids(1, 2)
    journal.finalize(entry(3))
    ingest_all(path, now=NOON)
    # The file was away for a while, and everything was opened again.
    drainer = Ingester(tables, directory_of(path), hears, heard)
    drainer.ingest(journal.path)
    assert told == ids(1, 2, 3)
    # What nobody wants to hear for a while is not told later.
    drainer.on_ingested = None
    journal.finalize(entry(0))
    ingest_all(path, now=NOON)
    drainer.ingest(journal.path)
    drainer.on_ingested = hears
    journal.finalize(entry(4))
    ingest_all(path, now=NOON)
    journal.finalize(entry(5))
    journal.close()
    drainer.ingest_orphans(NOON)
    assert told == ids(1, 2, 3, 4, 5)
    assert heard == {}
    assert rows(path) == [(number, "answered") for number in (1, 2, 3, 0, 4, 5)]


def test_of_the_journals_of_others_a_worker_is_told_what_it_moves_itself(path: str, tables: RecordTables) -> None:
    told: list[str] = []
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    ingest_all(path, now=NOON)
    journal.finalize(entry(2))
    journal.close()
    Ingester(tables, directory_of(path), lambda entries: told.extend(each.id for each in entries)).ingest_orphans(NOON)
    assert told == [entry(2).id]
