"""The processes around the workers; how they serve together is shown in tests/server."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.config.settings import Storage
from dragoman.errors import ConfigError
from dragoman.gateway.processes.supervisor import check_store, raise_file_limit
from tests.server.process import PATIENCE, Lines, clean_environment
from tests.server.workers import children, running_workers

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

# A gateway of which one worker cannot work: the socket that it is to serve on is closed.
DOOMED = """
import sys
from dragoman.config.settings import Server, Settings, Storage
from dragoman.gateway.processes import supervisor as serving
from dragoman.gateway.processes.binding import bind
from dragoman.gateway.processes.followed_config import Duty
from dragoman.gateway.records.logs import Log

listener = bind("127.0.0.1", 0)
settings = Settings(server=Server(workers=2), storage=Storage(keep=False))
started = serving.Supervisor._start

def start(self, number):
    if number == 1:
        listener.close()
    started(self, number)

serving.Supervisor._start = start
sys.exit(serving.serve(Duty(read=lambda: settings, log=Log(json=True)), settings, listener, lambda: print("ready")))
"""

# A gateway whose second worker stops before its loop turns, once a file says so.
HANGING = """
import os, signal, sys
from dragoman.config.settings import Server, Settings, Storage, Timeouts
from dragoman.gateway.processes import supervisor as serving
from dragoman.gateway.processes.binding import bind
from dragoman.gateway.processes.followed_config import Duty
from dragoman.gateway.records.logs import Log

work = serving._work

def hang(duty, *others):
    if duty.number == 1 and os.path.exists("hang"):
        os.kill(os.getpid(), signal.SIGSTOP)
    return work(duty, *others)

serving._work = hang
serving.LOOK_EVERY, serving._GRACE, serving._FIRST_PAUSE = 0.1, 0.5, 0.05
settings = Settings(server=Server(workers=2), storage=Storage(keep=False), timeouts=Timeouts(lame_duck=0, drain=3600))
duty, listener = Duty(read=lambda: settings, log=Log(json=True)), bind("127.0.0.1", 0)
limits = {"longest_start": float(sys.argv[1]), "last_moments": 1.0}
sys.exit(serving.serve(duty, settings, listener, lambda: print("ready", flush=True), **limits))
"""


class Hanging:
    """Such a gateway as a process."""

    def __init__(self, place: Path, longest_start: float) -> None:
        self.hang = place / "hang"
        self._process = subprocess.Popen(
            [sys.executable, "-c", HANGING, str(longest_start)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=place,
            env={**clean_environment(place), "TMPDIR": str(place)},
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pid = self._process.pid
        self.out, self.log = Lines(self._process.stdout), Lines(self._process.stderr)

    def kill_worker(self) -> int:
        """End one of the two; give the one that is started in its place, once it hangs."""
        before = running_workers(self.pid, 2)
        self.hang.touch()
        # The second, which is the one that hangs.
        os.kill(max(before), signal.SIGKILL)
        self.log.wait("a worker died and is started anew")
        (new,) = running_workers(self.pid, 2, without={max(before)}) - before
        wait_until(lambda: _state(new) == "T")
        return new

    def wait(self) -> int:
        return self._process.wait(PATIENCE)

    def end(self) -> None:
        for pid in (*children(self.pid), self.pid) if self._process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        self.wait()
        self.log.finish()


@contextmanager
def hanging(place: Path, longest_start: float) -> Iterator[Hanging]:
    process = Hanging(place, longest_start)
    try:
        yield process
    finally:
        process.end()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@needs_proc
def test_a_worker_that_hangs_before_its_loop_turns_is_replaced(tmp_path: Path) -> None:
    with hanging(tmp_path, 2.0) as process:
        process.out.wait("ready")
        hung = process.kill_worker()
        process.hang.unlink()
        assert '"status":-9' in process.log.wait("a worker stood still and is replaced")
        running_workers(process.pid, 2, without={hung})
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0


@needs_proc
def test_a_worker_that_hangs_before_its_loop_turns_does_not_keep_the_gateway_from_ending(tmp_path: Path) -> None:
    with hanging(tmp_path, 3600.0) as process:
        process.out.wait("ready")
        process.kill_worker()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait() == 0


def test_a_worker_that_hangs_at_the_first_start_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "hang").touch()
    with hanging(tmp_path, 2.0) as process:
        assert process.wait() == 1
        process.log.wait("a worker died before it served")
        assert process.out.all() == []


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_allows(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    raise_file_limit()
    raised, same = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raised > 512
    assert same == hard


def test_a_limit_that_is_high_enough_stays(limits: tuple[int, int]) -> None:
    raise_file_limit()
    once = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == once
    assert once[0] >= limits[0]


def test_a_worker_that_does_not_come_up_ends_the_start(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DOOMED],
        capture_output=True,
        cwd=tmp_path,
        env={**clean_environment(tmp_path), "TMPDIR": str(tmp_path)},
        timeout=PATIENCE,
        check=False,
    )
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (1, b"")
    assert [line["event"] for line in said] == ["a worker failed", "a worker died before it served"]
    assert said[0]["error"]
    assert said[0]["at"]
    assert said[1]["status"] == 1


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_a_store_that_cannot_be_opened_is_told_before_anybody_is_let_in(tmp_path: Path, keep: bool) -> None:
    storage = Storage(keep=keep, path=str(tmp_path))
    if not keep:
        check_store(storage)
        return
    with pytest.raises(ConfigError) as caught:
        check_store(storage)
    assert caught.value.key == "storage.path"
    assert caught.value.remedy


def test_a_store_that_lasts_as_long_as_the_process_is_each_workers_own() -> None:
    check_store(Storage())
    check_store(Storage(path=":memory:"))
