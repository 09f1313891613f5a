"""Sockets: what the system knows of a connection beyond what its transport tells."""

from __future__ import annotations

import fcntl
import sys
import termios

NONE = bytes(4)


def unarrived(descriptor: int) -> int:
    """How many bytes that a socket took have not arrived at the other side; 0 where the system does not tell."""
    try:
        count = fcntl.ioctl(descriptor, termios.TIOCOUTQ, NONE)
    except (OSError, ValueError):
        # Closed, or no such question.
        return 0
    return int.from_bytes(count, sys.byteorder)
