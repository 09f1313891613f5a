"""Sessions that are assigned later: the same result as assignment during ingestion, once, and bounded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.records import deferred_assignment
from dragoman.records.deferred_assignment import DeferredAssigner, assign_scope, assign_session
from dragoman.records.integrity_check import check_integrity
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import ThreadAssigner
from dragoman.store import StoreBusy
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.unassigned import RowScope, UnassignedRows
from tests.records.invented import NOON, entry
from tests.records.mixed_traffic import traffic
from tests.sessions.invented import facts_of, plain, user

MINUTE = 60_000_000
Table = list[tuple[object, ...]]


@pytest.fixture
def tables() -> Iterator[RecordTables]:
    with closing(open_record_tables(":memory:")) as tables:
        yield tables


def ingest(tables: RecordTables, entries: Sequence[JournalEntry]) -> None:
    """One batch of ingestion."""
    batch = Batch()
    for each in entries:
        batch.add_unassigned(each)
    with tables.transaction():
        batch.write_rows(tables)
        batch.write_rollups(tables)


def ingest_and_assign(tables: RecordTables, entries: Sequence[JournalEntry]) -> None:
    """One batch, each exchange assigned as it is ingested: the oracle."""
    batch, assigner = Batch(), ThreadAssigner(tables.sessions)
    with tables.transaction():
        assigner.expect(entries)
        for each in entries:
            batch.add(each, assigner.assign_thread(each))
        assigner.finish()
        batch.write_rows(tables)
        batch.write_rollups(tables)


def batches(dice: random.Random, entries: Sequence[JournalEntry]) -> Iterator[Sequence[JournalEntry]]:
    at = 0
    while at < len(entries):
        size = dice.randrange(1, 20)
        yield entries[at : at + size]
        at += size


def contents(tables: RecordTables) -> dict[str, Table]:
    """Everything that assignment writes, by names instead of numbers."""
    session = "(SELECT key || '/' || name FROM sessions WHERE id = {})"
    thread = f"(SELECT {session.format('session')} || '/' || name FROM threads WHERE id = {{}})"
    # Without the model of a thread: that of the exchange which was assigned last.
    statements = {
        "records": f"SELECT id, {session.format('session')}, {thread.format('thread')} FROM records",
        "sessions": f"SELECT key, name, client, {session.format('s.origin')}, link, started, last FROM sessions s",
        "threads": f"SELECT {session.format('session')}, name, class, label, {thread.format('t.parent')}, rule, sure,"
        " windows, started, last, facts FROM threads t",
        "thread_sums": f"SELECT quarter, {thread.format('thread')}, thread = 0, requests, errors, input, cost, took,"
        " first, firsts, unpriced, bookkeeping FROM thread_sums",
        "thread_totals": f"SELECT {thread.format('thread')}, since, last, requests, cost FROM thread_totals",
        "session_totals": f"SELECT {session.format('session')}, since, last, requests, cost FROM session_totals",
        "heads": f"SELECT CASE WHEN digest GLOB '[wma]*' THEN substr(digest, 1, 1) ELSE digest END,"
        f" {thread.format('thread')}, state, time FROM tips",
    }
    return {name: sorted(tables.connection.rows(each), key=repr) for name, each in statements.items()}


def expected(entries: Sequence[JournalEntry], at_once: int) -> dict[str, Table]:
    with closing(open_record_tables(":memory:")) as tables:
        for at in range(0, len(entries), at_once):
            ingest_and_assign(tables, entries[at : at + at_once])
        return contents(tables)


def assign_some(dice: random.Random, tables: RecordTables) -> None:
    """Assign as idle time or a command does, of any range."""
    assigner = DeferredAssigner(tables)
    if dice.random() < 0.3:
        assigner.assign_oldest(dice.randrange(1, 9))
        return
    since = NOON + dice.randrange(200) * MINUTE
    key = dice.choice((None, "laptop"))
    scope = RowScope(since=since, until=since + dice.randrange(1, 90) * MINUTE, key=key)
    assigner.assign_rows(tables.unassigned.newest(scope, dice.randrange(1, 9)))


def check_any_order(tables: RecordTables, seed: int) -> None:
    """Compare assignment in any order to that during ingestion."""
    entries, dice = traffic(seed, 200), random.Random(-seed)
    for batch in batches(dice, entries):
        ingest(tables, batch)
        while dice.random() < 0.4:
            assign_some(dice, tables)
    while dice.random() < 0.9:
        assign_some(dice, tables)
    assigner = DeferredAssigner(tables)
    while assigner.assign_oldest():
        """Until none is left."""
    found, wanted, alone = contents(tables), expected(entries, len(entries)), expected(entries, 1)
    # How sessions are linked whose histories meet depends on the size of a transaction, but what belongs together does
    # not.
    assert wanted["records"] == alone["records"]
    for name, rows in wanted.items():
        if rows == alone[name] or name == "records":
            assert found[name] == rows, name
    assert tables.connection.row("SELECT count(*) FROM unassigned_relations") == (0,)


@pytest.mark.parametrize("seed", range(30))
def test_any_order_gives_what_assignment_during_ingestion_gives(tables: RecordTables, seed: int) -> None:
    check_any_order(tables, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_any_order_of_100_000_exchanges_gives_the_same(block: int) -> None:
    for seed in range(1000 + 25 * block, 1000 + 25 * (block + 1)):
        with closing(open_record_tables(":memory:")) as tables:
            check_any_order(tables, seed)


def some(*numbers: int, key: str = "alice", session: str = "") -> list[JournalEntry]:
    """Conversations that have nothing in common but a session that they may name, a minute apart."""
    return [
        replace(
            entry(number, key=key, time=NOON + number * MINUTE),
            facts=replace(facts_of(plain([user(f"question {number}")])), session=session),
        )
        for number in numbers
    ]


def left(tables: RecordTables) -> list[int]:
    return [row[0] for row in tables.connection.rows("SELECT number FROM unassigned ORDER BY number")]


def test_a_range_is_assigned_and_nothing_else(tables: RecordTables) -> None:
    ingest(tables, some(*range(1, 11)))
    scope = RowScope(since=NOON + 6 * MINUTE, until=NOON + 9 * MINUTE)
    numbers = tables.unassigned.newest(scope, 100)
    assert numbers == [8, 7, 6]
    assert DeferredAssigner(tables).assign_rows(numbers) == 3
    assert left(tables) == [1, 2, 3, 4, 5, 9, 10]
    assert tables.connection.rows("SELECT session FROM records ORDER BY number") == [
        (number,) for number in (0, 0, 0, 0, 0, 1, 2, 3, 0, 0)
    ]


def test_earlier_turns_of_what_is_in_a_range_are_assigned_with_it(tables: RecordTables) -> None:
    said = [user("one")]
    talk = []
    for number in range(1, 11):
        made = entry(number, time=NOON + number * MINUTE)
        talk.append(replace(made, facts=facts_of(plain(said))))
        said = [*said, {"role": "assistant", "content": str(number)}, user("more")]
    ingest(tables, [*talk[:5], *some(21, 22), *talk[5:]])
    # Only the last four turns are known by their ends.
    assert DeferredAssigner(tables).assign_rows([12]) == 10
    assert left(tables) == [6, 7]
    found = tables.connection.rows("SELECT DISTINCT session, thread FROM records ORDER BY 1")
    assert found == [(0, 0), (1, 1)]


def test_a_step_is_bounded_and_begins_with_the_first(tables: RecordTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_assignment, "_MAX_STEP_ROWS", 4)
    ingest(tables, some(*range(1, 11), session="s"))
    assert DeferredAssigner(tables).assign_rows([10, 9]) == 4
    assert left(tables) == [5, 6, 7, 8, 9, 10]


def test_named_sessions_are_listed_before_anything_is_assigned(tables: RecordTables) -> None:
    ingest(tables, some(1, 2, session="s"))
    ingest(tables, some(3, session="s"))
    found = tables.sessions.listed("alice", "s")
    assert found is not None and (found.started, found.last) == (NOON + MINUTE, NOON + 3 * MINUTE)
    assert DeferredAssigner(tables).assign_oldest() == 3
    assert tables.sessions.session("alice", "s") == found


def test_what_says_nothing_of_its_speaker_waits_for_nothing(tables: RecordTables) -> None:
    ingest(tables, [entry(1), replace(entry(2), kind="count", facts=facts_of(plain([user("x")])))])
    assert left(tables) == []


class _Crash(Exception):
    """What a step ends with before it is committed."""


def test_a_crash_in_the_middle_assigns_nothing(tables: RecordTables, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = traffic(1, 60)
    ingest(tables, entries)
    before = contents(tables)
    assign = UnassignedRows.assign

    def crash(rows: UnassignedRows, assigned: Sequence[tuple[int, int, int]], relations: list[tuple[int, int]]) -> None:
        assign(rows, assigned, relations)
        raise _Crash

    monkeypatch.setattr(UnassignedRows, "assign", crash)
    with pytest.raises(_Crash):
        DeferredAssigner(tables).assign_oldest()
    assert contents(tables) == before
    monkeypatch.undo()
    while DeferredAssigner(tables).assign_oldest():
        """Until none is left."""
    assert contents(tables)["records"] == expected(entries, 60)["records"]


def test_two_assigners_at_once_assign_each_row_once(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    entries = traffic(2, 300)
    with closing(open_record_tables(path)) as one, closing(open_record_tables(path, timeout=0)) as other:
        ingest(one, entries)
        waiting = left(one)
        assigners = DeferredAssigner(one), DeferredAssigner(other)
        # What one has chosen the other has assigned before it begins.
        chosen = one.unassigned.newest(RowScope(), 20)
        assert assigners[1].assign_rows(chosen) >= 20
        assert assigners[0].assign_rows(chosen) == 0
        with one.transaction(), pytest.raises(StoreBusy):
            assigners[1].assign_oldest()
        while any(assigner.assign_oldest(7) for assigner in assigners):
            """Until none is left."""
        assert sum(assigner.assigned for assigner in assigners) == len(waiting)
        assert min(assigner.assigned for assigner in assigners) > 0
        found, wanted = contents(one), expected(entries, 300)
        for name in ("records", "thread_sums"):
            assert found[name] == wanted[name]
    assert {finding.state for finding in check_integrity(path)} == {"ok"}


def test_rows_that_are_removed_before_they_are_assigned_leave_their_sums(tables: RecordTables) -> None:
    ingest(tables, some(1, 2, 3))
    assert tables.records.remove_before(NOON + 3 * MINUTE, 10) == 2
    assert left(tables) == [3]
    DeferredAssigner(tables).assign_oldest()
    assert tables.connection.rows("SELECT thread, sum(requests) FROM thread_sums GROUP BY thread") == [
        (0, 2),
        (1, 1),
    ]
    # Numbers are given again once the last row is gone: nothing of the row before may be left.
    ingest(tables, some(4))
    tables.records.remove_before(NOON + 5 * MINUTE, 10)
    ingest(tables, [entry(5)])
    assert left(tables) == []
    assert DeferredAssigner(tables).assign_oldest() == 0
    assert tables.connection.row("SELECT count(*) FROM unassigned_relations") == (0,)


def test_a_command_assigns_the_newest_and_says_how_many_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "state.db")
    monkeypatch.setattr(deferred_assignment, "SHOWN_ROWS", 4)
    monkeypatch.setattr(deferred_assignment, "STEP_ROWS", 3)
    with closing(open_record_tables(path)) as tables:
        ingest(tables, some(*range(1, 11)))
        assert assign_scope(path, RowScope(since=NOON + 3 * MINUTE)) == 4
        assert left(tables) == [1, 2, 3, 4, 5, 6]
        assert assign_scope(path, RowScope(since=NOON + 3 * MINUTE)) == 0
        assert assign_scope(path, RowScope(key="bob")) == 0
        assert left(tables) == [1, 2]


def test_the_rows_of_a_session_are_found_by_its_name_and_by_its_threads(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")
    with closing(open_record_tables(path)) as tables:
        ingest(tables, [*some(1, 2, session="mine"), *some(3, 4)])
        assert assign_session(path, "mine", None) == 0
        assert left(tables) == [3, 4]
        # A session that is called after its first exchange, which no other names.
        again = replace(some(4)[0], id=entry(9).id)
        ingest(tables, [again])
        DeferredAssigner(tables).assign_rows([4])
        ingest(tables, [replace(again, id=entry(10).id)])
        assert assign_session(path, f"~{entry(4).id}", "alice") == 0
        assert left(tables) == [3]
