"""Timers of one event loop that are handed on: the next owner takes over an armed timer instead of arming its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timers:
    """The idle timers of a loop: no more than there were owners at the same time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.idle: list[Timer] = []

    def take(self, now: float, when: float, call: Callable[[], None]) -> Timer:
        """A timer that calls at that time or, if it is taken over, before: the owner then looks again."""
        if self.idle:
            timer = self.idle.pop()
            if now < timer.when <= when:
                timer._call = call
                return timer
            timer.cancel()
        return Timer(self, when, call)


class Timer:
    """One armed timer; it calls its owner once, and an idle one leaves the list."""

    __slots__ = ("_call", "_handle", "_timers", "when")

    def __init__(self, timers: Timers, when: float, call: Callable[[], None]) -> None:
        # A handle does not always know its time: in uvloop, none that is due at once.
        self.when, self._timers = when, timers
        self._call: Callable[[], None] | None = call
        self._handle = timers.loop.call_at(when, self._fire)

    def cancel(self) -> None:
        """Never call."""
        self._handle.cancel()
        del self._handle

    def hand_on(self) -> None:
        """Leave the timer, armed as it is, to the next owner."""
        self._call = None
        self._timers.idle.append(self)

    def _fire(self) -> None:
        # Both know each other: without this, they are left to the garbage collector.
        del self._handle
        if self._call is None:
            self._timers.idle.remove(self)
        else:
            self._call()
