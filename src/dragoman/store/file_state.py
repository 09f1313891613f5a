"""Inspection: the state of a database file, without creating, changing or repairing it."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from msgspec import Struct

from dragoman.store.migrations import STEPS

# Time limit for checking a large file, in seconds; the rest is not checked.
_CHECK_TIMEOUT = 3.0
_LOOK_EVERY = 10_000


class Inspection(Struct, frozen=True, kw_only=True):
    """The result: the version of the file and of this release, and the problem, "" without one."""

    version: int = 0
    newest: int = len(STEPS)
    problem: str = ""


def inspect(path: str, timeout: float = _CHECK_TIMEOUT) -> Inspection:
    """Open a file that is there for reading alone, and look it through."""
    try:
        db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=timeout)
    except sqlite3.Error as error:
        return Inspection(problem=str(error))
    try:
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(STEPS):
            return Inspection(version=version, problem="it was written by a newer version")
        until = time.monotonic() + timeout
        db.set_progress_handler(lambda: int(time.monotonic() > until), _LOOK_EVERY)
        return Inspection(version=version, problem=_quick_check(db))
    except sqlite3.Error as error:
        return Inspection(problem=str(error))
    finally:
        db.close()


def _quick_check(db: sqlite3.Connection) -> str:
    try:
        result = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return ""
        raise
    return "" if result == "ok" else result
