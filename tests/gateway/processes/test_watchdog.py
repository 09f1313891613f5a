"""Watchdog: a loop that turns is left alone; a process whose loop stands still ends, and says where it stood."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.gateway.processes.watchdog import Watchdog
from dragoman.gateway.workers.shared_memory import SharedMemory
from tests import waiting
from tests.gateway.processes.child_gateway import ChildGateway, script_environment, started, state_of
from tests.gateway.processes.moved_clock import CLOCK, shift
from tests.server.process import Lines, port_in
from tests.server.workers import running_workers
from tests.virtual_time import run, virtual_loop
from tests.waiting import wait_until

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

# A gateway in which a signal makes the loop stand still at a place that can be found again.
FREEZING = """
import asyncio, signal, sys, time
from dragoman.config.settings import Server, Settings, Storage, Timeouts
from dragoman.gateway.processes import supervisor as serving, watchdog
from dragoman.gateway.processes.listen_socket import bind
from dragoman.gateway.processes.config_reload import WorkerSettings
from dragoman.gateway.observability.logs import Log
from tests.gateway.processes import moved_clock

moved_clock.install()
workers, limit, serving._GRACE, watchdog._GRACE = int(sys.argv[1]), float(sys.argv[2]), 8.0, float(sys.argv[3])
start = watchdog.Watchdog.start
watchdogs = []

def started(self):
    watchdogs.append(self)
    start(self)

watchdog.Watchdog.start = started

def shorten_limit():
    # A single worker ends by the system's clock. Only from here on its limit is one that is soon over.
    if workers == 1:
        watchdogs[0]._limit /= 150
        watchdogs[0]._turn()

def stand_still():
    shorten_limit()
    time.sleep(600)

def hold_the_interpreter():
    shorten_limit()
    # No other thread of Python runs while this does.
    sys.setswitchinterval(600)
    while True:
        pass

# Each worker among several, too.
unblocked = serving._unblocked

def begun():
    unblocked()
    asyncio.get_running_loop().add_signal_handler(signal.SIGURG, stand_still)

serving._unblocked = begun

def greet():
    print(f"it listens on http://127.0.0.1:{listener.getsockname()[1]},", flush=True)

def ready():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, stand_still)
    loop.add_signal_handler(signal.SIGUSR2, hold_the_interpreter)
    greet()

