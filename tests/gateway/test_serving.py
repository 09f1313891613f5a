"""The processes around the workers; how they serve together is shown in tests/server."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dragoman.gateway.serving import raise_file_limit
from tests.server.process import PATIENCE, Lines, clean_environment

# A gateway whose workers cannot work: the socket they are to share is closed.
DOOMED = """
import sys
from dragoman.config.settings import Server, Settings
from dragoman.gateway import serving
from dragoman.gateway.binding import bind
from dragoman.gateway.configuration import Duty
from dragoman.gateway.logs import Log

listener = bind("127.0.0.1", 0)
started = serving.Supervisor._start

def start(self, number):
    listener.close()
    started(self, number)

serving.Supervisor._start = start
settings = Settings(server=Server(workers=2))
sys.exit(serving.serve(Duty(read=lambda: settings, log=Log(json=True)), settings, listener, lambda: None))
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


@contextmanager
def doomed(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], Lines]]:
    """A supervisor without luck."""
    process = subprocess.Popen(
        [sys.executable, "-c", DOOMED],
        stderr=subprocess.PIPE,
        cwd=directory,
        env={**clean_environment(directory), "TMPDIR": str(directory)},
    )
    assert process.stderr is not None
    log = Lines(process.stderr)
    try:
        yield process, log
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        log.finish()


def test_workers_that_fail_are_told_of_and_started_anew_after_longer_and_longer_pauses(tmp_path: Path) -> None:
    with doomed(tmp_path) as (process, log):
        failed = log.wait("a worker failed")
        assert '"error":"' in failed
        assert '"at":"' in failed
        assert '"status":1' in log.wait("started anew")
        assert '"pause":1.0' in log.wait("started anew", 2)
        assert '"pause":2.0' in log.wait("started anew", 3)
        # Nothing is left to wait for but the time, and that is not waited for.
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert list(tmp_path.iterdir()) == []
