"""Both engines give the same results for the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing

from dragoman.database_location import MEMORY
from dragoman.store.connection import Connection, Transaction
from dragoman.store.integrity_check import IntegrityCheck
from dragoman.store.migrations.postgres import migrate
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.record_queries import KeyScope, RecordFilter
from dragoman.store.record_tables import open_record_tables
from dragoman.store.sqlite import SQLiteConnection
from dragoman.store.unassigned import RowScope
from tests.postgres import PostgresServer
from tests.store.many_rows import FIRST, OWNER, SECOND, START, Queries, bucket_of, fill
from tests.store.opened import sqlite
from tests.waiting import LIMIT

_ROWS = 2_000
_END = bucket_of(_ROWS)
_FILTERS = (
    RecordFilter(),
    RecordFilter(since=START + 500 * SECOND, key="key1"),
    RecordFilter(errors=True, before=(START + 900 * SECOND, 900)),
    RecordFilter(session=7),
    RecordFilter(session=7, thread=13),
    *(RecordFilter(model=model) for model in ("gpt_*", "gr*[x]?", "/Z", "z", "*5%", "*/gpt_5%", "größe[x]?")),
)
_RANGES = ((FIRST, _END), (FIRST + 1, FIRST + 3), (FIRST - 500, _END + 500), (FIRST + 1, _END + 300))
_KEYS = (None, "key1", "KEY1", "")
_NAMES = ("session", "Z", "ä", "session 2", "")


def _queries(q: Queries) -> Iterator[object]:
    """The results of queries, those without an order sorted."""
    for each in _FILTERS:
        yield q.records.latest(each, 100)
        yield q.records.after(200, each, 100)
    yield q.records.newest()
    yield q.records.places(range(500))
    yield q.records.between("req_1", START, START + 990 * SECOND, 50)
    yield q.records.anywhere("req_7", 5, ["y"])
    yield _sorted(q.records.numbered([1, 2, 3]))
    yield list(q.exports.rows(("id", "session_name", "thread_class", "first", "tags"), START, START + 900 * SECOND))
    for key in _KEYS:
        yield q.sessions.newest(START, key, 500)
        yield q.sessions.newest(START, key, 500, (START + 900 * SECOND, 20))
        yield [q.sessions.named(name, key, 50) for name in _NAMES]
    yield {session: _sorted(rows) for session, rows in q.sessions.below(range(90)).items()}
    yield q.sessions.threads(*range(1, 90))
    yield _sorted(q.sessions.by_class(range(1, 90)))
    yield _sorted(q.sessions.main_threads(range(1, 90)))
    yield q.sessions.last_exchanges(q.sessions.thread_rows(range(1, 90)).values())
    yield q.sessions.with_sessions()
    yield q.sessions.without_session(FIRST + 1)
    yield q.usage.first()
    for start, end in _RANGES:
        yield q.usage.by_bucket(start, end)
        yield q.usage.by_names(("key", "model"), start, end)
        yield q.usage.by_tags(("model",), start, end)
        yield q.usage.total(start, end)
        for most in (None, 10_000):
            yield [
                _sorted(usage.rows) for usage in (q.usage.by_thread(start, end, most), q.usage.by_session(start, end))
            ]
        yield q.usage.forgotten(start, end)
    for scope in (RowScope(), RowScope(key="key1"), RowScope(since=START + 90 * SECOND)):
        yield q.unassigned.newest(scope, 50), q.unassigned.count(scope)
    yield q.unassigned.keys()
    yield q.erasure.amount_of_key("key1"), q.erasure.amount_of_session(9)
    yield q.session_tables.numbers()
    for number in range(0, 60, 7):
        name = f"response {number}"
        yield q.responses.item(OWNER, f"item {number}")
        yield q.responses.item_storing_provider(OWNER, f"item {number}")
        yield q.responses.chain(OWNER, name), q.responses.weight(OWNER, name), q.responses.find(OWNER, name)


def _examined(db: Connection) -> Iterator[object]:
    """What an examination reports."""
    check = IntegrityCheck(db)
    yield check.counts()
    yield check.agreement()
    yield list(check.mismatched_rollups())
    yield list(check.orphans())


def _assigned(q: Queries, db: Connection) -> Iterator[object]:
    """What assignment and listing write, which is taken back."""
    db.begin()
    q.unassigned.assign([(number, 5, 7) for number in q.unassigned.oldest(40)], [])
    columns = ", ".join(MEASURES)
    yield db.rows(f"SELECT quarter, thread, {columns} FROM thread_sums ORDER BY quarter, thread")
    q.session_tables.add_listed([("key1", "new", "c", 5, 9), ("key1", "session 11", "c", 5, 9**15)])
    yield db.rows("SELECT id, key, name, client, started, last FROM sessions ORDER BY id")
    db.rollback()


def _sorted(rows: Iterable[object]) -> list[str]:
    return sorted(map(repr, rows))


def test_the_same_rows_give_the_same_results(postgres: PostgresServer, database: str) -> None:
    with closing(open_record_tables(MEMORY)) as tables, closing(_connected(database)) as db:
        file = sqlite(tables.connection)
        fill(file, _ROWS)
        migrate(db)
        _copy(file, db)
        for scope in (None, KeyScope("key1"), KeyScope("Key1")):
            one, other = Queries(file, scope), Queries(db, scope)
            _compare(_queries(one), _queries(other))
        _compare(_examined(file), _examined(db))
        _compare(_assigned(one, file), _assigned(other, db))


def _connected(database: str) -> PostgresConnection:
    return PostgresConnection(PostgresAddress(database), LIMIT)


def _copy(file: SQLiteConnection, db: PostgresConnection) -> None:
    """Copy all rows, without the triggers that add them up."""
    names = file.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    db.change("CREATE TABLE records_all PARTITION OF records DEFAULT")
    with Transaction(db):
        db.script("SET LOCAL session_replication_role = replica")
        for (name,) in names:
            columns = [row[1] for row in file.rows(f"PRAGMA table_info({name})")]
            db.change(f"DELETE FROM {name}")
            values = ", ".join("?" * len(columns))
            db.many(f"INSERT INTO {name} VALUES ({values})", file.rows(f"SELECT {', '.join(columns)} FROM {name}"))


def _compare(ours: Iterator[object], theirs: Iterator[object]) -> None:
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one == other, number
