"""Record tables: exchanges and their rollups, in the file of `storage.path`. The connection waits for disks and locks,
so it belongs to a thread or to a command, never to the event loop. Commits are on the disk (`synchronous = FULL`),
since their journal may be removed then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from dragoman.database_location import MEMORY, DatabaseLocation, database_exists
from dragoman.errors import ConfigError
from dragoman.store.connection import RECORDS, Connection, Transaction
from dragoman.store.errors import StoreBusy, StoreError
from dragoman.store.migrations.sqlite import STEPS, NewerFile, migrate, remedy_of
from dragoman.store.records import Records, TagSets, UsageRollups
from dragoman.store.session_tables import SessionTables
from dragoman.store.sqlite import SQLiteConnection, connect, connect_to_read
from dragoman.store.unassigned import UnassignedRows
from dragoman.store.write_errors import not_writable

# So many values are bound in one statement.
_AT_ONCE = 500


class JournalOffsets:
    """The offset of each journal; an offset moves only from its expected value."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def applied(self, name: str) -> int:
        """The ingested bytes of a journal; 0 also for an unread one."""
        row = self._db.row("SELECT applied FROM journals WHERE name = ?", (name,))
        return 0 if row is None else int(row[0])

    def all(self) -> dict[str, int]:
        """The offset of each journal."""
        return {str(name): int(applied) for name, applied in self._db.rows("SELECT name, applied FROM journals")}

    def of(self, names: Sequence[str]) -> dict[str, int]:
        """The offsets of some journals; an absent one is 0."""
        offsets: dict[str, int] = {}
        for at in range(0, len(names), _AT_ONCE):
            some = names[at : at + _AT_ONCE]
            places = ", ".join("?" * len(some))
            offsets.update(self._db.rows(f"SELECT name, applied FROM journals WHERE name IN ({places})", some))
        return offsets

    def move(self, name: str, start: int, end: int, damaged: int = 0) -> bool:
        """Move an offset in this transaction; False if another process moved it. An absent one is 0: offsets are
        removed after their journals, which this transaction still found."""
        if start == 0:
            # A mark that is there is never at 0.
            moved = self._db.change(
                "INSERT INTO journals (name, applied, damaged) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING",
                (name, end, damaged),
            )
        else:
            moved = self._db.change(
                "UPDATE journals SET applied = ?, damaged = damaged + ? WHERE name = ? AND applied = ?",
                (end, damaged, name, start),
            )
        return bool(moved)

    def remove(self, name: str) -> None:
        """Forget a journal whose file is gone."""
        self._db.change("DELETE FROM journals WHERE name = ?", (name,))


# Seconds to wait for another writing process.
LOCK_TIMEOUT = 5.0
# Pages of the log beside the file, of 4 KB each, before they are moved into it.
_CHECKPOINT = 4000


class RecordTables:
    """Records, totals, journal offsets and sessions, in one open file."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self.records = Records(db)
        self.rollups = UsageRollups(db)
        self.tag_sets = TagSets(db)
        self.offsets = JournalOffsets(db)
        self.sessions = SessionTables(db)
        self.unassigned = UnassignedRows(db)

    @property
    def connection(self) -> Connection:
        """The connection, for the tables of this package."""
        return self._db

    def set_interrupt(self, must_end: Callable[[], bool], steps: int) -> None:
        """Set the function that queries call before they begin and after a number of database steps, to learn whether
        they must end with an error: one query may be long, and many may be short."""
        self._db.set_interrupt(must_end, steps)

    def transaction(self) -> Transaction:
        """Several writes as one; one transaction at a time writes records."""
        return Transaction(self._db, RECORDS)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Several questions that are answered from one moment."""
        self._db.begin(writes=False)
        try:
            yield
        finally:
            self._db.rollback()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def open_record_tables(
    database: DatabaseLocation,
    *,
    read_only: bool = False,
    timeout: float = LOCK_TIMEOUT,
    otherwise: str = "set record_requests = false",
) -> RecordTables:
    """Open the database, or make the file; to read only, a missing file is empty and not made. One thread at a time may
    use it. `otherwise` is how to do without the file."""
    if not isinstance(database, str):
        from dragoman.store.postgres_database import connect_to

        return RecordTables(connect_to(database, lock_timeout=timeout))
    try:
        db = _opened_to_read(database, timeout) if read_only else _opened(database, timeout)
    except StoreBusy:
        raise
    except (OSError, StoreError) as error:
        elsewhere = f"name a file elsewhere, or {otherwise}"
        refused = None if read_only else not_writable(Path(database), error, key="storage.path", otherwise=elsewhere)
        raise refused or ConfigError(
            key="storage.path",
            problem=f"the file cannot be opened: {error}",
            remedy=remedy_of(error, otherwise),
        ) from None
    return RecordTables(db)


def _opened(path: str, timeout: float) -> SQLiteConnection:
    if path != MEMORY:
        place = Path(path)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A file that exists is not opened: closing it would release all locks of the process on it, also another
        # connection's, whose log the next process would then remove as abandoned.
        with suppress(FileExistsError):
            os.close(os.open(os.path.realpath(place), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    db = connect(path, timeout)
    try:
        if path != MEMORY:
            db.know(Path(path).absolute())
        db.configure(timeout, is_durable=True)
        # Pages that grow with each batch are moved into the file once for many of them.
        db.set_checkpoint(_CHECKPOINT)
        migrate(db)
        # Rollup statements could fail, so SQLite copies each changed page: in memory, or it would write nearly as many
        # pages to a journal file. Not before the migrations, which may sort a whole table.
        db.copy_pages_in_memory()
    except BaseException:
        db.close()
        raise
    return db


def _opened_to_read(path: str, timeout: float) -> SQLiteConnection:
    place = Path(path)
    if not database_exists(path):
        return _opened(MEMORY, timeout)
    db = connect_to_read(place, timeout)
    try:
        version = db.version
        if version > len(STEPS):
            raise NewerFile("the file was written by a newer version")
        if version < len(STEPS):
            raise StoreError("the file was written by an older version, which a start of the gateway changes")
    except BaseException:
        db.close()
        raise
    return db


def is_outdated(database: DatabaseLocation) -> bool:
    """Whether there is a file of an older version, which the next writer migrates."""
    if not isinstance(database, str) or not database_exists(database):
        return False
    try:
        with closing(connect_to_read(Path(database), LOCK_TIMEOUT)) as db:
            return db.version < len(STEPS)
    except StoreError:
        # Opening the file reports the problem.
        return True