listener = bind("127.0.0.1", 0)
settings = Settings(
    server=Server(workers=workers), storage=Storage(store_responses=False), timeouts=Timeouts(lame_duck=0, drain=0)
)
duty = WorkerSettings(read=lambda: settings, log=Log(json=True))
sys.exit(serving.serve(duty, settings, listener, ready if workers == 1 else greet, max_turn_seconds=limit))
"""
# Seconds that no busy machine reaches by itself: how long a loop may stand still, and how long a traceback may take.
LIMIT, GRACE = "30", "60"
REPLACED = "worker stalled and is replaced"


@contextmanager
def freezing(directory: Path, workers: int) -> Iterator[ChildGateway]:
    with started(FREEZING, directory, str(workers), LIMIT, GRACE) as gateway:
        gateway.out.wait(" listens on ")
        yield gateway


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildGateway]:
    """A single worker; no test makes it stand still."""
    with freezing(tmp_path_factory.mktemp("single"), 1) as gateway:
        yield gateway
        assert gateway.stop() == 0
        assert gateway.log.all() == []


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildGateway]:
    """Two workers and their supervisor; after each test there are two again."""
    with freezing(tmp_path_factory.mktemp("pair"), 2) as gateway:
        yield gateway
        assert gateway.stop() == 0


@pytest.mark.parametrize(
    ("number", "place"),
    [(signal.SIGUSR1, "in stand_still"), (signal.SIGUSR2, "in hold_the_interpreter")],
    ids=["it waits", "it computes"],
)
def test_a_single_worker_whose_loop_stands_still_ends_itself_and_says_where(
    tmp_path: Path, number: signal.Signals, place: str
) -> None:
    with freezing(tmp_path, 1) as gateway:
        os.kill(gateway.pid, number)
        assert gateway.wait() == 1
        said = "\n".join(gateway.log.all())
        assert "Timeout" in said
        assert place in said


def test_a_loop_that_turns_is_left_alone(single: ChildGateway) -> None:
    # Its limit is the system's, which the clock of the test does not move: see the next test for how it is put off.
    single.turn(single.pid, times=6)


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
        watchdog = Watchdog(SharedMemory(1), 0, limit)
        watchdog.start()
        await asyncio.sleep(hours)
        watchdog.stop()

    run(main())
    assert {seconds for _, seconds in put_off} == {limit}
    times = [0.0, *(when for when, _ in put_off), hours]
    assert max(later - sooner for sooner, later in pairwise(times)) < limit / 4


def test_a_process_that_is_stopped_on_a_terminal_has_no_limit_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda seconds, exit, file: calls.append(f"end in {seconds:g} s")
    )
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds: calls.append(f"alarm in {seconds:g} s"))
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: calls.append("no end"))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(os, "kill", lambda pid, number: calls.append(number.name))

    async def main() -> None:
        watchdog = Watchdog(SharedMemory(1), 0, 20.0)
        watchdog.start()
        watchdog._suspend()
        watchdog.stop()

    asyncio.run(main())
    armed, disarmed = ["end in 20 s", "alarm in 22 s"], ["no end", "alarm in 0 s"]
    assert calls == [*armed, *disarmed, "SIGSTOP", *armed, *disarmed]


def test_one_that_was_stopped_on_a_terminal_goes_on(single: ChildGateway) -> None:
    os.kill(single.pid, signal.SIGTSTP)
    _, status = os.waitpid(single.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(single.pid, signal.SIGCONT)
    single.turn(single.pid, times=3)


# A pipe can be told not to wait; a socket, which is what a service manager gives, can not.
@pytest.mark.parametrize(("kind", "status", "grace"), [("pipe", 1, GRACE), ("socket", -signal.SIGALRM, "0.1")])
def test_a_reader_of_the_log_that_does_not_read_cannot_keep_it_alive(
    tmp_path: Path, kind: str, status: int, grace: str
) -> None:
    ours, theirs = os.pipe() if kind == "pipe" else (end.detach() for end in socket.socketpair())
    try:
        os.set_blocking(theirs, False)
        for size in (4096, 1):
            with pytest.raises(BlockingIOError):
                while True:
                    os.write(theirs, b"." * size)
        os.set_blocking(theirs, True)
        (tmp_path / CLOCK).write_bytes(shift(0))
        process = subprocess.Popen(
            [sys.executable, "-c", FREEZING, "1", LIMIT, grace],
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=tmp_path,
            env=script_environment(tmp_path),
        )
        assert process.stdout is not None
        out = Lines(process.stdout)
        try:
            out.wait(" listens on ")
            os.kill(process.pid, signal.SIGUSR1)
            assert process.wait(waiting.LIMIT) == status
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(waiting.LIMIT)
            out.finish()
    finally:
        os.close(ours)
        os.close(theirs)


@needs_proc
def test_a_worker_that_stands_still_is_replaced_while_the_other_serves(pair: ChildGateway) -> None:
    workers, lines = running_workers(pair.pid, 2), len(pair.log.all())
    frozen = min(workers)
    (other,) = workers - {frozen}
    # It cannot end itself: nothing of it runs.
    os.kill(frozen, signal.SIGSTOP)
    assert '"status":-9' in pair.advance_until(REPLACED, other)
    assert _asked(port_in(pair.out.wait(" listens on "))).startswith(b"HTTP/1.1 200")
    # The pause before it is started anew passes by the same clock.
    pair.advance(30, other)
    both = running_workers(pair.pid, 2, without={frozen})
    assert other in both
    # Neither of them is taken for another that stands still, for longer than one would be left to.
    pair.advance(2 * float(LIMIT), *both)
    assert running_workers(pair.pid, 2) == both
    assert len(pair.log.all()) == lines + 1


@needs_proc
def test_a_worker_that_stands_still_says_where_before_it_is_replaced(pair: ChildGateway) -> None:
    workers = running_workers(pair.pid, 2)
    frozen = min(workers)
    (other,) = workers - {frozen}
    os.kill(frozen, signal.SIGURG)
    pair.advance_until("in stand_still", other)
    pair.advance_until(REPLACED, other)
    pair.advance(30, other)
    running_workers(pair.pid, 2, without={frozen})


# As on a terminal, where all are told at once; and as a freezer does it, or a machine that sleeps.
@pytest.mark.parametrize("number", [signal.SIGTSTP, signal.SIGSTOP], ids=["SIGTSTP", "SIGSTOP"])
@needs_proc
def test_whoever_slept_itself_blames_nobody(pair: ChildGateway, number: signal.Signals) -> None:
    workers, lines = running_workers(pair.pid, 2), pair.log.all()
    processes = (pair.pid, *workers)
    pair.turn(*workers)
    for pid in processes:
        os.kill(pid, number)
    wait_until(lambda: all(state_of(pid) == "T" for pid in processes), "all processes are stopped")
    pair.move_clock(3 * float(LIMIT))
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    pair.turn(*workers, times=3)
    assert running_workers(pair.pid, 2) == workers
    assert pair.log.all() == lines


def _asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=waiting.LIMIT) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        return connection.recv(65536)
