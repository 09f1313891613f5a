"""A monotonic clock that a test moves forward in another process: limits pass without being waited for.

The process calls `install`. Then its supervisor, and the page that its workers note their turns in, go by the moved
clock; everything else goes by the real one. The test writes how many nanoseconds the clock is ahead into the file
`CLOCK` in the working directory of the process.
"""

from __future__ import annotations

import mmap
import os
import time

from dragoman.gateway.processes import supervisor, watchdog
from dragoman.gateway.workers import shared_memory

CLOCK = "clock"
_BYTES = 8


def shift(nanoseconds: int) -> bytes:
    """The contents of the file."""
    return nanoseconds.to_bytes(_BYTES, "little")


def install() -> None:
    """Move the clock of this process and of its children; print each turn of a loop and each look of a supervisor."""
    file = os.open(CLOCK, os.O_RDONLY)
    ahead = mmap.mmap(file, _BYTES, prot=mmap.PROT_READ)
    os.close(file)

    class MovedTime:
        """What the two modules use of `time`."""

        @staticmethod
        def monotonic_ns() -> int:
            return time.monotonic_ns() + int.from_bytes(ahead[:], "little")

        @staticmethod
        def monotonic() -> float:
            return MovedTime.monotonic_ns() / 1e9

    for module in (supervisor, shared_memory):
        module.time = MovedTime  # type: ignore[attr-defined]  # modules have it, if not for others
    supervisor.POLL_INTERVAL = 0.02  # type: ignore[attr-defined]  # its own name for that of `followed_config`
    supervisor._FIRST_PAUSE = watchdog._BEAT = 0.05
    turn, look = watchdog.Watchdog._turn, supervisor.Supervisor._end_still

    def turned(self: watchdog.Watchdog) -> None:
        turn(self)
        _say(f"{os.getpid()} turned")

    def looked(self: supervisor.Supervisor, now: float) -> None:
        look(self, now)
        _say("looked")

    watchdog.Watchdog._turn = turned  # type: ignore[method-assign]  # so that a test can wait for it
    supervisor.Supervisor._end_still = looked  # type: ignore[method-assign]  # so that a test can wait for it


def _say(line: str) -> None:
    # In one piece, since several processes write here.
    os.write(1, f"{line}\n".encode())
