"""Growth of work: what inputs of n, 2n and 4n bytes cost, in steps and in bytes of JSON read or written.

with counting_work() as counter:
    counter.assert_linear(decode, [document_of(n) for n in (1000, 2000, 4000)])
"""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from tests.byte_counting import ByteCounter
from tests.laws.json_counting import counting_json
from tests.step_counting import StepCounter

# A share of the work and a number of steps by which growth may exceed a line: tables that are filled once.
_SLACK, _FEW = 0.1, 100
# How often each byte that comes in or goes out may be read from JSON or written to it, and bytes beside them.
_MAX_READS, _BESIDE = 25, 5_000


class WorkCounter:
    """Counts steps and bytes of JSON."""

    def __init__(self, json: ByteCounter) -> None:
        self._json = json

    def assert_linear(self, work: Callable[[bytes], int], inputs: Iterable[bytes], name: str = "") -> None:
        """Assert that work on three inputs, each larger than the one before, grows no faster than their lengths.

        `work` returns the length of what it makes. Differences of the three are compared, which leave out what any
        call takes, so that small inputs are enough.
        """
        small, medium, large = inputs
        before, after = len(medium) - len(small), len(large) - len(medium)
        assert 0 < before < after, (name, before, after)
        one, two, three = (self._count_steps(work, body) for body in (small, medium, large))
        lengths = f"{len(small)}, {len(medium)} and {len(large)} bytes"
        most = max(0, two - one) * after / before * (1 + _SLACK) + _FEW
        assert three - two <= most, f"{name}: {one}, {two} and {three} steps for {lengths}"
        self._check_reads(work, large, name)

    def _count_steps(self, work: Callable[[bytes], int], body: bytes) -> int:
        # The first call warms up caches.
        work(body)
        with StepCounter() as counter:
            work(body)
        return counter.steps

    def _check_reads(self, work: Callable[[bytes], int], body: bytes, name: str) -> None:
        self._json.examined = 0
        made = work(body)
        most = _MAX_READS * (len(body) + made) + _BESIDE
        shown = f"{name}: {self._json.examined} bytes of JSON were read or written for {len(body)} in and {made} out"
        assert self._json.examined <= most, shown


@contextmanager
def counting_work() -> Iterator[WorkCounter]:
    """A counter for the modules of the package that are loaded by now."""
    json = ByteCounter()
    with counting_json(json):
        yield WorkCounter(json)


# Allocations of fewer bytes are objects of a single event. In larger ones, which grow in leaps, a byte in or out may be
# copied so often.
_LARGE, _MAX_COPIES, _LEAP = 4_096, 12, 200_000


def assert_copies_little(work: Callable[[bytes], int], less: bytes, more: bytes) -> None:
    """Assert that no call copies again what earlier calls gathered: C functions copy without taking steps.

    `work` returns the length of what it makes. The second input is longer; what both take is left out.
    """
    copied, made = _copied(work, less)
    copied_more, made_more = _copied(work, more)
    added = len(more) - len(less) + max(0, made_more - made)
    shown = f"{copied} bytes were copied in large pieces for {len(less)} in, {copied_more} for {len(more)}"
    assert copied_more - copied <= _MAX_COPIES * added + _LEAP, shown


def _copied(work: Callable[[bytes], int], body: bytes) -> tuple[int, int]:
    """How many bytes the work allocates in large pieces, freed or not; and what it returns.

    Memory is looked at whenever a function is entered: at its peak since the last time.
    """
    work(body)
    outer = sys.gettrace()
    copied = held = 0

    def enter_frame(frame: FrameType, event: str, argument: object) -> None:
        nonlocal copied, held
        current, peak = tracemalloc.get_traced_memory()
        if peak - held > _LARGE:
            copied += peak - held
        tracemalloc.reset_peak()
        held = current

    tracemalloc.start()
    sys.settrace(enter_frame)
    try:
        made = work(body)
    finally:
        sys.settrace(outer)
        tracemalloc.stop()
    return copied, made
