"""Runs the pure ring of the tests on all cores, and prints what failed. `make quick` is this.

The complete output of every process is in `build/quick/`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from tests.results import FAILED, PASSED, SKIPPED, Results, read_results
from tools.run_tests import ROOT, pytest_command, shown

LOGS = ROOT / "build/quick"
# Fewer examples than `make test`, and no watch for a test that hangs: whoever runs this sees it.
EXAMPLES = {"HYPOTHESIS_PROFILE": "quick"}
NO_WATCH = ("-o", "faulthandler_timeout=0")
# Plugins that no pure test needs: each is asked at every step of every test.
UNUSED = ("xdist", "xdist.looponfail", "logging", "anyio", "doctest", "junitxml", "legacypath", "pastebin", "subtests")
# Pure tests start no process, so that what they print goes through `sys`.
LEAN = ("--capture=sys", *chain.from_iterable(("-p", f"no:{name}") for name in UNUSED))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests; return 0 if all passed."""
    parser = argparse.ArgumentParser(prog="python -m tools.quick_tests", description=__doc__.split("\n")[0])
    parser.add_argument("pytest", nargs="*", default=[], help="further arguments of pytest, behind --")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    shutil.rmtree(LOGS, ignore_errors=True)
    claims = LOGS / "claims"
    claims.mkdir(parents=True)
    ways = [LOGS / f"{number}" for number in range(1, len(os.sched_getaffinity(0)) + 1)]
    running = [_start(way, "--ring", "pure", f"--claims={claims}", *NO_WATCH, *options.pytest) for way in ways]
    try:
        statuses = [process.wait() for process in running]
    except KeyboardInterrupt:
        # They were interrupted as well.
        for process in running:
            process.wait()
        return 130
    results = Results()
    for way, status in zip(ways, statuses, strict=True):
        if status not in (0, 1) or not _results(way).exists():
            print(_log(way).read_text(encoding="utf-8", errors="replace"))
            return 1
        part = read_results(_results(way))
        results.tests += part.tests
        results.errors += part.errors
    failed = results.of(FAILED)
    if failed or results.errors:
        print("\n".join([*results.errors, shown(failed)]))
    print(
        f"pure ring: {len(results.of(PASSED))} passed, {len(failed)} failed, {len(results.of(SKIPPED))} skipped"
        f" in {time.monotonic() - began:.0f} s"
    )
    return int(bool(failed or results.errors or any(statuses)))


def _start(way: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with _log(way).open("wb") as output:
        return subprocess.Popen(
            pytest_command(*LEAN, *arguments, results=_results(way)),
            cwd=ROOT,
            env=os.environ | EXAMPLES,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _log(way: Path) -> Path:
    return way.with_suffix(".log")


def _results(way: Path) -> Path:
    return way.with_suffix(".json")


if __name__ == "__main__":
    sys.exit(main())
