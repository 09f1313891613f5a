"""The gateway with an ingest thread that waits for permission.

python -m bench.instructions.observed DIRECTORY serve ...

Contents that are captured stay in their queue: the thread that would store them is not started.

The directory holds two FIFOs. Each byte of `permits` lets the ingest thread make one step. After each step, a line with
its counters goes to `reports`. When the other process closes `permits`, the ingest thread goes on without permits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dragoman.cli import main as dragoman
from dragoman.contents.writer import ContentsWriter
from dragoman.gateway.access import identity_table
from dragoman.records.ingest_thread import IngestThread

PERMITS, REPORTS = "permits", "reports"
# Seconds that no measurement takes.
_NEVER = 86_400.0


class _Step(Protocol):
    def __call__(self, thread: IngestThread, /, pause: float, *, at_last: bool = False) -> float: ...


def gated(step: _Step, permits: int, reports: int) -> _Step:
    """A step of the ingest thread that waits for a permit and reports rows and errors."""

    def permitted(thread: IngestThread, /, pause: float, *, at_last: bool = False) -> float:
        # At the end of the other process there is nothing left to read, and nobody to report to.
        if not os.read(permits, 1):
            return step(thread, pause, at_last=at_last)
        step(thread, pause, at_last=at_last)
        os.write(reports, b"%d %d\n" % (thread.rows, thread.errors))
        # The next permit is the pause.
        return 0.0

    return permitted


def _stay_stopped(writer: ContentsWriter) -> None:
    """In place of `ContentsWriter.start`."""


def main(arguments: Sequence[str]) -> int:
    """Serve; the arguments are the directory of the FIFOs and those of dragoman."""
    directory = Path(arguments[0])
    permits = os.open(directory / PERMITS, os.O_RDONLY)
    reports = os.open(directory / REPORTS, os.O_WRONLY)
    # The gateway itself has no use for a pause that others end, so this is not an argument of the class.
    setattr(IngestThread, "_step", gated(IngestThread._step, permits, reports))  # noqa: B010
    setattr(ContentsWriter, "start", _stay_stopped)  # noqa: B010
    # Gateway keys are read by the clock, not for each exchange, and under a profiler exchanges take long.
    setattr(identity_table, "POLL_INTERVAL", _NEVER)  # noqa: B010
    return dragoman(list(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
