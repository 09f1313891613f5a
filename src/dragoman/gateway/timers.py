"""Timers of one event loop that are handed on: the next owner takes over an armed timer instead of arming its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timer:
    """One timer of the loop. `fired` is called once; None while nobody has the timer."""

    __slots__ = ("_handle", "_idle", "fired", "when")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, when: float, fired: Callable[[], None], idle: list[Timer]
    ) -> None:
        # A handle does not always know its time: in uvloop, none that is due at once.
        self.when = when
        self.fired: Callable[[], None] | None = fired
        self._idle = idle
        self._handle = loop.call_at(when, self._fire)

    def cancel(self) -> None:
        """Never fire."""
        self.fired = None
        self._handle.cancel()

    def hand_on(self) -> None:
        """Leave the timer to the next owner; it fires for nobody if there is none."""
        self.fired = None
        self._idle.append(self)

    def _fire(self) -> None:
        if self.fired is None:
            self._idle.remove(self)
        else:
            self.fired()


class Timers:
    """The idle timers of a loop: no more than there were owners at the same time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._idle: list[Timer] = []

    def take(self, now: float, when: float, fired: Callable[[], None]) -> Timer:
        """A timer that fires at that time or, if it is taken over, before: the owner then looks again."""
        if self._idle:
            timer = self._idle.pop()
            if now < timer.when <= when:
                timer.fired = fired
                return timer
            timer.cancel()
        return Timer(self.loop, when, fired, self._idle)
