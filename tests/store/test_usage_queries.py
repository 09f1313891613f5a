"""Sums of long times are those of their quarters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.erasure import Erasure
from dragoman.store.errors import StoreError
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_tables import RecordTables
from dragoman.store.usage_queries import NAMES, SESSION_NAMES, THREAD_NAMES, NamedRow, UsageQueries, split_spans
from tests.records.filled import DAY, fill, some_entries, speak
from tests.records.invented import NOON
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

FIRST = NOON // 900_000_000


@pytest.fixture(scope="module")
def tables() -> Iterator[RecordTables]:
    with closing(opened_records()) as tables:
        sessions = [(1, "alice", "first"), (2, "alice", "second"), (3, "bob", "third")]
        speak(tables, sessions, [(1, 1), (2, 1), (3, 2), (4, 3), (5, 3)])
        for seed in range(3):
            # Several times, so that sums grow that are there.
            fill(tables, some_entries(seed, 400))
        Erasure(tables.connection).remove_sessions([3])
        yield tables


@given(st.integers(-500, 3000), st.integers(0, 600))
def test_a_time_is_cut_into_pieces_that_are_kept(start: int, length: int) -> None:
    at = start
    found = list(split_spans(start, start + length))
    for span, low, high in found:
        assert span in (1, 4, 96)
        assert (low, low % span, high % span) == (at, 0, 0)
        at = high
    assert at == start + length
    # Of quarters and of hours there are no more than the edges have.
    assert sum(high - low for span, low, high in found if span == 1) <= 6
    assert sum(high - low for span, low, high in found if span == 4) <= 2 * 96


@given(st.integers(FIRST - 10, FIRST + 3800), st.integers(0, 3000), st.sets(st.sampled_from(NAMES), min_size=1))
def test_whatever_the_edges_are_sums_are_those_of_the_quarters(
    tables: RecordTables, start: int, length: int, names: set[str]
) -> None:
    ordered = sorted(names)
    listed = ", ".join(ordered)
    sums = ", ".join(f"sum({name})" for name in MEASURES)
    rows = tables.connection.rows(
        f"SELECT {listed}, {sums} FROM sums WHERE quarter >= ? AND quarter < ? GROUP BY {listed}",
        (start, start + length),
    )
    expected = {row[: len(ordered)]: row[len(ordered) :] for row in rows}
    assert UsageQueries(tables.connection).by_names(ordered, start, start + length) == expected


def test_what_everybody_came_to_is_kept_by_quarter(tables: RecordTables) -> None:
    sums = ", ".join(f"sum({name})" for name in MEASURES)
    expected = tables.connection.rows(f"SELECT quarter, {sums} FROM sums GROUP BY quarter ORDER BY quarter")
    questions = UsageQueries(tables.connection)
    found = questions.by_bucket(0, 1 << 40)
    assert [(quarter, *measures) for quarter, measures in found] == expected
    assert questions.first() == found[0][0]


# Sessions of one to three threads, each of which is heard of for some days: few lie across the edges of a month.
LASTS = 3 * DAY
FORGOTTEN = [2, 5, 40]


@pytest.fixture(scope="module")
def speakers() -> Iterator[RecordTables]:
    dice = random.Random(1)
    threads = [(number, 1 + number // 2 if number % 5 else 1 + number // 3) for number in range(1, 121)]
    sessions = sorted({session for _, session in threads})
    begins = {number: NOON + dice.randrange(60 * DAY) for number, _ in threads}
    with closing(opened_records()) as tables:
        speak(tables, [(number, "alice", f"session-{number}") for number in sessions], threads)
        for seed in range(2):
            for number, session in threads:
                said = some_entries(seed * 1000 + number, 3, begin=begins[number], length=LASTS)
                fill(tables, [(entry, AssignedThread(session, number)) for entry, _ in said])
        fill(tables, [(entry, AssignedThread()) for entry, _ in some_entries(9, 50)])
        Erasure(tables.connection).remove_sessions(FORGOTTEN)
        yield tables


def expected_of(tables: RecordTables, of: str, start: int, end: int) -> dict[object, tuple[int, ...]]:
    """What each thread or session that has a name came to, from its quarters alone."""
    columns = [*MEASURES[:5], "input - cache_read - cache_write", *MEASURES[5:]]
    number = "t.id" if of == "thread" else "t.session"
    rows = tables.connection.rows(
        f"SELECT {number}, {', '.join(f'sum({column})' for column in columns)} FROM thread_sums q"
        " JOIN threads t ON t.id = q.thread WHERE quarter >= ? AND quarter < ? GROUP BY 1",
        (start, end),
    )
    return {row[0]: row[1:] for row in rows}


def figures_by_number(rows: list[NamedRow], names: tuple[str, ...], of: str) -> dict[object, tuple[object, ...]]:
    found: dict[object, tuple[object, ...]] = {row[names.index(f"{of}_id")]: row[len(names) :] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize(("of", "names"), [("thread", THREAD_NAMES), ("session", SESSION_NAMES)])
@given(st.integers(FIRST - 10, FIRST + 65 * 96), st.integers(0, 65 * 96), st.integers(1, 150))
def test_whatever_the_edges_are_threads_and_sessions_come_to_their_quarters(
    speakers: RecordTables, of: str, names: tuple[str, ...], start: int, length: int, most: int
) -> None:
    questions = UsageQueries(speakers.connection)
    ask = questions.by_thread if of == "thread" else questions.by_session
    expected = expected_of(speakers, of, start, start + length)
    found = ask(start, start + length)
    assert figures_by_number(found.rows, names, of) == expected
    assert found.count == len(expected)
    # The dearest of them, and maybe more.
    some = ask(start, start + length, most)
    assert some.count == found.count
    told = figures_by_number(some.rows, names, of)
    assert all(expected[number] == figures for number, figures in told.items())
    assert set(sorted(expected.values(), key=lambda figures: -figures[12])[:most]) <= set(told.values())


def test_what_belongs_to_no_thread_is_asked_for_alone(speakers: RecordTables) -> None:
    questions = UsageQueries(speakers.connection)
    found = questions.without_thread(0, 1 << 40)
    assert found is not None
    assert sum(found[:1] + found[2:4]) == 50
    assert questions.without_thread(0, FIRST) is None


@given(st.integers(FIRST - 10, FIRST + 65 * 96), st.integers(0, 65 * 96))
def test_whatever_the_edges_are_who_was_forgotten_comes_to_what_is_left_of_all(
    speakers: RecordTables, start: int, length: int
) -> None:
    sums = ", ".join(f"sum({name})" for name in MEASURES)
    (left,) = speakers.connection.rows(
        f"SELECT {sums} FROM thread_sums WHERE quarter >= ? AND quarter < ? AND thread <> 0"
        " AND thread NOT IN (SELECT id FROM threads)",
        (start, start + length),
    )
    found = UsageQueries(speakers.connection).forgotten(start, start + length)
    assert found == (None if left[0] is None else left)


def test_everybody_together_comes_to_the_sum_of_all_quarters(speakers: RecordTables) -> None:
    sums = ", ".join(f"sum({name})" for name in MEASURES)
    expected = speakers.connection.row(f"SELECT {sums} FROM sums")
    assert UsageQueries(speakers.connection).total(0, 1 << 40) == expected
    assert UsageQueries(speakers.connection).total(0, FIRST) == (0,) * len(MEASURES)


def test_threads_come_with_their_names_as_far_as_they_are_known(tables: RecordTables) -> None:
    found = UsageQueries(tables.connection).by_thread(0, 1 << 40)
    names = {row[1]: dict(zip(THREAD_NAMES, row, strict=False)) for row in found.rows}
    assert set(names) == {1, 2, 3}
    assert found.count == 3
    assert names[2] == {
        "thread": "thread-2",
        "thread_id": 2,
        "thread_class": "main",
        "label": "label",
        "session": "first",
        "session_id": 1,
        "key": "alice",
        "client": "claude-cli",
    }


def test_sessions_come_with_what_their_threads_came_to(tables: RecordTables) -> None:
    questions = UsageQueries(tables.connection)
    threads = {row[1]: row[len(THREAD_NAMES) :] for row in questions.by_thread(0, 1 << 40).rows}
    assert questions.by_session(0, 1 << 40).rows == [
        ("first", 1, "alice", "claude-cli", *map(add, threads[1], threads[2])),
        ("second", 2, "alice", "claude-cli", *threads[3]),
    ]


def test_where_nothing_was_written_there_is_no_first_quarter() -> None:
    with closing(opened_records()) as tables:
        assert UsageQueries(tables.connection).first() is None


@pytest.mark.sqlite_only
def test_what_sqlite_says_is_an_error_of_the_store() -> None:
    with closing(opened_records()) as tables:
        tables.connection.change("DROP TABLE thread_sums")
        with pytest.raises(StoreError, match="thread_sums"):
            UsageQueries(tables.connection).by_thread(0, 1)
