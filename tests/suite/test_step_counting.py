"""Counted steps: the same each time, and what is more than linear is seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.step_counting import StepCounter, assert_linear, count_steps


def linear(size: int) -> Callable[[], object]:
    return lambda: [number + 1 for number in range(size)]


def quadratic(size: int) -> Callable[[], object]:
    return lambda: [number for number in range(size) for _ in range(number)]


def test_the_same_work_takes_the_same_steps() -> None:
    assert count_steps(linear(100)) == count_steps(linear(100)) > 100


def test_linear_work_is_linear() -> None:
    assert_linear(linear, 200)


def test_more_than_linear_work_is_not() -> None:
    with pytest.raises(AssertionError, match=r"\d+ steps for 50, \d+ for 100"):
        assert_linear(quadratic, 50)


def test_work_that_is_done_in_c_cannot_be_judged() -> None:
    with pytest.raises(AssertionError, match="count something else"):
        assert_linear(lambda size: lambda: bytes(size).count(b"a"), 50)


def test_a_counter_may_be_entered_again() -> None:
    counter = StepCounter()
    for _ in range(2):
        with counter:
            linear(10)()
    assert counter.steps >= 2 * count_steps(linear(10))
