"""The processes that a gateway has started, as the system knows them."""

from __future__ import annotations

import time
from collections.abc import Set
from pathlib import Path

from tests.server.process import PATIENCE

NOBODY: frozenset[int] = frozenset()


def children(pid: int) -> set[int]:
    """The processes that a process has started and that have not ended."""
    found = set()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The second field is a name in brackets, which may hold anything.
            state, parent, *_ = place.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            # It ended while it was looked at.
            continue
        if int(parent) == pid and state != "Z":
            found.add(int(place.parent.name))
    return found


def running_workers(pid: int, count: int, without: Set[int] = NOBODY) -> set[int]:
    """So many workers of a gateway, once they run; beside some that are known to have ended."""
    deadline = time.monotonic() + PATIENCE
    while len(found := children(pid) - without) != count:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found
