"""Rings: what a test uses beyond its ring fails it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.suite.scratch import ScratchSuite

# Each uses one thing.
USES = {
    "a network socket": "import socket\ndef test_it():\n    socket.socket().close()\n",
    "a real sleep (time.sleep": "import time\ndef test_it():\n    time.sleep(0.001)\n",
    "a real sleep (asyncio.sleep": "import asyncio\nasync def main():\n    await asyncio.sleep(0.001)\n"
    "def test_it():\n    asyncio.run(main())\n",
    "a thread": "from threading import Thread\n"
    "def test_it():\n    t = Thread(target=id, args=(1,))\n    t.start(); t.join()\n",
    "a process": "import subprocess\ndef test_it():\n    subprocess.run(['true'])\n",
    "a process (": "import os\ndef test_it():\n    if not os.fork():\n        os._exit(0)\n    os.wait()\n",
}
# What a pure test may do.
PURE = """
import asyncio, socket, time
from tests.virtual_time import run

def test_an_event_loop_has_a_socket_pair():
    asyncio.run(asyncio.sleep(0))

def test_time_may_be_virtual():
    run(asyncio.sleep(600))

def test_a_pair_is_no_network():
    for end in socket.socketpair():
        end.close()

def test_nothing_is_waited_for():
    time.sleep(0)
"""


def test_a_pure_test_that_uses_more_fails_and_says_where(tmp_path: Path) -> None:
    done = ScratchSuite(tmp_path, _files()).run()
    assert f"{len(USES)} failed" in done.stdout
    for place, what in enumerate(USES):
        used = re.escape(f"a test of the ring 'pure' used {what}")
        assert re.search(rf"{used}.*tests/test_{place}\.py:", done.stdout), what


def _files() -> dict[str, str]:
    return {f"test_{place}.py": source for place, source in enumerate(USES.values())}


def test_what_fixtures_use_counts(tmp_path: Path) -> None:
    source = "import pytest, socket\n@pytest.fixture\ndef s():\n    socket.socket().close()\ndef test_it(s): pass\n"
    done = ScratchSuite(tmp_path, {"test_a.py": source}).run()
    assert "used a network socket (tests/test_a.py:4)" in done.stdout


def test_what_is_pure_passes(tmp_path: Path) -> None:
    done = ScratchSuite(tmp_path, {"test_a.py": PURE}).run()
    assert done.returncode == 0, done.stdout


def test_a_socket_test_may_use_all_but_a_process_and_waits_for_conditions(tmp_path: Path) -> None:
    done = ScratchSuite(tmp_path, _files(), rings='socket = ["."]').run()
    assert "4 failed, 2 passed" in done.stdout
    for what in ("time.sleep", "asyncio.sleep"):
        used = re.escape(f"a test of the ring 'socket' used a wait without a condition ({what}(0.001), tests/test_")
        assert re.search(used, done.stdout)


def test_a_file_may_have_a_ring_of_its_own_and_rings_are_chosen_before_files_are_imported(tmp_path: Path) -> None:
    files = {"a/test_a.py": "def test_it(): pass", "a/test_b.py": "raise RuntimeError('imported')"}
    suite = ScratchSuite(tmp_path, files, rings='pure = ["a"]\nprocess = [".", "a/test_b.py"]')
    done = suite.run("--ring", "pure")
    assert "1 passed" in done.stdout
    assert suite.run("--ring", "process").returncode == 2


def test_what_is_for_the_night_is_left_out_by_day(tmp_path: Path) -> None:
    source = "import pytest\n@pytest.mark.nightly\ndef test_long(): pass\ndef test_short(): pass\n"
    suite = ScratchSuite(tmp_path, {"test_a.py": source})
    assert "1 passed, 1 deselected" in suite.run().stdout
    assert "2 passed" in suite.run("--nightly").stdout
