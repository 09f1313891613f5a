"""Rows: the figures that are guarded or shown, by the case that they come from. A new figure is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from bench.gateway.cases import CASES, PACED, Case
from bench.instructions.counting import Counted, count
from bench.instructions.startup import MEMORY, starts
from tools.exchange_trace import count_calls

# Figures of one case, by the names of their rows.
Figures = Mapping[str, float]


class Measured(Struct, frozen=True, kw_only=True):
    """One case: how it is measured."""

    name: str
    measure: Callable[[], Figures]


def _counted(name: str, exchanges: int, warm_up: int) -> Measured:
    """A case of `bench.gateway`, counted in thousands of instructions per exchange."""
    case = next(case for case in CASES if case.name == name and case.mode != PACED)
    return Measured(name=name, measure=lambda: figures_of(case, count(case, exchanges, warm_up)))


def _repeated(name: str, exchanges: int, warm_up: int) -> Measured:
    """A case whose requests are the second and later calls of one conversation."""
    case = next(case for case in CASES if case.name == name and case.mode != PACED)
    case = structs.replace(case, name=f"{name}-repeated", repeats=True)
    return Measured(name=case.name, measure=lambda: figures_of(case, count(case, exchanges, warm_up)))


def _listed(name: str, exchanges: int, warm_up: int) -> Measured:
    """A case whose gateway key has lists of what it may use."""
    case = next(case for case in CASES if case.name == name and case.mode != PACED)
    case = structs.replace(case, name=f"{name}-lists", has_lists=True)
    return Measured(name=case.name, measure=lambda: figures_of(case, count(case, exchanges, warm_up)))


def _recorded(name: str, exchanges: int, warm_up: int) -> Measured:
    """A case whose contents are captured; what the writer's thread does with them is not counted."""
    case = next(case for case in CASES if case.name == name and case.mode != PACED)
    case = structs.replace(case, name=f"{name}-contents", has_contents=True)
    return Measured(name=case.name, measure=lambda: figures_of(case, count(case, exchanges, warm_up)))


def _counted_paced(name: str, exchanges: int, warm_up: int) -> Measured:
    """The paced form of a case, one stream after the other: each read finds one chunk, however slow callgrind is."""
    case = next(case for case in CASES if case.name == name and case.mode == PACED)
    return Measured(name=case.label, measure=lambda: figures_of(case, count(case, exchanges, warm_up, concurrent=1)))


def figures_of(case: Case, counts: Counted) -> Figures:
    """The rows of one case."""
    # A stream in a burst is the usual form of a case.
    name = case.label if case.mode == PACED else case.name
    figures = {
        f"{name} loop": counts.loop / 1000,
        f"{name} ingest": counts.ingest / 1000,
        f"{name} total": (counts.loop + counts.ingest) / 1000,
    }
    if case.units > 1:
        figures[f"{name} loop per chunk"] = counts.loop / 1000 / case.units
    return figures


MEASURED = (
    _counted("S1", exchanges=100, warm_up=40),
    _listed("S1", exchanges=100, warm_up=40),
    _recorded("S1", exchanges=100, warm_up=40),
    _counted("S2", exchanges=100, warm_up=40),
    _counted("S3", exchanges=20, warm_up=16),
    _counted("S4", exchanges=20, warm_up=16),
    _recorded("S4", exchanges=20, warm_up=16),
    _counted_paced("S4", exchanges=5, warm_up=3),
    _counted("S5", exchanges=20, warm_up=16),
    _counted("S6", exchanges=20, warm_up=16),
    _repeated("S6", exchanges=20, warm_up=16),
    _counted("S7", exchanges=20, warm_up=16),
    _counted("S8", exchanges=100, warm_up=40),
    _counted("S9", exchanges=100, warm_up=40),
    Measured(name="start", measure=starts),
    Measured(name="calls", measure=lambda: {"S1 Python calls": float(count_calls("S1"))}),
)
# Rows that are the difference of two others. They are shown and not guarded: a small difference of large figures varies
# by more than the tolerance, and the figures themselves are guarded.
DIFFERENCES = {
    "S1-lists total over S1": ("S1-lists total", "S1 total"),
    "S1-lists loop over S1": ("S1-lists loop", "S1 loop"),
    "contents over S1": ("S1-contents loop", "S1 loop"),
    "contents over S4 per chunk": ("S4-contents loop per chunk", "S4 loop per chunk"),
    "S8 total over S1": ("S8 total", "S1 total"),
    "S8 loop over S1": ("S8 loop", "S1 loop"),
    "S9 total over S1": ("S9 total", "S1 total"),
    "S9 loop over S1": ("S9 loop", "S1 loop"),
}

# Rows that are shown and not guarded; memory is that of the system's choice in part.
SHOWN = frozenset({*DIFFERENCES, MEMORY})


def with_differences(figures: Figures) -> dict[str, float]:
    """The figures and their differences, where both sides are there."""
    differences = {
        name: figures[left] - figures[right]
        for name, (left, right) in DIFFERENCES.items()
        if left in figures and right in figures
    }
    return {**figures, **differences}
