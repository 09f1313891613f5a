"""The server of PostgreSQL for tests goes with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.waiting import wait_until

_STARTED = """
from pathlib import Path
from tests.postgres import postgres_server

with postgres_server() as server:
    print((server.directory / "data/postmaster.pid").read_text().split()[0], flush=True)
    input()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_with_the_process_of_the_tests_however_that_ends(number: signal.Signals) -> None:
    root = Path(__file__).parents[1]
    # Not in the directory of the test, whose name would make that of the socket too long.
    with tempfile.TemporaryDirectory() as directory:
        with subprocess.Popen(
            [sys.executable, "-c", _STARTED],
            cwd=root,
            env={**os.environ, "TMPDIR": directory},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            server = int(process.stdout.readline())
            os.kill(server, 0)
            process.send_signal(number)
        wait_until(lambda: not Path(f"/proc/{server}").exists(), "the server has ended")
