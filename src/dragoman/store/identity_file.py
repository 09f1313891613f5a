"""Identity file: the identities of `storage.path`, opened by a command on the gateway's machine. A change is on the
disk when it is reported: a revoked key stays revoked after a power failure. Files of other users and versions are
refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from dragoman.database_location import DatabaseLocation, database_exists
from dragoman.errors import ConfigError, DragomanError
from dragoman.store.connection import KEYS, exists
from dragoman.store.errors import StoreBusy, StoreError, StoreFull
from dragoman.store.identities import Identities
from dragoman.store.identity_changes import IdentityChanges
from dragoman.store.identity_reader import has_identities
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import LOCK_TIMEOUT, RecordTables, open_record_tables
from dragoman.store.sqlite import connect_to_read

# Seconds to wait for a lock if the result is not essential.
_PEEK_TIMEOUT = 1.0
_OTHERWISE = "keep keys in the configuration: dragoman key new NAME --print"


class IdentityFile:
    """The identities of one open file, to read and to change."""

    def __init__(self, tables: RecordTables, clock: Callable[[], float]) -> None:
        self._tables = tables
        self.identities = Identities(tables.connection)
        self.changes = IdentityChanges(tables.connection, clock)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Take back all changes that are made within."""
        db = self._tables.connection
        db.begin(lock=KEYS)
        try:
            yield
        finally:
            db.rollback()


@contextmanager
def open_identity_file(
    database: DatabaseLocation,
    clock: Callable[[], float],
    *,
    read_only: bool = False,
    timeout: float = LOCK_TIMEOUT,
) -> Iterator[IdentityFile]:
    """Open or make the file; to read only, a missing file is empty and not made. Failures are a `StoreError` with the
    remedy."""
    if isinstance(database, str):
        check_owner(Path(database))
    try:
        _check_version(database, timeout)
        with closing(
            open_record_tables(database, read_only=read_only, timeout=timeout, otherwise=_OTHERWISE)
        ) as tables:
            yield IdentityFile(tables, clock)
    except StoreError as error:
        raise _problem(database, error) from None


def requires_keys(database: DatabaseLocation) -> bool:
    """Whether a file has any identity, which closes its gateway; False if that cannot be read."""
    try:
        return has_identities(database)
    except StoreError:
        return False


def may_accept(database: DatabaseLocation, digest: bytes) -> bool:
    """Whether a file has a digest; True if that cannot be read, as by another user: its gateway knows."""
    if not database_exists(database):
        return False
    try:
        with closing(open_record_tables(database, read_only=True, timeout=_PEEK_TIMEOUT)) as tables:
            return exists(tables.connection, "SELECT 1 FROM digests WHERE digest = ?", (digest,))
    except (OSError, ConfigError, StoreError):
        return True


def bind_key_names(database: DatabaseLocation, owners: Mapping[str, bytes]) -> list[str]:
    """Bind names of the configuration's keys to their owners in the file at a path, which is made if there is none.
    Gives the names that belong to other owners."""
    with closing(open_record_tables(database, otherwise=_OTHERWISE)) as tables:
        return Identities(tables.connection).bind_names(owners)


def check_owner(path: Path) -> None:
    """Refuse a file of another user: files that SQLite makes beside it would keep its gateway from opening it. Root
    makes no file in the directory of another user either."""
    if os.name != "posix":
        return
    user = os.geteuid()
    try:
        owner, place = path.stat().st_uid, path
    except FileNotFoundError:
        place = next(parent for parent in path.absolute().parents if parent.exists())
        owner = place.stat().st_uid if user == 0 else user
    if owner != user:
        raise DragomanError(
            f"{place} belongs to another user, uid {owner}: run the command as that user, as in sudo -u '#{owner}'"
        )


def _check_version(database: DatabaseLocation, timeout: float) -> None:
    """Refuse a file of another version: a gateway of the older one may be running."""
    if not isinstance(database, str) or not database_exists(database):
        return
    with closing(connect_to_read(Path(database), timeout)) as db:
        version = db.version
    if version > len(STEPS):
        raise DragomanError(f"{database} was written by a newer version: use the release that wrote it")
    # A new file has the version 0.
    if 0 < version < len(STEPS):
        raise DragomanError(
            f"{database} was written by an older version: start the gateway once, which brings it up to date"
        )


def _problem(database: DatabaseLocation, error: StoreError) -> StoreError:
    if not isinstance(database, str):
        # It has the remedy.
        return error
    if isinstance(error, StoreBusy):
        return StoreBusy(f"{database} is locked by another process; nothing was changed: try again")
    if isinstance(error, StoreFull):
        return StoreError(f"the disk of {database} is full; nothing was changed: make room, and try again")
    return StoreError(f"{database} cannot be used ({error}); nothing was changed: dragoman db check examines it")
