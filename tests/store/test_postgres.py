"""Connections of PostgreSQL, with a real server: what they raise, and what they do without it."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest

from dragoman.store import postgres as postgres_module
from dragoman.store.connection import AppendTable, Connection, Transaction
from dragoman.store.errors import (
    StoreAway,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreInterrupted,
    StoreUnknown,
)
from dragoman.store.postgres import PostgresAddress, PostgresConnection
from tests.postgres import PostgresServer, postgres_server
from tests.waiting import LIMIT, wait_until

_CALLS: dict[str, Callable[[Connection, str], object]] = {
    "change": lambda db, statement: db.change(statement),
    "many": lambda db, statement: db.many(statement, [()]),
    "row": lambda db, statement: db.row(statement),
    "rows": lambda db, statement: db.rows(statement),
    "number": lambda db, statement: db.number(statement),
    "each": lambda db, statement: [*db.each(statement)],
}
_calls = pytest.mark.parametrize("call", _CALLS.values(), ids=list(_CALLS))


@contextmanager
def _connected(address: str, timeout: float = LIMIT) -> Iterator[PostgresConnection]:
    with closing(PostgresConnection(PostgresAddress(address), timeout, LIMIT)) as db:
        yield db


@contextmanager
def _with_table(address: str, timeout: float = LIMIT) -> Iterator[PostgresConnection]:
    """A connection to a database with a table."""
    with _connected(address, timeout) as db:
        db.change("CREATE SCHEMA dragoman")
        db.change("CREATE TABLE kept (value bigint PRIMARY KEY, name text, body bytea)")
        yield db


def _add(db: Connection, value: int) -> None:
    db.change("INSERT INTO kept (value) VALUES (?)", (value,))


def _values(db: Connection) -> list[int]:
    return [row[0] for row in db.rows("SELECT value FROM kept ORDER BY value")]


# Values and rows


def test_rows_and_changes(database: str) -> None:
    with _with_table(database) as db:
        assert db.change("INSERT INTO kept (value) VALUES (?), (?)", (1, 2)) == 2
        db.many("INSERT INTO kept (value) VALUES (?)", ((value,) for value in (3, 4)))
        assert db.rows("SELECT value FROM kept WHERE value > ? ORDER BY value", (1,)) == [(2,), (3,), (4,)]
        assert [*db.each("SELECT value FROM kept ORDER BY value")] == [(1,), (2,), (3,), (4,)]
        assert db.row("SELECT value FROM kept WHERE value = ?", (4,)) == (4,)
        assert db.row("SELECT value FROM kept WHERE value = ?", (5,)) is None
        assert db.number("SELECT count(*) FROM kept") == 4
        assert db.number("INSERT INTO kept VALUES (9) RETURNING value") == 9
        assert db.change("UPDATE kept SET name = 'a' WHERE value > 100") == 0
        assert not db.in_transaction


def test_values_come_back_as_they_were_given(database: str) -> None:
    given = (2**63 - 1, "ä%s $1 \\ ' 🦊", bytes(range(256)), 0.1, None)
    with _connected(database) as db:
        db.change("CREATE SCHEMA dragoman")
        db.change("CREATE TABLE kept (a bigint, b text, c bytea, d double precision, e bigint)")
        db.change("INSERT INTO kept VALUES (?, ?, ?, ?, ?)", given)
        found = db.row("SELECT * FROM kept WHERE a = ? AND b = ? AND c = ? AND d = ?", given[:4])
        assert found == given
        assert isinstance(found[2], bytes)


def test_a_boolean_is_a_number_and_a_sum_is_an_integer(database: str) -> None:
    with _with_table(database) as db:
        db.many("INSERT INTO kept (value) VALUES (?)", [(True,), (2**62,), (2**62 + 1,)])
        total = db.number("SELECT sum(value) FROM kept")
        assert (total, type(db.rows("SELECT sum(value) FROM kept")[0][0])) == (2**63 + 2, int)


def test_appended_rows_are_those_that_were_passed(database: str) -> None:
    table = AppendTable(name="kept", own=("value", "size"), shared=("name", "body"), optional="size")
    with _with_table(database) as db:
        db.change("ALTER TABLE kept ADD COLUMN size bigint")
        rows = [((at, at % 3), (f"n\\\t\0{at // 17}", b"\0\\")) for at in range(40)]
        db.append(table, rows)
        found = db.rows("SELECT value, coalesce(size, 0), name, body FROM kept ORDER BY value")
        assert found == [(*own, name.replace("\0", ""), body) for own, (name, body) in rows]
        assert db.number("SELECT count(*) FROM kept WHERE size = 0") == 0
        db.append(table, [])


def test_a_text_loses_its_zero_bytes_and_takes_nothing_with_it(database: str) -> None:
    with _with_table(database) as db:
        db.many("INSERT INTO kept (value, name, body) VALUES (?, ?, ?)", [(1, "a\0b\0", b"\0"), (2, "c", b"")])
        assert db.rows("SELECT name, body FROM kept ORDER BY value") == [("ab", b"\0"), ("c", b"")]


def test_rows_are_read_while_they_are_taken_and_others_between_them(database: str) -> None:
    with _with_table(database) as db, Transaction(db):
        db.change("INSERT INTO kept (value) SELECT * FROM generate_series(1, 2000)")
        taken = db.each("SELECT value FROM kept WHERE value > ? ORDER BY value", (0,))
        assert next(taken) == (1,)
        db.change("DELETE FROM kept")
        assert [row[0] for row in taken] == [*range(2, 2001)]
        # One that is given up does not hold the transaction.
        assert [*db.each("SELECT value FROM kept")] == []


def test_rows_are_appended_in_their_order_with_the_types_of_their_columns(database: str) -> None:
    table = AppendTable(name="many", own=("first", "name"), shared=("body", "part"), optional="first")
    with _connected(database) as db:
        db.change("CREATE SCHEMA dragoman")
        db.change(
            "CREATE TABLE many (number bigint GENERATED BY DEFAULT AS IDENTITY, first bigint, name text, body bytea,"
            " part double precision)"
        )
        db.append(table, [])
        for _ in range(2):
            db.append(table, [((number, f"{number}\0,'{{"), (b"\0", 0.5)) for number in range(3)])
        # A column that has nothing but NULL.
        db.append(table, [((0, ""), (b"", 1.5))])
        expected = [(None, "0,'{"), (1, "1,'{"), (2, "2,'{")]
        assert db.rows("SELECT first, name FROM many ORDER BY number") == [*expected * 2, (None, "")]
        assert db.rows("SELECT DISTINCT body, part FROM many ORDER BY part") == [(b"\0", 0.5), (b"", 1.5)]


def test_a_statement_without_rows_gives_none(database: str) -> None:
    with _with_table(database) as db:
        assert db.rows("DELETE FROM kept") == []


def test_a_query_does_not_begin_if_it_must_end(database: str) -> None:
    with _with_table(database) as db:
        db.set_interrupt(lambda: True, 1000)
        with pytest.raises(StoreInterrupted):
            db.rows("SELECT 1")
        db.set_interrupt(lambda: False, 1000)
        assert db.rows("SELECT 1") == [(1,)]


def test_commits_are_on_the_disk_unless_that_is_set_aside(database: str) -> None:
    with _connected(database) as db:
        for is_durable, expected in ((True, "on"), (False, "off"), (True, "on")):
            db.set_durable(is_durable)
            assert db.rows("SELECT current_setting('synchronous_commit')") == [(expected,)]


# Errors


@_calls
def test_what_the_driver_raises_is_an_error_of_the_store(
    call: Callable[[Connection, str], object], database: str
) -> None:
    with _with_table(database) as db:
        with pytest.raises(StoreError, match=r"a table is missing: .* \(SQLSTATE 42P01\)") as raised:
            call(db, "SELECT 1 FROM nowhere")
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        assert "nowhere" not in str(raised.value)
        assert not db.in_transaction
        _add(db, 1)
        assert _values(db) == [1]


@_calls
def test_a_connection_that_is_closed_says_so(call: Callable[[Connection, str], object], database: str) -> None:
    db = PostgresConnection(PostgresAddress(database), LIMIT)
    assert db.number("SELECT 1") == 1
    db.close()
    with pytest.raises(StoreError, match="closed"):
        call(db, "SELECT 1")


def test_two_that_wait_for_each_other_are_a_conflict_for_one(database: str) -> None:
    with _with_table(database) as db, _connected(database) as other:
        _add(db, 1)
        _add(db, 2)
        raised: list[StoreError] = []

        def change(connection: Connection, first: int, second: int, meet: threading.Barrier) -> None:
            try:
                with Transaction(connection):
                    for value in (first, second):
                        connection.change("UPDATE kept SET name = 'a' WHERE value = ?", (value,))
                        if value == first:
                            meet.wait(LIMIT)
            except StoreError as error:
                raised.append(error)

        meet = threading.Barrier(2)
        thread = threading.Thread(target=change, args=(other, 1, 2, meet))
        thread.start()
        change(db, 2, 1, meet)
        thread.join(LIMIT)
        assert [type(error) for error in raised] == [StoreConflict]


def test_a_lock_that_is_held_too_long_is_busy_and_a_time_that_is_over_an_interruption(database: str) -> None:
    with _with_table(database) as db, _connected(database) as other:
        with Transaction(other):
            other.change("LOCK TABLE kept")
            with pytest.raises(StoreBusy), Transaction(db):
                db.change("SET LOCAL lock_timeout = '1ms'")
                _add(db, 1)
        with pytest.raises(StoreInterrupted), Transaction(db):
            db.change("SET LOCAL statement_timeout = '1ms'")
            db.number("SELECT count(*) FROM generate_series(1, 100000000)")


# Transactions


def test_all_is_written_or_nothing(database: str) -> None:
    with _with_table(database) as db:
        with Transaction(db):
            _add(db, 1)
            with suppress(RuntimeError), Transaction(db):
                _add(db, 2)
                raise RuntimeError
            with Transaction(db):
                _add(db, 3)
        with pytest.raises(RuntimeError), Transaction(db):
            _add(db, 4)
            raise RuntimeError
        assert _values(db) == [1, 3]
        assert not db.in_transaction


def test_a_part_that_fails_leaves_the_rest(database: str) -> None:
    with _with_table(database) as db:
        with Transaction(db):
            _add(db, 1)
            with pytest.raises(StoreError, match="23505"), Transaction(db):
                _add(db, 1)
            _add(db, 2)
        assert _values(db) == [1, 2]


def test_a_transaction_in_which_a_statement_failed_is_not_committed(database: str) -> None:
    with _with_table(database) as db:
        with pytest.raises(StoreError, match="taken back"), Transaction(db):
            _add(db, 1)
            with suppress(StoreError):
                _add(db, 1)
        assert _values(db) == []


def test_one_that_reads_has_one_snapshot_and_writes_nothing(database: str) -> None:
    with _with_table(database) as db, _connected(database) as other:
        db.begin(writes=False)
        assert _values(db) == []
        _add(other, 1)
        assert _values(db) == []
        # The server is none that was replaced.
        with pytest.raises(StoreError, match="25006") as raised:
            _add(db, 2)
        assert not isinstance(raised.value, StoreAway)
        db.rollback()
        assert _values(db) == [1]


def test_one_that_writes_sees_what_was_committed_while_it_waited(database: str) -> None:
    with _with_table(database) as db, _connected(database) as other:
        _add(db, 1)
        with Transaction(db):
            assert _values(db) == [1]
            _add(other, 2)
            assert _values(db) == [1, 2]


def test_pitfall_751_the_session_of_the_server_keeps_nothing(database: str) -> None:
    """A pooler in transaction mode gives the next transaction another session."""
    with _with_table(database) as db:
        _add(db, 1)
        for _ in range(20):
            assert _values(db) == [1]
        assert db.number("SELECT count(*) FROM pg_prepared_statements") == 0
        assert db.rows("SELECT current_setting('search_path')") == [("dragoman",)]
        raw = db._driver
        assert raw is not None
        assert raw.execute("SELECT current_setting('search_path')").fetchone() == ('"$user", public',)


def test_transactions_of_one_lock_take_turns(database: str) -> None:
    """Without it, totals that are sorted one way and changed another way wait for each other (decision 47)."""
    with _with_table(database) as db, _connected(database) as other:
        other.lock_timeout = 0.01
        with Transaction(db, b"alice"):
            with pytest.raises(StoreBusy, match="55P03"), Transaction(other, b"alice"):
                raise AssertionError
            assert not other.in_transaction
            with Transaction(other, b"bob"):
                _add(other, 1)
        other.lock_timeout = LIMIT
        waiting = threading.Event()

        def wait() -> None:
            waiting.set()
            with Transaction(other, b"alice"):
                # What was committed before its turn is there.
                _add(other, _values(other)[-1] + 1)

        with Transaction(db, b"alice"):
            thread = threading.Thread(target=wait)
            thread.start()
            assert waiting.wait(LIMIT)
            _add(db, 2)
        thread.join(LIMIT)
        assert _values(db) == [1, 2, 3]


def test_a_lock_whose_holder_stopped_is_free_after_a_while(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _with_table(database) as db, _connected(database) as other:
        other.lock_timeout = LIMIT
        with monkeypatch.context() as short:
            short.setattr(postgres_module, "_MAX_REST", 0.02)
            db.begin(lock=b"alice")
        with Transaction(other, b"alice"):
            _add(other, 1)
        with pytest.raises(StoreAway):
            _add(db, 2)
        db.rollback()
        assert _values(db) == [1]


def test_a_number_that_does_not_fit_is_an_overflow_as_with_sqlite(database: str) -> None:
    with _with_table(database) as db:
        for number in (2**63, -(2**70)):
            with pytest.raises(OverflowError):
                _add(db, number)
        with pytest.raises(OverflowError), Transaction(db):
            _add(db, 2**63)
        assert _values(db) == []


def test_a_connection_is_renewed_so_that_an_old_server_is_left(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _connected(database) as db:
        session = db.number("SELECT pg_backend_pid()")
        assert db.number("SELECT pg_backend_pid()") == session
        monkeypatch.setattr(postgres_module, "_MAX_AGE", 0.0)
        assert db.number("SELECT pg_backend_pid()") != session
        with Transaction(db):
            session = db.number("SELECT pg_backend_pid()")
            assert db.number("SELECT pg_backend_pid()") == session


# A server that is away


def test_pitfall_749_a_server_that_was_stopped_ends_the_statement_and_answers_again_later() -> None:
    """The driver would wait for ever."""
    with postgres_server() as server, _with_table(server.address()) as db:
        db.timeout = 0.2
        with server.stopped():
            with pytest.raises(StoreAway, match="does not answer"):
                _add(db, 1)
            # Also while it is connecting.
            with pytest.raises(StoreAway, match="does not answer"):
                _add(db, 1)
        db.timeout = LIMIT
        _add(db, 2)
        assert 2 in _values(db)


def test_a_commit_without_an_answer_may_be_done() -> None:
    with postgres_server() as server, _with_table(server.address()) as db:
        db.begin()
        _add(db, 1)
        db.timeout = 0.2
        with server.stopped():
            with pytest.raises(StoreUnknown, match="not known"):
                db.commit()
            db.rollback()
        db.timeout = LIMIT
        # The server read it when it went on.
        wait_until(lambda: _values(db) == [1], "the row is there")
        # Nobody waits for what a reader has committed.
        db.begin(writes=False)
        db.timeout = 0.2
        with server.stopped():
            with pytest.raises(StoreAway) as raised:
                db.commit()
            assert not isinstance(raised.value, StoreUnknown)
            db.rollback()


def test_a_transaction_whose_server_was_killed_is_lost_and_the_next_one_connects_again() -> None:
    with postgres_server("fsync=on") as server, _with_table(server.address()) as db:
        _add(db, 1)
        db.begin()
        db.in_unit = True
        _add(db, 2)
        server.kill()
        with pytest.raises(StoreAway):
            _add(db, 3)
        server.start()
        # Neither as a statement of its own nor in a new transaction.
        with pytest.raises(StoreError, match="taken back"):
            _add(db, 4)
        with pytest.raises(StoreError, match="taken back"), Transaction(db):
            _add(db, 5)
        with pytest.raises(StoreError, match="taken back"):
            db.commit()
        db.in_unit = False
        db.rollback()
        _add(db, 6)
        assert _values(db) == [1, 6]


def test_a_server_that_was_restarted_while_the_connection_rested_is_no_failure() -> None:
    with postgres_server() as server, _with_table(server.address()) as db:
        server.stop()
        with pytest.raises(StoreAway):
            _add(db, 1)
        server.start()
        _add(db, 2)
        server.stop()
        server.start()
        _add(db, 3)
        assert _values(db) == [2, 3]


def test_connections_that_are_used_up_are_busy() -> None:
    with (
        postgres_server("max_connections=4", "superuser_reserved_connections=0") as server,
        _connected(server.address()) as db,
        ExitStack() as others,
    ):
        held = [others.enter_context(_connected(server.address())) for _ in range(4)]
        for other in held:
            other.begin()
        with pytest.raises(StoreBusy, match="no connection left"):
            db.number("SELECT 1")
        held[0].close()
        wait_until(lambda: _answers(db), "a connection is free")


def _answers(db: Connection) -> bool:
    try:
        return db.number("SELECT 1") == 1
    except StoreBusy:
        return False


def test_pitfall_748_a_server_that_only_reads_is_left_for_one_that_writes() -> None:
    """An old primary answers reads for days."""
    with postgres_server() as server, _with_table(server.address()) as db, _connected(server.address()) as admin:
        _add(db, 1)
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        server.execute("SELECT pg_reload_conf()")
        reads_only = "SELECT count(*) FROM pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on'"
        wait_until(lambda: _only_reads(admin, reads_only), "the server only reads")
        for _ in range(2):
            with pytest.raises(StoreAway):
                wait_until(lambda: _add(db, 2), "a write is refused")
        with postgres_server() as primary, _with_table(primary.address()) as there:
            _add(there, 7)
            several = f"host={server.directory},{primary.directory} user=postgres dbname=postgres"
            with _connected(several) as either:
                assert _values(either) == [7]


def _only_reads(db: PostgresConnection, statement: str) -> bool:
    try:
        return db.number(statement) == 1
    except StoreAway:
        return True


# The address


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("postgresql://dragoman@db1,db2/state?target_session_attrs=read-write", "db1,db2/state"),
        ("postgresql://u:p%40s@db1:5433,db2:5434/state", "db1:5433,db2:5434/state"),
        ("postgresql://[::1]:5432/state?sslmode=verify-full", "::1:5432/state"),
        ("host=db1,db2 port=5433 dbname=state password='a b'", "db1:5433,db2:5433/state"),
        ("host=/run/postgresql dbname=state", "/run/postgresql/state"),
        ("hostaddr=127.0.0.1 user=me", "127.0.0.1"),
        ("dbname=state", "local socket/state"),
    ],
)
def test_an_address_shows_hosts_ports_and_database(text: str, place: str) -> None:
    address = PostgresAddress(text)
    assert str(address) == place
    assert repr(address) == f"PostgresAddress({place})"


def test_what_the_user_set_is_kept() -> None:
    text = PostgresAddress("host=db1 connect_timeout=7 target_session_attrs=any application_name=mine").text(2.5)
    for set_by_user in ("connect_timeout=7", "target_session_attrs=any", "application_name=mine", "host=db1"):
        assert set_by_user in text.split()


_SPECIAL = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ä\t"
_CANARY = "canary{0}CANARY"


def _shown(error: BaseException) -> str:
    """All that a log could show of an error."""
    return "".join([str(error), repr(error), *traceback.format_exception(error)]).lower()


@pytest.mark.parametrize("special", _SPECIAL)
def test_pitfall_754_a_password_that_is_not_encoded_is_shown_nowhere(special: str) -> None:
    """The address cannot always be told from its password then."""
    password = _CANARY.format(special)
    for text in (f"postgresql://me:{password}@127.0.0.1:9/state", f"host=127.0.0.1 port=9 password={password}"):
        shown = ""
        try:
            with _connected(text) as db:
                shown = f"{db._address!r} {db._address}"
                db.number("SELECT 1")
        except StoreError as error:
            shown += _shown(error)
        assert shown
        assert "canary" not in shown.replace(text.lower(), "")


@pytest.fixture(scope="module")
def faulty() -> Iterator[PostgresServer]:
    """A server that is stopped and killed again and again."""
    with postgres_server() as server:
        yield server


@pytest.mark.parametrize("special", _SPECIAL)
def test_pitfall_754_a_password_is_shown_by_no_error(special: str, faulty: PostgresServer) -> None:
    password = _CANARY.format(special).replace("\\", "\\\\").replace("'", "\\'")
    address = f"{faulty.address()} password='{password}'"
    with _connected(address) as db, _connected(address.replace("dbname=postgres", "dbname=nowhere")) as nowhere:
        faults: list[Callable[[], object]] = [
            lambda: nowhere.number("SELECT 1"),
            lambda: db.number("SELECT 1 FROM nowhere WHERE a = ?", (password,)),
            lambda: db.number("SELECT ?::bigint", (password,)),
            lambda: db.change("SELECT pg_terminate_backend(pg_backend_pid())"),
        ]
        for fault in faults:
            with pytest.raises(StoreError) as raised:
                fault()
            assert raised.value.__context__ is None
            assert "canary" not in _shown(raised.value)


def test_pitfall_754_a_password_is_shown_by_no_fault_of_the_server() -> None:
    password = _CANARY.format(_SPECIAL)
    quoted = password.replace("\\", "\\\\").replace("'", "\\'")
    with postgres_server("max_connections=4", "superuser_reserved_connections=0") as server, ExitStack() as opened:
        address = f"{server.address()} password='{quoted}'"
        db = opened.enter_context(_with_table(address))
        shown: list[str] = []

        def fail() -> None:
            with pytest.raises(StoreError) as raised, Transaction(db):
                _add(db, 1)
            assert raised.value.__context__ is None
            shown.append(_shown(raised.value))

        db.timeout = 0.2
        with server.stopped():
            fail()
            fail()
        db.timeout = LIMIT
        server.kill()
        fail()
        server.start("default_transaction_read_only=on")
        fail()
        server.stop()
        server.start()
        for other in [opened.enter_context(_connected(address)) for _ in range(4)]:
            other.begin()
        fail()
        assert len(shown) == 5
        assert "canary" not in "".join(shown)
