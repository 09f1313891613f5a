"""The processes around the workers; how they serve together is shown in tests/server."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.config.settings import Storage
from dragoman.errors import ConfigError
from dragoman.gateway.serving import check_store, raise_file_limit
from tests.server.process import PATIENCE, clean_environment

# A gateway of which one worker cannot work: the socket that it is to serve on is closed.
DOOMED = """
import sys
from dragoman.config.settings import Server, Settings, Storage
from dragoman.gateway import serving
from dragoman.gateway.binding import bind
from dragoman.gateway.configuration import Duty
from dragoman.gateway.logs import Log

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
