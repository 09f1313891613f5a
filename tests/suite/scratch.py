"""A scratch suite: a few test files with the plugins of this one, run by a pytest of their own.

suite = ScratchSuite(tmp_path, {"test_a.py": "def test_it(): pass"}, rings='pure = ["."]')
done = suite.run()
assert done.returncode == 0, done.stdout
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

TESTS = Path(__file__).parents[1]
PLUGINS = ("rings", "isolation", "ordering", "results", "reports", "sharing")
MODULES = (*PLUGINS, "waiting", "virtual_time")
_CONFTEST = f"pytest_plugins = {tuple(f'tests.{name}' for name in PLUGINS)}\n"
_SETTINGS = (
    '[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = ["-q", "--import-mode=importlib"]\nleak_limit = "0.2"\n'
)


class ScratchSuite:
    """A tree with `tests/` and the settings of pytest in it."""

    def __init__(self, directory: Path, files: Mapping[str, str], rings: str = 'pure = ["."]') -> None:
        self.directory = directory
        tests = directory / "tests"
        tests.mkdir()
        for name in MODULES:
            shutil.copy(TESTS / f"{name}.py", tests)
        (tests / "conftest.py").write_text(_CONFTEST)
        (tests / "rings.toml").write_text(rings)
        (directory / "pyproject.toml").write_text(_SETTINGS)
        (directory / "tmp").mkdir()
        for name, text in files.items():
            path = tests / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
            cwd=self.directory,
            env={**os.environ, "TMPDIR": str(self.directory / "tmp")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
