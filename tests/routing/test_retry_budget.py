"""How often a target may be asked again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.routing.retry_budget import EACH, FILL, FULL, TargetRetryBudgets

A = "one/model"


def test_a_bucket_is_full_at_first_and_empties_by_one() -> None:
    budgets = TargetRetryBudgets()
    assert [budgets.spend(A) for _ in range(12)] == [True] * 10 + [False] * 2
    assert not budgets.has(A)
    assert budgets.has("two/model")
    assert budgets.remaining(A) == 0.0


def test_answers_fill_it_up_to_the_brim() -> None:
    budgets = TargetRetryBudgets()
    while budgets.spend(A):
        pass
    for _ in range(5):
        assert not budgets.has(A)
        budgets.fill(A)
    assert budgets.has(A)
    for _ in range(1000):
        budgets.fill(A)
    assert budgets.remaining(A) == FULL


def test_time_fills_it_too() -> None:
    now = [100.0]
    budgets = TargetRetryBudgets(lambda: now[0])
    while budgets.spend(A):
        pass
    now[0] += EACH - 0.5
    assert not budgets.has(A)
    now[0] += 0.5
    assert [budgets.spend(A), budgets.spend(A)] == [True, False]
    now[0] += 1000 * EACH
    assert budgets.remaining(A) == FULL


@pytest.mark.parametrize("retries", [1, 2, 10])
def test_pitfall_324_with_a_target_that_always_fails_there_are_hardly_more_calls_than_requests(retries: int) -> None:
    budgets, requests, calls = TargetRetryBudgets(), 100, 0
    for _ in range(requests):
        calls += 1
        for _ in range(retries):
            if not budgets.spend(A):
                break
            calls += 1
    assert calls <= 1.2 * requests


@given(st.lists(st.booleans(), max_size=300), st.integers(1, 5))
def test_pitfall_324_calls_are_bounded_however_a_target_fails(answers: list[bool], retries: int) -> None:
    budgets, requests, left = TargetRetryBudgets(), 0, iter(answers)
    calls = 0
    for answered in left:
        requests += 1
        calls += 1
        for _ in range(retries):
            if answered or not budgets.spend(A):
                break
            calls += 1
            answered = next(left, False)
        if answered:
            budgets.fill(A)
        assert 0.0 <= budgets.remaining(A) <= FULL
    assert calls <= (1 + FILL) * requests + FULL


def test_the_number_of_buckets_is_bounded_and_the_emptiest_are_kept() -> None:
    budgets = TargetRetryBudgets(max_targets=8)
    while budgets.spend(A):
        pass
    for number in range(100):
        assert budgets.spend(f"made/up{number}")
    assert not budgets.has(A)
