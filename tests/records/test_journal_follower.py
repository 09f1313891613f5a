"""Exchanges opened and finalized by any worker, followed in their journals."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.records import journal_follower
from dragoman.records.journal import Journal
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_entry import OPEN
from dragoman.records.journal_follower import JournalFollower
from dragoman.records.journal_ingest import ingest_all
from dragoman.records.journal_reader import FINALIZED, OPENED
from tests.records.invented import NOON, entry


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "state.db")


def read(follower: JournalFollower) -> list[tuple[str, int]]:
    """What is new, by kinds and numbers of entries."""
    return [(event.kind, int(event.entry.id.removeprefix("req_"))) for event in follower.read(NOON)]


@pytest.fixture
def journal(path: str) -> Iterator[Journal]:
    with closing(Journal(directory_of(path))) as journal:
        yield journal


def test_exchanges_of_all_workers_come_as_they_are_written(path: str, journal: Journal) -> None:
    journal.finalize(entry(1))
    with closing(JournalFollower(path)) as follower:
        # What was there before is not told.
        assert read(follower) == []
        journal.open(entry(2, outcome=OPEN))
        assert read(follower) == [(OPENED, 2)]
        with closing(Journal(directory_of(path))) as other:
            other.open(entry(3, outcome=OPEN))
            other.finalize(entry(3))
            journal.finalize(entry(2))
            assert sorted(read(follower)) == sorted([(FINALIZED, 2), (OPENED, 3), (FINALIZED, 3)])
        assert read(follower) == []


def test_a_journal_is_read_to_its_end_after_it_was_removed(path: str) -> None:
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    with closing(JournalFollower(path)) as follower:
        journal.finalize(entry(2))
        journal.close()
        assert ingest_all(path, now=NOON).rows == 2
        assert journals_in(directory_of(path)) == []
        assert read(follower) == [(FINALIZED, 2)]
        assert read(follower) == []


def test_an_exchange_whose_worker_was_killed_is_finalized_as_crashed(path: str) -> None:
    journal = Journal(directory_of(path))
    journal.finalize(entry(1))
    with closing(JournalFollower(path)) as follower:
        journal.open(replace(entry(2, outcome=OPEN), size=400, tokens=None))
        assert read(follower) == [(OPENED, 2)]
        # As the kernel does with the files of a process that was killed.
        os.close(journal.descriptor)
        ingest_all(path, now=NOON)
        (event,) = follower.read(NOON)
        assert (event.kind, event.entry.outcome) == (FINALIZED, "crashed")
        assert event.entry.id == entry(2).id
        assert read(follower) == []


def test_an_exchange_goes_on_in_the_next_journal(path: str) -> None:
    with closing(Journal(directory_of(path), max_bytes=3000)) as journal, closing(JournalFollower(path)) as follower:
        journal.open(entry(99, outcome=OPEN))
        first = journal.path
        number = 0
        while journal.path == first:
            number += 1
            journal.finalize(entry(number))
        ingest_all(path, now=NOON)
        assert first not in journals_in(directory_of(path))
        assert (OPENED, 99) in (events := read(follower))
        assert (FINALIZED, 99) not in events
        journal.finalize(entry(99))
        assert read(follower) == [(FINALIZED, 99)]


def test_much_is_read_in_steps_and_nothing_twice(path: str, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_follower, "_AT_ONCE", 1)
    monkeypatch.setattr("dragoman.records.journal_reader._SEGMENT_BYTES", 512)
    with closing(JournalFollower(path)) as follower:
        for number in range(1, 30):
            journal.finalize(entry(number))
        seen: list[tuple[str, int]] = []
        while events := read(follower):
            seen += events
    assert seen == [(FINALIZED, number) for number in range(1, 30)]


def test_a_line_that_is_not_complete_is_read_when_it_is(path: str, journal: Journal) -> None:
    journal.finalize(entry(1))
    assert journal.path is not None
    whole = journal.path.read_bytes()
    other = journal.path.with_name("9-9-9.log")
    line = whole.splitlines(keepends=True)[-1]
    with closing(JournalFollower(path)) as follower:
        other.write_bytes(line[:50])
        assert read(follower) == []
        other.write_bytes(line)
        assert read(follower) == [(FINALIZED, 1)]
        # A line with a wrong sum is left out.
        with other.open("ab") as file:
            file.write(b"00000000 [1]\n" + line)
        assert read(follower) == [(FINALIZED, 1)]
