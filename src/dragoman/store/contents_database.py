"""Contents database: the file `contents.db` beside the gateway's, or a schema of its own in PostgreSQL (decision 48).

The file may be deleted at any time, and is made anew when it is opened. A damaged one is moved aside, a newer one is
refused and left as it is.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.database_location import DatabaseLocation, PostgresDatabase, is_persistent, path_of
from dragoman.store.contents import ContentsTables
from dragoman.store.errors import StoreDamaged
from dragoman.store.migrations.contents import CONTENTS_SCHEMA, NEWEST, check_version, migrate_file, migrate_schema
from dragoman.store.sqlite import SQLiteConnection, connect

if TYPE_CHECKING:
    from dragoman.store.postgres import PostgresConnection

CONTENTS_NAME = "contents.db"
# Seconds that a process waits for another one that opens the file, or writes it.
LOCK_TIMEOUT = 10.0
# What SQLite has beside a file.
_SUFFIXES = ("-wal", "-shm")
# Between the name of a damaged file and the time at which it was moved.
_DAMAGED = ".damaged-"


def contents_path(database: DatabaseLocation) -> Path | None:
    """The file of the contents; None if they are in PostgreSQL, or nowhere."""
    if not is_persistent(database) or not isinstance(database, str):
        return None
    return Path(os.path.realpath(path_of(database))).with_name(CONTENTS_NAME)


def open_contents(database: DatabaseLocation, *, timeout: float = LOCK_TIMEOUT) -> ContentsTables:
    """Open the contents of a database, or make them. One thread at a time may use them."""
    if not isinstance(database, str):
        db = _schema_of(database, timeout)
        try:
            migrate_schema(db)
        except BaseException:
            db.close()
            raise
        return ContentsTables(db)
    path = contents_path(database)
    assert path is not None, "contents need a file"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(path):
        try:
            return ContentsTables(_opened(path, timeout))
        except StoreDamaged:
            move_aside(path)
            return ContentsTables(_opened(path, timeout))


def has_contents(database: DatabaseLocation, *, timeout: float = LOCK_TIMEOUT) -> bool:
    """Whether there are tables of contents. A role that only serves cannot make them."""
    if isinstance(database, str):
        path = contents_path(database)
        return path is not None and path.exists()
    with closing(_schema_of(database, timeout)) as db:
        return db.versions != (0, 0)


def has_present_schema(database: PostgresDatabase, *, timeout: float = LOCK_TIMEOUT) -> bool:
    """Whether the schema of the contents is of this release; `NewerContents` if it is of a later one."""
    with closing(_schema_of(database, timeout)) as db:
        return check_version(db.version) == NEWEST


def _schema_of(database: PostgresDatabase, timeout: float) -> PostgresConnection:
    from dragoman.store.postgres import PostgresAddress, PostgresConnection

    db = PostgresConnection(PostgresAddress(database.address), timeout, timeout)
    db.schema = CONTENTS_SCHEMA
    return db


def move_aside(path: Path) -> Path:
    """Give a damaged file another name, by which it can be examined; the new name."""
    aside = path.with_name(f"{path.name}{_DAMAGED}{time.strftime('%Y%m%dT%H%M%S')}")
    for suffix in ("", *_SUFFIXES):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def moved_aside(path: Path) -> list[Path]:
    """Damaged files that had this name, with what SQLite has beside them."""
    return sorted(path.parent.glob(f"{path.name}{_DAMAGED}*"))


def _opened(path: Path, timeout: float) -> SQLiteConnection:
    try:
        # Made here, since SQLite would let the user's group and others read it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    else:
        # Of a file that was deleted; SQLite would use them with the new one.
        for suffix in _SUFFIXES:
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    db = connect(str(path), timeout)
    try:
        db.know(path)
        # First, since settings change a newer file, too.
        check_version(db.version)
        db.set_vacuum()
        db.configure(timeout, is_durable=False)
        migrate_file(db)
    except BaseException:
        db.close()
        raise
    return db


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Have no other process open the file meanwhile, which could be the one that is to be made or moved."""
    lock = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
