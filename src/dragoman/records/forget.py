"""Forget: erase rows and names everywhere but in totals, and what the gateway stored for a key. Workers start new
journals, so that old ones can go."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from dragoman.database_location import DatabaseLocation
from dragoman.errors import DragomanError, UsageError
from dragoman.identities.identity import LOCAL_OWNER, Identity
from dragoman.records.deferred_assignment import assign_all
from dragoman.records.journal_directory import begun, directory_of, journals_in, request_rotation
from dragoman.records.journal_ingest import Ingester, ingest_all
from dragoman.store.connection import Connection
from dragoman.store.erasure import Erasure, ErasureCount
from dragoman.store.identities import Identities
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.stored_erasure import StoredCount

if TYPE_CHECKING:
    from dragoman.records.shared_erasure import SharedErasure

# Seconds to wait for workers with a journal, and for readers; and the interval of checks.
TIMEOUT = 15.0
_POLL_INTERVAL, _LOCK_TIMEOUT = 0.1, 5.0
# A time in microseconds after every other.
_EVER = (1 << 63) - 1


class ErasureScope(Struct, frozen=True, kw_only=True):
    """The scope of an erasure: a key with the owners of what is stored for it, or a session by its number; and its
    extent."""

    description: str
    amount: ErasureCount
    key: str = ""
    owners: tuple[bytes, ...] = ()
    session: int = 0
    session_name: str = ""
    session_key: str = ""


class ErasureResult(Struct, frozen=True, kw_only=True):
    """The deleted rows, and in words what could not be deleted."""

    rows: int = 0
    stored: StoredCount = StoredCount()
    remaining: tuple[str, ...] = ()


def owners_of(db: Connection, key: str, configured: Sequence[Identity]) -> tuple[bytes, ...]:
    """The owners of what is stored for a key: the one that its name belongs to, and that of the configuration, which
    may be another. What is stored for clients without a key belongs to no name."""
    owners = {Identities(db).owner_of(key), *(each.owner for each in configured if each.name == key)}
    return tuple(sorted(owner for owner in owners if owner is not None and owner != LOCAL_OWNER))


def find(forgetting: Erasure, key: str | None, session: str | None, owners: tuple[bytes, ...] = ()) -> ErasureScope:
    """The scope of the arguments; an error if nothing matches. `owners` are those of the key."""
    if session is None:
        if key is None:
            raise UsageError("needs --key NAME or --session ID")
        amount = replace(forgetting.amount_of_key(key), stored=forgetting.stored.amount(owners))
        if amount != ErasureCount():
            return ErasureScope(description=f"key {key!r}", amount=amount, key=key, owners=owners)
        if forgetting.has_key(key):
            raise DragomanError(f"only usage totals are left of the key {key!r}, and those stay")
        raise DragomanError(f"nothing is recorded of a key {key!r}")
    sessions = forgetting.sessions_named(session, key)
    if not sessions:
        of_key = "" if key is None else f" of the key {key!r}"
        raise DragomanError(f"nothing is recorded of a session {session!r}{of_key}")
    if len(sessions) > 1:
        keys = ", ".join(repr(each.key) for each in sessions)
        raise DragomanError(f"several keys have a session {session!r}: say which with --key, of {keys}")
    (match,) = sessions
    description = f"session {match.name!r} of the key {match.key!r}"
    return ErasureScope(
        description=description,
        amount=forgetting.amount_of_session(match.number),
        session=match.number,
        session_name=match.name,
        session_key=match.key,
    )


def forget(
    database: DatabaseLocation,
    scope: ErasureScope,
    *,
    clock: Callable[[], int],
    timeout: float | None = None,
    lock_timeout: float = _LOCK_TIMEOUT,
    pause: Callable[[float], None] = time.sleep,
    report_progress: Callable[[str], None] = lambda step: None,
    erase_contents: Callable[[Sequence[str]], None] = lambda exchanges: None,
) -> ErasureResult:
    """Erase a scope. `clock` gives microseconds; `lock_timeout` is for one lock. `erase_contents` gets the ids of a
    session's exchanges, none for a key, before their rows are removed."""
    timeout = TIMEOUT if timeout is None else timeout
    report_progress("asking workers to begin another journal …")
    order = _ordered(database, scope)
    remaining = _remove_journals(database, clock, timeout, pause)
    if order is not None:
        report_progress("waiting for other machines …")
        remaining += order.wait(timeout, pause)
    tables = open_record_tables(database, timeout=lock_timeout)
    try:
        # They have what is to be erased, and are in the tables.
        Ingester(tables, directory_of(database)).remove_retained(_EVER)
        # Unassigned rows would belong to its sessions, and refer to its histories.
        assign_all(tables, scope.key, scope.session)
        erase_contents(Erasure(tables.connection).exchange_ids_of(scope.session) if scope.session else ())
        rows = _remove_rows(tables, scope, report_progress)
        stored = _remove_stored(tables, scope, report_progress)
        report_progress("writing over what was removed …")
        if not _wipe(Erasure(tables.connection), timeout, pause):
            remaining.append(f"{database}-wal: another process reads the file, and its log could not be emptied")
    finally:
        tables.close()
    return ErasureResult(rows=rows, stored=stored, remaining=tuple(remaining))


def _ordered(database: DatabaseLocation, scope: ErasureScope) -> SharedErasure | None:
    """The request to other machines, if the database has several."""
    if isinstance(database, str):
        return None
    from dragoman.records.shared_erasure import SharedErasure

    return SharedErasure(database, scope.key or scope.session_key, scope.session_name)


def _remove_journals(
    database: DatabaseLocation, clock: Callable[[], int], timeout: float, pause: Callable[[float], None]
) -> list[str]:
    """Have all journals ingested and removed; return the remaining ones."""
    directory = directory_of(database)
    old = journals_in(directory)
    if old:
        # A clock that was set back is behind the time at which they were begun.
        request_rotation(directory, max(clock(), *(begun(journal.name) + 1 for journal in old)))
    ends = time.monotonic() + timeout
    while True:
        ingest_all(database, now=clock())
        old = [journal for journal in old if journal.exists()]
        if not old or time.monotonic() >= ends:
            return [f"{journal}: a worker still writes to it" for journal in old]
        pause(_POLL_INTERVAL)


def _remove_rows(tables: RecordTables, scope: ErasureScope, report_progress: Callable[[str], None]) -> int:
    forgetting = Erasure(tables.connection)
    rows = 0
    if scope.session:
        while removed := forgetting.remove_rows_of_session(scope.session):
            rows += removed
            report_progress(f"{rows} rows removed …")
        forgetting.remove_sessions([scope.session])
        return rows
    at: int | None = 0
    while at is not None:
        removed, at = forgetting.remove_rows_of_key(scope.key, at)
        rows += removed
        report_progress(f"{rows} rows removed …")
    forgetting.remove_sessions([session.number for session in forgetting.sessions_of(scope.key)])
    return rows


def _remove_stored(tables: RecordTables, scope: ErasureScope, report_progress: Callable[[str], None]) -> StoredCount:
    stored = StoredCount()
    for stored in Erasure(tables.connection).stored.remove(scope.owners):
        report_progress(f"{stored.responses} stored responses and {stored.items} items removed …")
    return stored


def _wipe(forgetting: Erasure, timeout: float, pause: Callable[[float], None]) -> bool:
    ends = time.monotonic() + timeout
    while not forgetting.wipe():
        if time.monotonic() >= ends:
            return False
        pause(_POLL_INTERVAL)
    return True
