"""Branch coverage of `src/` by the tests of the pure and the socket ring. `make coverage` prints it.

Only the processes that run tests are measured, not the gateways and clients that the process ring starts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from coverage import Coverage
from msgspec import Struct

from tools.pytest_plugins import run_pytest
from tools.pytest_plugins.coverage_recorder import BRANCHES, DATA_VARIABLE, MODE_VARIABLE

ROOT = Path(__file__).parents[1]
DIRECTORY = ROOT / "build/coverage"
# Arguments of pytest that select the tests.
RINGS = ("--ring", "pure", "--ring", "socket")
# How many files are listed.
MOST = 10


class Share(Struct, kw_only=True):
    """How much of a file or of all files was executed."""

    percent_covered: float
    num_statements: int
    missing_lines: int
    num_branches: int
    missing_branches: int


class Report(Struct, kw_only=True):
    """Shares by path, and of all files together."""

    files: dict[str, Share]
    totals: Share


class _WrittenFile(Struct, kw_only=True):
    summary: Share


class _Written(Struct, kw_only=True):
    """The JSON report of coverage.py."""

    files: dict[str, _WrittenFile]
    totals: Share


def record(tree: Path, data: Path, mode: str, tests: Sequence[str], workers: str) -> int:
    """Run tests of a tree and write what they execute to a data file; return pytest's exit status."""
    data.parent.mkdir(parents=True, exist_ok=True)
    for old in data.parent.glob(f"{data.name}*"):
        old.unlink()
    arguments = ("-n", workers, "--dist", "loadfile", *tests)
    variables = {MODE_VARIABLE: mode, DATA_VARIABLE: str(data.absolute())}
    status = run_pytest(tree, "coverage_recorder", arguments, variables, data.parent / f"{data.name}-tests.log")
    Coverage(data_file=str(data), config_file=False, messages=False).combine([str(data.parent)])
    return status


def read_report(tree: Path, data: Path) -> Report:
    """Compute the report of a data file."""
    coverage = Coverage(data_file=str(data), source=[str(tree / "src")], config_file=False, messages=False)
    coverage.load()
    written = data.parent / "report.json"
    coverage.json_report(outfile=str(written))
    read = msgspec.json.decode(written.read_bytes(), type=_Written)
    return Report(files={path: file.summary for path, file in read.files.items()}, totals=read.totals)


def lines_of(report: Report) -> Iterator[str]:
    """The total, and the files with most branches that no test takes."""
    total = report.totals
    taken = total.num_branches - total.missing_branches
    yield f"lines and branches {total.percent_covered:.2f} %"
    yield f"branches           {100 * taken / total.num_branches:.2f} % ({taken} of {total.num_branches})"
    yield ""
    yield "missing branches"
    files = sorted(report.files.items(), key=lambda pair: -pair[1].missing_branches)
    for path, share in files[:MOST]:
        yield f"{share.missing_branches:>7} of {share.num_branches:>4}  {path}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.branch_coverage", description=__doc__.split("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="another tree")
    parser.add_argument("--data", type=Path, default=DIRECTORY, help="directory of the recorded data")
    parser.add_argument("--workers", default="auto", help="processes that run tests")
    parser.add_argument("tests", nargs="*", default=RINGS, help="arguments of pytest that select tests, behind --")
    options = parser.parse_args(arguments)
    data = options.data / "branches"
    if status := record(options.tree.absolute(), data, BRANCHES, options.tests, options.workers):
        print(f"pytest ended with status {status}: see {data}-tests.log", file=sys.stderr)
    for line in lines_of(read_report(options.tree, data)):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
