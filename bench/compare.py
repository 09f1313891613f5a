"""Compares trees of the library: each in a process of its own, taking turns at every case, the least of many looks.

python -m bench.compare ../before . --only stream     microseconds for one unit, and each tree against the first

A tree is a checkout; this benchmark is run in all of them. Machines have moods: only what was measured in turns, and
at its best, tells two trees apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE, Popen

from bench import streams
from bench.cases import Case, cases
from bench.measure import measure_once

HERE = Path(__file__).resolve().parent.parent
# Long streams, so that a frame's cost is that of a delta.
FRAMES = 1000
LOOK_NS = 10_000_000


class Tree:
    """A checkout, and the process that measures it."""

    def __init__(self, path: Path, only: Sequence[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{path.resolve() / 'src'}:{HERE}", "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-m", "bench.compare", "--serve", *(f"--only={word}" for word in only)]
        self._process = Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=environment, cwd=HERE)

    def look(self, case: int) -> float:
        """What one unit of the case costs now."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, or be the process of one tree."""
    parser = argparse.ArgumentParser(prog="compare", description="Compare trees of the library.")
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="a direction (a-c) or a workload")
    parser.add_argument("--looks", type=int, default=25)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    streams.FRAMES = FRAMES
    chosen = cases(tuple(options.only))
    if options.serve:
        return _serve(chosen)
    trees = [Tree(path, options.only) for path in options.trees]
    for number, case in enumerate(chosen):
        least = [min(looks) for looks in zip(*(_looks(trees, number) for _ in range(options.looks)), strict=True)]
        against = " ".join(f"{cost / least[0] - 1:+7.1%}" for cost in least[1:])
        print(f"{case.direction} {case.workload:16}", *(f"{cost:10.2f}" for cost in least), against, flush=True)
    for tree in trees:
        tree.close()
    return 0


def _looks(trees: list[Tree], case: int) -> list[float]:
    return [tree.look(case) for tree in trees]


def _serve(chosen: list[Case]) -> int:
    for line in sys.stdin:
        case = chosen[int(line)]
        print(measure_once(case.run, case.units, LOOK_NS), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
