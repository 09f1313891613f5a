"""The circuit breaker loses no answer when targets fail partly, and gives such targets a share."""

from __future__ import annotations

import pytest

from bench.simulation.partial_outage import ERROR_RATES, answered, compared, figures, led

SEEDS = (1,)
MINUTES = 4.0


CASES = [(rate, policy) for policy in ("fallback", "round-robin", "fastest") for rate in ERROR_RATES]
# By day each policy at some of the rates.
BY_DAY = CASES[::3]


@pytest.mark.parametrize(
    ("rate", "policy"), [case if case in BY_DAY else pytest.param(*case, marks=pytest.mark.nightly) for case in CASES]
)
def test_item_22_b9_two_targets_that_fail_partly_answer_as_many_as_without_a_breaker(rate: float, policy: str) -> None:
    for seed in SEEDS:
        found = compared(rate, rate, seed=seed, minutes=MINUTES, policy=policy)
        assert len(found.guarded) > 1500
        # What each target does to each request was drawn before: not one may be lost.
        assert found.lost == 0
        assert answered(found.guarded) == answered(found.unguarded)
        assert answered(found.guarded) == pytest.approx(1 - rate**2, abs=0.04)


@pytest.mark.parametrize(
    "rate",
    [rate if rate in ERROR_RATES[::3] else pytest.param(rate, marks=pytest.mark.nightly) for rate in ERROR_RATES],
)
def test_item_22_b9_beside_a_good_target_one_that_fails_partly_has_a_share(rate: float) -> None:
    before, behind = (compared(*rates, minutes=MINUTES) for rates in ((rate, 0.0), (0.0, rate)))
    for results in (before, behind):
        assert answered(results.guarded) == answered(results.unguarded) == 1.0
    # It leads for its share of answers. If it fails mostly, it may have to answer a probe first.
    share = led(before.guarded, "first")
    assert 0 < share < 1 - rate + 0.05
    assert rate > 0.6 or share > 0.8 * (1 - rate)


@pytest.mark.parametrize("per_second", [0.2, 1.0, 40.0])
def test_item_22_b9_it_holds_for_few_requests_and_for_many(per_second: float) -> None:
    for rate in (0.3, 0.6, 0.9):
        found = compared(rate, rate, minutes=120.0 / per_second**0.5 / 6, per_second=per_second)
        assert len(found.guarded) > 100
        assert found.lost == 0


def test_item_22_b9_a_target_that_never_answers_leads_for_probes_alone() -> None:
    found = compared(1.0, 0.0, minutes=10.0)
    assert answered(found.guarded) == 1.0
    # Five in a row, and one probe for each cooldown: 5, 10, 20, then 30 s.
    assert 5 <= led(found.guarded, "first") * len(found.guarded) <= 5 + 3 + 600 / 30


def test_the_table_has_a_row_for_each_error_rate() -> None:
    rows = figures(minutes=0.5).splitlines()[2:]
    assert [row.split("|")[1].strip() for row in rows] == [f"{rate:.0%}" for rate in ERROR_RATES]
