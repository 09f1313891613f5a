"""Forget: somebody's rows go, with all that they were called, out of every file that is ours; sums stay.

Journals hold lines that are in the tables already. Workers are asked to begin others, so that the old ones can be
removed; what is not reached in time is told, and so is what is elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from dragoman.errors import DragomanError, UsageError
from dragoman.records.journal_directory import ask_to_rotate, begun, folder_of, journals_in
from dragoman.records.journal_ingest import drain_all
from dragoman.store.erasure import ErasureCount, Forgetting
from dragoman.store.record_tables import RecordTables, open_account_tables

# How long workers are waited for that have a journal, and others that read, in seconds; how often it is looked.
PATIENCE = 15.0
_PAUSE, _WAITS = 0.1, 5.0


class ErasureScope(Struct, frozen=True, kw_only=True):
    """Who is to be forgotten: a key, or a session by its number; and how much there is of it."""

    words: str
    amount: ErasureCount
    key: str = ""
    session: int = 0


class Forgotten(Struct, frozen=True, kw_only=True):
    """What was removed, and in words what could not be."""

    rows: int = 0
    left: tuple[str, ...] = ()


def find(forgetting: Forgetting, key: str | None, session: str | None) -> ErasureScope:
    """Who is meant by what was said; an error if nobody is."""
    if session is None:
        if key is None:
            raise UsageError("say whom to forget: --key NAME or --session ID")
        amount = forgetting.amount_of_key(key)
        if amount != ErasureCount():
            return ErasureScope(words=f"key {key!r}", amount=amount, key=key)
        if forgetting.knows_key(key):
            raise DragomanError(f"of the key {key!r} only sums are left, and those stay")
        raise DragomanError(f"nothing is recorded of a key {key!r}")
    found = forgetting.sessions_named(session, key)
    if not found:
        of_key = "" if key is None else f" of the key {key!r}"
        raise DragomanError(f"nothing is recorded of a session {session!r}{of_key}")
    if len(found) > 1:
        keys = ", ".join(repr(each.key) for each in found)
        raise DragomanError(f"several keys have a session {session!r}: say which with --key, of {keys}")
    (known,) = found
    words = f"session {known.name!r} of the key {known.key!r}"
    return ErasureScope(words=words, amount=forgetting.amount_of_session(known.number), session=known.number)


def forget(
    path: str,
    whom: ErasureScope,
    *,
    clock: Callable[[], int],
    patience: float | None = None,
    waits: float = _WAITS,
    pause: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = lambda step: None,
) -> Forgotten:
    """Remove all there is of somebody; `clock` tells microseconds, and `waits` is how long one lock is waited for."""
    patience = PATIENCE if patience is None else patience
    say("asking workers to begin another journal …")
    left = _remove_journals(path, clock, patience, pause)
    tables = open_account_tables(path, patience=waits)
    try:
        rows = _remove_rows(tables, whom, say)
        say("writing over what was removed …")
        if not _wiped(Forgetting(tables.connection), patience, pause):
            left.append(f"{path}-wal: another process reads the file, and its log could not be emptied")
    finally:
        tables.close()
    return Forgotten(rows=rows, left=tuple(left))


def _remove_journals(path: str, clock: Callable[[], int], patience: float, pause: Callable[[float], None]) -> list[str]:
    """Have every journal that is there drained and removed; tell of those that stay."""
    folder = folder_of(path)
    old = journals_in(folder)
    if old:
        # A clock that was set back is behind the time at which they were begun.
        ask_to_rotate(folder, max(clock(), *(begun(journal.name) + 1 for journal in old)))
    ends = time.monotonic() + patience
    while True:
        drain_all(path, now=clock())
        old = [journal for journal in old if journal.exists()]
        if not old or time.monotonic() >= ends:
            return [f"{journal}: a worker still writes to it" for journal in old]
        pause(_PAUSE)


def _remove_rows(tables: RecordTables, whom: ErasureScope, say: Callable[[str], None]) -> int:
    forgetting = Forgetting(tables.connection)
    rows = 0
    if whom.session:
        while removed := forgetting.remove_rows_of_session(whom.session):
            rows += removed
            say(f"{rows} rows removed …")
        forgetting.remove_sessions([whom.session])
        return rows
    at: int | None = 0
    while at is not None:
        removed, at = forgetting.remove_rows_of_key(whom.key, at)
        rows += removed
        say(f"{rows} rows removed …")
    forgetting.remove_sessions([session.number for session in forgetting.sessions_of(whom.key)])
    return rows


def _wiped(forgetting: Forgetting, patience: float, pause: Callable[[float], None]) -> bool:
    ends = time.monotonic() + patience
    while not forgetting.wipe():
        if time.monotonic() >= ends:
            return False
        pause(_PAUSE)
    return True
