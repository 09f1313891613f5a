"""Record tables: exchanges and their rollups, in the file of `storage.path`. The connection waits for disks and locks,
so it belongs to a thread or to a command, never to the event loop. Commits are on the disk (`synchronous = FULL`),
since their journal may be removed then."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.errors import ConfigError
from dragoman.store.database import MEMORY, write_ahead
from dragoman.store.errors import is_busy, store_error
from dragoman.store.migrations import STEPS, NewerFile, migrate, remedy_of
from dragoman.store.records import Records, TagSets, UsageRollups
from dragoman.store.session_tables import SessionTables
from dragoman.store.transaction import StoreConnection, Transaction
from dragoman.store.unassigned import UnassignedRows
from dragoman.store.write_errors import not_writable


class JournalOffsets:
    """The offset of each journal; an offset moves only from its expected value."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def applied(self, name: str) -> int:
        """The ingested bytes of a journal; 0 also for an unread one."""
        row = self._db.execute("SELECT applied FROM journals WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def all(self) -> dict[str, int]:
        """The offset of each journal."""
        return {str(name): int(applied) for name, applied in self._db.execute("SELECT name, applied FROM journals")}

    def move(self, name: str, start: int, end: int, damaged: int = 0) -> bool:
        """Move an offset in this transaction; False if another process moved it. An absent one is 0: offsets are
        removed after their journals, which this transaction still found."""
        if start == 0:
            # A mark that is there is never at 0.
            moved = self._db.execute(
                "INSERT INTO journals (name, applied, damaged) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                (name, end, damaged),
            )
        else:
            moved = self._db.execute(
                "UPDATE journals SET applied = ?, damaged = damaged + ? WHERE name = ? AND applied = ?",
                (end, damaged, name, start),
            )
        return bool(moved.rowcount)

    def remove(self, name: str) -> None:
        """Forget a journal whose file is gone."""
        self._db.execute("DELETE FROM journals WHERE name = ?", (name,))


# Seconds to wait for another writing process.
LOCK_TIMEOUT = 5.0
# Pages of the log beside the file, of 4 KB each, before they are moved into it.
_CHECKPOINT = 4000


class RecordTables:
    """Records, totals, journal offsets and sessions, in one open file."""

    def __init__(self, db: StoreConnection) -> None:
        self._db = db
        self.records = Records(db)
        self.rollups = UsageRollups(db)
        self.tag_sets = TagSets(db)
        self.offsets = JournalOffsets(db)
        self.sessions = SessionTables(db)
        self.unassigned = UnassignedRows(db)

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for the tables of this package."""
        return self._db

    def set_interrupt(self, must_end: Callable[[], bool], steps: int) -> None:
        """Set the function that queries call before they begin and after a number of database steps, to learn whether
        they must end with an error: one query may be long, and many may be short."""
        self._db.must_end = must_end
        self._db.set_progress_handler(must_end, steps)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Several writes as one; an error of SQLite becomes a store error."""
        try:
            with Transaction(self._db):
                yield
        except sqlite3.Error as error:
            raise store_error(error) from None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several questions that are answered from one moment; errors likewise."""
        try:
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise store_error(error) from None

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def open_record_tables(
    path: str,
    *,
    read_only: bool = False,
    timeout: float = LOCK_TIMEOUT,
    otherwise: str = "set record_requests = false",
) -> RecordTables:
    """Open or make the file; to read only, a missing file is empty and not made. One thread at a time may use it.
    `otherwise` is how to do without the file."""
    try:
        db = _opened_to_read(path, timeout) if read_only else _opened(path, timeout)
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.Error) and is_busy(error):
            raise store_error(error) from None
        elsewhere = f"name a file elsewhere, or {otherwise}"
        refused = None if read_only else not_writable(Path(path), error, key="storage.path", otherwise=elsewhere)
        raise refused or ConfigError(
            key="storage.path",
            problem=f"the file cannot be opened: {error}",
            remedy=remedy_of(error, otherwise),
        ) from None
    return RecordTables(db)


def _opened(path: str, timeout: float) -> StoreConnection:
    if path != MEMORY:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A file that exists is not opened: closing it would release all locks of the process on it, also another
        # connection's, whose log the next process would then remove as abandoned.
        with suppress(FileExistsError):
            os.close(os.open(os.path.realpath(place), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    db = sqlite3.connect(path, timeout=timeout, isolation_level=None, factory=StoreConnection, check_same_thread=False)
    try:
        if path != MEMORY:
            db.know(Path(path).absolute())
        write_ahead(db, timeout)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")
        # Pages that grow with each batch are moved into the file once for many of them.
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        migrate(db)
        # Rollup statements could fail, so SQLite copies each changed page: in memory, or it would write nearly as many
        # pages to a journal file. Not before the migrations, which may sort a whole table.
        db.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        db.close()
        raise
    return db


def _opened_to_read(path: str, timeout: float) -> StoreConnection:
    place = Path(path)
    if path == MEMORY or not place.exists():
        return _opened(MEMORY, timeout)
    address = f"{place.absolute().as_uri()}?mode=ro"
    db = sqlite3.connect(
        address, uri=True, timeout=timeout, isolation_level=None, factory=StoreConnection, check_same_thread=False
    )
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(STEPS):
            raise NewerFile("the file was written by a newer version")
        if version < len(STEPS):
            raise sqlite3.DatabaseError(
                "the file was written by an older version, which a start of the gateway changes"
            )
    except BaseException:
        db.close()
        raise
    return db


def is_outdated(path: str) -> bool:
    """Whether there is a file of an older version, which the next writer migrates."""
    if path == MEMORY or not Path(path).exists():
        return False
    try:
        db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        try:
            return int(db.execute("PRAGMA user_version").fetchone()[0]) < len(STEPS)
        finally:
            db.close()
    except sqlite3.Error:
        # Opening the file reports the problem.
        return True
