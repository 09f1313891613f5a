"""`dragoman` in a process of its own, with a clock for health and cooldowns that only a test moves.

    clock = SteeredClock(directory / "clock")
    Process(arguments, directory, clock.environment, under=STEERED)
    clock.advance(5.0)

A cooldown lasts until the test ends it, however busy the machine is. The clock is one number in a file that all workers
map. Sockets and timeouts run by the real clock.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import struct
import sys
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
STEERED = (sys.executable, "-m", "tests.failover.steered")
_FILE = "DRAGOMAN_TEST_CLOCK"
_SECONDS = struct.Struct("d")
# Seconds between two looks at targets in cooldown, in place of one.
_LOOK = 0.01
# Seconds that the steered clock is ahead of the real one. Timeouts are compared with both: so none ends early.
_AHEAD = 3600.0


class SteeredClock:
    """The seconds by which a test has moved the clock of a gateway."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # How often it was moved.
        self.moves = 0
        path.write_bytes(_SECONDS.pack(0.0))

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the gateway process."""
        return {_FILE: str(self._path), "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self.moves += 1
        with self._path.open("r+b") as file:
            (now,) = _SECONDS.unpack(file.read())
            file.seek(0)
            file.write(_SECONDS.pack(now + seconds))


def main() -> int:
    """Run the command line that follows `python -m dragoman`, with the steered clock."""
    from dragoman import cli
    from dragoman.gateway import health_checks
    from dragoman.gateway.runtime import Runtime

    with open(os.environ[_FILE], "r+b") as file:  # noqa: PTH123  # the map is of the open file
        page = mmap.mmap(file.fileno(), _SECONDS.size)
    loop = asyncio.new_event_loop()
    begun = loop.time() + _AHEAD
    loop.close()

    def now() -> float:
        moved: float = _SECONDS.unpack_from(page)[0]
        return begun + moved

    # An instance sets its clock by itself: a property of the class wins over that.
    patch.object(Runtime, "clock", property(lambda service: now, lambda service, clock: None), create=True).start()
    patch.object(health_checks, "POLL_INTERVAL", _LOOK).start()
    return cli.main(sys.argv[sys.argv.index("dragoman") + 1 :])


if __name__ == "__main__":
    sys.exit(main())
