"""Sockets: what the system knows of a connection beyond what its transport tells."""

from __future__ import annotations

import array
import fcntl
import termios


def unarrived(descriptor: int) -> int:
    """How many bytes that a socket took have not arrived at the other side; 0 where the system does not tell."""
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, count)
    except (OSError, ValueError):
        # Closed, or no such question.
        return 0
    return max(count[0], 0)
