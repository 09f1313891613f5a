"""PostgreSQL: connections to the server of `storage.database`. No other module knows the driver or its errors
(decision 47).

A pooler in transaction mode may give each transaction another session of the server. So no statement is prepared by
name, nothing is set for a session, and each statement runs in a transaction that begins with the schema's name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import count
from typing import Any, TypeVar

import psycopg
from msgspec import Struct
from psycopg import conninfo
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Conninfo, Format, TransactionStatus
from psycopg.types.numeric import Int8Dumper, NumericBinaryLoader
from psycopg.types.string import StrDumper

from dragoman.store.connection import AppendRow, AppendTable, Row, Transaction, Values
from dragoman.store.errors import (
    StoreAway,
    StoreBusy,
    StoreConflict,
    StoreError,
    StoreFull,
    StoreInterrupted,
    StoreUnknown,
    StoreWithoutTables,
)
from dragoman.store.placeholders import numbered
from dragoman.store.postgres_refusals import LOWEST_VERSION, reason_of, state_of
from dragoman.store.statement_watcher import StatementWatcher

T = TypeVar("T")

SCHEMA = "dragoman"
# A reader has one snapshot. A writer sees rows that were committed while it waited for a lock.
_WRITES, _READS = "READ COMMITTED", "REPEATABLE READ READ ONLY"
# Seconds that a transaction may rest, after which the server takes it back: its client may be stopped.
_MAX_REST = 10.0
# Seconds until the server ends a statement of which its client does not know any more.
_GRACE = 1.0
# Seconds for which a connection is used: an old server that was left running still answers.
_MAX_AGE = 600.0
# Seconds for a statement of unknown duration: nearly the most that the server can count.
UNLIMITED = 20 * 86_400.0
# A number that does not fit its column.
_OUT_OF_RANGE = "22003"
# Seconds that a statement waits for another transaction.
LOCK_TIMEOUT = 1.0
# Microseconds.
_DAY = 86_400_000_000
# The name of the part of a table that has the rows of a month.
_MONTH = re.compile(r"\w+_(\d{4})_(\d\d)")
# Rows that `each` reads at a time.
_AT_ONCE = 500
# Seconds, the driver's least.
_MIN_CONNECT_TIMEOUT = 2
# A write in a transaction that only reads, or on a server that does: an old primary after a failover.
_READ_ONLY = "25006"
_KINDS: dict[str, tuple[type[StoreError], str]] = {
    "23505": (StoreConflict, "another transaction added the same row"),
    "40001": (StoreConflict, "another transaction changed the same rows"),
    "40P01": (StoreConflict, "two transactions waited for each other"),
    "42501": (StoreError, "its role lacks a privilege: the owner of the tables runs dragoman db migrate --grant ROLE"),
    "42P01": (StoreWithoutTables, "a table is missing: run dragoman db migrate"),
    "53100": (StoreFull, "the disk of the server is full"),
    "53300": (StoreBusy, "the server has no connection left: raise max_connections, or lower storage.connections"),
    "55P03": (StoreBusy, "another transaction held a lock for too long"),
    "57014": (StoreInterrupted, "the statement was interrupted"),
    "57P03": (StoreBusy, "the server is starting or stopping"),
}
# Hosts and names in messages. A password that is not percent-encoded can end up in their place.
_PLACE = {
    "host": re.compile(r"[\w.:%-]*|/[\w./-]*|@[\w.-]+"),
    "hostaddr": re.compile(r"[0-9A-Fa-f.:%\w]*"),
    "port": re.compile(r"[0-9]{0,5}"),
    "dbname": re.compile(r"[\w.-]*"),
}
_UNREADABLE = "the address of the database cannot be read"


class PostgresAddress:
    """The address of a server, of which messages name host, port and database, and nothing else."""

    __slots__ = ("_parameters", "_place")

    def __init__(self, text: str) -> None:
        try:
            parameters = {name: str(value) for name, value in conninfo.conninfo_to_dict(text).items()}
        except (psycopg.Error, UnicodeError):
            # The driver's message quotes the address.
            parameters = {"port": _UNREADABLE}
        for name, form in _PLACE.items():
            if not all(form.fullmatch(one) for one in parameters.get(name, "").split(",")):
                raise StoreError(f"{_UNREADABLE}; percent-encode special characters of user and password")
        self._place = _place(parameters)
        self._parameters = {
            "application_name": "dragoman",
            "target_session_attrs": "read-write",
            **parameters,
            "client_encoding": "UTF8",
        }

    def __str__(self) -> str:
        return self._place

    def __repr__(self) -> str:
        return f"PostgresAddress({self._place})"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that are connected to; "" is a local socket."""
        if "service" in self._parameters:
            # A file of the driver has them.
            return ("service",)
        return tuple((self._effective("hostaddr") or self._effective("host")).split(","))

    @property
    def sslmode(self) -> str:
        """How the server is verified."""
        return self._effective("sslmode")

    def _effective(self, name: str) -> str:
        """A parameter, else the environment's or the driver's own."""
        return self._parameters.get(name) or _defaults().get(name, "")

    def text(self, timeout: float) -> str:
        """The address for the driver, which may take some seconds per host to connect."""
        seconds = str(max(int(timeout), _MIN_CONNECT_TIMEOUT))
        return conninfo.make_conninfo(**{"connect_timeout": seconds, **self._parameters})


