"""Sockets: what the system knows of a connection beyond what its transport tells, and when it is read from.

uvloop reads a socket that is full dozens of times in one turn, eight megabytes in all, and everybody else waits. So
whoever was handed a large read stops reading until the loop's next turn; smaller ones are not followed by another.
"""

from __future__ import annotations

import fcntl
import sys
import termios

NONE = bytes(4)
# Less than what fills the loop's buffer.
LARGE_READ = 128 * 1024


def unarrived(descriptor: int) -> int:
    """How many bytes that a socket took have not arrived at the other side; 0 where the system does not tell."""
    try:
        count = fcntl.ioctl(descriptor, termios.TIOCOUTQ, NONE)
    except (OSError, ValueError):
        # Closed, or no such question.
        return 0
    return int.from_bytes(count, sys.byteorder)
