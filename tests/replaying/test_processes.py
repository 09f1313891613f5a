"""The tool with several processes, started as from a shell: its pool leaves a process of its own behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.replaying.test_replay import GOOD
from tools import replay
from tools.replaying.recordings import found_in

ROOT = Path(__file__).parents[2]


def test_several_processes_tell_the_same(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(GOOD))
    (tmp_path / "bad.json").write_text(json.dumps({"choices": [{"index": 0, "message": 1}]}))
    command = [sys.executable, "-m", "tools.replay", str(tmp_path), "--jobs", "2"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.stdout.strip() == replay.replayed(found_in(tmp_path)).table, told.stderr
