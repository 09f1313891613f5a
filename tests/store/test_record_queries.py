"""Exchanges are listed along an index, whatever is asked of them, and found by id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.store.errors import StoreError
from dragoman.store.record_queries import KeyScope, RecordFilter, RecordQueries
from tests.records.invented import NOON, entry
from tests.records.kept_sessions import filling
from tests.store.explained import explained
from tests.store.opened import opened_records

pytestmark = pytest.mark.usefixtures("engine")

SECOND = 1_000_000
ALL = RecordFilter()
LISTS = {
    "all": ALL,
    "of a time": RecordFilter(since=NOON),
    "of a key": RecordFilter(key="bob"),
    "of a model": RecordFilter(model="small"),
    "that failed": RecordFilter(errors=True),
    "of everything": RecordFilter(since=NOON, key="alice", model="anthropic/lar*", errors=True),
    "of a page": RecordFilter(before=(NOON, 7)),
}


@pytest.fixture
def questions(tmp_path: Path) -> Iterator[RecordQueries]:
    with filling(tmp_path / "state.db") as file:
        file.exchanges(entry(number, time=NOON + number * SECOND) for number in range(1, 4))
        file.exchanges([entry(4, time=NOON + 4 * SECOND, key="bob", model="small")], 7, 70)
        file.exchanges([entry(5, time=NOON + 5 * SECOND, outcome="failed", status=502)], 7, 71)
        file.exchanges([replace(entry(6, time=NOON), provider_request_id="theirs", response_id="msg_1")], 8, 80)
    tables = opened_records(tmp_path / "state.db", read_only=True)
    yield RecordQueries(tables.connection)
    tables.close()


def numbers(questions: RecordQueries, wanted: RecordFilter, most: int = 50) -> list[int]:
    """Which of the exchanges above are told, by their ids."""
    return [int(row.id.removeprefix("req_")) for row in questions.latest(wanted, most)]


def test_the_latest_come_first_and_no_more_than_were_asked_for(questions: RecordQueries) -> None:
    assert numbers(questions, ALL) == [5, 4, 3, 2, 1, 6]
    assert numbers(questions, ALL, 2) == [5, 4]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (RecordFilter(since=NOON + 3 * SECOND), [5, 4, 3]),
        (RecordFilter(key="bob"), [4]),
        (RecordFilter(key="b*"), []),
        (RecordFilter(model="small"), [4]),
        (RecordFilter(model="anthropic/small"), [4]),
        (RecordFilter(model="sm*"), [4]),
        (RecordFilter(model="sm?ll"), []),
        (RecordFilter(model="[s]mall"), []),
        (RecordFilter(model="small' OR '1' = '1"), []),
        (RecordFilter(errors=True), [5]),
        (RecordFilter(session=7), [5, 4]),
        (RecordFilter(session=7, thread=70), [4]),
    ],
)
def test_what_is_asked_of_them_is_what_they_have(
    questions: RecordQueries, wanted: RecordFilter, found: list[int]
) -> None:
    assert numbers(questions, wanted) == found
    behind = questions.after(0, wanted, 50)
    assert sorted(int(row.id.removeprefix("req_")) for row in behind) == sorted(found)


def test_those_behind_one_are_told_in_the_order_in_which_they_were_written_down(questions: RecordQueries) -> None:
    assert questions.newest() == 6
    assert [row.number for row in questions.after(4, ALL, 50)] == [5, 6]
    assert [row.number for row in questions.after(0, ALL, 2)] == [1, 2]


def test_an_exchange_is_found_by_its_time_and_the_beginning_of_its_id(questions: RecordQueries) -> None:
    name = f"req_{3:024d}"
    assert [row.id for row in questions.between(name, NOON, NOON + 9 * SECOND, 2)] == [name]
    assert questions.between(name, NOON, NOON, 2) == []
    assert len(questions.between("req_0", NOON, NOON + 9 * SECOND, 3)) == 3


@pytest.mark.parametrize("text", [f"req_{6:024d}", "theirs", "msg_1"])
def test_an_exchange_is_found_by_what_anybody_calls_it(questions: RecordQueries, text: str) -> None:
    assert [row.upstream_id for row in questions.anywhere(text, 2)] == ["theirs"]
    assert questions.anywhere(text[:3], 2) == []


def test_a_row_has_all_that_an_entry_says(questions: RecordQueries) -> None:
    (row,) = questions.latest(RecordFilter(model="small"), 1)
    assert (row.input, row.cache_read, row.output, row.thinking, row.cost) == (100, 60, 20, 5, 1500)
    assert (row.session, row.thread, row.key, row.outcome, row.took) == (7, 70, "bob", "answered", 3000)


def test_nothing_is_found_in_an_empty_file_and_an_error_is_one_of_the_store(tmp_path: Path) -> None:
    with filling(tmp_path / "state.db"):
        pass
    tables = opened_records(tmp_path / "state.db", read_only=True)
    questions = RecordQueries(tables.connection)
    assert (questions.newest(), questions.latest(ALL, 5), questions.anywhere("x", 5)) == (0, [], [])
    tables.close()
    with pytest.raises(StoreError):
        questions.latest(ALL, 5)
    with pytest.raises(StoreError):
        questions.newest()


def test_pages_have_each_row_once(questions: RecordQueries) -> None:
    seen, before = list[int](), None
    while rows := questions.latest(RecordFilter(before=before), 2):
        seen += [int(row.id.removeprefix("req_")) for row in rows]
        before = rows[-1].time, rows[-1].number
    assert seen == numbers(questions, ALL)


@pytest.mark.parametrize("wanted", [*LISTS.values(), RecordFilter(session=7), RecordFilter(session=7, thread=71)])
def test_a_scope_is_a_condition_of_every_query(tmp_path: Path, questions: RecordQueries, wanted: RecordFilter) -> None:
    tables = opened_records(tmp_path / "state.db", read_only=True)
    bob = RecordQueries(tables.connection, KeyScope("bob"))
    try:
        for rows in (bob.latest(wanted, 50), bob.after(0, wanted, 50)):
            assert {row.key for row in rows} <= {"bob"}
    finally:
        tables.close()


def test_an_id_outside_of_a_scope_is_found_by_none_of_its_names(tmp_path: Path, questions: RecordQueries) -> None:
    tables = opened_records(tmp_path / "state.db", read_only=True)
    bob, nobody = (RecordQueries(tables.connection, KeyScope(key)) for key in ("bob", "nobody"))
    name = f"req_{6:024d}"
    try:
        for scoped in (bob, nobody):
            assert [scoped.anywhere(text, 5) for text in (name, "theirs", "msg_1")] == [[], [], []]
            assert scoped.between(name, 0, NOON + 9 * SECOND, 5) == []
            assert scoped.numbered([6]) == []
        assert [row.number for row in bob.numbered([1, 4])] == [4]
    finally:
        tables.close()


@pytest.mark.sqlite_only
@pytest.mark.parametrize("wanted", LISTS.values(), ids=list(LISTS))
def test_lists_never_look_at_all_rows_nor_sort_them(tmp_path: Path, wanted: RecordFilter) -> None:
    with filling(tmp_path / "state.db"):
        pass
    db = explained(tmp_path / "state.db")
    for questions in (RecordQueries(db), RecordQueries(db, KeyScope("bob"))):
        for asked in (wanted, replace(wanted, session=7), replace(wanted, session=7, thread=70)):
            questions.latest(asked, 50)
            questions.after(3, asked, 50)
        questions.between("req_0", 1, 2, 5)
    assert [plan for plan in db.plans if plan.startswith("SCAN") or "TEMP B-TREE" in plan] == []
    assert any("records_by_time (time>" in plan for plan in db.plans)
    assert any("records_by_session (session=? AND time>" in plan for plan in db.plans)
    db.plans.clear()
    questions.anywhere("x", 1)
    # The tags of each row are one look-up by their number.
    assert [plan.split()[0] for plan in db.plans] == ["SCAN", "CORRELATED", "SEARCH"]
    db.close()
