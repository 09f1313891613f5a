"""The processes around the workers; how they serve together is shown in tests/server."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.config.settings import Storage
from dragoman.errors import ConfigError
from dragoman.gateway.processes.supervisor import check_store, raise_file_limit
from tests.gateway.processes.child_gateway import ChildGateway, script_environment, started, state_of
from tests.server.workers import children, running_workers
from tests.waiting import LIMIT, wait_until

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")

# A gateway of which one worker cannot work: the socket that it is to serve on is closed.
DOOMED = """
import sys
from dragoman.config.settings import Server, Settings, Storage
from dragoman.gateway.processes import supervisor as serving
from dragoman.gateway.processes.listen_socket import bind
from dragoman.gateway.processes.config_reload import WorkerSettings
from dragoman.gateway.observability.logs import Log

listener = bind("127.0.0.1", 0)
settings = Settings(server=Server(workers=2), storage=Storage(store_responses=False))
started = serving.Supervisor._start

def start(self, number):
    if number == 1:
        listener.close()
    started(self, number)

serving.Supervisor._start = start
worker_settings = WorkerSettings(read=lambda: settings, log=Log(json=True))
sys.exit(serving.serve(worker_settings, settings, listener, lambda: print("ready")))
"""

# A gateway whose second worker stops before its loop turns, once a file says so.
HANGING = """
import os, signal, sys
from dragoman.config.settings import Server, Settings, Storage, Timeouts
from dragoman.gateway.processes import supervisor as serving
from dragoman.gateway.processes.listen_socket import bind
from dragoman.gateway.processes.config_reload import WorkerSettings
from dragoman.gateway.observability.logs import Log
from tests.gateway.processes import moved_clock

moved_clock.install()
work = serving._work

def hang(duty, *others):
    if duty.number == 1 and os.path.exists("hang"):
        os.kill(os.getpid(), signal.SIGSTOP)
    return work(duty, *others)

serving._work = hang
timeouts = Timeouts(lame_duck=0, drain=3600)
settings = Settings(server=Server(workers=2), storage=Storage(store_responses=False), timeouts=timeouts)
duty, listener = WorkerSettings(read=lambda: settings, log=Log(json=True)), bind("127.0.0.1", 0)
limits = {"max_start_seconds": 30.0, "last_moments": 10.0}
sys.exit(serving.serve(duty, settings, listener, lambda: print("ready", flush=True), **limits))
"""


def _replace_by_one_that_hangs(gateway: ChildGateway, directory: Path) -> tuple[int, int]:
    """Kill the second worker; return the first, and the one that is started for the second, once it hangs."""
    gateway.out.wait("ready")
    before = running_workers(gateway.pid, 2)
    first, second = min(before), max(before)
    (directory / "hang").touch()
    os.kill(second, signal.SIGKILL)
    gateway.log.wait("worker exited and is restarted")
    (new,) = wait_until(lambda: children(gateway.pid) - before, "a worker is started for the one that died")
    wait_until(lambda: state_of(new) == "T", "the new worker hangs")
    return first, new


@needs_proc
def test_a_worker_that_hangs_before_its_loop_turns_is_replaced(tmp_path: Path) -> None:
    with started(HANGING, tmp_path) as gateway:
        first, hung = _replace_by_one_that_hangs(gateway, tmp_path)
        (tmp_path / "hang").unlink()
        assert '"status":-9' in gateway.advance_until("worker stalled and is replaced", first)
        running_workers(gateway.pid, 2, without={hung})
        assert gateway.stop() == 0


@needs_proc
def test_a_worker_that_hangs_before_its_loop_turns_does_not_keep_the_gateway_from_ending(tmp_path: Path) -> None:
    with started(HANGING, tmp_path) as gateway:
        _replace_by_one_that_hangs(gateway, tmp_path)
        os.kill(gateway.pid, signal.SIGTERM)
        gateway.advance_until_ended()
        assert gateway.wait() == 0


def test_a_worker_that_hangs_at_the_first_start_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "hang").touch()
    with started(HANGING, tmp_path) as gateway:
        gateway.advance_until("worker exited before it was ready")
        assert gateway.wait() == 1
        assert "ready" not in gateway.out.all()


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
        env=script_environment(tmp_path),
        timeout=LIMIT,
        check=False,
    )
    said = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, done.stdout) == (1, b"")
    assert [line["event"] for line in said] == ["worker failed", "worker exited before it was ready"]
    assert said[0]["error"]
    assert said[0]["at"]
    assert said[1]["status"] == 1


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "not kept"])
def test_a_store_that_cannot_be_opened_is_told_before_anybody_is_let_in(tmp_path: Path, keep: bool) -> None:
    storage = Storage(store_responses=keep, path=str(tmp_path))
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
