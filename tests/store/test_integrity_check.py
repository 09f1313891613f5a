"""What does not agree is found, by the table that it is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dragoman.store.erasure import Erasure
from dragoman.store.errors import StoreError
from dragoman.store.integrity_check import TABLES, Agreement, IntegrityCheck
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.records import COLUMNS
from tests.records.filled import fill, some_entries, speak
from tests.store.inserted_identities import insert


@pytest.fixture
def tables() -> Iterator[RecordTables]:
    with closing(open_record_tables(":memory:")) as tables:
        sessions = [(1, "alice", "first"), (2, "alice", "second"), (3, "bob", "first")]
        speak(tables, sessions, [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)])
        fill(tables, some_entries(1, 300))
        insert(tables.connection, 1, "ann", (b"a" * 32, None), (b"b" * 32, 9.5))
        yield tables


def wrong(tables: RecordTables) -> tuple[int, list[str], list[str]]:
    examination = IntegrityCheck(tables.connection)
    sums = [table for table, count in examination.mismatched_rollups() if count]
    orphans = [words for words, count in examination.orphans() if count]
    return examination.agreement().wrong, sums, orphans


def test_what_was_written_by_the_drain_agrees(tables: RecordTables) -> None:
    examination = IntegrityCheck(tables.connection)
    assert examination.problems() == []
    assert examination.version() == len(STEPS)
    assert wrong(tables) == (0, [], [])
    groups = [tables.connection.number(f"SELECT count(*) FROM {table}") for table in ("sums", "tag_sums")]
    assert all(groups)
    assert examination.agreement() == Agreement(matching=sum(groups))
    counts = examination.counts()
    assert tuple(counts) == TABLES
    assert (counts["records"], counts["sessions"], counts["threads"]) == (300, 3, 5)


def test_rows_that_were_removed_are_no_disagreement(tables: RecordTables) -> None:
    removed = tables.connection.change("DELETE FROM records WHERE key = 'alice' OR number % 3 = 0")
    assert wrong(tables) == (0, [], [])
    assert IntegrityCheck(tables.connection).agreement().without_row == removed


# What is done to the file, and what is found. Row 7 has tags, and so a group among those of tags, too.
BROKEN = {
    "UPDATE records SET cost = cost + 1 WHERE number = 7": (2, [], []),
    "UPDATE records SET input = coalesce(input, 0) + 1 WHERE number = 7": (2, [], []),
    f"INSERT INTO records SELECT 1000, {', '.join(COLUMNS)} FROM records WHERE number = 7": (2, [], []),
    "UPDATE records SET model = 'another' WHERE number = 7": (2, [], []),
    "UPDATE quarter_sums SET cost = cost + 1 WHERE quarter = (SELECT min(quarter) FROM quarter_sums)": (
        0,
        ["quarter_sums"],
        [],
    ),
    "DELETE FROM long_sums WHERE span = 96": (0, ["long_sums of 96 quarters"], []),
    "UPDATE long_sums SET losses = losses + 1 WHERE span = 4": (0, ["long_sums of 4 quarters"], []),
    "DELETE FROM long_tag_sums WHERE span = 96": (0, ["long_tag_sums of 96 quarters"], []),
    "UPDATE long_tag_sums SET losses = losses + 1 WHERE span = 4": (0, ["long_tag_sums of 4 quarters"], []),
    "UPDATE tag_sums SET others = others + 9 WHERE quarter = (SELECT min(quarter) FROM tag_sums)": (
        0,
        ["tag_sums"],
        [],
    ),
    "DELETE FROM tag_sets WHERE id = 1": (
        0,
        [],
        ["exchanges of a set of tags that is not there", "sums of a set of tags that is not there"],
    ),
    "DELETE FROM sessions WHERE id = 1": (
        0,
        [],
        ["exchanges of a session that is not there", "threads of a session that is not there"],
    ),
    "UPDATE thread_totals SET last = last + 1 WHERE thread = 4": (0, ["thread_totals"], []),
    "UPDATE session_totals SET since = since + 1 WHERE session = 3": (0, ["session_totals"], []),
    "UPDATE session_totals SET cost = cost + 1 WHERE session = 2": (0, ["session_totals"], []),
    "DELETE FROM threads WHERE id = 4": (
        0,
        ["session_totals"],
        ["exchanges of a thread that is not there", "ends of histories of a thread that is not there"],
    ),
    "UPDATE threads SET parent = 77 WHERE id = 4": (0, [], ["threads that one began which is not there"]),
    "UPDATE sessions SET origin = 77 WHERE id = 1": (0, [], ["sessions that go on from one which is not there"]),
    "DELETE FROM identities": (0, [], ["digests of a gateway key that is not there"]),
    f"UPDATE identities SET owner = x'{'c' * 64}'": (0, [], ["gateway keys whose first digest is not there"]),
    "UPDATE generation SET number = 0": (0, [], ["gateway keys that were changed after the last change"]),
    "DELETE FROM generation": (0, [], ["gateway keys that were changed after the last change"]),
}


@pytest.mark.parametrize("statement", BROKEN)
def test_what_does_not_agree_is_found(tables: RecordTables, statement: str) -> None:
    tables.connection.change(statement)
    assert wrong(tables) == BROKEN[statement]


def test_sums_of_threads_that_say_something_else_are_found(tables: RecordTables) -> None:
    tables.connection.change("DELETE FROM thread_sums WHERE thread = 3")
    assert wrong(tables) == (0, ["thread_sums", "thread_totals"], [])


def test_what_was_forgotten_is_no_disagreement(tables: RecordTables) -> None:
    Erasure(tables.connection).remove_sessions([2])
    assert wrong(tables)[:2] == (0, [])


def test_what_sqlite_says_is_an_error_of_the_store(tables: RecordTables) -> None:
    tables.connection.change("DROP TABLE tips")
    with pytest.raises(StoreError, match="tips"):
        IntegrityCheck(tables.connection).counts()
