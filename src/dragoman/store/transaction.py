"""Transaction: several writes that are one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

# Another connection has what is wanted, and will let go of it: of the file, or of one kept in memory.
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


def is_busy(error: sqlite3.Error) -> bool:
    """Whether the same may be tried again, because only another process was in the way."""
    return isinstance(error, sqlite3.OperationalError) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY


class KeptFile(sqlite3.Connection):
    """A connection that knows its file: what is written to one that was deleted or replaced, nobody finds again."""

    _path: Path | None = None
    _file = (0, 0)

    def know(self, path: Path) -> None:
        """Take what is at a path for the file that was opened."""
        self._path, self._file = path, _file_at(path)

    def check(self) -> None:
        """Fail if another file is at its place, or none."""
        if self._path is not None and _file_at(self._path) != self._file:
            raise sqlite3.OperationalError("the file was deleted or replaced; start the gateway again")


def _file_at(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino


class Transaction:
    """All or nothing; the right to write is taken first, so that nobody else's write comes between.

    It waits for nobody: while another process writes it fails with an error that `is_busy`. Inside another one it is a
    part of that.
    """

    __slots__ = ("_db", "_outermost")

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._outermost = False

    def __enter__(self) -> None:
        if not self._db.in_transaction:
            if isinstance(self._db, KeptFile):
                self._db.check()
            self._db.execute("BEGIN IMMEDIATE")
            self._outermost = True

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if not self._outermost:
            return
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            # Also where it could not be committed: what is left open would swallow all that comes after it.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
