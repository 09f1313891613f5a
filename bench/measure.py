"""How a cost is measured: processor time, the collector out of the way, the median of repeats after a warm-up."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time_ns

from msgspec import Struct


class Effort(Struct, frozen=True, kw_only=True):
    """How long to look: repeats, how long a repeat lasts at least, and whether the collector may run meanwhile."""

    repeats: int
    repeat_ns: int
    collect: bool = False


FULL = Effort(repeats=15, repeat_ns=15_000_000)
QUICK = Effort(repeats=2, repeat_ns=0)


class Cost(Struct, frozen=True, kw_only=True):
    """Microseconds for one unit (a request, an answer, a frame): the median of the repeats and the least."""

    median: float
    least: float


def measure(runs: Sequence[tuple[Callable[[], object], int]], effort: Effort) -> list[Cost]:
    """What one unit costs in each run, given with how many units it handles.

    The runs take turns: what else the machine does meanwhile is then shared by all of them, not borne by a few.
    """
    rounds = [_warmed(run, effort) for run, _ in runs]
    taken: list[list[float]] = [[] for _ in runs]
    gc.collect()
    # What is alive now is no part of what is measured.
    gc.freeze()
    if not effort.collect:
        gc.disable()
    try:
        for _ in range(effort.repeats):
            for (run, units), times, kept in zip(runs, rounds, taken, strict=True):
                kept.append(_timed(run, times) / (times * units * 1000))
    finally:
        gc.enable()
        gc.unfreeze()
    return [Cost(median=median(kept), least=min(kept)) for kept in taken]


def measure_once(run: Callable[[], object], units: int, look_ns: int) -> float:
    """What one unit costs in one look of about that length."""
    times = max(1, look_ns // max(_timed(run, 1), 1))
    gc.collect()
    gc.disable()
    try:
        return _timed(run, times) / (times * units * 1000)
    finally:
        gc.enable()


def _warmed(run: Callable[[], object], effort: Effort) -> int:
    """Run it twice; give how often to run it so that a repeat is long for the clock."""
    _timed(run, 1)
    return max(1, effort.repeat_ns // max(_timed(run, 1), 1))


def _timed(run: Callable[[], object], times: int) -> int:
    started = process_time_ns()
    for _ in range(times):
        run()
    return process_time_ns() - started
