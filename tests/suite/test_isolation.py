"""Isolation: the file that leaves something behind is named."""

from __future__ import annotations

import re
from pathlib import Path

from tests.suite.scratch import ScratchSuite

LEAKS = {
    "signal SIGUSR1": "import signal\ndef test_it():\n    signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n",
    "environment LEFT": "import os\ndef test_it():\n    os.environ['LEFT'] = '1'\n",
    "environment HOME": "import os\ndef test_it():\n    del os.environ['HOME']\n",
    "working directory": "import os\ndef test_it():\n    os.chdir('/')\n",
    "umask": "import os\ndef test_it():\n    os.umask(0o012)\n",
    "event-loop policy": "import asyncio, uvloop\n"
    "def test_it():\n    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())\n",
    "root logger": "import logging\ndef test_it():\n    logging.getLogger().addHandler(logging.NullHandler())\n",
    "descriptor": "import os\ndef test_it():\n    os.open(__file__, os.O_RDONLY)\n",
    "thread": "from threading import Event, Thread\nclass Waits(Thread): pass\n"
    "def test_it():\n    Waits(target=Event().wait, daemon=True).start()\n",
    "child process": "import subprocess\ndef test_it():\n    global p\n    p = subprocess.Popen(['sleep', '5'])\n",
    "temporary file": "import tempfile\ndef test_it():\n    tempfile.mkdtemp()\n",
}
TWO_TESTS = "import os\ndef test_first():\n    os.environ['LEFT'] = '1'\ndef test_second(): pass\n"


def test_what_a_file_leaves_behind_is_an_error_that_names_it(tmp_path: Path) -> None:
    files = {f"test_{place}.py": source for place, source in enumerate(LEAKS.values())}
    done = ScratchSuite(tmp_path, files, rings='process = ["."]').run()
    assert f"{len(LEAKS)} passed, {len(LEAKS)} errors" in done.stdout
    for place, what in enumerate(LEAKS):
        assert re.search(rf"tests/test_{place}\.py leaves behind:\n  {what}", done.stdout), what


def test_each_test_can_be_looked_at(tmp_path: Path) -> None:
    suite = ScratchSuite(tmp_path, {"test_a.py": TWO_TESTS})
    assert "tests/test_a.py::test_first leaves behind:" in suite.run("--leaks").stdout


def test_what_is_put_back_in_time_is_no_leak(tmp_path: Path) -> None:
    source = "from threading import Timer\ndef test_it():\n    Timer(0.3, id, (1,)).start()\n"
    done = ScratchSuite(tmp_path, {"test_a.py": source}, rings='socket = ["."]').run("-o", "leak_limit=60")
    assert done.returncode == 0, done.stdout
