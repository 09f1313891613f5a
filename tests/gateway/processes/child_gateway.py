"""A gateway of a script of a test, in a child process whose monotonic clock the test moves forward.

    with started(SCRIPT, tmp_path, "2") as gateway:
        gateway.advance(30, *workers)

So limits of many seconds pass without being waited for, and a busy machine does not reach them by itself. The script
calls `moved_clock.install`.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.gateway.processes.moved_clock import CLOCK, shift
from tests.server.process import ROOT, Lines, clean_environment
from tests.server.workers import children
from tests.waiting import LIMIT, reporting_state, wait_until

# Seconds of one move of the clock. After more than 5 the supervisor assumes that the machine slept.
_MOVE = 4.0
_MAX_MOVES = 500


class ChildGateway:
    """Such a process, seen from the test."""

    def __init__(self, script: str, directory: Path, *arguments: str) -> None:
        self._clock = directory / CLOCK
        self._ahead = 0
        self._clock.write_bytes(shift(0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=script_environment(directory),
            # SIGTSTP stops no process of an orphaned group, which that of the tests is if nobody waits for them.
            process_group=0,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pid = self._process.pid
        self.out, self.log = Lines(self._process.stdout), Lines(self._process.stderr)

    def turn(self, *workers: int, times: int = 1) -> None:
        """Wait until the loop of each worker has turned so often again, and the supervisor has looked."""
        self._turn_or_end(*workers, times=times)
        assert self._process.poll() is None, self.report()

    def _turn_or_end(self, *workers: int, times: int) -> None:
        texts = [f"{pid} turned" for pid in workers]
        # A single worker has no supervisor.
        texts += ["looked"] if workers != (self.pid,) else []
        before = Counter(self.out.all())

        def turned() -> bool:
            now = Counter(self.out.all())
            return self._process.poll() is not None or all(now[text] >= before[text] + times for text in texts)

        wait_until(turned, f"{times} times {texts}")

    def move_clock(self, seconds: float) -> None:
        """Move the clock forward at once, as the sleep of a machine does."""
        self._ahead += int(seconds * 10**9)
        # In place: the file is mapped into the memory of the process.
        with self._clock.open("r+b") as file:
            file.write(shift(self._ahead))

    def advance(self, seconds: float, *turning: int) -> None:
        """Let time pass for a supervisor that is awake, and for the workers whose loops turn meanwhile."""
        for _ in range(math.ceil(seconds / _MOVE)):
            self._move(*turning)

    def advance_until(self, text: str, *turning: int) -> str:
        """Let time pass until the log has one more line with a text in it, and return that line."""
        count = self._count(text) + 1
        self._advance_while(lambda: self._count(text) < count, *turning)
        return self.log.wait(text, count)

    def advance_until_ended(self) -> None:
        """Let time pass until the process has ended; its supervisor has been told to stop."""
        self._advance_while(lambda: self._process.poll() is None)

    def _advance_while(self, condition: Callable[[], bool], *turning: int) -> None:
        # A gap between two looks of a slow machine begins the limit anew, so the number of moves is not known.
        for _ in range(_MAX_MOVES):
            if not condition():
                return
            self._move(*turning)

    def _move(self, *turning: int) -> None:
        self.move_clock(_MOVE)
        self._turn_or_end(*turning, times=1)

    def _count(self, text: str) -> int:
        return sum(text in line for line in self.log.all())

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        status = self._process.wait(LIMIT)
        self.out.finish()
        self.log.finish()
        return status

    def stop(self) -> int:
        """Send SIGTERM, and wait for the end."""
        os.kill(self.pid, signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """Kill the process and its workers, if they still run."""
        for pid in (*children(self.pid), self.pid) if self._process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        self.wait()

    def report(self) -> str:
        """What it has printed and logged."""
        return "\n".join(["--- gateway of a script", *self.out.all()[-20:], *self.log.all()])


@contextmanager
def started(script: str, directory: Path, *arguments: str) -> Iterator[ChildGateway]:
    """Run a script until the block ends."""
    gateway = ChildGateway(script, directory, *arguments)
    try:
        with reporting_state(gateway.report):
            yield gateway
    finally:
        gateway.end()


def script_environment(directory: Path) -> dict[str, str]:
    """The environment of a script, in which tests can be imported."""
    clean = clean_environment(directory)
    return {**clean, "PYTHONPATH": f"{clean['PYTHONPATH']}{os.pathsep}{ROOT}", "TMPDIR": str(directory)}


def state_of(pid: int) -> str:
    """The state of a process as the system names it; `T` if it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
