"""What is remembered of one target, and which of two notices of it holds."""

from __future__ import annotations

import itertools

import pytest

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_entry import HALF_WINDOW, TARGETS, HealthEntry, HealthUpdate, Permit
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState

A = "one/model"


def standing(level: HealthLevel, until: float, now: float = 0.0) -> HealthEntry:
    health = HealthEntry(now)
    health.enter(level, until, now)
    return health


@pytest.mark.parametrize("level", [HealthLevel.SUSPECT, HealthLevel.SLOW_START])
def test_what_is_over_is_over_at_its_end_and_not_before(level: HealthLevel) -> None:
    health = standing(level, 10.0)
    health.expire(9.9)
    assert health.state == HealthState(level, 10.0)
    health.expire(10.0)
    assert (health.state, health.level_since) == (HEALTHY, 10.0)


def test_a_probe_of_which_nobody_hears_leaves_a_target_that_rests() -> None:
    health = standing(HealthLevel.PROBING, 10.0)
    health.expire(10.0)
    assert health.level is HealthLevel.COOLDOWN


def test_a_rest_is_not_over_by_itself() -> None:
    health = standing(HealthLevel.COOLDOWN, 10.0)
    health.expire(1000.0)
    assert health.level is HealthLevel.COOLDOWN


def test_only_the_permit_that_was_given_last_says_anything() -> None:
    health = HealthEntry(0.0)
    health.holder = 3
    assert [health.holds(permit) for permit in (None, Permit(), Permit(2), Permit(3))] == [False, False, False, True]


def test_answers_and_failures_are_compared_over_two_halves_of_a_window() -> None:
    health = HealthEntry(0.0)
    health.good, health.bad = 3, 2
    health.roll(HALF_WINDOW)
    assert (health.good, health.bad, health.good_before, health.bad_before) == (0, 0, 3, 2)
    health.roll(10 * HALF_WINDOW)
    assert (health.good_before, health.bad_before) == (0, 0)


def test_a_step_down_begins_a_new_epoch_and_a_step_up_does_not() -> None:
    health = standing(HealthLevel.SUSPECT, 10.0, now=1.0)
    assert health.epoch == 0.0
    health.enter(HealthLevel.HEALTHY, 2.0, 2.0)
    assert health.epoch == 2.0
    # However often that is within one moment.
    health.begin_epoch(2.0)
    assert health.epoch > 2.0


def test_of_two_notices_the_later_epoch_holds_then_the_higher_rank_then_the_later_end() -> None:
    rising = [
        HealthUpdate(A, HealthLevel.SLOW_START, 90.0, 1.0),
        HealthUpdate(A, HealthLevel.SUSPECT, 90.0, 2.0),
        HealthUpdate(A, HealthLevel.COOLDOWN, 20.0, 2.0),
        HealthUpdate(A, HealthLevel.COOLDOWN, 30.0, 2.0),
        HealthUpdate(A, HealthLevel.PROBING, 10.0, 2.0),
    ]
    for earlier, later in itertools.combinations(rising, 2):
        health = HealthEntry(0.0)
        assert health.adopt(earlier) and health.adopt(later)
        assert not health.adopt(later) and not health.adopt(earlier)
        assert health.state == HealthState(later.level, later.until)


def test_what_is_told_of_a_target_is_what_another_worker_then_tells() -> None:
    health, other = standing(HealthLevel.COOLDOWN, 10.0, now=5.0), HealthEntry(0.0)
    health.last, health.failed, health.cooldowns = AttemptOutcome.OVERLOADED, 4.0, 2
    assert other.adopt(health.make_update(A, TARGETS))
    assert other.make_update(A, TARGETS) == health.make_update(A, TARGETS)


def test_a_target_that_ramps_is_heard_of_from_when_its_ramp_began() -> None:
    health = HealthEntry(0.0)
    assert health.adopt(HealthUpdate(A, HealthLevel.SLOW_START, 100.0, 1.0))
    assert (health.since, health.healthy_since, health.wakes) == (100.0 - SLOW_START_SECONDS, 100.0, 0.0)
