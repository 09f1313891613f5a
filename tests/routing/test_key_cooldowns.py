"""Which keys are in cooldown, and what other workers learn of that."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import MAX_KEY_COOLDOWN, Health
from dragoman.routing.health_entry import HealthUpdate
from dragoman.routing.health_state import HealthLevel
from dragoman.routing.rotation import digest_of


def cool(health: Health, key: str, model: str, until: float) -> None:
    health.cool_key("p", key, model, until, 0.0)


def until(health: Health, key: str, model: str) -> float:
    return health.key_until("p", key, model)


def active(health: Health, now: float) -> list[tuple[str, float]]:
    return [(report.subject, report.health.until) for report in health.reports(now, "p") if report.health.until > now]


def test_a_digest_is_short_and_holds_no_key() -> None:
    assert len(digest_of("sk-secret")) == 16
    assert digest_of("sk-secret") != digest_of("sk-secret2")
    assert "secret" not in digest_of("sk-secret")


def test_a_key_rests_for_a_model_or_for_all() -> None:
    health = Health()
    cool(health, "a", "m", 10.0)
    assert (until(health, "a", "m"), until(health, "a", "n")) == (10, 0)
    assert (until(health, "a", ""), until(health, "b", "m")) == (0, 0)
    cool(health, "a", "", 20.0)
    assert (until(health, "a", "m"), until(health, "a", "n"), until(health, "a", "")) == (20, 20, 20)


@given(st.lists(st.floats(1, 1000), min_size=1))
def test_pitfall_344_the_later_end_holds(ends: list[float]) -> None:
    health = Health()
    for end in ends:
        cool(health, "a", "", end)
    assert until(health, "a", "") == max(ends)


def test_what_is_over_is_forgotten() -> None:
    health = Health()
    cool(health, "a", "", 2000.0)
    health.forget_keys(1999.0)
    assert health.unhealthy == {"p"}
    health.forget_keys(2000.0)
    assert not health.unhealthy
    assert health.snapshot() == []


def test_pitfall_345_a_rest_can_be_cleared_for_one_key_or_for_all() -> None:
    health = Health()
    for key in ("a", "b"):
        cool(health, key, "", 50.0)
    health.reset("a ", 10.0, "p")
    assert (until(health, "a", ""), until(health, "b", "")) == (0.0, 50.0)
    health.reset_keys("p", 10.0)
    assert until(health, "b", "") == 0.0
    # It may rest anew.
    cool(health, "a", "", 60.0)
    assert until(health, "a", "") == 60.0


def test_pitfall_350_others_are_told_once_and_an_old_rest_does_not_come_back() -> None:
    here, there = Health(), Health()
    cool(here, "a", "m", 50.0)
    told = json.decode(json.encode(here.take_updates()), type=list[HealthUpdate])
    assert here.take_updates() == []
    there.merge(told)
    assert until(there, "a", "m") == 50.0
    assert there.take_updates() == []
    there.reset_keys("p", 10.0)
    here.merge(there.take_updates())
    here.merge(told)
    assert until(here, "a", "m") == 0.0
    # Nor with a worker that is started anew.
    third = Health()
    third.merge(here.snapshot())
    third.merge(told)
    assert until(third, "a", "m") == 0.0
    here.forget_keys(11.0 + MAX_KEY_COOLDOWN)
    assert not here.unhealthy


def test_keys_of_another_provider_are_another_matter() -> None:
    health = Health()
    health.merge([HealthUpdate("a ", HealthLevel.COOLDOWN, 50.0, group="q")])
    assert health.unhealthy == {"q"}
    assert (until(health, "a", ""), health.reset_keys("p", 0.0)) == (0.0, set())
    assert health.key_until("q", "a", "") == 50.0


notices = st.builds(
    HealthUpdate,
    st.sampled_from(["a ", "b ", "a m"]),
    st.just(HealthLevel.COOLDOWN),
    st.integers(1, 4).map(float),
    st.integers(0, 2).map(float),
    group=st.just("p"),
)


@given(st.lists(notices, max_size=4))
def test_pitfall_350_notices_may_come_in_any_order_and_twice(told: list[HealthUpdate]) -> None:
    ends = set()
    for order in itertools.permutations(told):
        health = Health()
        health.merge(order)
        health.merge(order[:2])
        ends.add(frozenset(health.snapshot()))
    assert len(ends) == 1


def test_the_number_of_rests_is_bounded_and_the_longest_are_kept() -> None:
    health = Health(max_entries=8)
    cool(health, "a", "", 500.0)
    for number in range(100):
        cool(health, "a", f"made-up-{number}", 10.0)
    assert len(health.snapshot()) == 8
    assert until(health, "a", "") == 500.0


def test_the_keys_of_one_provider_do_not_displace_others_and_targets() -> None:
    health = Health(max_entries=16)
    health.record("one/model", AttemptOutcome.OVERLOADED, 0.0, 0.0)
    health.cool_key("another", "b", "", 1.0, 0.0)
    for number in range(100):
        cool(health, "a", f"made-up-{number}", 10.0 + number)
    assert health.has_target("one/model")
    assert health.key_until("another", "b", "") == 1.0
    assert len(active(health, 0.0)) <= 14


def test_pitfall_353_why_a_key_rests_is_told_along() -> None:
    here, there = Health(), Health()
    here.cool_key("p", "a", "m", 910.0, 10.0, AttemptOutcome.RATE_LIMITED, 86400.0)
    there.merge(json.decode(json.encode(here.take_updates()), type=list[HealthUpdate]))
    (report,) = there.reports(909.0, "p")
    assert (report.subject, report.model, report.since, report.last) == ("a m", "m", 10.0, AttemptOutcome.RATE_LIMITED)
    assert (report.health.until, report.hint) == (910.0, 86400.0)
    assert there.reports(909.0) == []
    assert active(there, 910.0) == []


def test_pitfall_345_what_keeps_one_model_from_its_keys_is_cleared() -> None:
    health = Health()
    cool(health, "a", "m", 50.0)
    cool(health, "b", "", 50.0)
    cool(health, "b", "n", 60.0)
    cool(health, "c", "m", 5.0)
    assert health.reset_keys("p", 10.0, "m") == {"a", "b"}
    assert active(health, 10.0) == [("b n", 60.0)]
    assert health.reset_keys("p", 10.0, "m") == set()


def test_pitfall_454_where_nobody_is_told_nothing_piles_up() -> None:
    health = Health(max_entries=8)
    for number in range(100):
        cool(health, "a", f"made-up-{number}", 10.0 + number)
    assert len(health._dirty) <= 8
    health.forget_keys(1000.0)
    assert not health._dirty
