"""Transaction: several writes that are one."""

from __future__ import annotations

import sqlite3

# How long, in milliseconds, a process waits for another one that writes: nobody is served meanwhile. If that was in
# vain, the next ones hardly wait at all, until one gets through.
_PATIENCE, _HURRY = 2000, 20


class Transaction:
    """All or nothing; the right to write is taken first, so that nobody else's write comes between.

    Inside another one it is a part of that.
    """

    __slots__ = ("_db", "_outermost")

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._outermost = False

    def __enter__(self) -> None:
        if not self._db.in_transaction:
            try:
                self._db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    self._db.execute(f"PRAGMA busy_timeout = {_HURRY}")
                raise
            self._outermost = True
            self._db.execute(f"PRAGMA busy_timeout = {_PATIENCE}")

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
