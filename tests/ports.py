"""Ports of 127.0.0.1 for tests: one on which no process listens, and those that a process may listen on later.

A port that the system chose and that was closed again can be given to any other process at once. Both kinds here are
outside of the range that the system chooses from.
"""

from __future__ import annotations

import itertools
import os
import socket

# The port of the discard protocol: connections to it are refused.
CLOSED_PORT = 9
_FIRST, _LAST = 20_000, 32_000
# Each process of tests begins elsewhere.
_next = itertools.count(os.getpid() * 101)


def free_port() -> int:
    """A port that no process listens on, and that the system gives to nobody who asks for any."""
    while True:
        port = _FIRST + next(_next) % (_LAST - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def bound_socket() -> socket.socket:
    """A socket bound to such a port. A process that still calls the port of a listener that is gone cannot reach it.

    Without SO_REUSEADDR, since two sockets that have it can be bound to one port until the first of them listens.
    """
    while True:
        bound = socket.socket()
        try:
            bound.bind(("127.0.0.1", free_port()))
        except OSError:
            bound.close()
            continue
        return bound
