"""Sessions are listed by when they were last heard of, found by name, and come to what their threads come to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.store.errors import StoreError
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_queries import KeyScope
from dragoman.store.session_queries import SessionFigures, SessionQueries
from tests.records.invented import NOON, entry
from tests.records.kept_sessions import filling
from tests.store.explained import explained
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

SECOND = 1_000_000
HOUR = 3600 * SECOND


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "state.db"
    with filling(file) as filled:
        filled.session(1, "5f0c-a", started=NOON, last=NOON + HOUR)
        filled.session(2, "5f0c-b", started=NOON, last=NOON + 2 * HOUR, origin=1, link="continues")
        filled.session(3, "5f0c-a", key="bob", started=NOON, last=NOON)
        filled.thread(10, 1, started=NOON, last=NOON + HOUR)
        filled.thread(11, 1, "subagent", parent=10, label="Explore", started=NOON + SECOND, last=NOON + 30 * SECOND)
        filled.thread(12, 1, "utility", started=NOON, last=NOON)
        filled.thread(20, 2, "utility", started=NOON, last=NOON + HOUR)
        # Two quarters of an hour have sums of their own.
        filled.exchanges([entry(1, time=NOON), entry(2, time=NOON + HOUR, outcome="failed", status=502)], 1, 10)
        filled.exchanges([entry(3, time=NOON + 30 * SECOND)], 1, 11)
        filled.exchanges([entry(4, time=NOON), entry(5, time=NOON + HOUR, kind="count")])
    return file


@pytest.fixture
def questions(path: Path) -> Iterator[SessionQueries]:
    tables = opened_records(path, read_only=True)
    yield SessionQueries(tables.connection)
    tables.close()


def test_figures_are_the_measures_of_the_tables() -> None:
    assert SessionFigures.__struct_fields__ == MEASURES
    assert SessionFigures(requests=1, cost=5) + SessionFigures(cost=7, firsts=1) == SessionFigures(
        requests=1, cost=12, firsts=1
    )


def test_sessions_are_listed_by_when_they_were_last_heard_of(questions: SessionQueries) -> None:
    assert [row.id for row in questions.newest(0, None, 50)] == [2, 1, 3]
    assert [row.id for row in questions.newest(NOON + 1, None, 50)] == [2, 1]
    assert [row.id for row in questions.newest(0, "bob", 50)] == [3]
    assert [row.id for row in questions.newest(0, None, 1)] == [2]


def test_pages_have_each_session_once(questions: SessionQueries) -> None:
    seen, before = list[int](), None
    while rows := questions.newest(0, None, 2, before):
        seen += [row.id for row in rows]
        before = rows[-1].last, rows[-1].id
    assert seen == [2, 1, 3]


def test_a_scope_is_a_condition_of_every_query_of_sessions(path: Path) -> None:
    tables = opened_records(path, read_only=True)
    try:
        for key, numbers in (("bob", [3]), ("nobody", [])):
            questions = SessionQueries(tables.connection, KeyScope(key))
            assert [row.id for row in questions.newest(0, None, 50)] == numbers
            assert [row.id for row in questions.newest(0, "alice", 50)] == []
            assert [row.id for row in questions.named("5f0c", None, 9)] == numbers
            assert questions.named("5f0c", "alice", 9) == []
            assert list(questions.of([1, 2, 3])) == numbers
            assert questions.below([1, 2]) == {}
    finally:
        tables.close()


@pytest.mark.parametrize(
    ("text", "key", "found"),
    [
        ("5f0c-b", None, [2]),
        ("5f0c", None, [1, 2, 3]),
        ("5f0c-a", None, [1, 3]),
        ("5f0c-a", "bob", [3]),
        ("5f0c", "alice", [1, 2]),
        ("5F0C", None, []),
        ("%", None, []),
        ("' OR 1 --", None, []),
    ],
)
def test_a_session_is_found_by_its_name_or_how_that_begins(
    questions: SessionQueries, text: str, key: str | None, found: list[int]
) -> None:
    assert [row.id for row in questions.named(text, key, 9)] == found


def test_no_more_are_found_than_were_asked_for(questions: SessionQueries) -> None:
    assert len(questions.named("5f0c", None, 2)) == 2


def test_threads_come_with_what_they_came_to_in_all_their_time(questions: SessionQueries) -> None:
    found = questions.threads(1)
    assert [(thread.id, thread.kind, thread.parent) for thread, _ in found] == [
        (10, "main", 0),
        (12, "utility", 0),
        (11, "subagent", 10),
    ]
    assert [(figures.requests, figures.errors, figures.cost) for _, figures in found] == [
        (2, 1, 3000),
        (0, 0, 0),
        (1, 0, 1500),
    ]
    assert questions.threads(99) == []


def test_what_sessions_came_to_by_class_is_the_sum_of_their_threads(questions: SessionQueries) -> None:
    found = {(each.session, each.kind): each for each in questions.by_class([1, 2, 3])}
    assert {name: (each.threads, each.figures.cost) for name, each in found.items()} == {
        (1, "main"): (1, 3000),
        (1, "subagent"): (1, 1500),
        (1, "utility"): (1, 0),
        (2, "utility"): (1, 0),
    }
    assert questions.by_class([]) == []


def test_what_belongs_to_no_session_is_counted_since_a_quarter(questions: SessionQueries) -> None:
    quarter = NOON // 900_000_000
    assert (questions.without_session(quarter).requests, questions.without_session(quarter).others) == (1, 1)
    assert (questions.without_session(quarter + 1).requests, questions.without_session(quarter + 1).others) == (0, 1)


def test_the_last_exchange_of_each_thread_is_found(questions: SessionQueries) -> None:
    threads = [thread for thread, _ in questions.threads(1)]
    found = questions.last_exchanges(threads)
    assert {number: (last.time, last.outcome) for number, last in found.items()} == {
        10: (NOON + HOUR, "failed"),
        11: (NOON + 30 * SECOND, "answered"),
    }


def test_a_session_speaks_by_its_main_thread_or_by_any(questions: SessionQueries) -> None:
    assert {row.session: row.id for row in questions.main_threads([1, 2, 3])} == {1: 10, 2: 20}


def test_sessions_and_threads_are_found_by_number(questions: SessionQueries) -> None:
    assert {number: row.link for number, row in questions.of([2, 1, 77]).items()} == {1: "", 2: "continues"}
    assert {number: row.label for number, row in questions.thread_rows([11, 78]).items()} == {11: "Explore"}


def test_sessions_of_agents_are_found_below_those_they_came_from_and_end(path: Path) -> None:
    with filling(path) as file:
        file.session(5, "agent", started=NOON, last=NOON + 9 * HOUR, origin=1, link="subagent")
        file.session(6, "deeper", started=NOON, last=NOON + 9 * HOUR, origin=5, link="subagent")
        # They go round and round.
        file.session(7, "round", started=NOON, last=NOON, origin=8, link="subagent")
        file.session(8, "and round", started=NOON, last=NOON, origin=7, link="subagent")
    tables = opened_records(path, read_only=True)
    questions = SessionQueries(tables.connection)
    found = questions.below([1, 2, 7])
    assert {number: [row.id for row in rows] for number, rows in found.items()} == {1: [5, 6], 7: [8]}
    assert [row.id for row in questions.newest(0, None, 50)] == [2, 1, 3]
    tables.close()


@pytest.mark.sqlite_only
def test_no_question_looks_at_all_records_or_sums(path: Path) -> None:
    db = explained(path)
    questions = SessionQueries(db)
    questions.newest(0, None, 50)
    questions.newest(0, "bob", 50)
    questions.named("5f", None, 9)
    questions.by_class([1, 2, 3])
    questions.without_session(0)
    questions.last_exchanges([thread for thread, _ in questions.threads(1)])
    questions.main_threads([1, 2])
    questions.of([1])
    questions.thread_rows([10])
    questions.below([1, 2])
    # The keys that were found by leaping are few.
    assert [plan for plan in db.plans if plan.startswith("SCAN") and plan != "SCAN k"] == []
    assert any("records_by_session (session=? AND time<?)" in plan for plan in db.plans)
    assert any("thread_sums_by_thread (thread=? AND quarter>?)" in plan for plan in db.plans)
    assert any(plan.startswith("SEARCH s USING INTEGER PRIMARY KEY") for plan in db.plans)
    assert any("sessions_by_origin (origin=?)" in plan for plan in db.plans)
    db.close()
    with pytest.raises(StoreError):
        questions.newest(0, None, 1)
