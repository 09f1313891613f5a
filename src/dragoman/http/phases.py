"""Phases: what a client's connection waits for, and how long.

phase      waits for                       limit                   past it
FRESH      the first byte of all           header_timeout          close
IDLE       the next message                idle_timeout            close
HEAD       the end of the headers          header_timeout          408
BUSY       the handler                     none
BODY       a body the handler asked for    body_timeout, or 10 s   408, told to the handler
                                           below 16 KiB/s while
                                           others wait for room
REST       the end of an unread body       body_timeout            close
LINGER     the client's own end            2 s once all is sent    close
CLOSING    the client to read the reply    unread_timeout          cut

FRESH, IDLE ─► HEAD ─► BUSY ◄─► BODY        In IDLE, LINGER and CLOSING a client that does not take what was written
                        ├─► REST ─► IDLE    is cut after unread_timeout; while it reads on it is not silent, and the
                        ├─► IDLE            phase begins anew. Only the bytes of a BODY begin it anew: who trickles a
                        └─► LINGER, CLOSING REST keeps nothing open. While a BODY is not read, for want of room, its
                                            time stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.http.server import ServerLimits

LINGER_TIME = 2.0
# Bytes per second that a body brings over so many seconds if others of its account wait for room.
MINIMUM_PACE = 16 * 1024
PACE_TIME = 10.0


class ConnectionPhase(Enum):
    """The phase of a connection."""

    FRESH = "fresh"
    IDLE = "idle"
    HEAD = "head"
    BUSY = "busy"
    BODY = "body"
    DISCARD = "rest"
    LINGER = "linger"
    CLOSING = "closing"


LIMITS: dict[ConnectionPhase, Callable[[ServerLimits], float]] = {
    ConnectionPhase.FRESH: lambda limits: limits.header_timeout,
    ConnectionPhase.IDLE: lambda limits: limits.idle_timeout,
    ConnectionPhase.HEAD: lambda limits: limits.header_timeout,
    ConnectionPhase.BODY: lambda limits: limits.body_timeout,
    ConnectionPhase.DISCARD: lambda limits: limits.body_timeout,
    ConnectionPhase.LINGER: lambda limits: LINGER_TIME,
    ConnectionPhase.CLOSING: lambda limits: limits.unread_timeout,
}
# Phases in which a client that still reads its reply is not silent.
READING = frozenset({ConnectionPhase.IDLE, ConnectionPhase.LINGER, ConnectionPhase.CLOSING})
# Phases that have nothing after them.
CUT = frozenset({ConnectionPhase.LINGER, ConnectionPhase.CLOSING})
