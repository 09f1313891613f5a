"""Watchdog: a loop that turns is left alone; a process whose loop stands still ends, and says where it stood."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.gateway.processes.shared_page import Page
from dragoman.gateway.processes.watchdog import Watchdog
from tests.server.process import PATIENCE, Lines, clean_environment, port_in
from tests.server.workers import running_workers
from tests.virtual_time import run, virtual_loop

# A gateway with a short patience, in which a signal makes the loop stand still at a place that can be found again. It
# says when a loop turns and when the supervisor has looked, so that nobody has to wait longer than for that.
FREEZING = """
import asyncio, mmap, os, signal, sys, time

# A clock for everybody here that can be put forward: whoever slept finds it so.
with open("slept", "wb") as clock:
    clock.write(bytes(8))
slept = mmap.mmap(os.open("slept", os.O_RDONLY), 8, prot=mmap.PROT_READ)
real = time.monotonic_ns
time.monotonic_ns = lambda: real() + int.from_bytes(slept[:8], "little")
time.monotonic = lambda: time.monotonic_ns() / 1e9

from dragoman.config.settings import Server, Settings, Storage, Timeouts
from dragoman.gateway.processes.binding import bind
from dragoman.gateway.processes.followed_config import Duty
from dragoman.gateway.records.logs import Log
from dragoman.gateway.processes.supervisor import serve

def stand_still():
    time.sleep(600)

def hold_the_interpreter():
    # No other thread of Python runs while this does.
    sys.setswitchinterval(600)
    while True:
        pass

# Each worker among several, too.
from dragoman.gateway.processes import supervisor as serving, watchdog
unblocked = serving._unblocked

def begun():
    unblocked()
    asyncio.get_running_loop().add_signal_handler(signal.SIGURG, stand_still)

serving._unblocked = begun
serving.LOOK_EVERY, serving._GRACE, serving._FIRST_PAUSE, watchdog._GRACE = 0.1, 0.5, 0.05, 0.7
turn, look = watchdog.Watchdog._turn, serving.Supervisor._end_still

def turned(self):
    turn(self)
    print(f"{os.getpid()} turned", flush=True)

def looked(self, now):
    look(self, now)
    print("looked", flush=True)

watchdog.Watchdog._turn, serving.Supervisor._end_still = turned, looked

def greet():
    print(f"it listens on http://127.0.0.1:{listener.getsockname()[1]},", flush=True)

def ready():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, stand_still)
    loop.add_signal_handler(signal.SIGUSR2, hold_the_interpreter)
    greet()

