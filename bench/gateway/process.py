"""Processes: started on a core of their own, asked what they cost, and stopped by their own ids. Linux alone."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
ROOT = Path(__file__).parents[2]
# Seconds: how long a process may take to answer for the first time, and to end when it is told to.
READY = 30.0
ENDED = 15.0
# Looks at a process that make it idle, and the seconds between two: together longer than its log thread gathers lines.
_LOOKS, _BETWEEN_LOOKS = 10, 0.03
_HEALTH = b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


class ProcessError(Exception):
    """A process did not start, or ended on its own."""


class Served:
    """A server process and its children, which listens on a port of 127.0.0.1; its output goes to a file."""

    def __init__(
        self,
        command: Sequence[str],
        port: int,
        log: Path,
        *,
        core: int,
        variables: Mapping[str, str] | None = None,
        health: bytes = b"/healthz",
    ) -> None:
        self.port = port
        self._health = health
        self.log = log
        self._started = time.perf_counter()
        with on_core(core), log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(variables or {})},
            )

    def __enter__(self) -> Served:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The id of the process itself."""
        return self._process.pid

    def wait_ready(self, within: float | None = None) -> float:
        """Wait for the first 200 on the health path, `READY` seconds by default; the seconds since the start."""
        return self._wait(lambda: _healthy(self.port, self._health), within)

    def wait_listening(self, address: re.Pattern[bytes], within: float | None = None) -> float:
        """Wait until the output names the address, whose group is the port of the process; the seconds since the
        start."""
        taken = self._wait(lambda: address.search(self.log.read_bytes()) is not None, within)
        for match in address.finditer(self.log.read_bytes()):
            self.port = int(match[1])
        return taken

    def _wait(self, is_ready: Callable[[], bool], within: float | None) -> float:
        limit = READY if within is None else within
        while not is_ready():
            if self._process.poll() is not None:
                raise ProcessError(f"ended with status {self._process.returncode}: {self._last_words()}")
            if time.perf_counter() - self._started > limit:
                raise ProcessError(f"not ready after {limit:g} s: {self._last_words()}")
            time.sleep(0.002)
        return time.perf_counter() - self._started

    def wait_idle(self, within: float) -> None:
        """Wait until the process has done all its work: no thread of it could run at several looks in a row."""
        until = time.perf_counter() + within
        idle = 0
        while idle < _LOOKS:
            if time.perf_counter() > until:
                raise ProcessError(f"not idle within {within:g} s")
            time.sleep(_BETWEEN_LOOKS)
            idle = idle + 1 if _sleeps(self.pid) else 0

    def stop(self) -> None:
        """Ask it to end, and see to it that it does."""
        self._process.terminate()
        try:
            self._process.wait(ENDED)
        except subprocess.TimeoutExpired:
            for pid in reversed(self.pids()):
                # It may have ended by itself in the meantime.
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(ENDED)

    def move(self, core: int) -> None:
        """Let the process and its children go on on that core."""
        for pid in self.pids():
            for task in (PROC / str(pid) / "task").iterdir():
                os.sched_setaffinity(int(task.name), {core})

    def pids(self) -> list[int]:
        """The process and its children, grown-up ones included, parents first."""
        parents = _parents()
        tree = [self._process.pid]
        for pid in tree:
            tree += [child for child, parent in parents.items() if parent == pid]
        return tree

    def cpu(self) -> float:
        """Seconds of processor time that the process and its children have used, ended threads included."""
        return sum(_cpu(pid) for pid in self.pids())

    def memory(self) -> float:
        """Megabytes of memory that the process and its children have in use."""
        return sum(_resident(pid) for pid in self.pids()) / 1e6

    def _last_words(self) -> str:
        return self.log.read_bytes()[-600:].decode(errors="replace")


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Be on that core meanwhile; who is started meanwhile stays there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class Cores(Struct, frozen=True, kw_only=True):
    """The core of who is measured, and that of provider and load where they are apart; the same if there is but one."""

    measured: int
    apart: int

    @property
    def two(self) -> bool:
        """Whether anybody can be apart."""
        return self.measured != self.apart


def cores() -> Cores:
    """The first two cores that this process may use."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(measured=allowed[0], apart=allowed[1 % len(allowed)])


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _healthy(port: int, path: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(_HEALTH % path)
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _sleeps(pid: int) -> bool:
    """Whether each thread of a process sleeps; one that waits for a processor or for the disk does not."""
    for task in (PROC / str(pid) / "task").iterdir():
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            # The thread has ended.
            continue
        if state != "S":
            return False
    return True


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                # The name in parentheses may hold spaces and parentheses itself.
                after = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                # It ended while it was looked at.
                continue
            parents[int(entry.name)] = int(after[1])
    return parents


def _cpu(pid: int) -> float:
    # The id of another process's clock, as clock_getcpuclockid(3) makes it on Linux. It counts nanoseconds of all
    # threads, ended ones too; /proc/<pid>/stat knows hundredths of a second, schedstat only threads that are alive.
    return time.clock_gettime((~pid << 3) | 2)


def _resident(pid: int) -> int:
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