def _defaults() -> dict[str, str]:
    """Parameters of the driver's environment variables, and those of the driver itself."""
    found = Conninfo.get_defaults()
    return {each.keyword.decode(): each.val.decode(errors="replace") for each in found if each.val is not None}


def _month_start(year: int, month: int) -> int:
    """The beginning of a month in microseconds since 1970, UTC; month 13 is January."""
    begins = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=UTC)
    return int(begins.timestamp()) * 1_000_000


def _place(parameters: dict[str, str]) -> str:
    hosts = (parameters.get("host") or parameters.get("hostaddr") or "local socket").split(",")
    ports = parameters.get("port", "").split(",")
    # One port is that of all hosts.
    ports = ports if len(ports) == len(hosts) else ports * len(hosts)
    places = ",".join(f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False))
    name = parameters.get("dbname")
    return f"{places}/{name}" if name else places


class ServerFacts(Struct, frozen=True, kw_only=True):
    """What a server has reported of itself when it let a client in."""

    version: str
    # The process of the server, if no pooler is between.
    session: int
    is_encrypted: bool


class PostgresConnection:
    """A connection that is opened by its first transaction, and opened again by the next one after it was lost."""

    in_unit = False
    # Work of several owners could wait for each other.
    shares_transactions = False

    # Whether the present query must end; called before each query.
    must_end: Callable[[], bool] | None = None

    def __init__(
        self, address: PostgresAddress, timeout: float, lock_timeout: float = LOCK_TIMEOUT, release: int = 0
    ) -> None:
        # The version of the tables that this release needs; 0 uses them before they are made.
        self._release = release
        self._is_durable = True
        # The schema of all statements that name none.
        self.schema = SCHEMA
        # Seconds that a statement may take, and may wait for another transaction.
        self.timeout = timeout
        self.lock_timeout = lock_timeout
        self._address = address
        self._watcher = StatementWatcher()
        self._driver: psycopg.Connection[Row] | None = None
        # A transaction was begun, and neither committed nor taken back by its code; its connection may be lost.
        self._has_begun = False
        self._only_reads = False
        self._is_closed = False
        self._connected_at = 0.0
        self._cursors = count(1)
        # Statements that are sent with the next one, each with its values.
        self._queued: list[tuple[bytes, list[Values]]] = []
        # Statements that add rows, which have the types of the columns.
        self._statements: dict[AppendTable, str] = {}

    @property
    def in_transaction(self) -> bool:
        return self._driver is not None and self._driver.pgconn.transaction_status in (
            TransactionStatus.INTRANS,
            TransactionStatus.INERROR,
        )

    def change(self, statement: str, values: Values = (), /) -> int:
        return self._execute(statement, values).rowcount

    def many(self, statement: str, rows: Iterable[Values], /) -> None:
        self._within(lambda driver: _cursor(driver).executemany(numbered(statement), rows))

    def queue(self, statement: str, rows: Iterable[Values], /) -> None:
        if self._has_begun:
            self._queued.append((numbered(statement), list(rows)))
        else:
            self.many(statement, rows)

    def append(self, table: AppendTable, rows: Sequence[AppendRow], /) -> None:
        # Not by COPY: the server never takes back what a client that stops in the middle of one has locked.
        if rows:
            columns = [list(column) for column in zip(*((*own, *shared) for own, shared in rows), strict=True)]
            optional = table.own.index(table.optional)
            columns[optional] = [value or None for value in columns[optional]]
            if table.time:
                self._ensure_months(columns[table.own.index(table.time)])
            self.change(self._appending(table), columns)

    def _ensure_months(self, times: Sequence[object]) -> None:
        """Make the partitions of some times: a row without one would be refused."""
        days = sorted({time // _DAY for time in times if isinstance(time, int)})
        self.rows("SELECT ensure_month(day) FROM unnest(CAST(? AS bigint[])) day", ([day * _DAY for day in days],))

    def drop_before(self, table: AppendTable, time: int, lock: bytes, /) -> int:
        parts = self.rows(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = CAST(? AS regclass) ORDER BY 1",
            (table.name,),
        )
        dropped = 0
        for (name,) in parts:
            month = _MONTH.fullmatch(name)
            if month is not None and _month_start(int(month[1]), int(month[2]) + 1) <= time:
                with Transaction(self, lock):
                    self.rows("SELECT drop_month(?)", (_month_start(int(month[1]), int(month[2])),))
                dropped += 1
        return dropped

    def _appending(self, table: AppendTable) -> str:
        """The statement that adds rows of which each column is given as an array."""
        statement = self._statements.get(table)
        if statement is None:
            names = (*table.own, *table.shared)
            kinds = dict(self.rows(*_kinds_of(table.name)))
            arrays = ", ".join(f"CAST(? AS {kinds[name]}[])" for name in names)
            listed = ", ".join(names)
            statement = f"INSERT INTO {table.name} ({listed}) SELECT * FROM unnest({arrays})"
            if table.number:
                # Not by a sequence, which would leave out the numbers of transactions that were taken back.
                statement = (
                    f"INSERT INTO {table.name} ({table.number}, {listed}) SELECT last.number + place, {listed}"
                    f" FROM unnest({arrays}) WITH ORDINALITY AS given ({listed}, place),"
                    f" (SELECT coalesce(max({table.number}), 0) AS number FROM {table.name}) last"
                )
            self._statements[table] = statement
        return statement

    def row(self, statement: str, values: Values = (), /) -> Row | None:
        return self._execute(statement, values).fetchone()

    def rows(self, statement: str, values: Values = (), /) -> list[Any]:
        if self.must_end is not None and self.must_end():
            raise StoreInterrupted("interrupted")
        return _rows_of(self._execute(statement, values))

    def number(self, statement: str, values: Values = (), /) -> int:
        return int(self.rows(statement, values)[0][0])

    def each(self, statement: str, values: Values = (), /) -> Iterator[Any]:
        is_own = not self._has_begun
        if is_own:
            self.begin()
        try:
            name = f"each{next(self._cursors)}"
            self.change(f"DECLARE {name} NO SCROLL CURSOR FOR {statement}", values)
            while rows := self.rows(f"FETCH {_AT_ONCE} FROM {name}"):
                yield from rows
            self.change(f"CLOSE {name}")
            if is_own:
                self.commit()
        finally:
            if is_own:
                self.rollback()

    def begin(self, *, writes: bool = True, lock: bytes = b"") -> None:
        if self._has_begun or self.in_unit:
            # The connection was lost, and with it earlier writes of others.
            raise StoreError("the transaction was taken back")
        if self._driver is not None and time.monotonic() - self._connected_at >= _MAX_AGE:
            self._let_go()
        self._only_reads = not writes
        statement = self._beginning(lock)
        is_new = self._driver is None
        try:
            try:
                self._call(lambda driver: driver.execute(statement))
            except StoreAway:
                # The server may have closed a connection that was idle; nothing was done in it.
                if is_new or self._watcher.has_fired:
                    raise
                self._call(lambda driver: driver.execute(statement))
        except StoreError:
            # The lock was not free.
            self.rollback()
            raise
        self._has_begun = True

    def _beginning(self, lock: bytes) -> bytes:
        """One query, which takes one round trip: begin, with the schema, what the server ends by itself, and a lock."""
        limits = {
            "lock_timeout": self.lock_timeout,
            "statement_timeout": self.timeout + _GRACE,
            "idle_in_transaction_session_timeout": _MAX_REST,
        }
        statements = [
            f"BEGIN ISOLATION LEVEL {_READS if self._only_reads else _WRITES}",
            f"SET LOCAL search_path TO {self.schema}",
            *(() if self._is_durable or self._only_reads else ("SET LOCAL synchronous_commit = off",)),
            *(f"SET LOCAL {name} = {max(int(seconds * 1000), 1)}" for name, seconds in limits.items()),
        ]
        if lock:
            number = int.from_bytes(blake2b(lock, digest_size=8).digest(), signed=True)
            statements.append(f"SELECT pg_advisory_xact_lock({number})")
        return "; ".join(statements).encode()

    def commit(self) -> None:
        if self._driver is None or self._driver.pgconn.transaction_status == TransactionStatus.INERROR:
            # The server would answer COMMIT with success and take the transaction back.
            self.rollback()
            raise StoreError("the transaction was taken back")
        try:
            self._control("COMMIT")
        except StoreAway as error:
            if self._only_reads:
                raise
            unknown = StoreUnknown(f"{error}; whether it has committed is not known")
        else:
            self._has_begun = False
            return
        raise unknown

    def rollback(self) -> None:
        self._queued.clear()
        try:
            if self.in_transaction:
                # The server takes back what a lost connection has begun.
                with suppress(StoreAway):
                    self._control("ROLLBACK")
        finally:
            self._has_begun = False

    def savepoint(self, name: str) -> None:
        self._queued.append((_savepoint(name), [()]))

    def release(self, name: str) -> None:
        self._queued.append((b'RELEASE SAVEPOINT "%b"' % name.encode(), [()]))

    def rollback_to(self, name: str) -> None:
        begin = (_savepoint(name), [()])
        if begin in self._queued:
            # Nothing of it was sent.
            last = max(place for place, each in enumerate(self._queued) if each == begin)
            del self._queued[last + 1 :]
        else:
            self._queued.clear()
            self._control(f'ROLLBACK TO SAVEPOINT "{name}"')

    def commits(self) -> int:
        # Writers do not wait for each other, so no commit of another one ends a wait.
        return 0

    @property
    def version(self) -> int:
        return self.versions[0]

    def problems(self, most: int) -> list[str]:
        # The server looks after its files.
        return []

    def wipe(self) -> bool:
        # The server overwrites the space of deleted rows in its own time.
        return True

    @property
    def versions(self) -> tuple[int, int]:
        """The number of migrations of the schema, and that of the oldest release that can use it; 0 if it has none."""
        # The catalogues themselves: that a name was not found may be cached.
        tables = (
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = ? AND c.relname = 'schema_version'"
        )
        if not self.number(tables, (self.schema,)):
            return 0, 0
        version, oldest = self.rows("SELECT version, oldest FROM schema_version")[0]
        return version, oldest

    def ask(self, statement: str) -> Row:
        """The row of a query that names its schema, without a transaction: one round trip."""
        is_new = self._driver is None
        try:
            row = self._call(lambda driver: _cursor(driver).execute(statement.encode()).fetchone())
        except StoreAway:
            if is_new or self._watcher.has_fired:
                raise
            row = self._call(lambda driver: _cursor(driver).execute(statement.encode()).fetchone())
        if row is None:
            raise StoreError(f"the database {self._address} has lost a row")
        return row

    def set_durable(self, is_durable: bool) -> None:
        self._is_durable = is_durable

    def set_interrupt(self, must_end: Callable[[], bool], steps: int) -> None:
        # What runs on the server ends by its own time limit.
        self.must_end = must_end

    def script(self, statements: str) -> None:
        """Run statements of PostgreSQL without values, in the open transaction."""
        self._control(statements)

    def facts(self) -> ServerFacts:
        """What the server has reported of itself."""
        return self._call(
            lambda driver: ServerFacts(
                version=driver.info.parameter_status("server_version") or "",
                session=driver.info.backend_pid,
                is_encrypted=driver.pgconn.ssl_in_use,
            )
        )

    def copy(self, table: str, columns: Sequence[str], rows: Iterable[Row], /) -> int:
        """Add many rows by COPY in the open transaction; returns their number. The server never takes back what a
        client that stops in the middle of it has locked: for commands, which are ended by people."""
        kinds = dict(self.rows(*_kinds_of(table)))
        statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()

        def send(driver: psycopg.Connection[Row]) -> int:
            cursor = driver.cursor()
            with cursor.copy(statement) as copying:
                copying.set_types([kinds[name] for name in columns])
                for row in rows:
                    copying.write_row(row)
            return cursor.rowcount

        return self._call(send)

    def beside(self) -> PostgresConnection:
        """Another connection to the same database, whose statements take as long as they take."""
        return PostgresConnection(self._address, UNLIMITED, self.lock_timeout)

    def close(self) -> None:
        self._is_closed = True
        self._let_go()
        self._watcher.close()

    def _execute(self, statement: str, values: Values) -> psycopg.RawCursor[Row]:
        """The cursor of a statement that has run."""
        return self._within(lambda driver: _cursor(driver).execute(numbered(statement), values))

    def _within(self, work: Callable[[psycopg.Connection[Row]], T]) -> T:
        """Do something in the open transaction, or in one of its own."""
        if self._has_begun:
            return self._call(work)
        self.begin()
        try:
            done = self._call(work)
            self.commit()
        finally:
            self.rollback()
        return done

    def _control(self, statement: str) -> None:
        self._call(lambda driver: driver.execute(statement.encode()))

    def _call(self, work: Callable[[psycopg.Connection[Row]], T]) -> T:
        """Do something within the time of a statement. An error of the driver does not become a context of the store's:
        it holds the password."""
        try:
            driver = self._driver or self._connected()
            queued, self._queued = self._queued, []
            self._watcher.begin(self.timeout)
            try:
                return _together(driver, queued, work) if queued else work(driver)
            finally:
                self._watcher.end()
        except psycopg.Error as error:
            failure = self._failure(error)
        raise failure

    def _connected(self) -> psycopg.Connection[Row]:
        if self._is_closed:
            raise StoreError("the connection is closed")
        if self._has_begun:
            raise StoreError("the transaction was taken back")
        driver = psycopg.Connection.connect(
            self._address.text(self.timeout), autocommit=True, prepare_threshold=None, context=_ADAPTERS
        )
        self._watcher.watch(driver.fileno())
        self._driver, self._connected_at = driver, time.monotonic()
        if driver.info.server_version < LOWEST_VERSION:
            version, lowest = driver.info.parameter_status("server_version"), LOWEST_VERSION // 10_000
            self._let_go()
            raise StoreError(f"the database {self._address} is of PostgreSQL {version}: update it to {lowest} or newer")
        if self._release:
            self._check_release(driver)
        return driver

    def _check_release(self, driver: psycopg.Connection[Row]) -> None:
        """Refuse tables that this release cannot use; they may have been migrated since the last connection."""
        self._watcher.begin(self.timeout)
        try:
            row = driver.execute(f"SELECT version, oldest FROM {SCHEMA}.schema_version".encode()).fetchone()
        finally:
            self._watcher.end()
        version, oldest = row or (0, 0)
        if version < self._release:
            self._let_go()
            raise StoreError(f"the database {self._address} has tables of an older version: run dragoman db migrate")
        if oldest > self._release:
            self._let_go()
            raise StoreError(f"the database {self._address} has tables of a newer version: update this release")

    def _failure(self, error: psycopg.Error) -> StoreError | OverflowError:
        """An error of the driver in words of our own, since the driver's have addresses, users and values."""
        state = error.sqlstate
        if state == _OUT_OF_RANGE:
            return OverflowError("a number does not fit its column")
        if self._driver is None:
            state = state_of(str(error))
        lost = state is None or (self._driver is not None and self._driver.closed)
        if state == _READ_ONLY and not self._only_reads:
            self._let_go()
            return StoreAway(f"the database {self._address} is read-only")
        if lost:
            reason = reason_of(str(error)) if self._driver is None else "does not answer"
            self._let_go()
            return StoreAway(f"the database {self._address} {reason}")
        kind, words = _KINDS.get(state or "", (StoreError, "the server refused a statement"))
        return kind(f"the database {self._address}: {words} (SQLSTATE {state})")

    def _let_go(self) -> None:
        driver, self._driver = self._driver, None
        self._watcher.forget()
        if driver is not None:
            driver.close()


class _Text(StrDumper):
    """A text without NUL characters, which PostgreSQL does not store."""

    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj.replace("\0", ""))


class _Flag(Int8Dumper):
    """A boolean as the integer that its column has."""

    def dump(self, obj: bool) -> Buffer | None:
        return super().dump(int(obj))


class _Sum(Loader):
    """A numeric, which only sums of bigint are, as an integer."""

    format = Format.BINARY

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._decimals = NumericBinaryLoader(oid, context)

    def load(self, data: Buffer) -> int:
        return int(self._decimals.load(data))


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    # By default the type of a number is the smallest that has it, and that of a text is left to the server.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(bool, _Flag)
    adapters.register_loader("numeric", _Sum)
    return adapters


_ADAPTERS = _adapters()


def _kinds_of(table: str) -> tuple[str, Values]:
    """A query for the columns of a table with their types."""
    return (
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
        " WHERE a.attrelid = CAST(? AS regclass) AND a.attnum > 0",
        (table,),
    )


def _together(
    driver: psycopg.Connection[Row],
    queued: Sequence[tuple[bytes, list[Values]]],
    work: Callable[[psycopg.Connection[Row]], T],
) -> T:
    """Run queued statements and another one in one round trip; the first that fails ends the others."""
    with driver.pipeline():
        for statement, rows in queued:
            _cursor(driver).executemany(statement, rows)
        return work(driver)


def _savepoint(name: str) -> bytes:
    return b'SAVEPOINT "%b"' % name.encode()


def _cursor(driver: psycopg.Connection[Row]) -> psycopg.RawCursor[Row]:
    """A cursor that takes `$1` for values, and reads bytes as they are."""
    cursor = psycopg.RawCursor(driver)
    cursor.format = Format.BINARY
    return cursor


def _rows_of(cursor: psycopg.RawCursor[Row]) -> list[Row]:
    """All rows; none of a statement that gives no rows, as with SQLite."""
    return cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []
