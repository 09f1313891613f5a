"""Reuse: which origins may serve several calls on one connection. A response belongs to a call only by its order on the
connection. If an origin sends more than was requested, every later response may be another caller's, so for a while
each call gets its own connection."""

from __future__ import annotations

import time
from collections.abc import Callable

from dragoman.http.address import Origin

# Seconds without reuse for an origin that sent unexpected data.
SECONDS = 300.0


class Reuse:
    """The origins that are not reused, and until when. One may be shared by clients that follow each other."""

    __slots__ = ("_clock", "until")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Usually empty, which is looked at before each call.
        self.until: dict[Origin, float] = {}

    def forbid(self, origin: Origin) -> None:
        """Do not reuse an origin from now on."""
        self.until[origin] = self._clock() + SECONDS

    def allows(self, origin: Origin) -> bool:
        """Whether a connection to an origin may serve another call."""
        until = self.until.get(origin)
        if until is None:
            return True
        if self._clock() < until:
            return False
        del self.until[origin]
        return True
