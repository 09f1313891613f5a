"""Retention: removes the oldest contents when they are too old, or too many bytes, and erases what a command names. All
work is in small transactions, so that writers have their turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.database_location import DatabaseLocation
from dragoman.store.contents import ContentsTables
from dragoman.store.contents_database import contents_path, has_contents, moved_aside, open_contents

# Exchanges that are removed at a time.
_AT_ONCE = 10
_DAY = 86_400_000_000
# Days after which no exchange still runs that an erasure was to reach.
_ERASURE_DAYS = 7
# Microseconds that the clock of another machine may be ahead.
_AHEAD = 60_000_000
# Seconds for which an erasure waits for readers, and between two tries.
WIPE_TIMEOUT = 15.0
_POLL_INTERVAL = 0.1
# Why something remains.
_READ = "another process reads the file, and its log could not be emptied"
_DAMAGED = "a damaged file that was moved aside may have the text: remove it"


class RetentionLimits(Struct, frozen=True, kw_only=True):
    """Both limits hold; the oldest contents go first."""

    days: float = 30.0
    max_bytes: int = 5 * 10**9


class RemovedContents(Struct, frozen=True, kw_only=True):
    """The number of exchanges whose contents were removed, and what could not be overwritten, in words."""

    exchanges: int = 0
    remaining: tuple[str, ...] = ()


def retain(tables: ContentsTables, limits: RetentionLimits, now: int) -> int:
    """One step: remove some exchanges that are beyond a limit, or some pieces that nothing uses any more; gives how
    many, 0 if nothing is left to do. `now` is in microseconds."""
    swept = tables.sweep()
    if swept:
        return swept
    expired = tables.oldest(_AT_ONCE, before=now - int(limits.days * _DAY))
    if not expired and tables.total_bytes() > limits.max_bytes:
        expired = tables.oldest(_AT_ONCE)
    if expired:
        return tables.remove(expired)
    tables.end_erasures(now - _ERASURE_DAYS * _DAY)
    return 0


def begin_erasure(database: DatabaseLocation, key: str, now: int, *, creates: bool) -> None:
    """Have no exchange of a key stored that runs, or waits for a writer; `creates` also makes a missing file, which the
    first of them would make otherwise."""
    path = contents_path(database)
    if not has_contents(database) and (path is None or not creates):
        return
    tables = open_contents(database)
    try:
        tables.begin_erasure(key, now if path is not None else now + _AHEAD)
    finally:
        tables.close()


def erase(
    database: DatabaseLocation,
    exchanges: Sequence[str] = (),
    *,
    key: str | None = None,
    timeout: float = WIPE_TIMEOUT,
    pause: Callable[[float], None] = time.sleep,
) -> RemovedContents:
    """Erase the contents of exchanges, and of a key, with all pieces that they alone use, and overwrite them. After
    `begin_erasure` nothing is added to them."""
    path = contents_path(database)
    aside = () if path is None else tuple([f"{each}: {_DAMAGED}" for each in moved_aside(path)])
    if not has_contents(database):
        return RemovedContents(remaining=aside)
    tables = open_contents(database)
    try:
        removed = 0
        for at in range(0, len(exchanges), _AT_ONCE):
            removed += tables.remove(exchanges[at : at + _AT_ONCE])
        while key is not None and (some := tables.of_key(key, _AT_ONCE)):
            removed += tables.remove(some)
        while tables.sweep():
            pass
        is_wiped = _wipe(tables, timeout, pause)
    finally:
        tables.close()
    readers = () if is_wiped else (f"{path}-wal: {_READ}",)
    return RemovedContents(exchanges=removed, remaining=(*aside, *readers))


def _wipe(tables: ContentsTables, timeout: float, pause: Callable[[float], None]) -> bool:
    ends = time.monotonic() + timeout
    while not tables.wipe():
        if time.monotonic() >= ends:
            return False
        pause(_POLL_INTERVAL)
    return True
