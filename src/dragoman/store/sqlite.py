"""SQLite: connections to the file of `storage.path`. No other module knows the driver or its errors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dragoman.store.connection import AppendRow, AppendTable, Row, Values
from dragoman.store.errors import StoreBusy, StoreDamaged, StoreError, StoreFull, StoreInterrupted, StoreReplaced

# Another connection has the lock, and will release it: of the file, or of a shared cache.
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_KINDS = {
    sqlite3.SQLITE_FULL: StoreFull,
    sqlite3.SQLITE_INTERRUPT: StoreInterrupted,
    sqlite3.SQLITE_CORRUPT: StoreDamaged,
    sqlite3.SQLITE_NOTADB: StoreDamaged,
}
# Seconds between two tries to enable write-ahead logging.
_RETRY = 0.01
# Rows per statement that appends: more at once save little.
_APPENDED = (32, 16, 8, 4, 2, 1)


class SQLiteConnection(sqlite3.Connection):
    """A connection that detects whether its file was deleted or replaced, because later writes would be lost.
    `execute` is the driver's own, for migrations and settings of SQLite."""

    in_unit = False
    shares_transactions = True
    # Whether the present query must end; called before each query.
    must_end: Callable[[], bool] | None = None
    _path: Path | None = None
    _file = (0, 0)
    # Whether `wipe` makes the file shorter.
    _shrinks = False
    # Whether SQLite refuses writes in a transaction that only reads. At each change of that, it
    # prepares all statements again.
    guards_reads = False
    # Whether SQLite refuses writes now, as in a transaction that only reads.
    _only_reads = False

    def know(self, path: Path) -> None:
        """Remember the file at a path as the opened one."""
        self._path, self._file = path, _file_at(path)

    def change(self, statement: str, values: Values = (), /) -> int:
        try:
            return self.execute(statement, values).rowcount
        except sqlite3.Error as error:
            raise store_error(error) from None

    def many(self, statement: str, rows: Iterable[Values], /) -> None:
        try:
            self.executemany(statement, rows)
        except sqlite3.Error as error:
            raise store_error(error) from None

    def queue(self, statement: str, rows: Iterable[Values], /) -> None:
        self.many(statement, rows)

    def append(self, table: AppendTable, rows: Sequence[AppendRow], /) -> None:
        # Shared values are bound once for a run of rows.
        at, count = 0, len(rows)
        while at < count:
            shared, end = rows[at][1], at + 1
            while end < count and ((other := rows[end][1]) is shared or other == shared):
                end += 1
            for size, statement in _append_statements(table).items():
                while end - at >= size:
                    values = [*shared]
                    for own, _ in rows[at : at + size]:
                        values += own
                    self.change(statement, values)
                    at += size

    def drop_before(self, table: AppendTable, time: int, lock: bytes, /) -> int:
        return 0

    def row(self, statement: str, values: Values = (), /) -> Row | None:
        try:
            row: Row | None = self.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise store_error(error) from None
        return row

    def rows(self, statement: str, values: Values = (), /) -> list[Any]:
        if self.must_end is not None and self.must_end():
            raise StoreInterrupted("interrupted")
        try:
            return self.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise store_error(error) from None

    def number(self, statement: str, values: Values = (), /) -> int:
        return int(self.rows(statement, values)[0][0])

    def each(self, statement: str, values: Values = (), /) -> Generator[Any, None, None]:
        try:
            yield from self.execute(statement, values)
        except sqlite3.Error as error:
            raise store_error(error) from None

    def begin(self, *, writes: bool = True, lock: bytes = b"") -> None:
        # One process writes at a time, whatever its lock.
        if not writes:
            if self.guards_reads:
                self.set_only_reads(True)
            self._control("BEGIN")
            return
        if self.in_unit:
            # A full disk rolls back all of it, also earlier writes of others.
            raise StoreError("the transaction was taken back")
        self.set_only_reads(False)
        self.check()
        self._control("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._control("COMMIT")

    def rollback(self) -> None:
        if self.in_transaction:
            self._control("ROLLBACK")

    def savepoint(self, name: str) -> None:
        self._control(f"SAVEPOINT {name}")

    def release(self, name: str) -> None:
        self._control(f"RELEASE {name}")

    def rollback_to(self, name: str) -> None:
        self._control(f"ROLLBACK TO {name}")

    @property
    def version(self) -> int:
        return self.pragma("user_version")

    def problems(self, most: int, *, is_quick: bool = False) -> list[str]:
        rows = self.rows(f"PRAGMA {'quick' if is_quick else 'integrity'}_check({most})")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def wipe(self) -> bool:
        # `secure_delete` overwrites the file; the write-ahead log is emptied here.
        if self._shrinks:
            self._vacuum()
        return not self.number("PRAGMA wal_checkpoint(TRUNCATE)")

    def commits(self) -> int:
        return self.pragma("data_version")

    def close(self) -> None:
        try:
            super().close()
        except sqlite3.Error as error:
            raise store_error(error) from None

    # What only SQLite has.

    def set_only_reads(self, only_reads: bool) -> None:
        """Have SQLite refuse or permit writes."""
        if only_reads is not self._only_reads:
            # First, so that a failure leaves what is permitted.
            self._only_reads = only_reads
            self._control(f"PRAGMA query_only = {'ON' if only_reads else 'OFF'}")

    def check(self) -> None:
        """Fail if another file is at the place of the opened one, or none."""
        if self._path is not None and _file_at(self._path) != self._file:
            raise StoreReplaced("the file was deleted or replaced; start the gateway again")

    def set_interrupt(self, must_end: Callable[[], bool], steps: int) -> None:
        self.must_end = must_end
        self.set_progress_handler(must_end, steps)

    def pragma(self, name: str) -> int:
        """The number that a setting or a question of SQLite gives."""
        return self.number(f"PRAGMA {name}")

    def configure(self, timeout: float, *, is_durable: bool) -> None:
        """Settings of a file that is written. Readers do not wait for a writer, deleted data is overwritten in the
        file, and no commit is lost if the process is killed; if `is_durable`, neither if the power fails."""
        self.write_ahead(timeout)
        self.set_durable(is_durable)
        self._control("PRAGMA secure_delete = ON")

    def reserve(self) -> None:
        """Keep all other processes from the file until the connection is closed; `StoreBusy` if one has it open."""
        self._control("PRAGMA locking_mode = EXCLUSIVE")
        self._control("BEGIN IMMEDIATE")
        self._control("ROLLBACK")

    def set_durable(self, is_durable: bool) -> None:
        """Whether each commit is on the disk when it returns."""
        self._control(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")

    def set_checkpoint(self, pages: int) -> None:
        """Move pages from the write-ahead log into the file once for so many of them."""
        self._control(f"PRAGMA wal_autocheckpoint = {pages}")

    def set_vacuum(self) -> None:
        """Have `wipe` make the file shorter, if it was made with this setting."""
        self._shrinks = True
        self._control("PRAGMA auto_vacuum = INCREMENTAL")

    def set_lock_timeout(self, seconds: float) -> None:
        """How long a lock is waited for."""
        self._control(f"PRAGMA busy_timeout = {round(seconds * 1000)}")

    def copy_pages_in_memory(self) -> None:
        """Keep copies of pages that a statement changes in memory instead of in a temporary file."""
        self._control("PRAGMA temp_store = MEMORY")

    def write_ahead(self, timeout: float) -> None:
        """Enable write-ahead logging, which several processes may try at once, and which does not wait by itself."""
        until = time.monotonic() + timeout
        while True:
            try:
                self.rows("PRAGMA journal_mode = WAL")
                return
            except StoreBusy:
                if time.monotonic() > until:
                    raise
                time.sleep(_RETRY)

    def _vacuum(self) -> None:
        try:
            # It frees a page with each step, of which `execute` takes one alone.
            self.executescript("PRAGMA incremental_vacuum")
        except sqlite3.Error as error:
            raise store_error(error) from None

    def _control(self, statement: str) -> None:
        try:
            self.execute(statement)
        except sqlite3.Error as error:
            raise store_error(error) from None


def connect(path: str, timeout: float) -> SQLiteConnection:
    """A connection to a file, which is made if there is none, without transactions of the driver's own. One thread at a
    time may use it, whichever that is. A lock is waited for until `timeout` seconds are over."""
    return _connected(path, timeout, is_uri=False)


def connect_to_read(path: Path, timeout: float) -> SQLiteConnection:
    """A connection that cannot write, to a file that is there."""
    return _connected(f"{path.absolute().as_uri()}?mode=ro", timeout, is_uri=True)


@cache
def _append_statements(table: AppendTable) -> dict[int, str]:
    """The statements that append, by their number of rows: numbered parameters for the shared values, and for those of
    each row. To bind None takes much longer than to bind a number."""
    count, own = len(table.shared), len(table.own)
    add = f"INSERT INTO {table.name} ({', '.join((*table.own, *table.shared))}) VALUES"
    repeated = ", ".join(f"?{at + 1}" for at in range(count))

    def row(first: int) -> str:
        values = (
            f"nullif(?{at}, 0)" if name == table.optional else f"?{at}" for at, name in enumerate(table.own, first)
        )
        return f"({', '.join(values)}, {repeated})"

    return {size: f"{add} {', '.join([row(count + 1 + own * at) for at in range(size)])}" for size in _APPENDED}


def store_error(error: sqlite3.Error) -> StoreError:
    """An error of the driver as one of the store, which leads to no frame."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    kind = StoreBusy if code in _BUSY else _KINDS.get(code, StoreError)
    return kind(str(error) or "the store failed")


def _connected(path: str, timeout: float, *, is_uri: bool) -> SQLiteConnection:
    try:
        return sqlite3.connect(
            path, timeout=timeout, isolation_level=None, factory=SQLiteConnection, check_same_thread=False, uri=is_uri
        )
    except sqlite3.Error as error:
        raise store_error(error) from None


def _file_at(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino
