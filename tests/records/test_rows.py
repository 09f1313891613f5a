"""Rows and sums that an entry comes to."""

from __future__ import annotations

from contextlib import closing

import pytest
from msgspec.structs import replace

from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CONVERSATION,
    COUNT,
    CRASHED,
    FAILED,
    LIST,
    OPEN,
    OTHER,
    REFUSED,
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    TokenCounts,
)
from dragoman.records.record_fields import COLUMN_FIELDS
from dragoman.records.rows import Batch, details_of, is_unpriced
from dragoman.records.thread_assignment import AssignedThread
from dragoman.sessions.facts import ExchangeFacts
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.records import BUCKET_MICROSECONDS
from tests.records.invented import NOON, columns_of, entry, measures_of
from tests.store.opened import opened_records, sqlite

pytestmark = pytest.mark.usefixtures("engine")


def test_a_row_has_what_the_entry_says_and_the_rest_of_it_in_its_details() -> None:
    said = entry(1)
    row = columns_of(said, AssignedThread(3, 7))
    members = {field.column: getattr(said, field.name) for field in COLUMN_FIELDS if field.name != "tags"}
    assert {name: row[name] for name in members} == members
    assert (row["session"], row["thread"], row["losses"]) == (3, 7, 0)
    assert (row["input"], row["cache_read"], row["output"], row["thinking"]) == (100, 60, 20, 5)
    assert (row["cost"], row["unpriced"], row["said_cost"], row["price"]) == (1500, False, None, "2026-10-30")
    kept = row["details"]
    assert isinstance(kept, bytearray)
    details = details_of(bytes(kept))
    assert (details.calls, details.cost, details.size) == (said.calls, said.cost, 400)


def test_whom_it_might_have_gone_to_is_among_the_details_which_older_rows_have_without_it() -> None:
    candidates = (CandidateEntry("b/m", "", 5), CandidateEntry("a/m", "left out: in cooldown"))
    row = columns_of(replace(entry(1), candidates=candidates, candidates_more=1), AssignedThread())
    kept = row["details"]
    assert isinstance(kept, bytearray)
    details = details_of(bytes(kept))
    assert (details.candidates, details.candidates_more) == (candidates, 1)
    older = details_of(b'[[],[],null,[],"why",[],400,"trace"]')
    assert (older.candidates, older.candidates_more, older.size) == ((), None, 400)


def test_pitfall_433_what_is_not_known_is_null_and_counted_as_not_known() -> None:
    cut = entry(1, outcome=FAILED, tokens=None, money=None)
    row = columns_of(cut, AssignedThread())
    assert [row[name] for name in ("input", "output", "thinking", "searches")] == [None] * 4
    assert row["unpriced"]
    assert dict(zip(MEASURES, measures_of(cut), strict=True))["unpriced"] == 1


# What is counted as what, by the table of decision 32: requests, errors, cancelled, others.
_COUNTED = [
    (CONVERSATION, ANSWERED, (1, 0, 0, 0)),
    (CONVERSATION, REFUSED, (1, 1, 0, 0)),
    (CONVERSATION, FAILED, (1, 1, 0, 0)),
    (CONVERSATION, CRASHED, (1, 1, 0, 0)),
    (CONVERSATION, CANCELLED, (0, 0, 1, 0)),
    (CONVERSATION, OPEN, (0, 0, 0, 0)),
    (COUNT, ANSWERED, (0, 0, 0, 1)),
    (LIST, REFUSED, (0, 0, 0, 1)),
    (OTHER, CANCELLED, (0, 0, 0, 1)),
]


@pytest.mark.parametrize(("kind", "outcome", "counted"), _COUNTED)
def test_exchanges_are_counted_as_the_decision_says(kind: str, outcome: str, counted: tuple[int, ...]) -> None:
    measures = dict(zip(MEASURES, measures_of(entry(1, kind=kind, outcome=outcome)), strict=True))
    assert tuple(map(int, measures.values()))[:4] == counted
    # Whatever it was, what it took is added.
    assert (measures["input"], measures["output"], measures["cost"]) == (100, 20, 1500)
    assert measures["took"] == 3000 * counted[0]
    assert (measures["first"], measures["firsts"]) == (1000 * counted[0], counted[0])


_USED = TokenCounts(input=5)
_UNPRICED: list[tuple[str, JournalEntry, bool]] = [
    ("priced", entry(1), False),
    ("tokens without a price", entry(1, money=None), True),
    ("a part without a price", entry(1, money=CostBreakdown(input=5, unpriced=("search",))), True),
    ("an answer that says nothing of tokens", entry(1, tokens=None, money=None), True),
    ("refused at the door", entry(1, outcome=REFUSED, status=401, tokens=None, money=None), False),
    ("crashed", entry(1, outcome=CRASHED, status=0, tokens=None, money=None), True),
    ("a count", entry(1, kind=COUNT, tokens=None, money=None), False),
    (
        "a failed call before, maybe billed",
        JournalEntry(
            id="a",
            time=NOON,
            outcome=ANSWERED,
            tokens=_USED,
            cost=CostBreakdown(input=1),
            calls=(
                CallEntry("a", "m", "p", status=0, maybe_billed=True),
                CallEntry("b", "m", "p", status=200, tokens=_USED, cost=CostBreakdown(input=1)),
            ),
        ),
        True,
    ),
]


@pytest.mark.parametrize(("entry_", "unpriced"), [case[1:] for case in _UNPRICED], ids=[case[0] for case in _UNPRICED])
def test_what_cost_more_than_is_known_is_unpriced(entry_: JournalEntry, unpriced: bool) -> None:
    assert is_unpriced(entry_) is unpriced


def test_a_batch_adds_up_by_group_and_by_thread_in_order() -> None:
    batch = Batch()
    batch.add(entry(1, model="small"), AssignedThread(1, 9))
    batch.add(entry(2, time=NOON + BUCKET_MICROSECONDS), AssignedThread(1, 2))
    batch.add(entry(3), AssignedThread(1, 9))
    batch.add(entry(4), AssignedThread(1, 2))
    quarter = NOON // BUCKET_MICROSECONDS
    assert len(batch.rows) == 4
    sums = batch.rollups()
    assert [row[:5] for row in sums] == [
        (quarter, "alice", "claude-cli", "anthropic", "large"),
        (quarter, "alice", "claude-cli", "anthropic", "small"),
        (quarter + 1, "alice", "claude-cli", "anthropic", "large"),
    ]
    threads = batch.thread_rollups()
    assert [row[:2] for row in threads] == [(quarter, 2), (quarter, 9), (quarter + 1, 2)]
    cost = 5 + MEASURES.index("cost")
    assert [row[cost] for row in sums] == [3000, 1500, 1500]
    assert [row[cost - 3] for row in threads] == [1500, 3000, 1500]


def test_tagged_exchanges_are_added_up_by_their_tags_beside_all_exchanges() -> None:
    with closing(opened_records()) as tables:
        for time in (NOON, NOON + BUCKET_MICROSECONDS):
            batch = Batch()
            for number, tags in enumerate(("team=web", "", "team=api", "team=web")):
                batch.add(replace(entry(number, time=time), tags=tags))
            with tables.transaction():
                batch.write_rows(tables)
                batch.write_rollups(tables)
        db = tables.connection
        assert db.rows("SELECT id, tags FROM tag_sets ORDER BY id") == [(1, "team=web"), (2, "team=api")]
        assert db.rows("SELECT tags FROM records ORDER BY number") == [(1,), (0,), (2,), (1,)] * 2
        assert db.rows("SELECT quarter, requests, cost FROM sums") == [
            (NOON // BUCKET_MICROSECONDS + at, 4, 6000) for at in (0, 1)
        ]
        assert db.rows("SELECT tags, requests, cost FROM tag_sums") == [(1, 2, 3000), (2, 1, 1500)] * 2
        assert db.rows("SELECT tags, requests, cost FROM long_tag_sums WHERE span = 96") == [
            (1, 4, 6000),
            (2, 2, 3000),
        ]


@pytest.mark.sqlite_only
def test_an_exchange_without_tags_writes_nothing_for_them() -> None:
    with closing(opened_records()) as tables:
        statements: list[str] = []
        sqlite(tables.connection).set_trace_callback(statements.append)
        batch = Batch()
        batch.add(entry(1))
        with tables.transaction():
            batch.write_rows(tables)
            batch.write_rollups(tables)
        assert any("INTO records" in statement for statement in statements)
        assert not [statement for statement in statements if "tag_" in statement]


def test_a_set_of_a_transaction_that_failed_is_added_again() -> None:
    with closing(opened_records()) as tables:
        for fails in (True, False):
            batch = Batch()
            batch.add(replace(entry(1), tags="team=web"))
            try:
                with tables.transaction():
                    batch.write_rows(tables)
                    batch.write_rollups(tables)
                    if fails:
                        raise InterruptedError
            except InterruptedError:
                assert tables.connection.rows("SELECT * FROM tag_sets") == []
        assert tables.connection.rows("SELECT r.id, g.tags FROM records r JOIN tag_sets g ON g.id = r.tags") == [
            ("req_000000000000000000000001", "team=web")
        ]


def test_rows_between_which_others_have_no_session_await_one() -> None:
    told = [replace(entry(number), facts=ExchangeFacts(tip=str(number) * 32)) for number in range(6)]
    told[2] = replace(told[2], kind=LIST)
    told[5] = replace(told[5], kind=LIST)
    with closing(opened_records()) as tables:
        batch = Batch()
        for each in told:
            batch.add_unassigned(each)
        with tables.transaction():
            assert batch.write_rows(tables) == 6
        db = tables.connection
        assert db.rows("SELECT number, second FROM unassigned") == [
            (number, NOON // 1_000_000) for number in (1, 2, 4, 5)
        ]
        assert db.rows("SELECT DISTINCT number FROM unassigned_relations ORDER BY 1") == [
            (1,),
            (2,),
            (4,),
            (5,),
        ]
