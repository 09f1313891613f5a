"""Inspection: the state of a database file, without creating, changing or repairing it."""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct

from dragoman.store.errors import StoreError, StoreInterrupted
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.sqlite import SQLiteConnection, connect_to_read

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
        db = connect_to_read(Path(path), timeout)
    except StoreError as error:
        return Inspection(problem=str(error))
    try:
        version = db.version
        if version > len(STEPS):
            return Inspection(version=version, problem="it was written by a newer version")
        until = time.monotonic() + timeout
        db.set_progress_handler(lambda: time.monotonic() > until, _LOOK_EVERY)
        return Inspection(version=version, problem=_quick_check(db))
    except StoreError as error:
        return Inspection(problem=str(error))
    finally:
        db.close()


def _quick_check(db: SQLiteConnection) -> str:
    try:
        return next(iter(db.problems(1, is_quick=True)), "")
    except StoreInterrupted:
        return ""
