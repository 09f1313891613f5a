"""Ports of 127.0.0.1 for tests: one on which no process listens, and those that a process may listen on later.

A port that the system chose and that was closed again can be given to any other process at once. Both kinds here are
outside of the range that the system chooses from. Each process of tests has ports of its own: what another process
still calls, or is about to listen on, is never among them.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections import deque
from pathlib import Path

# The port of the discard protocol: connections to it are refused.
CLOSED_PORT = 9
# Ports are claimed in blocks, by a lock on one byte for each.
_FIRST, _LAST, BLOCK = 12_000, 32_000, 100
# Open from the import on, so that no test seems to leave it behind. Closing it would end the claims.
_claims = os.open(Path(f"/tmp/dragoman-test-ports-{os.geteuid()}"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
# This process's ports, with the one that was used last at the end, and the last ones that were given: a test that needs
# two ports gets two, also while connections that ended keep most of a block in use.
_own: deque[int] = deque()
_given: deque[int] = deque(maxlen=20)


def free_port() -> int:
    """A port that no process listens on, and that nobody else is given."""
    with bound_socket() as probe:
        return int(probe.getsockname()[1])


def bound_socket() -> socket.socket:
    """A socket bound to such a port. A process that still calls the port of a listener that is gone cannot reach it.

    Without SO_REUSEADDR, since two sockets that have it can be bound to one port until the first of them listens.
    """
    while True:
        for _ in range(len(_own)):
            _own.rotate(-1)
            if _own[-1] in _given:
                continue
            bound = socket.socket()
            try:
                bound.bind(("127.0.0.1", _own[-1]))
            except OSError:
                # In use, or a connection to it ended within the last minute.
                bound.close()
                continue
            _given.append(_own[-1])
            return bound
        _own.extendleft(reversed(_claimed_block()))


def _claimed_block() -> range:
    """A block of ports that is this process's until it ends."""
    for first in range(_FIRST, _LAST, BLOCK):
        # A process does not conflict with its own locks.
        if first not in _own:
            try:
                fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, first)
            except (BlockingIOError, PermissionError):
                continue
            return range(first, first + BLOCK)
    raise RuntimeError("other processes of tests have all ports")