workers = int(sys.argv[1])
listener = bind("127.0.0.1", 0)
settings = Settings(
    server=Server(workers=workers), storage=Storage(keep=False), timeouts=Timeouts(lame_duck=0, drain=0)
)
duty = Duty(read=lambda: settings, log=Log(json=True))
sys.exit(serve(duty, settings, listener, ready if workers == 1 else greet, longest_turn=1.0))
"""


class Freezing:
    """Such a gateway as a process."""

    def __init__(self, directory: Path, workers: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", FREEZING, str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env={**clean_environment(directory), "TMPDIR": str(directory)},
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pid = self._process.pid
        self._clock = directory / "slept"
        self.out, self.log = Lines(self._process.stdout), Lines(self._process.stderr)
        self.port = port_in(self.out.wait(" listens on "))

    def turn(self, *workers: int, times: int) -> None:
        """Wait until the loop of each of these processes has turned so often again, and the supervisor has looked."""
        words = [f"{pid} turned" for pid in workers]
        # A single worker has no supervisor.
        words += ["looked"] if workers != (self.pid,) else []
        said = self.out.all()
        for word in words:
            self.out.wait(word, sum(word in line for line in said) + times)

    def put_clock_forward(self, seconds: int) -> None:
        with self._clock.open("r+b") as clock:
            clock.write((seconds * 10**9).to_bytes(8, "little"))

    def wait(self) -> int:
        status = self._process.wait(PATIENCE)
        self.log.finish()
        return status

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()


@contextmanager
def freezing(directory: Path, workers: int = 1) -> Iterator[Freezing]:
    process = Freezing(directory, workers)
    try:
        yield process
    finally:
        process.end()


@pytest.mark.parametrize(
    ("number", "place"),
    [(signal.SIGUSR1, "in stand_still"), (signal.SIGUSR2, "in hold_the_interpreter")],
    ids=["it waits", "it computes"],
)
def test_a_single_worker_whose_loop_stands_still_ends_itself_and_says_where(
    tmp_path: Path, number: signal.Signals, place: str
) -> None:
    with freezing(tmp_path) as process:
        os.kill(process.pid, number)
        assert process.wait() == 1
        said = "\n".join(process.log.all())
        assert "Timeout" in said
        assert place in said


def test_a_loop_that_turns_is_left_alone(tmp_path: Path) -> None:
    with freezing(tmp_path) as process:
        # More than its patience; a turn comes four times in that.
        process.turn(process.pid, times=6)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0
        assert process.log.all() == []


def test_a_loop_that_turns_puts_off_its_end_long_before_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, hours = 15.0, 4 * 3600.0
    put_off: list[tuple[float, float]] = []

    def later(seconds: float, *, exit: bool, file: int) -> None:
        assert exit
        put_off.append((virtual_loop().time(), seconds))

    monkeypatch.setattr(faulthandler, "dump_traceback_later", later)
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds: None)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)

    async def main() -> None:
        watchdog = Watchdog(Page(1), 0, limit)
        watchdog.start()
        await asyncio.sleep(hours)
        watchdog.stop()

    run(main())
    assert {seconds for _, seconds in put_off} == {limit}
    times = [0.0, *(when for when, _ in put_off), hours]
    assert max(later - sooner for sooner, later in pairwise(times)) < limit / 4


def test_one_that_was_stopped_on_a_terminal_goes_on(tmp_path: Path) -> None:
    with freezing(tmp_path) as process:
        os.kill(process.pid, signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        # Longer than its patience, which the system counts and not a clock that can be put forward.
        time.sleep(1.9)
        os.kill(process.pid, signal.SIGCONT)
        process.turn(process.pid, times=3)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0


# A pipe can be told not to wait; a socket, which is what a service manager gives, can not.
@pytest.mark.parametrize(("kind", "status"), [("pipe", 1), ("socket", -signal.SIGALRM)])
def test_a_reader_of_the_log_that_does_not_read_cannot_keep_it_alive(tmp_path: Path, kind: str, status: int) -> None:
    ours, theirs = os.pipe() if kind == "pipe" else (end.detach() for end in socket.socketpair())
    try:
        os.set_blocking(theirs, False)
        for size in (4096, 1):
            with pytest.raises(BlockingIOError):
                while True:
                    os.write(theirs, b"." * size)
        os.set_blocking(theirs, True)
        process = subprocess.Popen(
            [sys.executable, "-c", FREEZING, "1"],
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=tmp_path,
            env=clean_environment(tmp_path),
        )
        assert process.stdout is not None
        try:
            with process.stdout:
                while b" listens on " not in process.stdout.readline():
                    assert process.poll() is None
                os.kill(process.pid, signal.SIGUSR1)
                assert process.wait(PATIENCE) == status
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE)
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_worker_that_stands_still_is_replaced_while_the_other_serves(tmp_path: Path) -> None:
    with freezing(tmp_path, 2) as process:
        workers = running_workers(process.pid, 2)
        frozen = min(workers)
        # It cannot end itself: nothing of it runs.
        os.kill(frozen, signal.SIGSTOP)
        assert '"status":-9' in process.log.wait("a worker stood still and is replaced")
        assert _asked(process.port).startswith(b"HTTP/1.1 200")
        both = running_workers(process.pid, 2, without={frozen})
        assert both > workers - {frozen}
        # Neither of them is taken for another that stands still, for longer than one would be left to.
        process.turn(*both, times=7)
        assert running_workers(process.pid, 2) == both
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0
        told = [line for line in process.log.all() if "worker" in line]
        assert len(told) == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_a_worker_that_stands_still_says_where_before_it_is_replaced(tmp_path: Path) -> None:
    with freezing(tmp_path, 2) as process:
        os.kill(min(running_workers(process.pid, 2)), signal.SIGURG)
        process.log.wait("a worker stood still and is replaced")
        assert any("in stand_still" in line for line in process.log.all())
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0


# As on a terminal, where all are told at once; and as a freezer does it, or a machine that sleeps.
@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP], ids=["SIGTSTP", "SIGSTOP"])
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_whoever_slept_itself_blames_nobody(tmp_path: Path, number: signal.Signals) -> None:
    with freezing(tmp_path, 2) as process:
        workers = running_workers(process.pid, 2)
        for pid in (process.pid, *workers):
            os.kill(pid, number)
        process.put_clock_forward(6)
        for pid in (process.pid, *workers):
            os.kill(pid, signal.SIGCONT)
        process.turn(*workers, times=3)
        assert running_workers(process.pid, 2) == workers
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0
        assert process.log.all() == []


def _asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return connection.recv(65536)
