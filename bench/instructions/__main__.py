"""make bench-check: count the instructions of an exchange, and compare them with the accepted figures.

Status 1 if a row is more than 3 % above its accepted figure, 2 if it cannot be measured here.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from bench.gateway.load import LoadError
from bench.gateway.process import PROC, ProcessError
from bench.instructions.accepted import FILE, TOLERANCE, accept, compare, read, table, this_python
from bench.instructions.callgrind import INSTALL, CallgrindError, is_installed
from bench.instructions.rows import MEASURED, with_differences


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, and compare or accept."""
    options = _options().parse_args(arguments)
    wanted = {name.strip().lower() for name in options.case.split(",") if name.strip()}
    measured = [case for case in MEASURED if not wanted or case.name.lower() in wanted]
    if unknown := wanted - {case.name.lower() for case in MEASURED}:
        print(f"no case is called {', '.join(sorted(unknown))}; there are {_names()}", file=sys.stderr)
        return 2
    if not is_installed():
        print(INSTALL, file=sys.stderr)
        return 2
    if not PROC.joinpath("self/stat").exists():
        print("bench-check reads the state of threads from /proc: it needs Linux", file=sys.stderr)
        return 2
    figures: dict[str, float] = {}
    for case in measured:
        print(f"{case.name}: counting", file=sys.stderr, flush=True)
        try:
            figures |= case.measure()
        except (CallgrindError, LoadError, ProcessError, TimeoutError, subprocess.SubprocessError) as error:
            print(f"{case.name} cannot be counted: {error or type(error).__name__}", file=sys.stderr)
            return 2
    figures = with_differences(figures)
    accepted = read()
    compared = compare(accepted, figures)
    print(table(compared))
    if options.accept:
        accept(figures)
        print(f"accepted in {FILE.parent.name}/{FILE.name}")
        return 0
    if accepted.python != this_python():
        print(f"the accepted figures are of Python {accepted.python}; this is {this_python()}", file=sys.stderr)
    worse = [row.name for row in compared if row.is_worse]
    if worse:
        print(f"more than {TOLERANCE:.0%} worse than accepted: {', '.join(worse)}", file=sys.stderr)
    return 1 if worse else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.instructions", description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="", metavar="S1,S4", help=f"some of {_names()}")
    parser.add_argument("--accept", action="store_true", help="write the figures to the accepted ones")
    return parser


def _names() -> str:
    return ", ".join(case.name for case in MEASURED)


if __name__ == "__main__":
    sys.exit(main())
