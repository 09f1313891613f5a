"""Identity reader: reads identities of a file from another thread, and never writes. A gateway asks twice a second for
the number of the last change, which takes microseconds while the file is unchanged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from dragoman.database_location import DatabaseLocation, is_persistent
from dragoman.identities.identity import StoredIdentity
from dragoman.store.errors import StoreError, store_error
from dragoman.store.identities import Identities, IdentityCount
from dragoman.store.migrations.sqlite import IDENTITIES_VERSION, STEPS
from dragoman.store.sqlite import SQLiteConnection, connect_to_read

if TYPE_CHECKING:
    from dragoman.store.heartbeat import ServerHeartbeat
    from dragoman.store.server_state import ServerState

T = TypeVar("T")
# How long, in seconds, a process that has the file for itself is waited for.
_LOCK_TIMEOUT = 1.0
# Seconds for which a connection is used: it does not see that a file was overwritten.
_MAX_AGE = 5.0


class IdentitySource(Protocol):
    """The identities of a database. One thread at a time uses it."""

    # Which file or server was read last: from another one, everything is read again.
    file: tuple[int, int, int]
    # Eight bytes or more that tell the database from another one; b"" is not known yet.
    origin: bytes

    @property
    def patience(self) -> float:
        """Intervals until the next question."""

    def generation(self) -> int | None:
        """The number of the last change, None if there is no database, and `StoreError` if it cannot be read."""

    def changes_since(self, generation: int, apply: Callable[[Iterator[StoredIdentity]], T]) -> T:
        """The result of `apply` for the identities that were changed after a generation, revoked ones included."""

    def close(self) -> None:
        """Let go of the database."""


class IdentityReader:
    """The identities of the file at a path, which may be missing, replaced or restored at any time. One thread at a
    time may use it, whichever that is."""

    patience = 1.0

    def __init__(self, path: str, timeout: float = _LOCK_TIMEOUT) -> None:
        self._path = Path(path).absolute() if is_persistent(path) else None
        self._timeout = timeout
        self._db: SQLiteConnection | None = None
        self._opened_at = 0.0
        # The inode of the write-ahead log when the file was opened; 0 if there was none.
        self._log = 0
        self._has_tables = False
        # How SQLite numbers commits of other connections, and the generation that was read after that.
        self._version = -1
        self._generation = 0
        # Device and inode of the file that was read last, and how often its log was another one: then the file was
        # overwritten. Another value means that nothing read before holds: a restored file can have the same generation.
        self.file = (0, 0, 0)
        # The owner of its first identity, b"" without one. Identities are never removed, so it tells an earlier or
        # later state of a database, also one that was restored, from another database.
        self.origin = b""

    def generation(self) -> int | None:
        """The number of the last change, None if there is no file, and `StoreError` if the file cannot be read."""
        return self._guarded(self._read_generation)

    def changes_since(self, generation: int, apply: Callable[[Iterator[StoredIdentity]], T]) -> T:
        """The result of `apply` for the identities that were changed after a generation, revoked ones included; there
        are none without a file."""
        return self._guarded(lambda: apply(self._each_change(generation)))

    def has_any(self) -> bool:
        """Whether there is any identity; a revoked one is one."""
        return self._guarded(self._read_any)

    def count(self, now: float) -> IdentityCount:
        """The number of identities; there are none without a file."""
        return self._guarded(lambda: self._read_count(now))

    def close(self) -> None:
        """Let go of the file."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _read_generation(self) -> int | None:
        db = self._opened()
        if db is None:
            return None
        # The number of the commits first: a commit between the two is then seen the next time.
        version = db.commits()
        if version != self._version:
            self._has_tables = _has_tables(db)
            identities = Identities(db)
            self._generation, self.origin = (
                (identities.generation(), identities.first_owner()) if self._has_tables else (0, b"")
            )
            self._version = version
        return self._generation

    def _each_change(self, generation: int) -> Iterator[StoredIdentity]:
        db = self._opened()
        if db is None or not (self._has_tables or _has_tables(db)):
            return iter(())
        return Identities(db).each_change_since(generation)

    def _read_any(self) -> bool:
        db = self._opened()
        return db is not None and _has_tables(db) and Identities(db).has_any()

    def _read_count(self, now: float) -> IdentityCount:
        db = self._opened()
        return Identities(db).count(now) if db is not None and _has_tables(db) else IdentityCount()

    def _opened(self) -> SQLiteConnection | None:
        """The connection to the file that is at the path now."""
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self.close()
            return None
        log, now = _inode(self._path.with_name(f"{self._path.name}-wal")), time.monotonic()
        is_overwritten = self._db is not None and self._log not in (0, log)
        file = (status.st_dev, status.st_ino, self.file[2] + is_overwritten)
        if self._db is not None and file == self.file and now - self._opened_at < _MAX_AGE:
            return self._db
        self.close()
        self._version, self._has_tables = -1, False
        db = connect_to_read(self._path, self._timeout)
        db.set_only_reads(True)
        self._db, self.file, self._opened_at, self._log = db, file, now, log
        return db

    def _guarded(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except (OSError, StoreError, msgspec.MsgspecError) as error:
            # A connection that failed is opened again: the file may be repaired or restored by then.
            with suppress(StoreError):
                self.close()
            raise store_error(error) from None


class NoIdentities:
    """No identities, read from a server whose heartbeat goes on: a gateway of `launch` has its own key alone."""

    def __init__(self, server: IdentitySource) -> None:
        self._server = server
        self.file = (0, 0, 0)
        self.origin = b""

    @property
    def patience(self) -> float:
        """Intervals until the next question."""
        return self._server.patience

    def generation(self) -> int | None:
        """None, once the server has answered."""
        self._server.generation()
        return None

    def changes_since(self, generation: int, apply: Callable[[Iterator[StoredIdentity]], T]) -> T:
        """The result of `apply` for no identities."""
        return apply(iter(()))

    def close(self) -> None:
        """Let go of the server."""
        self._server.close()


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def has_identities(database: DatabaseLocation) -> bool:
    """Whether the file at a path has any identity, revoked ones included; `StoreError` if it cannot be read."""
    if not is_persistent(database):
        return False
    with closing(reader_of(database)) as reader:
        return reader.has_any()


def count_identities(database: DatabaseLocation, now: float) -> IdentityCount:
    """The number of identities in the file at a path; `StoreError` if it cannot be read."""
    if not is_persistent(database):
        return IdentityCount()
    with closing(reader_of(database)) as reader:
        return reader.count(now)


def reader_of(database: DatabaseLocation, server: ServerState | None = None) -> IdentityReader | ServerHeartbeat:
    """The reader of a database's identities; one of a server writes the state of the server."""
    if isinstance(database, str):
        return IdentityReader(database)
    from dragoman.store.heartbeat import ServerHeartbeat
    from dragoman.store.server_state import ServerState

    return ServerHeartbeat(database, server or ServerState())


def _has_tables(db: SQLiteConnection) -> bool:
    """Whether the file is of a version with identities; an older one has none."""
    version = db.version
    if version > len(STEPS):
        raise StoreError("the file was written by a newer version")
    return version >= IDENTITIES_VERSION
