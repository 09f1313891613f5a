"""Sockets: the kernel's state of a connection beyond its transport, and back-pressure. uvloop reads a full socket
dozens of times in one turn, eight megabytes in all. So after a large read, reading stops until the next turn, for
fairness."""

from __future__ import annotations

import asyncio
import select
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

if sys.platform != "win32":
    # Commands that call providers run there, too, although no gateway does.
    import fcntl
    import termios

# Filled by the system with the answer to one question.
_COUNT = array("i", [0])
# Less than what fills the loop's buffer, also where half a record of TLS is left in it.
LARGE_READ = 128 * 1024


# Called with a timeout of 0.
Readiness: TypeAlias = Callable[[float], Sequence[object]]


def unarrived(descriptor: int) -> int:
    """Bytes in a socket that have not arrived at the other side; 0 if the system does not report it."""
    if sys.platform == "win32":
        return 0
    try:
        fcntl.ioctl(descriptor, termios.TIOCOUTQ, _COUNT)
    except (OSError, ValueError):
        # Closed, or no such question.
        return 0
    return _COUNT[0]


def readiness(descriptor: int) -> Readiness:
    """A poller for bytes, an end or an error of a socket; it costs less than a failed `recv`."""
    if descriptor < 0 or sys.platform == "win32":
        return unknown_readiness
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll.poll


def unknown_readiness(timeout: float) -> Sequence[object]:
    """The readiness of unknown sockets."""
    return (timeout,)


@runtime_checkable
class _ReadsAhead(Protocol):
    """A transport under TLS, which goes on reading while it is paused, within these limits."""

    def set_read_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...


def stop_reading(transport: asyncio.Transport) -> None:
    """Stop reading, under TLS too. uvloop drops read-ahead data when the socket ends."""
    if isinstance(transport, _ReadsAhead):
        transport.set_read_buffer_limits(0)
    transport.pause_reading()


def read_ahead(transport: asyncio.Transport) -> None:
    """Under TLS, read on as before `stop_reading`, once everything that was read is handed over."""
    if isinstance(transport, _ReadsAhead):
        transport.set_read_buffer_limits()
