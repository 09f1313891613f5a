"""Ports of 127.0.0.1 for tests: one on which no process listens, and those that a process may listen on later.

A port that the system chose and that was closed again can be given to any other process at once. Both kinds here are
outside of the range that the system chooses from. Processes of tests that run at the same time claim their ports from
each other, by locks on the bytes of one file, so that a port which one of them is about to use is given to no other.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
from pathlib import Path

# The port of the discard protocol: connections to it are refused.
CLOSED_PORT = 9
_FIRST, _LAST = 20_000, 32_000
# Each process of tests begins elsewhere.
_next = itertools.count(os.getpid() * 101)
# A claim is a lock on the byte whose offset is the port. It ends with the process, or when this file is closed.
_claims = os.open(Path(f"/tmp/dragoman-test-ports-{os.geteuid()}"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
# A process does not conflict with its own locks.
_given: set[int] = set()


def claim(port: int) -> bool:
    """Whether the port is this process's now. False if another process of tests has it."""
    try:
        fcntl.lockf(_claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


def free_port() -> int:
    """A port that no process listens on, given to nobody else until this process ends."""
    while True:
        port = _claimed()
        with socket.socket() as probe:
            if _bind(probe, port):
                _given.add(port)
                return port
        _release(port)


def bound_socket() -> socket.socket:
    """A socket bound to such a port. A process that still calls the port of a listener that is gone cannot reach it.

    Without SO_REUSEADDR, since two sockets that have it can be bound to one port until the first of them listens.
    """
    while True:
        port = _claimed()
        bound = socket.socket()
        # Once it is bound, no other process can take the port.
        taken = _bind(bound, port)
        _release(port)
        if taken:
            return bound
        bound.close()


def _claimed() -> int:
    """A port that this process has claimed and not given away."""
    while True:
        port = _FIRST + next(_next) % (_LAST - _FIRST)
        if port not in _given and claim(port):
            return port


def _release(port: int) -> None:
    fcntl.lockf(_claims, fcntl.LOCK_UN, 1, port)


def _bind(bound: socket.socket, port: int) -> bool:
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
