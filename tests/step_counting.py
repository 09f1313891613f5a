"""Counts the steps of a computation, so that complexity is asserted without a clock.

    assert_linear(lambda n: lambda: decode(document_of(n)), 500)

A step is one line that the interpreter executes, a turn of a loop on the same line, or the end of a call. The same
input always takes the same number of steps, however busy the machine is. Work inside of C functions is no step,
whatever it costs: where that is the subject, the test counts calls or bytes with a counter of its own.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from math import inf
from types import FrameType

_Trace = Callable[[FrameType, str, object], "_Trace"]


class TooManySteps(BaseException):
    """A computation went on beyond its limit; no code under test catches this."""


class StepCounter:
    """Counts the steps that this thread executes while it is active; it may be entered again.

    With a limit, a computation without end fails instead of holding up the tests.
    """

    def __init__(self, limit: float = inf) -> None:
        self.steps = 0
        self._limit = limit
        self._counted: Callable[[], int] = lambda: 0

    def __enter__(self) -> StepCounter:
        self._outer = sys.gettrace()
        steps, limit = 0, self._limit

        # Runs for every step of the work: a local variable is counted twice as fast as an attribute.
        def step(frame: FrameType, event: str, argument: object) -> _Trace:
            nonlocal steps
            steps += 1
            if steps > limit:
                raise TooManySteps(f"more than {limit} steps, in {frame.f_code.co_qualname}")
            return step

        self._counted = lambda: steps
        # Whoever listens to the garbage collector would be counted, whenever it happens to run.
        self._collects = gc.isenabled()
        gc.disable()
        sys.settrace(step)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._outer)
        if self._collects:
            gc.enable()
        self.steps += self._counted()


def count_steps(work: Callable[[], object]) -> int:
    """The steps of one call, in this thread. The first call warms up caches and is not counted."""
    work()
    with StepCounter() as counter:
        work()
    return counter.steps


def assert_linear(work_on: Callable[[int], Callable[[], object]], size: int, slack: float = 0.1) -> None:
    """Assert that twice the input takes at most twice the steps, with a share of `slack` more.

    `work_on(n)` prepares an input of size n and returns the call to measure.
    """
    once, twice = count_steps(work_on(size)), count_steps(work_on(2 * size))
    assert twice > once, f"{once} steps whatever the size: the work is done in C, so count something else"
    assert twice <= 2 * once * (1 + slack), f"{once} steps for {size}, {twice} for {2 * size}"
