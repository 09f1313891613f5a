"""Recent turn owners: shared memory beside the file with the last hour in which owners of each group cached a turn,
read without a query. It may report turns where there are none, never the opposite. Single bytes need no lock."""

from __future__ import annotations

import mmap
import os
from typing import Protocol
from zlib import crc32

# Groups of owners: what one of them does is taken for what any of them may have done.
_GROUPS = 4096
# Hours are distinguished up to this number; 0 means none.
_HOURS = 255
_HOUR = 3600


class TurnOwners(Protocol):
    """Whether owners may have turns, without a query."""

    def record(self, owner: bytes, now: int) -> None:
        """Note that the owner has a turn."""

    def may_have(self, owner: bytes, now: int) -> bool:
        """Whether the owner may have turns that are not older than one hour."""


class SharedTurns:
    """The owners of a database that other machines write: any of them may have turns."""

    def record(self, owner: bytes, now: int) -> None:
        """Other machines would not see it."""

    def may_have(self, owner: bytes, now: int) -> bool:
        return True


class RecentTurnOwners:
    """The recent owners of one file; without a file, they belong to this process alone."""

    def __init__(self, path: str | None) -> None:
        self._last_hours: mmap.mmap | bytearray = bytearray(_GROUPS) if path is None else _shared(path)

    def record(self, owner: bytes, now: int) -> None:
        self._last_hours[_group(owner)] = 1 + now // _HOUR % _HOURS

    def may_have(self, owner: bytes, now: int) -> bool:
        """Whether the owner may have turns that are not older than one hour."""
        last_hour = self._last_hours[_group(owner)]
        if not last_hour:
            return False
        # A time in the future was recorded before the clock was set back.
        age = (now // _HOUR - (last_hour - 1)) % _HOURS
        return age <= 1 or age > _HOURS // 2


def _group(owner: bytes) -> int:
    return crc32(owner) % _GROUPS


def _shared(path: str) -> mmap.mmap:
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600)
    try:
        os.ftruncate(file, _GROUPS)
        return mmap.mmap(file, _GROUPS)
    finally:
        os.close(file)
