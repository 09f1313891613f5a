"""Transaction: several writes that are one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path


class StoreConnection(sqlite3.Connection):
    """A connection that detects whether its file was deleted or replaced, because later writes would be lost."""

    _path: Path | None = None
    _file = (0, 0)
    # Whether all writes belong to one transaction, which must not restart after it was lost.
    in_unit = False
    # Whether the present query must end; called before each query.
    must_end: Callable[[], bool] | None = None

    def know(self, path: Path) -> None:
        """Remember the file at a path as the opened one."""
        self._path, self._file = path, _file_at(path)

    def check(self) -> None:
        """Fail if another file is at its place, or none."""
        if self._path is not None and _file_at(self._path) != self._file:
            raise sqlite3.OperationalError("the file was deleted or replaced; start the gateway again")


def _file_at(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0)
    return status.st_dev, status.st_ino


def exists(db: sqlite3.Connection, statement: str, given: tuple[object, ...]) -> bool:
    """Whether a query gives any row."""
    return db.execute(statement, given).fetchone() is not None


class Transaction:
    """All or nothing; the write lock is taken first. It does not wait: while another process writes, it fails with an
    error that `is_busy`. A nested one is a savepoint."""

    __slots__ = ("_db", "_outermost")

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._outermost = False

    def __enter__(self) -> None:
        db = self._db
        if db.in_transaction:
            db.execute("SAVEPOINT inner")
            return
        if isinstance(db, StoreConnection):
            if db.in_unit:
                # A full disk rolls back all of it, also earlier writes of others.
                raise sqlite3.OperationalError("the transaction was taken back")
            db.check()
        db.execute("BEGIN IMMEDIATE")
        self._outermost = True

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        db = self._db
        if not self._outermost:
            # A transaction that was rolled back has no savepoints.
            if db.in_transaction:
                if kind is not None:
                    db.execute("ROLLBACK TO inner")
                db.execute("RELEASE inner")
            return
        try:
            if kind is None:
                db.execute("COMMIT")
        finally:
            # Also after a failed commit: an open transaction would swallow all later writes.
            if db.in_transaction:
                db.execute("ROLLBACK")
