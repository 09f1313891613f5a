"""How targets stand after what became of the attempts on them."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import json

from dragoman.routing.attempt_outcome import COUNTING, LIVING, AttemptOutcome
from dragoman.routing.health import (
    CONSECUTIVE_FAILURES,
    FIRST_COOLDOWN,
    MAX_COOLDOWN,
    MAX_PROMPT_COOLDOWN,
    PROMPT,
    SUSPICION,
    Health,
)
from dragoman.routing.health_entry import HealthUpdate
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState

A, B = "one/model", "two/model"
FAILURE = AttemptOutcome.OVERLOADED
counting = st.sampled_from(
    [kind for kind in AttemptOutcome if kind in COUNTING and kind is not AttemptOutcome.FIRST_BYTE_TIMEOUT]
)
harmless = st.sampled_from(
    [kind for kind in AttemptOutcome if kind not in COUNTING and kind is not AttemptOutcome.SLOW_RESPONSE]
)
kinds = st.sampled_from(AttemptOutcome)
steps = st.lists(st.tuples(kinds, st.floats(0, 20)), max_size=60)


def fail(health: Health, now: float, times: int = 1, target: str = A) -> None:
    for _ in range(times):
        health.record(target, FAILURE, now, now)


def fail_slowly(health: Health, now: float, times: int = 1) -> None:
    """Errors that took long."""
    for _ in range(times):
        health.record(A, FAILURE, now, now - PROMPT)


def cooldown(until: float) -> HealthState:
    """The cooldown of a target whose errors come back quickly."""
    return HealthState(HealthLevel.COOLDOWN, until, prompt=True)


def resting(now: float = 0.0) -> Health:
    health = Health()
    fail(health, now, CONSECUTIVE_FAILURES)
    return health


def probe(health: Health, now: float, kind: AttemptOutcome, ended: float | None = None) -> None:
    """Ask as the one who may."""
    permit = health.take_permit(A, now, 60.0)
    assert permit is not None
    health.record(A, kind, now if ended is None else ended, now, permit=permit)


def level(health: Health, now: float, target: str = A) -> HealthLevel:
    return health.state(target, now).level


def test_whoever_was_never_heard_of_is_good() -> None:
    assert Health().state(A, 5.0) is HEALTHY


def test_pitfall_339_one_failure_makes_a_suspect_for_a_while() -> None:
    health = Health()
    fail(health, 1.0)
    assert health.state(A, 1.0).level is HealthLevel.SUSPECT
    assert health.state(A, 1.0).until == 1.0 + SUSPICION
    assert level(health, 1.0 + SUSPICION) is HealthLevel.HEALTHY
    assert level(health, 1.0, B) is HealthLevel.HEALTHY


def test_pitfall_322_a_dead_target_costs_the_first_request_alone() -> None:
    health = Health()
    health.record(A, AttemptOutcome.ANSWERED, 1.0, 1.0)
    fail(health, 1.0 + SUSPICION)
    assert level(health, 1.0 + SUSPICION) is HealthLevel.SUSPECT


def test_pitfall_339_one_that_fails_among_others_that_are_answered_makes_no_suspect() -> None:
    health = Health()
    for turn in range(20):
        now = turn * SUSPICION
        health.record(A, AttemptOutcome.ANSWERED, now - 1, now - 1)
        fail(health, now)
        assert health.state(A, now) is HEALTHY
        health.record(A, AttemptOutcome.ANSWERED, now + 1, now)
    # A second one of another request does.
    fail(health, now + 2)
    assert level(health, now + 2) is HealthLevel.SUSPECT
    health.record(A, AttemptOutcome.ANSWERED, now + 3, now)
    fail(health, now + 4)
    assert health.state(A, now + 4).until == now + 4 + SUSPICION


def test_pitfall_339_five_in_a_row_rest_and_an_answer_between_does_not() -> None:
    health = Health()
    fail_slowly(health, 10.0, CONSECUTIVE_FAILURES - 1)
    health.record(A, AttemptOutcome.ANSWERED, 10.0, 1.0)
    fail_slowly(health, 10.0, CONSECUTIVE_FAILURES - 1)
    assert level(health, 10.0) is HealthLevel.SUSPECT
    fail_slowly(health, 10.0)
    assert health.state(A, 10.0) == HealthState(HealthLevel.COOLDOWN, 10.0 + FIRST_COOLDOWN)


def test_half_of_ten_that_take_long_rest() -> None:
    health = Health()
    for turn in range(10, 15):
        assert level(health, turn) is not HealthLevel.COOLDOWN
        health.record(A, AttemptOutcome.ANSWERED, turn, turn)
        fail_slowly(health, turn)
    assert health.state(A, 14.0) == HealthState(HealthLevel.COOLDOWN, 14.0 + FIRST_COOLDOWN)


def test_less_than_half_of_ten_that_take_long_do_not_rest() -> None:
    health = Health()
    for turn in range(10, 16):
        health.record(A, AttemptOutcome.ANSWERED, turn, turn)
    for turn in range(10, 14):
        fail_slowly(health, turn + 6)
    assert level(health, 20.0) is HealthLevel.SUSPECT


def test_item_22_b9_a_target_that_fails_partly_leads_in_proportion_to_its_share_of_answers() -> None:
    for answers, failures, share in ((1, 1, 0.5), (1, 4, 0.2), (3, 1, 0.75)):
        health = Health()
        for turn in range(20):
            for kind in (*[AttemptOutcome.ANSWERED] * answers, *[FAILURE] * failures):
                health.record(A, kind, turn / 10, turn / 10)
        assert health.state(A, 2.0) == HealthState(HealthLevel.SUSPECT, 1.9 + SUSPICION, share)
        assert health.state(A, 2.0).share(2.0) == share


def test_item_22_b9_after_prompt_errors_the_cooldown_is_one_of_leading_alone() -> None:
    health = resting()
    assert health.state(A, 0.0) == cooldown(FIRST_COOLDOWN)
    assert health.state(A, 0.0).is_last_resort(0.0)
    assert not health.state(A, FIRST_COOLDOWN).is_last_resort(FIRST_COOLDOWN)
    slow = Health()
    fail_slowly(slow, 10.0, CONSECUTIVE_FAILURES)
    assert not slow.state(A, 10.0).is_last_resort(10.0)


def test_item_22_b9_how_many_in_a_row_trip_depends_on_how_many_calls_an_answer_took() -> None:
    health = Health()
    for _ in range(3):
        fail(health, 1.0, 3)
        health.record(A, AttemptOutcome.ANSWERED, 1.0, 1.0)
    # One call in four was answered.
    fail(health, 1.0, 4 * CONSECUTIVE_FAILURES - 1)
    assert level(health, 1.0) is HealthLevel.SUSPECT
    fail(health, 1.0)
    assert health.state(A, 1.0) == cooldown(1.0 + FIRST_COOLDOWN)


def test_item_22_b9_a_probe_that_takes_long_to_fail_ends_the_last_resort() -> None:
    health = resting()
    probe(health, FIRST_COOLDOWN, FAILURE, FIRST_COOLDOWN + PROMPT)
    standing = health.state(A, FIRST_COOLDOWN + PROMPT)
    assert standing == HealthState(HealthLevel.COOLDOWN, FIRST_COOLDOWN + PROMPT + 2 * FIRST_COOLDOWN)
    probe(health, standing.until, FAILURE)
    assert health.state(A, standing.until).is_last_resort(standing.until)


def test_one_in_three_does_not_rest() -> None:
    health = Health()
    for turn in range(300):
        health.record(A, FAILURE if turn % 3 == 0 else AttemptOutcome.ANSWERED, turn / 10, turn / 10)
        assert level(health, turn / 10) in (HealthLevel.HEALTHY, HealthLevel.SUSPECT)


def test_failures_of_long_ago_are_not_compared_with_answers_of_today() -> None:
    health = Health()
    for turn in range(20):
        health.record(A, FAILURE if turn % 5 > 2 else AttemptOutcome.ANSWERED, turn, turn)
    before = level(health, 20.0)
    fail(health, 300.0)
    assert (before, level(health, 300.0)) == (HealthLevel.SUSPECT, HealthLevel.SUSPECT)


@given(harmless)
def test_pitfall_338_340_a_thousand_bad_requests_change_nothing(kind: AttemptOutcome) -> None:
    health = Health()
    for turn in range(1000):
        health.record(A, kind, turn / 100, turn / 100)
        assert health.state(A, turn / 100) is HEALTHY
    assert health.take_updates() == []


@given(st.lists(counting, min_size=2, max_size=30))
def test_pitfall_315_one_request_adds_at_most_one_failure(failed: list[AttemptOutcome]) -> None:
    health = Health()
    charged: set[str] = set()
    for kind in failed:
        health.record(A, kind, 1.0, 1.0, charged)
    (report,) = health.reports(1.0)
    assert report.consecutive_failures == 1
    assert report.health.level is HealthLevel.SUSPECT
    health.record(B, failed[0], 1.0, 1.0, charged)
    assert charged == {A, B}


def test_pitfall_322_what_rests_is_known_before_the_next_request() -> None:
    health = resting()
    assert level(health, 0.0) is HealthLevel.COOLDOWN
    assert level(health, 0.0, B) is HealthLevel.HEALTHY


# Rests, probes and ramps.


def test_pitfall_352_after_a_rest_one_request_probes_and_then_some_go() -> None:
    health = resting()
    end = FIRST_COOLDOWN
    standing = health.state(A, end)
    assert (standing.level, standing.until) == (HealthLevel.COOLDOWN, end)
    permit = health.take_permit(A, end, 60.0)
    assert [health.take_permit(A, end, 60.0) for _ in range(3)] == [None] * 3
    assert health.state(A, end).level is HealthLevel.PROBING
    health.record(A, AttemptOutcome.ANSWERED, end + 1, end, permit=permit)
    standing = health.state(A, end + 1)
    assert (standing.level, standing.until) == (HealthLevel.SLOW_START, end + 1 + SLOW_START_SECONDS)
    assert standing.share(end + 1) == 0.25
    assert health.take_permit(A, end + 1, 60.0)
    assert health.state(A, end + 1 + SLOW_START_SECONDS) is HEALTHY


@pytest.mark.parametrize("kind", [kind for kind in AttemptOutcome if kind in LIVING])
def test_any_answer_to_a_probe_is_one_of_a_target_that_lives(kind: AttemptOutcome) -> None:
    health = resting()
    probe(health, FIRST_COOLDOWN, kind, FIRST_COOLDOWN + 1)
    assert level(health, FIRST_COOLDOWN + 1) is HealthLevel.SLOW_START


def test_a_probe_that_fails_rests_longer() -> None:
    health, now, lengths = resting(), 0.0, []
    for _ in range(9):
        lengths.append(health.state(A, now).until - now)
        now = health.state(A, now).until
        probe(health, now, FAILURE)
    assert lengths == [5.0, 10.0, 20.0, *[MAX_PROMPT_COOLDOWN] * 6]


def test_a_probe_that_takes_long_to_fail_rests_longer_still() -> None:
    health, now, lengths = Health(), 10.0, []
    fail_slowly(health, now, CONSECUTIVE_FAILURES)
    for _ in range(9):
        lengths.append(health.state(A, now).until - now)
        probe(health, now + lengths[-1], FAILURE, now + lengths[-1] + PROMPT)
        now += lengths[-1] + PROMPT
    assert lengths == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, *[MAX_COOLDOWN] * 3]


def test_a_probe_that_is_never_answered_gives_its_permit_back() -> None:
    health = resting()
    assert health.take_permit(A, FIRST_COOLDOWN, 60.0)
    assert not health.take_permit(A, FIRST_COOLDOWN + 59.9, 60.0)
    standing = health.state(A, FIRST_COOLDOWN + 60.0)
    assert standing.level is HealthLevel.COOLDOWN
    assert standing.until <= FIRST_COOLDOWN + 60.0
    assert health.take_permit(A, FIRST_COOLDOWN + 60.0, 60.0)


def test_a_probe_whose_client_left_gives_its_permit_back() -> None:
    health = resting()
    permit = health.take_permit(A, FIRST_COOLDOWN, 60.0)
    health.record(A, AttemptOutcome.CLIENT_DISCONNECTED, FIRST_COOLDOWN + 1, FIRST_COOLDOWN, permit=permit)
    assert level(health, FIRST_COOLDOWN + 1) is HealthLevel.PROBING
    health.give_back(A, FIRST_COOLDOWN + 1, permit)
    assert health.take_permit(A, FIRST_COOLDOWN + 1, 60.0)


@pytest.mark.parametrize("level_then", [HealthLevel.COOLDOWN, HealthLevel.PROBING])
@pytest.mark.parametrize("kind", [kind for kind in AttemptOutcome if kind in COUNTING | LIVING])
def test_pitfall_352_only_whoever_has_the_permit_says_how_a_target_is(
    kind: AttemptOutcome, level_then: HealthLevel
) -> None:
    health = resting()
    free = Health().take_permit(A, 0.0, 60.0)
    permit = health.take_permit(A, FIRST_COOLDOWN, 60.0) if level_then is HealthLevel.PROBING else None
    before = health.state(A, FIRST_COOLDOWN + 1)
    for theirs in (None, free):
        for _ in range(20):
            health.record(A, kind, FIRST_COOLDOWN + 1, FIRST_COOLDOWN, permit=theirs)
            health.give_back(A, FIRST_COOLDOWN + 1, theirs)
    assert health.state(A, FIRST_COOLDOWN + 1) == before
    assert before.level is level_then
    if permit is not None:
        health.record(A, AttemptOutcome.ANSWERED, FIRST_COOLDOWN + 2, FIRST_COOLDOWN, permit=permit)
        assert level(health, FIRST_COOLDOWN + 2) is HealthLevel.SLOW_START


@pytest.mark.parametrize("kind", [AttemptOutcome.FIRST_BYTE_TIMEOUT, AttemptOutcome.SLOW_RESPONSE])
def test_item_22_b10_a_probe_that_meets_silence_rests_longer(kind: AttemptOutcome) -> None:
    health, now = resting(), FIRST_COOLDOWN
    for times in range(1, 5):
        probe(health, now, kind, now + 60.0)
        now += 60.0
        assert health.state(A, now) == HealthState(HealthLevel.COOLDOWN, now + FIRST_COOLDOWN * 2**times)
        now = health.state(A, now).until


def test_a_probe_that_asks_again_and_is_answered_ends_the_rest() -> None:
    health, charged = resting(), set[str]()
    permit = health.take_permit(A, FIRST_COOLDOWN, 60.0)
    for _ in range(3):
        health.record(A, FAILURE, FIRST_COOLDOWN + 1, FIRST_COOLDOWN, charged, permit)
        assert health.state(A, FIRST_COOLDOWN + 1).until == FIRST_COOLDOWN + 1 + 2 * FIRST_COOLDOWN
    health.record(A, AttemptOutcome.ANSWERED, FIRST_COOLDOWN + 2, FIRST_COOLDOWN + 1, charged, permit)
    assert level(health, FIRST_COOLDOWN + 2) is HealthLevel.SLOW_START


def test_a_permit_that_expired_says_something_until_somebody_else_has_one() -> None:
    health = resting()
    first = health.take_permit(A, 5.0, 10.0)
    second = health.take_permit(A, 20.0, 10.0)
    health.record(A, AttemptOutcome.ANSWERED, 21.0, 5.0, permit=first)
    health.give_back(A, 21.0, first)
    assert level(health, 21.0) is HealthLevel.PROBING
    health.record(A, AttemptOutcome.ANSWERED, 40.0, 20.0, permit=second)
    assert level(health, 40.0) is HealthLevel.SLOW_START
    # It is used up.
    fail_slowly(health, 46.0, 2)
    health.record(A, AttemptOutcome.ANSWERED, 46.0, 20.0, permit=second)
    assert level(health, 46.0) is HealthLevel.COOLDOWN


def test_who_rests_may_be_asked_before_its_time_by_one_at_a_time() -> None:
    health = resting()
    permit = health.take_permit(A, 1.0, 60.0)
    assert permit is not None
    assert health.take_permit(A, 1.0, 60.0) is None
    health.give_back(A, 2.0, permit)
    assert health.state(A, 2.0).until == FIRST_COOLDOWN
    probe(health, 2.0, AttemptOutcome.ANSWERED, 3.0)
    assert level(health, 3.0) is HealthLevel.SLOW_START


@pytest.mark.parametrize("kind", [FAILURE, AttemptOutcome.SLOW_RESPONSE])
def test_pitfall_347_a_probe_before_its_time_leaves_a_rest_as_it_was(kind: AttemptOutcome) -> None:
    health, rest = resting(), HealthState(HealthLevel.COOLDOWN, FIRST_COOLDOWN, prompt=kind is FAILURE)
    for tenth in range(40):
        probe(health, tenth / 10, kind, tenth / 10 + 0.05)
        assert health.state(A, tenth / 10 + 0.05) == rest
    # Also if its rest is over by the time at which that is known; whoever asks then is believed.
    probe(health, 4.9, kind, 6.0)
    assert health.state(A, 6.0) == rest
    probe(health, 6.0, FAILURE)
    assert health.state(A, 6.0) == cooldown(6.0 + 2 * FIRST_COOLDOWN)


@given(st.lists(st.floats(0, 8), max_size=60))
def test_pitfall_347_however_many_come_before_its_time_rests_are_as_long_as_without_them(pauses: list[float]) -> None:
    often, patient, now = resting(), resting(), 0.0
    for passed in pauses:
        now += passed
        if patient.state(A, now).until <= now:
            probe(patient, now, FAILURE)
        probe(often, now, FAILURE)
        assert often.state(A, now) == patient.state(A, now)


def test_a_probe_before_its_time_that_asks_again_and_is_answered_ends_the_rest() -> None:
    health, charged = resting(), set[str]()
    permit = health.take_permit(A, 1.0, 60.0)
    health.record(A, FAILURE, 2.0, 1.0, charged, permit)
    health.record(A, AttemptOutcome.ANSWERED, 3.0, 2.0, charged, permit)
    assert level(health, 3.0) is HealthLevel.SLOW_START


def test_pitfall_347_whoever_comes_while_somebody_finds_out_knows_when_that_was_due() -> None:
    health = resting()
    assert health.take_permit(A, 2.0, 60.0)
    assert health.wakes(A, 2.0) == FIRST_COOLDOWN
    # What is overdue is worth another try at once, and so is whoever nobody knows.
    assert health.wakes(A, 20.0) == 20.0
    assert health.wakes(B, 20.0) == 20.0


def test_two_failures_in_a_ramp_rest_longer_and_one_does_not() -> None:
    health = resting()
    probe(health, 5.5, AttemptOutcome.ANSWERED, 6.0)
    health.record(A, FAILURE, 11.5, 6.5)
    assert level(health, 11.5) is HealthLevel.SLOW_START
    health.record(A, FAILURE, 11.5, 6.5)
    assert health.state(A, 11.5) == HealthState(HealthLevel.COOLDOWN, 11.5 + 2 * FIRST_COOLDOWN)


def test_item_22_b9_prompt_errors_in_a_ramp_rest_only_if_it_does_not_answer() -> None:
    health = resting()
    probe(health, 5.5, AttemptOutcome.ANSWERED, 6.0)
    # It answered after a cooldown, so it may be one that fails partly.
    fail(health, 7.0, 2 * CONSECUTIVE_FAILURES - 1)
    assert level(health, 7.0) is HealthLevel.SLOW_START
    fail(health, 7.0)
    assert health.state(A, 7.0) == cooldown(7.0 + 2 * FIRST_COOLDOWN)


def test_what_began_before_a_rest_says_nothing_after_it() -> None:
    health = resting(10.0)
    for kind in (FAILURE, AttemptOutcome.ANSWERED, AttemptOutcome.INVALID_REQUEST):
        health.record(A, kind, 20.0, 9.0)
        standing = health.state(A, 20.0)
        assert (standing.level, standing.until) == (HealthLevel.COOLDOWN, 10.0 + FIRST_COOLDOWN)


def test_pitfall_344_a_hundred_calls_that_fail_together_are_one_rest() -> None:
    health = Health()
    for _ in range(100):
        health.record(A, FAILURE, 10.0, 1.0)
    assert health.state(A, 10.0).until == 10.0 + FIRST_COOLDOWN


@given(steps)
def test_pitfall_344_a_failure_never_shortens_a_rest(outcomes: list[tuple[AttemptOutcome, float]]) -> None:
    health, now = Health(), 0.0
    for kind, passed in outcomes:
        now += passed
        before = health.state(A, now)
        health.record(A, kind, now, now)
        after = health.state(A, now)
        if kind in COUNTING and before.level is HealthLevel.COOLDOWN:
            assert after.level is HealthLevel.COOLDOWN
            assert after.until >= before.until
        assert after.until <= now + max(MAX_COOLDOWN, SLOW_START_SECONDS, SUSPICION)


@given(steps)
def test_pitfall_339_whatever_happened_a_target_is_good_again_by_itself(
    outcomes: list[tuple[AttemptOutcome, float]],
) -> None:
    health, now = Health(), 0.0
    for kind, passed in outcomes:
        now += passed
        permit = health.take_permit(A, now, 30.0)
        health.record(A, kind, now, now, permit=permit)
    # The longest rest or permit is over, one request answers, and a ramp later all is well.
    now += MAX_COOLDOWN + 30.0
    probe(health, now, AttemptOutcome.ANSWERED)
    assert health.state(A, now + SLOW_START_SECONDS) is HEALTHY


def test_flapping_locks_nobody_out_for_ever() -> None:
    health, asked, answered = Health(), 0, 0
    for second in range(3600):
        now = float(second)
        standing = health.state(A, now)
        if standing.level is HealthLevel.COOLDOWN and standing.until > now:
            continue
        asked += 1
        # Half a minute well, half a minute ill.
        well = second % 60 < 30
        answered += well
        probe(health, now, AttemptOutcome.ANSWERED if well else FAILURE)
    assert answered > 1200
    # Its errors come back quickly, and it leads for fewer than are asked here.
    assert asked - answered < 700


def test_a_target_that_was_good_for_long_rests_shortly_again() -> None:
    health, now = resting(), FIRST_COOLDOWN
    for _ in range(4):
        probe(health, now, FAILURE)
        now = health.state(A, now).until
    probe(health, now, AttemptOutcome.ANSWERED)
    fail(health, now + 3600.0, CONSECUTIVE_FAILURES)
    assert health.state(A, now + 3600.0).until == now + 3600.0 + FIRST_COOLDOWN


def test_pitfall_345_a_rest_can_be_cleared() -> None:
    health = resting()
    health.reset(A, 1.0)
    assert health.state(A, 1.0) is HEALTHY
    # What was under way is not held against it.
    health.record(A, FAILURE, 2.0, 0.5)
    assert health.state(A, 2.0) is HEALTHY
    health.reset("never/seen", 1.0)


def test_a_rest_that_is_cut_short_ends_with_the_one_request_that_finds_out() -> None:
    health = resting()
    assert health.cooldowns(1.0) == {A: FIRST_COOLDOWN}
    assert health.cut_short(A, 1.0)
    assert health.state(A, 1.0) == cooldown(1.0)
    assert (health.wakes(A, 1.0), health.cooldowns(1.0)) == (1.0, {})
    # There is nothing to cut any more, and it is nobody's answer.
    assert not health.cut_short(A, 1.0)
    assert health.take_permit(A, 1.0, 60.0) is not None
    assert health.take_permit(A, 1.0, 60.0) is None
    assert not health.cut_short(A, 2.0)


def test_a_rest_that_was_cut_short_in_vain_is_followed_by_a_longer_one() -> None:
    health, now = resting(), 0.0
    for times in range(1, 4):
        now += 1.0
        assert health.cut_short(A, now)
        probe(health, now, FAILURE)
        assert health.state(A, now) == cooldown(now + min(FIRST_COOLDOWN * 2**times, MAX_PROMPT_COOLDOWN))


def test_only_rests_are_cut_short() -> None:
    health = Health()
    fail(health, 0.0)
    assert health.cooldowns(1.0) == {}
    assert not health.cut_short(A, 1.0)
    assert not health.cut_short(B, 1.0)
    assert (level(health, 1.0), health.state(B, 1.0)) == (HealthLevel.SUSPECT, HEALTHY)


def test_whoever_failed_with_the_permit_may_still_be_answered_after_a_rest_was_cut_short() -> None:
    health = resting()
    permit = health.take_permit(A, 5.0, 60.0)
    health.record(A, FAILURE, 6.0, 5.0, permit=permit)
    assert health.cut_short(A, 7.0)
    health.record(A, AttemptOutcome.ANSWERED, 8.0, 7.0, permit=permit)
    assert level(health, 8.0) is HealthLevel.SLOW_START


def test_a_permit_that_expired_leaves_a_rest_that_can_be_cut_short() -> None:
    health = resting()
    assert health.take_permit(A, 1.0, 1.0) is not None
    assert (health.cooldowns(1.5), health.cooldowns(2.0)) == ({}, {A: FIRST_COOLDOWN})


def test_pitfall_343_350_a_rest_that_is_cut_short_here_is_so_everywhere() -> None:
    one, two = resting(), Health()
    longer = one.take_updates()
    two.merge(longer)
    assert one.cut_short(A, 1.0)
    shorter = one.take_updates()
    for told in (shorter, longer):
        two.merge(told)
    assert two.state(A, 1.0) == one.state(A, 1.0) == cooldown(1.0)
    # Also for whoever finds nothing out.
    two.give_back(A, 1.5, two.take_permit(A, 1.5, 60.0))
    assert (two.state(A, 2.0).until, two.wakes(A, 0.0)) == (1.0, 1.0)


def test_pitfall_353_a_report_says_why() -> None:
    health = Health()
    fail(health, 4.0)
    (report,) = health.reports(5.0)
    assert (report.subject, report.last, report.failed, report.consecutive_failures) == (A, FAILURE, 4.0, 1)


def test_pitfall_358_the_number_of_targets_is_bounded_and_those_that_rest_are_kept() -> None:
    health = Health(max_entries=64)
    fail(health, 0.0, CONSECUTIVE_FAILURES, target="ill/model")
    for number in range(1000):
        health.record(f"made/up{number}", AttemptOutcome.ANSWERED, 1.0, 1.0)
    assert len(health.reports(1.0)) <= 64
    assert level(health, 1.0, "ill/model") is HealthLevel.COOLDOWN


# Other workers.


def shared(*healths: Health) -> None:
    """Tell everybody everything."""
    for health in healths:
        told = json.decode(json.encode(health.take_updates()), type=list[HealthUpdate])
        for other in healths:
            if other is not health:
                other.merge(told)


def test_pitfall_343_350_a_rest_is_known_to_others_once_it_is_told() -> None:
    here, there = resting(), Health()
    shared(here, there)
    assert there.state(A, 1.0) == here.state(A, 1.0)
    assert there.take_updates() == []
    # One of them has the permit, and what it finds out holds for both.
    permit = here.take_permit(A, 6.0, 60.0)
    shared(here, there)
    assert there.take_permit(A, 6.5, 60.0) is None
    here.record(A, AttemptOutcome.ANSWERED, 7.0, 6.0, permit=permit)
    shared(here, there)
    assert level(there, 7.0) is HealthLevel.SLOW_START
    assert level(there, 7.0 + SLOW_START_SECONDS) is HealthLevel.HEALTHY
    there.record(A, FAILURE, 20.0, 19.0)
    shared(here, there)
    assert level(here, 20.0) is HealthLevel.SUSPECT


def test_a_probe_that_fails_here_rests_everywhere() -> None:
    here, there = resting(), Health()
    shared(here, there)
    permit = there.take_permit(A, 6.0, 300.0)
    shared(here, there)
    there.record(A, FAILURE, 7.0, 6.0, permit=permit)
    shared(here, there)
    assert here.state(A, 7.0) == there.state(A, 7.0)
    assert here.state(A, 7.0).until == 7.0 + 2 * FIRST_COOLDOWN


def test_pitfall_347_a_probe_before_its_time_makes_no_rest_longer_anywhere() -> None:
    here, there = resting(), Health()
    shared(here, there)
    for health, now in ((here, 1.0), (there, 2.0), (here, 3.0)):
        probe(health, now, FAILURE)
        shared(here, there)
        assert here.state(A, now) == there.state(A, now) == cooldown(FIRST_COOLDOWN)


def test_of_two_probes_at_once_the_first_that_ends_says_how_it_is() -> None:
    here, there = resting(), Health()
    shared(here, there)
    ours, theirs = here.take_permit(A, 6.0, 60.0), there.take_permit(A, 6.1, 60.0)
    shared(here, there)
    here.record(A, FAILURE, 7.0, 6.0, permit=ours)
    shared(here, there)
    there.record(A, FAILURE, 8.0, 6.1, permit=theirs)
    assert there.state(A, 8.0).until == 7.0 + 2 * FIRST_COOLDOWN


def test_what_is_cleared_here_is_cleared_everywhere() -> None:
    here, there = resting(), Health()
    shared(here, there)
    there.reset(A, 1.0)
    shared(here, there)
    assert here.state(A, 1.0) is HEALTHY
    # A rest that was told before does not come back.
    here.merge([HealthUpdate(A, HealthLevel.COOLDOWN, FIRST_COOLDOWN)])
    assert here.state(A, 1.0) is HEALTHY


def test_pitfall_350_a_rest_survives_in_a_snapshot() -> None:
    there = Health()
    there.merge(resting().snapshot())
    assert level(there, 1.0) is HealthLevel.COOLDOWN


def test_pitfall_353_others_hear_why_and_since_when() -> None:
    here, there = Health(), Health()
    for second in range(CONSECUTIVE_FAILURES):
        here.record(A, FAILURE, 10.0 + second, 10.0 + second)
    there.merge(json.decode(json.encode(here.take_updates()), type=list[HealthUpdate]))
    (told,), (heard,) = here.reports(15.0), there.reports(15.0)
    assert (told.health.level, told.since, told.last, told.failed, told.cooldowns) == (
        HealthLevel.COOLDOWN,
        14.0,
        FAILURE,
        14.0,
        1,
    )
    assert heard == told


def test_pitfall_353_how_a_target_stands_begins_when_it_changes() -> None:
    health = Health()
    health.record(A, FAILURE, 10.0, 10.0)
    health.record(A, FAILURE, 12.0, 12.0)
    (suspect,) = health.reports(13.0)
    assert (suspect.since, suspect.failed, suspect.consecutive_failures) == (10.0, 12.0, 2)
    (good,) = health.reports(40.0)
    assert (good.health, good.since) == (HEALTHY, 22.0)


levels = st.sampled_from(
    [HealthLevel.HEALTHY, HealthLevel.SUSPECT, HealthLevel.COOLDOWN, HealthLevel.PROBING, HealthLevel.SLOW_START]
)
notices = st.builds(
    HealthUpdate, st.just(A), levels, st.integers(1, 4).map(float), st.integers(0, 2).map(float), st.integers(0, 2)
)


@given(st.lists(notices, max_size=4))
def test_pitfall_350_notices_may_come_in_any_order_and_twice(told: list[HealthUpdate]) -> None:
    ends = set()
    for order in itertools.permutations(told):
        health = Health()
        health.merge(order)
        health.merge(order[:2])
        ends.add((*health.snapshot(), health.state(A, 0.0)))
    assert len(ends) == 1


@given(st.lists(st.tuples(st.integers(0, 2), kinds | st.none(), st.floats(0.01, 8)), max_size=40))
@example(
    [(1, AttemptOutcome.FIRST_BYTE_TIMEOUT, 1.0), (1, AttemptOutcome.QUEUE_FULL, 1.0), (0, None, 1.0), (0, None, 4.0)]
)
def test_workers_agree_once_they_have_told_each_other(did: list[tuple[int, AttemptOutcome | None, float]]) -> None:
    workers, now, shared_at = [Health(), Health(), Health()], 0.0, 0.0
    told: list[HealthUpdate] = []
    for who, kind, passed in did:
        if now + passed - shared_at >= SLOW_START_SECONDS:
            # They do so within a second: no ramp is over before the others have heard of it.
            shared_at = now
            for health in workers:
                health.merge(told)
        now += passed
        if kind is None:
            workers[who].cut_short(A, now)
        else:
            permit = workers[who].take_permit(A, now, 5.0)
            workers[who].record(A, kind, now, now, permit=permit)
        told += workers[who].take_updates()
    for health in workers:
        health.merge(reversed(told))
        health.merge(told)
    assert len({health.state(A, now) for health in workers}) == 1


@given(steps)
def test_pitfall_351_a_clock_that_only_grows_is_all_that_is_asked(outcomes: list[tuple[AttemptOutcome, float]]) -> None:
    def after(start: float) -> list[tuple[HealthLevel, bool]]:
        health, now, seen = Health(), start, []
        for kind, passed in outcomes:
            now += math.ceil(passed)
            health.record(A, kind, now, now)
            standing = health.state(A, now)
            seen.append((standing.level, standing.until > now))
        return seen

    # Only differences count: no time of day comes into it.
    assert after(0.0) == after(1_048_576.0)


@pytest.mark.parametrize("kind", [AttemptOutcome.FIRST_BYTE_TIMEOUT, AttemptOutcome.SLOW_RESPONSE])
def test_item_22_b10_after_silence_one_probe_decides(kind: AttemptOutcome) -> None:
    health = Health()
    health.record(A, AttemptOutcome.ANSWERED, 90.0, 89.0)
    for begun in range(20):
        # All that were under way are one silence.
        health.record(A, kind, 100.0 + begun / 10, 92.0 + begun / 10)
        assert health.state(A, 102.0) == HealthState(HealthLevel.COOLDOWN, 100.0 + FIRST_COOLDOWN)
    permit = health.take_permit(A, 110.0, 400.0)
    assert permit is not None
    for second in range(111, 410):
        assert health.take_permit(A, second, 400.0) is None
    health.record(A, kind, 410.0, 110.0, permit=permit)
    assert health.state(A, 410.0) == HealthState(HealthLevel.COOLDOWN, 410.0 + 2 * FIRST_COOLDOWN)


def test_item_22_b10_a_request_that_takes_long_beside_others_that_are_answered_is_its_own_affair() -> None:
    health = Health()
    for second in range(100, 120):
        health.record(A, AttemptOutcome.ANSWERED, second, second - 1)
        health.record(A, AttemptOutcome.SLOW_RESPONSE, second, second - 10)
        assert health.state(A, second) is HEALTHY
    # A stream that has begun is answered, however long it goes on.
    health.record_content_start(A, 125.0)
    health.record(A, AttemptOutcome.SLOW_RESPONSE, 134.0, 124.0)
    assert health.state(A, 134.0) is HEALTHY
    health.record(A, AttemptOutcome.SLOW_RESPONSE, 136.0, 126.0)
    assert level(health, 136.0) is HealthLevel.COOLDOWN


def test_item_22_b10_a_probe_that_begins_to_speak_ends_the_cooldown() -> None:
    health = Health()
    health.record(A, AttemptOutcome.FIRST_BYTE_TIMEOUT, 10.0, 0.0)
    health.record_content_start(A, 15.0)
    assert level(health, 15.0) is HealthLevel.COOLDOWN
    permit = health.take_permit(A, 15.0, 60.0)
    health.record_content_start(A, 16.0, permit)
    assert health.state(A, 16.0) == HealthState(HealthLevel.SLOW_START, 16.0 + SLOW_START_SECONDS)
    # It began before that: how it ends says nothing of what came after.
    health.record(A, AttemptOutcome.STREAM_BROKEN, 100.0, 15.0, permit=permit)
    assert health.state(A, 100.0) is HEALTHY


@given(steps)
def test_whoever_is_not_good_is_among_those_who_may_not_be(outcomes: list[tuple[AttemptOutcome, float]]) -> None:
    health, told, now = Health(), Health(), 0.0
    for kind, passed in outcomes:
        now += passed
        health.record(A, kind, now, now, permit=health.take_permit(A, now, 30.0))
        told.merge(health.take_updates())
        for one in (health, told):
            assert one.are_healthy([A]) <= (one.state(A, now) is HEALTHY)
    health.reset(A, now)
    assert health.state(A, now) is HEALTHY and health.are_healthy([A])
