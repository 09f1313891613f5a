"""Plugins of pytest for tools that run the tests of a tree, this one or another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PLUGINS = Path(__file__).parent


def run_pytest(
    tree: Path,
    plugin: str,
    arguments: Sequence[str],
    variables: Mapping[str, str],
    log: Path,
    limit: float | None = None,
) -> int:
    """Run pytest in a tree with one of our plugins; return its exit status."""
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments)
    environment = {**os.environ, **variables, "PYTEST_PLUGINS": plugin, "PYTHONPATH": str(PLUGINS)}
    with log.open("wb") as output:
        return subprocess.run(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=limit,
        ).returncode
