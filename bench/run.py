"""Measures the hot paths: requests, whole answers and streams in all nine directions.

make bench                                  the full table, written to bench/results
python -m bench.run --quick                 one look at everything, to see that it runs
python -m bench.run --only a-c --only agent some of it
python -m bench.run --profile a-c agent     where the time goes
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
from collections.abc import Sequence
from time import process_time

from msgspec.structs import replace

from bench.cases import Case, cases
from bench.measure import FULL, QUICK, measure
from bench.report import RESULTS, Row, table, write

# A profile looks at least this long, in seconds of processor time.
PROFILE_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the status says whether it could, not whether it was fast."""
    options = _options().parse_args(arguments)
    if options.profile:
        return _profile(tuple(options.profile))
    chosen = cases(tuple(options.only))
    if not chosen:
        print(f"nothing is called {' and '.join(options.only)}", file=sys.stderr)
        return 2
    effort = replace(QUICK if options.quick else FULL, collect=options.collect)
    rows: list[Row] = []
    # A workload at a time: 2 MB bodies between small ones would measure the allocator and the caches instead.
    for workload in dict.fromkeys(case.workload for case in chosen):
        group = [case for case in chosen if case.workload == workload]
        costs = measure([(case.run, case.units) for case in group], effort)
        rows += [
            Row(direction=case.direction, workload=workload, cost=cost) for case, cost in zip(group, costs, strict=True)
        ]
    print(table(rows))
    if not options.quick and not options.only and not options.collect:
        write(rows, effort)
        print(f"\nwritten to {RESULTS.name}/translation.md and {RESULTS.name}/translation.json")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure the hot paths of translation.")
    parser.add_argument("--quick", action="store_true", help="one look at everything; writes no results")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="a direction (a-c) or a workload")
    parser.add_argument("--collect", action="store_true", help="leave the garbage collector on; writes no results")
    parser.add_argument("--profile", nargs=2, metavar=("DIRECTION", "WORKLOAD"), help="print where the time goes")
    return parser


def _profile(words: tuple[str, ...]) -> int:
    chosen = cases(words)
    if not chosen:
        print(f"nothing is called {' '.join(words)}", file=sys.stderr)
        return 2
    for case in chosen:
        print(f"{case.direction} {case.workload}")
        _profile_case(case)
    return 0


def _profile_case(case: Case) -> None:
    case.run()
    profiler = cProfile.Profile()
    until = process_time() + PROFILE_SECONDS
    while process_time() < until:
        profiler.runcall(case.run)
    pstats.Stats(profiler, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(30)


if __name__ == "__main__":
    sys.exit(main())
