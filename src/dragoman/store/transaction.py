"""Transaction: several writes that are one."""

from __future__ import annotations

import sqlite3


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
            self._db.execute("BEGIN IMMEDIATE")
            self._outermost = True

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if self._outermost:
            self._db.execute("COMMIT" if kind is None else "ROLLBACK")
