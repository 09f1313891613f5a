"""The metronome: gives every paced stream its turn every five milliseconds, and no two of them at the same moment.

The loop's own timers count in milliseconds, so twenty streams would be served four at a time and a gateway would wake
once for four chunks. A thread that sleeps a quarter of a millisecond serves them one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event, Thread
from time import monotonic, sleep

# Seconds between two chunks of a stream, and streams that take turns within it.
PACE = 0.005
TURNS = 20


class Metronome:
    """Calls `step` of every stream once in each `PACE` until it says that it is done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turns: list[list[Callable[[], bool]]] = [[] for _ in range(TURNS)]
        self._turn = 0
        self._waiting = 0
        self._due = False
        self._wanted = Event()
        Thread(target=self._beat, daemon=True).start()

    def add(self, step: Callable[[], bool]) -> None:
        """Give a stream its turn from now on; `step` says whether there is more to come."""
        min(self._turns, key=len).append(step)
        self._waiting += 1
        self._wanted.set()

    def _beat(self) -> None:
        """Runs in the thread: wakes the loop at every turn, as long as somebody waits for one."""
        pause = PACE / TURNS
        begun = monotonic()
        while True:
            self._wanted.wait()
            begun = max(begun + pause, monotonic() - PACE)
            sleep(max(0.0, begun - monotonic()))
            try:
                self._loop.call_soon_threadsafe(self._tick)
            except RuntimeError:
                # The loop is closed: there is nobody left to give a turn to.
                return

    def _tick(self) -> None:
        self._turn = (self._turn + 1) % TURNS
        turn = self._turns[self._turn]
        kept = [step for step in turn if step()]
        self._waiting -= len(turn) - len(kept)
        self._turns[self._turn] = kept
        if not self._waiting:
            self._wanted.clear()
