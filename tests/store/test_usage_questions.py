"""Sums of long times are those of their quarters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.store.account_tables import AccountTables, open_account_tables
from dragoman.store.errors import StoreError
from dragoman.store.migrations import MEASURES
from dragoman.store.usage_questions import NAMES, SessionName, UsageQuestions, pieces
from tests.accounts.filled import fill, some_entries, speak
from tests.accounts.invented import NOON

FIRST = NOON // 900_000_000


@pytest.fixture(scope="module")
def tables() -> Iterator[AccountTables]:
    with closing(open_account_tables(":memory:")) as tables:
        for seed in range(3):
            # Several times, so that sums grow that are there.
            fill(tables, some_entries(seed, 400))
        speak(tables, [(1, "alice", "first"), (2, "alice", "second")], [(1, 1), (2, 1), (3, 2)])
        yield tables


@given(st.integers(-500, 3000), st.integers(0, 600))
def test_a_time_is_cut_into_pieces_that_are_kept(start: int, length: int) -> None:
    at = start
    found = list(pieces(start, start + length))
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
    tables: AccountTables, start: int, length: int, names: set[str]
) -> None:
    ordered = sorted(names)
    listed = ", ".join(ordered)
    sums = ", ".join(f"sum({name})" for name in MEASURES)
    rows = tables.connection.execute(
        f"SELECT {listed}, {sums} FROM sums WHERE quarter >= ? AND quarter < ? GROUP BY {listed}",
        (start, start + length),
    )
    expected = {row[: len(ordered)]: row[len(ordered) :] for row in rows}
    assert UsageQuestions(tables.connection).by_names(ordered, start, start + length) == expected


def test_what_everybody_came_to_is_kept_by_quarter(tables: AccountTables) -> None:
    sums = ", ".join(f"sum({name})" for name in MEASURES)
    expected = tables.connection.execute(f"SELECT quarter, {sums} FROM sums GROUP BY quarter ORDER BY quarter")
    questions = UsageQuestions(tables.connection)
    found = questions.by_quarter(0, 1 << 40)
    assert [(quarter, *measures) for quarter, measures in found] == expected.fetchall()
    assert questions.first() == found[0][0]


def test_threads_come_with_their_names_as_far_as_they_are_known(tables: AccountTables) -> None:
    found = {name.number: name for name, _ in UsageQuestions(tables.connection).by_thread(0, 1 << 40)}
    assert set(found) == set(range(6))
    assert (found[2].name, found[2].session, found[2].session_name, found[2].key) == ("thread-2", 1, "first", "alice")
    assert (found[0].session, found[0].name) == (None, None)
    assert (found[5].session, found[5].name, found[5].session_name) == (None, None, None)


def test_sessions_come_with_what_their_threads_came_to(tables: AccountTables) -> None:
    questions = UsageQuestions(tables.connection)
    threads = {name.number: measures for name, measures in questions.by_thread(0, 1 << 40)}
    found = {name: measures for name, measures in questions.by_session(0, 1 << 40)}
    assert found == {
        SessionName(0, None, None, None): threads[0],
        SessionName(1, "first", "alice", "claude-cli"): tuple(map(int.__add__, threads[1], threads[2])),
        SessionName(2, "second", "alice", "claude-cli"): threads[3],
        # Those whose names were forgotten.
        SessionName(-1, None, None, None): tuple(map(int.__add__, threads[4], threads[5])),
    }


def test_where_nothing_was_written_there_is_no_first_quarter() -> None:
    with closing(open_account_tables(":memory:")) as tables:
        assert UsageQuestions(tables.connection).first() is None


def test_what_sqlite_says_is_an_error_of_the_store() -> None:
    with closing(open_account_tables(":memory:")) as tables:
        tables.connection.execute("DROP TABLE thread_sums")
        with pytest.raises(StoreError, match="thread_sums"):
            UsageQuestions(tables.connection).by_thread(0, 1)
