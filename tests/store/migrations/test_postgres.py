"""The tables of PostgreSQL: the same as those of SQLite, made once by whoever is first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from dragoman.database_location import MEMORY
from dragoman.store.connection import Transaction
from dragoman.store.errors import StoreBusy, StoreError
from dragoman.store.migrations import postgres as migrations
from dragoman.store.migrations import sqlite
from dragoman.store.migrations.postgres import STEPS, NewerSchema, migrate
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from dragoman.store.record_queries import pattern_of
from dragoman.store.sqlite import connect
from tests.waiting import LIMIT

_KINDS = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}
# Tables that one engine needs for itself.
_OWN = {"schema_version", "machines", "shared_settings", "erasures", "sqlite_sequence"}
# The columns of each table: name, kind, whether it is never NULL.
Columns = dict[str, list[tuple[str, str, bool]]]


@contextmanager
def _connected(address: str) -> Iterator[PostgresConnection]:
    with closing(PostgresConnection(PostgresAddress(address), LIMIT, LIMIT)) as db:
        yield db


def _columns_of_sqlite() -> tuple[Columns, set[tuple[str, ...]]]:
    with closing(connect(MEMORY, 0)) as db:
        sqlite.migrate(db)
        names = [row[0] for row in db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns: Columns = {}
        unique: set[tuple[str, ...]] = set()
        for table in names:
            info = db.rows(f"PRAGMA table_info({table})")
            columns[table] = [(row[1], _KINDS.get(row[2], row[2]), bool(row[3] or row[5])) for row in info]
            unique.add((table, *(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5])))
            for index in db.rows(f"PRAGMA index_list({table})"):
                if index[2]:
                    unique.add((table, *(row[2] for row in db.rows(f"PRAGMA index_info({index[1]})"))))
    return columns, unique


def _columns_of_postgres(db: PostgresConnection) -> tuple[Columns, set[tuple[str, ...]]]:
    columns: Columns = {}
    for table, *column in db.rows(
        "SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns"
        " WHERE table_schema = 'dragoman' ORDER BY table_name, ordinal_position"
    ):
        columns.setdefault(table, []).append((column[0], column[1], column[2]))
    keys = db.rows(
        "SELECT c.relname, array_agg(a.attname ORDER BY k.place) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid,"
        " unnest(i.indkey) WITH ORDINALITY k (number, place), pg_attribute a"
        " WHERE i.indisunique AND c.relnamespace = 'dragoman'::regnamespace AND a.attrelid = c.oid"
        " AND a.attnum = k.number GROUP BY i.indexrelid, c.relname"
    )
    return columns, {(table, *names) for table, names in keys}


def test_both_engines_have_the_same_columns_and_keys(database: str) -> None:
    """A migration of one engine that is missing for the other is found here."""
    expected, expected_keys = _columns_of_sqlite()
    with _connected(database) as db:
        migrate(db)
        found, keys = _columns_of_postgres(db)
        collations = db.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'dragoman'"
            " AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'"
        )
    assert collations == []
    assert found.keys() - _OWN == expected.keys() - _OWN
    for table, columns in expected.items():
        if table not in _OWN:
            assert found[table] == columns, table
    # A key of a partitioned table has the column of its partitions.
    partitioned: dict[tuple[str, ...], tuple[str, ...]] = {("records", "number"): ("records", "number", "time")}
    expected_keys = {partitioned.get(key, key) for key in expected_keys if len(key) > 1}
    assert {key for key in keys if key[0] not in _OWN} == {key for key in expected_keys if key[0] not in _OWN}


def test_both_engines_have_the_same_indexes(database: str) -> None:
    with closing(connect(MEMORY, 0)) as file:
        sqlite.migrate(file)
        expected = {
            row[0] for row in file.rows("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        }
    with _connected(database) as db:
        migrate(db)
        found = {
            row[0]
            for row in db.rows(
                "SELECT i.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
                " JOIN pg_class t ON t.oid = x.indrelid LEFT JOIN pg_constraint c ON c.conindid = i.oid"
                " WHERE t.relnamespace = 'dragoman'::regnamespace AND NOT t.relispartition AND c.oid IS NULL"
            )
        }
    assert found == expected


def test_an_empty_database_gets_every_step_and_then_none(database: str) -> None:
    with _connected(database) as db:
        assert db.versions == (0, 0)
        migrate(db)
        assert db.versions[0] == len(STEPS)
        migrate(db)
        assert db.versions[0] == len(STEPS)
        assert not db.in_transaction


def _at_once(address: str, work: Callable[[PostgresConnection], object]) -> None:
    """Do something over four connections at the same moment."""
    failed: list[BaseException] = []
    begin = threading.Barrier(4)

    def start() -> None:
        with _connected(address) as db:
            assert db.number("SELECT 1") == 1
            begin.wait(LIMIT)
            try:
                work(db)
            except BaseException as error:
                # Whatever it is, the test tells it: a thread could not.
                failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not failed


def test_pitfall_452_four_starts_at_once_make_the_tables_once(database: str) -> None:
    _at_once(database, migrate)
    with _connected(database) as db:
        assert db.versions[0] == len(STEPS)


def test_a_step_that_fails_leaves_nothing_of_it(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def m002_fail(db: PostgresConnection) -> None:
        db.script("CREATE TABLE notes (id text)")
        db.script("CREATE TABLE notes (id text)")

    with _connected(database) as db:
        with monkeypatch.context() as later:
            later.setattr(migrations, "STEPS", (*STEPS, (m002_fail, 2)))
            with pytest.raises(StoreError):
                migrate(db)
        # The steps before it are done.
        assert db.versions[0] == len(STEPS)
        assert db.row("SELECT to_regclass('dragoman.notes')") == (None,)


def test_pitfall_453_a_newer_schema_is_refused_unless_this_release_can_use_it(database: str) -> None:
    with _connected(database) as db:
        migrate(db)
        db.change("UPDATE schema_version SET version = version + 1")
        migrate(db)
        db.change("UPDATE schema_version SET oldest = ?", (len(STEPS) + 1,))
        with pytest.raises(NewerSchema, match="newer version"):
            migrate(db)
        assert db.versions == (len(STEPS) + 1, len(STEPS) + 1)


def test_a_process_that_migrates_for_too_long_is_not_waited_for(database: str) -> None:
    with _connected(database) as db, _connected(database) as other, Transaction(other):
        assert other.rows("SELECT pg_advisory_xact_lock(?)", (migrations._LOCK,))
        with pytest.raises(StoreBusy, match="too long"):
            migrate(db, timeout=0)


def test_a_step_does_not_wait_for_long_for_a_table_that_is_in_use(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def m002_change(db: PostgresConnection) -> None:
        db.script("ALTER TABLE rests ADD COLUMN note text")

    with _connected(database) as db, _connected(database) as user:
        migrate(db)
        monkeypatch.setattr(migrations, "STEPS", (*STEPS, (m002_change, 1)))
        monkeypatch.setattr(migrations, "_LOCK_TIMEOUT", "10ms")
        with Transaction(user):
            assert user.number("SELECT count(*) FROM rests") == 0
            with pytest.raises(StoreBusy):
                migrate(db)
        migrate(db)
        assert db.versions[0] == len(STEPS) + 1


def test_a_pattern_means_the_same_on_both_engines(database: str) -> None:
    cases = [
        ("a*c", "abbc", True),
        ("a*c", "ac", True),
        ("a*c", "abcd", False),
        ("a?c", "abc", False),
        ("a?c", "a?c", True),
        ("*", "", True),
        ("A*", "abc", False),
        ("100%_\\", "100%_\\", True),
        ("100%", "1000", False),
        ("a_c", "abc", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("[?]*]", "[?]x]", True),
        ("[[]", "[", False),
        ("\u00fc*", "\u00fcber", True),
    ]
    with _connected(database) as db, closing(connect(MEMORY, 0)) as file:
        migrate(db)
        for model, text, expected in cases:
            for engine in (db, file):
                found = engine.row("SELECT CASE WHEN glob(?, ?) THEN 1 ELSE 0 END", (pattern_of(model), text))
                assert found == (int(expected),), (engine, model, text)


def _months(db: PostgresConnection) -> list[str]:
    statement = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'records'::regclass ORDER BY 1"
    return [row[0] for row in db.rows(statement)]


def _add_record(db: PostgresConnection, moment: int) -> None:
    """A row whose columns are empty but for the time."""
    values = {"bigint": "0", "text": "''", "bytea": "''"}
    columns = {
        name: values[kind]
        for name, kind, is_required in _columns_of_postgres(db)[0]["records"]
        if is_required and name not in ("number", "time")
    }
    db.change(f"INSERT INTO records (time, {', '.join(columns)}) VALUES (?, {', '.join(columns.values())})", (moment,))


def test_a_month_of_records_is_a_partition_that_is_added_and_dropped(database: str) -> None:
    # The last microsecond of November 2026, UTC.
    last = 1_796_083_199_999_999
    with _connected(database) as db:
        migrate(db)
        with pytest.raises(StoreError, match="23514"):
            _add_record(db, last)
        added = [db.rows("SELECT ensure_month(?)", (moment,))[0][0] for moment in (last, last, last + 1)]
        assert added == [True, False, True]
        assert _months(db) == ["records_2026_11", "records_2026_12"]
        for moment in (last, last + 1, last + 2):
            _add_record(db, moment)
        rows = db.rows("SELECT tableoid::regclass::text, time FROM records ORDER BY number")
        assert rows == [("records_2026_11", last), ("records_2026_12", last + 1), ("records_2026_12", last + 2)]
        db.change("INSERT INTO unassigned (number, second) SELECT number, 0 FROM records")
        assert [db.rows("SELECT drop_month(?)", (last,))[0][0] for _ in range(2)] == [True, False]
        assert _months(db) == ["records_2026_12"]
        assert db.number("SELECT count(*) FROM unassigned") == db.number("SELECT count(*) FROM records") == 2


def test_months_are_added_and_dropped_by_a_role_that_may_not_change_tables(database: str) -> None:
    with _connected(database) as db:
        migrate(db)
        db.change("CREATE ROLE serve LOGIN")
        try:
            db.change("GRANT USAGE ON SCHEMA dragoman TO serve")
            db.change("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA dragoman TO serve")
            with _connected(f"{database} user=serve") as serve:
                with pytest.raises(StoreError, match="42501"):
                    serve.change("CREATE TABLE notes (id text)")
                assert serve.rows("SELECT ensure_month(0)") == [(True,)]
                _add_record(serve, 1)
                assert serve.number("SELECT count(*) FROM records") == 1
                assert serve.rows("SELECT drop_month(0)") == [(True,)]
                assert serve.number("SELECT count(*) FROM records") == 0
        finally:
            # A role belongs to all databases.
            db.change("DROP OWNED BY serve")
            db.change("DROP ROLE serve")


def test_several_that_need_a_month_at_once_get_it(database: str) -> None:
    def ensure(db: PostgresConnection) -> None:
        db.rows("SELECT ensure_month(0)")
        _add_record(db, 0)

    with _connected(database) as db:
        migrate(db)
        _at_once(database, ensure)
        assert db.number("SELECT count(*) FROM records") == 4
