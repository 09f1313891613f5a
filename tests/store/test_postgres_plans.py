"""Queries of PostgreSQL can use an index: with sequential scans set aside, the server finds another way for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import pytest

from dragoman.store import Tables
from dragoman.store.connection import Row, Values
from dragoman.store.erasure import Erasure
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.recent_turn_owners import RecentTurnOwners
from dragoman.store.record_queries import KeyScope, RecordFilter, RecordQueries
from dragoman.store.record_tables import RecordTables
from dragoman.store.session_queries import SessionQueries
from tests.postgres import PostgresServer
from tests.store.opened import ALICE, Clock, item, kept
from tests.waiting import LIMIT


class _Explained(PostgresConnection):
    """Records the plan of each statement, line by line."""

    def __init__(self, address: str) -> None:
        super().__init__(PostgresAddress(address), LIMIT)
        self.plans: list[str] = []

    def change(self, statement: str, values: Values = (), /) -> int:
        self._explain(statement, values)
        return super().change(statement, values)

    def row(self, statement: str, values: Values = (), /) -> Row | None:
        self._explain(statement, values)
        return super().row(statement, values)

    def rows(self, statement: str, values: Values = (), /) -> list[Any]:
        self._explain(statement, values)
        return super().rows(statement, values)

    def _explain(self, statement: str, values: Values) -> None:
        statement = statement.partition(" CURSOR FOR ")[2] or statement
        if statement.lstrip().startswith(("SELECT", "WITH", "DELETE", "UPDATE")):
            plan = super().rows(f"EXPLAIN (COSTS OFF) {statement}", values)
            self.plans += [f"{line} <- {statement}" for (line,) in plan]


@pytest.fixture
def db(migrated: PostgresServer) -> Iterator[_Explained]:
    name = migrated.create("migrated")
    migrated.execute(f"ALTER DATABASE {name} SET enable_seqscan = off")
    with closing(_Explained(migrated.address(name))) as db:
        yield db
    migrated.drop(name)


def _scans(db: _Explained, *tables: str) -> list[str]:
    """Steps that read a whole table, or a whole index of it without need for its order."""
    assert db.plans
    found = []
    for step, following in pairwise([*db.plans, ""]):
        is_scan = any(f"Scan on {table}" in step or f" on {table} " in step for table in tables)
        if "Seq Scan" in step or ("Index" in step and "Scan using" in step and "Index Cond" not in following):
            found += [step] * is_scan
    return found


_STORED: dict[str, Callable[[Tables], object]] = {
    "find": lambda tables: tables.responses.find(ALICE, "r1"),
    "chain": lambda tables: tables.responses.chain(ALICE, "r1"),
    "item": lambda tables: tables.responses.item(ALICE, "i1"),
    "is_given": lambda tables: tables.responses.is_given(ALICE, "i1"),
    "item_storing_provider": lambda tables: tables.responses.item_storing_provider(ALICE, "i1"),
    "is_anothers_item": lambda tables: tables.responses.is_anothers_item(ALICE, "i1"),
    "delete": lambda tables: tables.responses.delete(ALICE, "r1"),
    "page": lambda tables: tables.conversations.page("c1", "", 10, newest_first=True),
    "events": lambda tables: tables.events.after("r1", 0),
    "turns": lambda tables: tables.turns.find(ALICE, ["call_1"]),
    "outdated": lambda tables: (tables.remove_outdated(), tables.turns.remove_outdated(10)),
    "changes": lambda tables: tables.identities.changes_since(3),
}


@pytest.mark.parametrize("name", _STORED)
def test_what_is_stored_is_found_by_an_index(db: _Explained, name: str) -> None:
    tables = Tables(db, 30, Clock(), RecentTurnOwners(None))
    tables.responses.add(ALICE, kept("r1"), [item("i1")])
    tables.conversations.create(ALICE, "c1", b"{}", [item("i2")])
    tables.turns.add(ALICE, "call_1", b"turn")
    db.plans.clear()
    _STORED[name](tables)
    assert _scans(db, "responses", "items", "conversations", "events", "promises", "turns", "identities") == []


@pytest.mark.parametrize(
    "wanted",
    [RecordFilter(), RecordFilter(key="bob", model="a/b*", errors=True), RecordFilter(session=7, thread=70)],
    ids=["all", "some", "thread"],
)
def test_records_are_found_by_an_index(db: _Explained, wanted: RecordFilter) -> None:
    for queries in (RecordQueries(db), RecordQueries(db, KeyScope("bob"))):
        queries.latest(wanted, 50)
        queries.after(3, wanted, 50)
        queries.between("req_0", 1, 2, 5)
        queries.numbered([1, 2])
    RecordTables(db).records.remove_before(5, 3)
    Erasure(db).remove_rows_of_session(7)
    assert _scans(db, "records") == []


def test_sessions_are_found_by_an_index(db: _Explained) -> None:
    queries = SessionQueries(db)
    queries.newest(0, None, 50)
    queries.newest(0, "bob", 50)
    queries.named("5f", None, 9)
    queries.by_class([1, 2, 3])
    queries.main_threads([1, 2])
    queries.threads(1)
    queries.of([1])
    queries.thread_rows([10])
    queries.below([1, 2])
    scans = _scans(db, "sessions", "threads", "thread_sums", "records")
    # The keys are found by leaps, of which the first begins at the end of the index.
    assert [step for step in scans if "min(key)" not in step] == []
