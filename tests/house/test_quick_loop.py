"""The quick loop stays quick: what every run of the tests loads first has no SDK in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# In a process of its own: other tests here load the SDKs.
LOADED = """
import importlib, sys
import tests.conftest
assert tests.conftest.pytest_plugins
for plugin in tests.conftest.pytest_plugins:
    importlib.import_module(plugin)
print(*sorted({"anthropic", "openai", "pydantic"} & set(sys.modules)))
"""


def test_what_every_run_loads_first_imports_no_sdk() -> None:
    paths = [str(ROOT), str(ROOT / "src")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{LOADED}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
