"""SQLite answers each query by the same indexes at 100,000 rows, with statistics of its tables and without."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile

import pytest

from dragoman.store.record_queries import KeyScope, RecordFilter
from dragoman.store.record_tables import open_record_tables
from dragoman.store.unassigned import RowScope
from tests.store.explained import Explained, explained
from tests.store.many_rows import FIRST, OWNER, SECOND, START, Queries, bucket_of, fill
from tests.store.opened import sqlite

_ROWS = 100_000
_END = bucket_of(_ROWS)
# What is read from the first to the last row: results of subqueries, and single rows.
_SMALL = {"g", "f", "n", "copies", "way", "CONSTANT"}
_BY_TIME, _BY_SESSION = "records_by_time (time>? AND time<?)", "records_by_session (session=? AND time>? AND time<?)"
_BY_LAST = ("{0}_totals_by_last (last>? AND last<?)", "{0}_totals_by_last (last>?)")
_OF_THREAD = "thread_sums_by_thread (thread=? AND quarter>? AND quarter<?)"
_THREADS, _SESSIONS = ([*(index.format(of) for index in _BY_LAST), _OF_THREAD] for of in ("thread", "session"))
_LATER = (START + 9_000 * SECOND, 9_000)
_LONG, _SHORT = (FIRST + 20, _END + 300), (_END - 10, _END)
# Queries, and what their plans have.
_CASES: dict[str, tuple[Callable[[Queries], object], list[str]]] = {
    "latest": (lambda q: q.records.latest(RecordFilter(), 50), [_BY_TIME]),
    "latest of a key": (lambda q: q.records.latest(RecordFilter(key="key2", errors=True, model="x*"), 50), [_BY_TIME]),
    "latest before": (lambda q: q.records.latest(RecordFilter(before=_LATER), 50), [_BY_TIME]),
    "latest of a session": (lambda q: q.records.latest(RecordFilter(session=7), 50), [_BY_SESSION]),
    "latest of a thread": (
        lambda q: q.records.latest(RecordFilter(session=7, thread=13, before=_LATER), 50),
        [_BY_SESSION],
    ),
    "after": (lambda q: q.records.after(_ROWS - 9, RecordFilter(since=START), 50), ["PRIMARY KEY (rowid>?)"]),
    "after of a thread": (
        lambda q: q.records.after(_ROWS - 9, RecordFilter(session=7, thread=13, key="key2"), 50),
        ["PRIMARY KEY (rowid>?)"],
    ),
    "between": (lambda q: q.records.between("req_0", START, START + 99 * SECOND, 5), [_BY_TIME]),
    "export": (
        lambda q: list(q.exports.rows(("id", "session_name"), START + 9 * SECOND, START + 99 * SECOND)),
        [_BY_TIME],
    ),
    "retention": (lambda q: q.tables.remove_before(START + 9 * SECOND, 3), ["records_by_time (time<?)"]),
    "erased session": (lambda q: q.erasure.remove_rows_of_session(9), ["records_by_session (session=?)"]),
    "newest sessions": (lambda q: q.sessions.newest(START, None, 20), ["sessions_by_last (last>?)"]),
    "newest of a key": (
        lambda q: q.sessions.newest(START, "key2", 20, _LATER),
        ["sessions_by_last (last>? AND last<?)"],
    ),
    "sessions below": (lambda q: q.sessions.below([6, 13, 20]), ["sessions_by_origin (origin=?)"]),
    "named sessions": (
        lambda q: q.sessions.named("session 1", "key2", 20),
        ["sessions_by_name (key=? AND name>? AND name<?)"],
    ),
    "threads": (lambda q: q.sessions.threads(*range(1, 30)), ["threads_by_session (session=?)"]),
    "classes": (lambda q: q.sessions.by_class(range(1, 400)), ["threads_by_session (session=?)"]),
    "without session": (
        lambda q: q.sessions.without_session(FIRST + 50),
        ["thread_sums_by_thread (thread=? AND quarter>?)"],
    ),
    "last exchanges": (
        lambda q: q.sessions.last_exchanges(q.sessions.thread_rows([5]).values()),
        ["records_by_session (session=? AND time<?)"],
    ),
    "long, threads": (lambda q: q.usage.by_thread(*_LONG), _THREADS),
    "long, top threads": (lambda q: q.usage.by_thread(*_LONG, 100), _THREADS),
    "long, sessions": (lambda q: q.usage.by_session(*_LONG), [*_SESSIONS, "threads_by_session (session=?)"]),
    "long, top sessions": (lambda q: q.usage.by_session(*_LONG, 100), _SESSIONS),
    "short, threads": (lambda q: q.usage.by_thread(*_SHORT), ["PRIMARY KEY (quarter>? AND quarter<?)"]),
    "short, sessions": (lambda q: q.usage.by_session(*_SHORT), ["PRIMARY KEY (quarter>? AND quarter<?)"]),
    "forgotten": (lambda q: q.usage.forgotten(*_LONG), _THREADS),
    "unassigned": (lambda q: q.unassigned.newest(RowScope(since=START), 50), []),
    "given item": (lambda q: q.responses.item_storing_provider(OWNER, "item 7"), ["items_given (id=? AND owner=?)"]),
    "item": (lambda q: q.responses.item(OWNER, "item 7"), ["items_by_id (id=? AND owner=?)"]),
    "latest numbers": (lambda q: q.session_tables.numbers(), []),
}
# Sorted by other columns than those of the index: a few rows.
_SORTED = {"classes", "long, top threads", "long, top sessions", "given item", "item", "unassigned"}
# Of a table without another index, for which no key has a query.
_SCANNED = {"unassigned"}


@pytest.fixture(scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Two equal files, of which one has statistics."""
    directory = tmp_path_factory.mktemp("plans")
    plain, analysed = directory / "plain.db", directory / "analysed.db"
    with closing(open_record_tables(str(plain))) as tables:
        with tables.transaction():
            fill(sqlite(tables.connection), _ROWS)
        assert tables.connection.wipe()
    copyfile(plain, analysed)
    with closing(open_record_tables(str(analysed))) as tables:
        tables.connection.change("ANALYZE")
    return {False: plain, True: analysed}


@pytest.fixture(name="queries", scope="module", params=[False, True], ids=["plain", "analysed"])
def _queries(request: pytest.FixtureRequest, _files: dict[bool, Path]) -> Iterator[Explained]:
    with closing(explained(_files[request.param])) as db:
        yield db


@pytest.mark.parametrize("scope", [None, KeyScope("key1")], ids=["all", "scoped"])
@pytest.mark.parametrize("name", _CASES)
def test_queries_read_the_rows_that_they_need(queries: Explained, name: str, scope: KeyScope | None) -> None:
    query, expected = _CASES[name]
    queries.plans.clear()
    queries.begin()
    query(Queries(queries, scope))
    queries.rollback()
    # Older releases of SQLite name the kind of each table.
    plan = [re.sub(r"\b(SEARCH|SCAN) (TABLE|SUBQUERY) ", r"\1 ", step) for step in queries.plans]
    assert [index for index in expected if not any(index in step for step in plan)] == [], plan
    scanned = [step for step in plan if step.startswith("SCAN") and step.split()[1] not in _SMALL]
    assert scanned == [] or name in _SCANNED, plan
    assert not any("ORDER BY" in step for step in plan) or name in _SORTED, plan
