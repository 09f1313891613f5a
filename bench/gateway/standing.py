"""What costs once, not each time: the start, the memory, the size of an installation; and the machine's own pace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from msgspec import json

from bench.gateway.process import Served
from bench.workloads import MESSAGES, request

ROOT = Path(__file__).parents[2]
# What msgspec needs to read 317 KB of agent request on the machine that the bounds were set on, in microseconds a byte.
REFERENCE = 385 / 317_000


def cold_start(start: Callable[[], Served], times: int) -> float:
    """Seconds from the start of the process to the first 200 on /healthz: the median of several."""
    taken: list[float] = []
    for _ in range(times):
        with start() as served:
            taken.append(served.wait_ready())
    return median(taken)


def pace(times: int = 60) -> float:
    """How many times longer than the reference machine this one needs to read the same JSON, just now."""
    body = request("agent", MESSAGES)
    taken: list[float] = []
    for _ in range(times):
        begun = process_time()
        json.decode(body)
        taken.append(process_time() - begun)
    return median(taken) * 1e6 / (len(body) * REFERENCE)


def install_size() -> float | None:
    """Megabytes that a plain installation adds to an empty environment; None if pip cannot install here."""
    with TemporaryDirectory(prefix="bench-install-") as place:
        target = Path(place) / "installed"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        # The tool that builds the package is among the development tools already.
        command += ["--no-build-isolation", "--target", str(target), str(ROOT)]
        try:
            subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        return sum(path.stat().st_size for path in target.rglob("*") if path.is_file()) / 1e6
