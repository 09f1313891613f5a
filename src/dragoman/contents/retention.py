"""Retention: removes the oldest contents when they are too old, or too many bytes, and erases what a command names. All
work is in small transactions, so that writers have their turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.database_location import DatabaseLocation
from dragoman.store.contents import ContentsTables
from dragoman.store.contents_database import contents_path, has_contents, open_contents

# Exchanges that are removed at a time.
_AT_ONCE = 10
_DAY = 86_400_000_000
# Seconds for which an erasure waits for readers, and between two tries.
WIPE_TIMEOUT = 15.0
_POLL_INTERVAL = 0.1


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
    return tables.remove(expired) if expired else 0


def erase(
    database: DatabaseLocation,
    exchanges: Sequence[str] = (),
    *,
    key: str = "",
    timeout: float = WIPE_TIMEOUT,
    pause: Callable[[float], None] = time.sleep,
) -> RemovedContents:
    """Erase the contents of exchanges, and of a key, with all pieces that they alone use, and overwrite them."""
    path = contents_path(database)
    if not has_contents(database):
        return RemovedContents()
    tables = open_contents(database)
    try:
        removed = 0
        for at in range(0, len(exchanges), _AT_ONCE):
            removed += tables.remove(exchanges[at : at + _AT_ONCE])
        while key and (some := tables.of_key(key, _AT_ONCE)):
            removed += tables.remove(some)
        while tables.sweep():
            pass
        is_wiped = _wipe(tables, timeout, pause)
    finally:
        tables.close()
    problem = f"{path}-wal: another process reads the file, and its log could not be emptied"
    return RemovedContents(exchanges=removed, remaining=() if is_wiped else (problem,))


def _wipe(tables: ContentsTables, timeout: float, pause: Callable[[float], None]) -> bool:
    ends = time.monotonic() + timeout
    while not tables.wipe():
        if time.monotonic() >= ends:
            return False
        pause(_POLL_INTERVAL)
    return True
