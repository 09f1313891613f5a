"""Amounts as dollars in text."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.prices.money import NANO, PER_MILLION, PER_PIECE, dollars, in_units, least_dollars, short_dollars


@pytest.mark.parametrize(
    ("nano", "told"),
    [
        (0, "$0.00"),
        (1, "$0.000000001"),
        (10**7, "$0.01"),
        (5 * 10**8, "$0.50"),
        (1_234_500_000, "$1.2345"),
        (-1, "-$0.000000001"),
        (10**400, f"${10**391}.00"),
    ],
)
def test_a_cost_is_shown_to_the_cent_at_least(nano: int, told: str) -> None:
    assert dollars(nano) == told


@given(st.integers(-(10**24), 10**24), st.sampled_from([NANO, PER_MILLION, PER_PIECE]))
def test_what_is_written_is_the_amount(amount: int, unit: int) -> None:
    told = in_units(amount, unit)
    assert Decimal(told).scaleb(len(str(unit)) - 1) == amount
    assert "." not in told or told[-1] not in "0."


@pytest.mark.parametrize(
    ("nano", "told"),
    [
        (0, "$0.00"),
        (1, "<$0.0001"),
        (99_999, "<$0.0001"),
        (100_000, "$0.0001"),
        (12_345_678, "$0.0123"),
        (100_000_000, "$0.10"),
        (994_999_999, "$0.995"),
        (995_000_000, "$1.00"),
        (1_915_200_000, "$1.92"),
        (41_000_000_000, "$41.00"),
    ],
)
def test_a_cost_is_said_in_few_letters(nano: int, told: str) -> None:
    assert short_dollars(nano) == told


@pytest.mark.parametrize(
    ("nano", "told"), [(0, "$0.00"), (38_000, "$0.000038"), (100_000, "$0.0001"), (1_915_200_000, "$1.92")]
)
def test_what_is_at_least_so_much_is_never_less_than_something(nano: int, told: str) -> None:
    assert least_dollars(nano) == told
