"""Chance decides, by weight."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.routing.policies.weighted import order
from tests.routing.lines import CHANCES

THROWS = 20_000


def first(weights: tuple[float, ...], *, without: int | None = None) -> dict[int, float]:
    """How often each came first, of those that were not taken away."""
    dice = Random(25)
    found = Counter(
        next(index for index in order(weights, 0, dice.random()) if index != without) for _ in range(THROWS)
    )
    return {index: count / THROWS for index, count in found.items()}


def test_weights_converge() -> None:
    assert first((80.0, 20.0)) == pytest.approx({0: 0.8, 1: 0.2}, abs=0.01)
    assert first((1.0, 2.0, 3.0, 4.0)) == pytest.approx({0: 0.1, 1: 0.2, 2: 0.3, 3: 0.4}, abs=0.015)


def test_the_others_take_the_place_of_one_that_falls_out_by_their_weights() -> None:
    assert first((50.0, 30.0, 20.0), without=0) == pytest.approx({1: 0.6, 2: 0.4}, abs=0.015)


def test_whoever_has_no_weight_comes_last() -> None:
    assert list(order((0.0, 1.0, 0.0), 0, 0.0)) == [1, 0, 2]
    assert list(order((0.0, 0.0), 0, 0.7)) == [0, 1]


@given(st.lists(st.floats(0, 2.0**53), max_size=6), CHANCES)
def test_everybody_stands_in_it_once(weights: list[float], chance: float) -> None:
    assert sorted(order(weights, 0, chance)) == list(range(len(weights)))
