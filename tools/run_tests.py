"""Runs everything that a change must pass: format, lint, types, import contracts, tests. `make test` is this.

A failed test is confirmed before it blocks: it runs three times alone, without other load. If all three pass, it is
listed under "unstable tests" and the run is green. If one fails, or more than three tests are unstable, it is red.

Complete output of every step is in `build/test/`. On success this prints a summary of at most 60 lines; on failure the
failure is the last thing printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.results import FAILED, PASSED, SKIPPED, Results, TestResult, read_results
from tests.rings import RINGS
from tools.test_times import folders_over_budget

ROOT = Path(__file__).parents[1]
LOGS = ROOT / "build/test"
RESULTS = LOGS / "results.json"
BIN = Path(sys.executable).parent
CHECKS = {
    "format": (str(BIN / "ruff"), "format", "--check", "."),
    "lint": (str(BIN / "ruff"), "check", "."),
    "imports": (str(BIN / "lint-imports"),),
    "types": (str(BIN / "mypy"),),
}
# One more than cores: tests of processes wait for a third of their time.
WORKERS = str(len(os.sched_getaffinity(0)) + 1)
# A file is run by one process, in the order of `tests/ordering.py`.
BY_FILE = ("--dist", "loadfile", "--no-loadscope-reorder")
# How often a failed test runs again, and how many may be unstable before the run is red.
REPEATS = 3
MAX_UNSTABLE = 3
# What a failure of isolation says; it is the file's, not the last test's.
_LEAK = "leaves behind:"
# Lines of one failure that are shown.
_MAX_LINES = 200


class Step:
    """A command whose output goes to a file."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.log = LOGS / f"{name}.log"
        self._started = time.monotonic()
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def wait(self) -> int:
        """Wait for the end; print a line; return the exit status."""
        status = self._process.wait()
        word = "ok" if status == 0 else f"FAILED ({status})"
        print(f"{self.name:<10} {word:<12} {time.monotonic() - self._started:6.0f} s", flush=True)
        return status

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()

    def text(self) -> str:
        """The end of what it printed."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_MAX_LINES:])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all; return 0 if the change may land."""
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests", description=__doc__.split("\n")[0])
    parser.add_argument("--workers", default=WORKERS, help=f"processes that run tests; {WORKERS} if not given")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest, behind --")
    options = parser.parse_args(arguments)
    LOGS.mkdir(parents=True, exist_ok=True)
    RESULTS.unlink(missing_ok=True)
    began = time.monotonic()
    # Types take a minute of one core: beside the tests, which often wait.
    types = Step("types", CHECKS["types"])
    for name in ("format", "lint", "imports"):
        step = Step(name, CHECKS[name])
        if step.wait():
            types.stop()
            return _fail(step.text())
    tests = Step("tests", pytest_command("-n", options.workers, *BY_FILE, *options.pytest))
    if types.wait():
        tests.wait()
        return _fail(types.text())
    status = tests.wait()
    if not RESULTS.exists():
        return _fail(tests.text())
    results = read_results(RESULTS)
    failure = judge(results, status, tests.text(), fails_again)
    print(f"total      {'':12} {time.monotonic() - began:6.0f} s")
    if failure:
        return _fail(failure)
    return 0


def pytest_command(*more: str, results: Path = RESULTS) -> list[str]:
    """pytest with the results written to a file."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--results={results}", *more]


def judge(results: Results, status: int, output: str, is_stable: Callable[[TestResult], bool]) -> str:
    """Print the summary; return what makes the run red, or nothing.

    `is_stable` runs a failed test again and says whether it fails again.
    """
    failed = results.of(FAILED)
    for line in summary(results):
        print(line)
    too_many = len(failed) > MAX_UNSTABLE
    if too_many:
        print(f"{len(failed)} tests failed: more than {MAX_UNSTABLE} are red, confirmed or not, so none runs again")
    confirmed = [test for test in failed if too_many or is_stable(test)]
    unstable = [test for test in failed if test not in confirmed]
    print("unstable tests: " + (", ".join(test.name for test in unstable) or "none"))
    passed = len(results.of(PASSED)) + len(unstable)
    print(f"tests: {passed} passed, {len(confirmed)} failed, {len(results.of(SKIPPED))} skipped")
    if unstable:
        (LOGS / "unstable.log").write_text(shown(unstable), encoding="utf-8")
        print("output of the unstable tests: build/test/unstable.log")
    if results.errors:
        return "\n".join(results.errors)
    if confirmed:
        return shown(confirmed)
    # pytest ends with 1 because of failed tests; with anything else, or without one, because of something else.
    return output if status not in (0, 1) or (status == 1 and not failed) else ""


def fails_again(test: TestResult) -> bool:
    """Whether a failed test fails once in three times, alone. A leak is its file's, so the file runs."""
    what = test.file if _LEAK in test.text else test.name
    for count in range(REPEATS):
        log = LOGS / f"again-{count + 1}.log"
        with log.open("wb") as output:
            done = subprocess.run(
                pytest_command("-n", "0", what, results=LOGS / "again.json"),
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode:
            return True
    return False


def summary(results: Results) -> list[str]:
    """How many tests of each ring, how long they took together, and the folders that take too long."""
    lines = []
    for ring in RINGS:
        tests = [test for test in results.tests if test.ring == ring]
        seconds = sum(test.duration for test in tests)
        bad = sum(test.outcome == FAILED for test in tests)
        lines.append(f"  {ring:<8} {len(tests):>6} tests {bad:>4} failed {seconds:>7.0f} s of tests")
    over = folders_over_budget(results)
    lines.append("folders over budget: " + (", ".join(over) or "none"))
    return lines


def shown(tests: Sequence[TestResult]) -> str:
    """What failures printed, the first one last: a reader begins at the end."""
    parts = []
    for test in reversed(tests):
        lines = test.text.rstrip().splitlines()
        cut = [f"… {len(lines) - _MAX_LINES} lines left out"] if len(lines) > _MAX_LINES else []
        parts.append("\n".join([f"==== {test.name}", *cut, *lines[-_MAX_LINES:]]))
    return "\n".join(parts)


def _fail(text: str) -> int:
    sys.stdout.flush()
    print(text)
    return 1


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
