"""Where the time of the tests goes: by folder with its budget, by file, by test. `make test-times` prints it.

Durations are sums over all processes of the last `make test`, fixtures included. A folder may take half as much again
as its budget in `tests/budgets.toml` before it is reported: time is noisy.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.results import Results, TestResult, read_results
from tests.rings import RINGS

ROOT = Path(__file__).parents[1]
BUDGETS = ROOT / "tests/budgets.toml"
RESULTS = ROOT / "build/test/results.json"
TOLERANCE = 1.5


def budgets() -> dict[str, float]:
    """Folder below `tests/` to seconds."""
    table: dict[str, float] = tomllib.loads(BUDGETS.read_text(encoding="utf-8"))["folders"]
    return table


def seconds_by(tests: Iterable[TestResult], key: Callable[[TestResult], str]) -> dict[str, float]:
    """Sums of durations, the longest first."""
    sums: dict[str, float] = defaultdict(float)
    for test in tests:
        sums[key(test)] += test.duration
    return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def folders_over_budget(results: Results) -> list[str]:
    """The folders that took more than half as much again as their budget."""
    limits = budgets()
    sums = seconds_by(results.tests, lambda test: test.folder)
    return [
        f"{folder} ({seconds:.0f} s of {limits.get(folder, 0.0):.0f})"
        for folder, seconds in sums.items()
        if seconds > TOLERANCE * limits.get(folder, 0.0)
    ]


def report(results: Results, most: int) -> Iterable[str]:
    """The tables."""
    limits = budgets()
    counts = seconds_by(results.tests, lambda test: test.ring)
    yield "ring       seconds   tests"
    for ring in RINGS:
        yield f"{ring:<8} {counts.get(ring, 0.0):>9.1f} {sum(test.ring == ring for test in results.tests):>7}"
    yield ""
    yield "folder              seconds  budget   tests"
    for folder, seconds in seconds_by(results.tests, lambda test: test.folder).items():
        many = sum(test.folder == folder for test in results.tests)
        over = "  over budget" if seconds > TOLERANCE * limits.get(folder, 0.0) else ""
        yield f"{folder:<18} {seconds:>8.1f} {limits.get(folder, 0.0):>7.0f} {many:>7}{over}"
    for title, sums in (
        ("file", seconds_by(results.tests, lambda test: test.file)),
        ("test", seconds_by(results.tests, lambda test: test.name)),
    ):
        yield ""
        yield f" seconds  {title}"
        for name, seconds in list(sums.items())[:most]:
            yield f"{seconds:>8.1f}  {name}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of the last run."""
    parser = argparse.ArgumentParser(prog="python -m tools.test_times", description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=25, help="how many files and tests to list")
    parser.add_argument("--results", type=Path, default=RESULTS, help="another file of results")
    options = parser.parse_args(arguments)
    if not options.results.exists():
        print("no results yet: run `make test` first", file=sys.stderr)
        return 1
    for line in report(read_results(options.results), options.n):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
