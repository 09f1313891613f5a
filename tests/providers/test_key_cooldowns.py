"""Which keys rest, and what other workers are told of that."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from dragoman.providers.key_cooldowns import MAX_COOLDOWN_SECONDS, KeyCooldowns, KeyCooldownUpdate, digest_of


def test_a_digest_is_short_and_holds_no_key() -> None:
    assert len(digest_of("sk-secret")) == 16
    assert digest_of("sk-secret") != digest_of("sk-secret2")
    assert "secret" not in digest_of("sk-secret")


def test_a_key_rests_for_a_model_or_for_all() -> None:
    rests = KeyCooldowns("p")
    rests.start("a", "m", 10.0)
    assert (rests.until("a", "m"), rests.until("a", "n"), rests.until("a", ""), rests.until("b", "m")) == (10, 0, 0, 0)
    rests.start("a", "", 20.0)
    assert (rests.until("a", "m"), rests.until("a", "n"), rests.until("a", "")) == (20, 20, 20)


@given(st.lists(st.floats(1, 1000), min_size=1))
def test_pitfall_344_the_later_end_holds(ends: list[float]) -> None:
    rests = KeyCooldowns("p")
    for end in ends:
        rests.start("a", "", end)
    assert rests.until("a", "") == max(ends)


def test_what_is_over_is_forgotten() -> None:
    rests = KeyCooldowns("p")
    rests.start("a", "", 2000.0)
    rests.forget(1999.0)
    assert rests.any
    rests.forget(2000.0)
    assert not rests.any
    assert rests.snapshot() == []


def test_pitfall_345_a_rest_can_be_cleared_for_one_key_or_for_all() -> None:
    rests = KeyCooldowns("p")
    for key in ("a", "b"):
        rests.start(key, "", 50.0)
    rests.clear(10.0, "a")
    assert (rests.until("a", ""), rests.until("b", "")) == (0.0, 50.0)
    rests.clear(10.0)
    assert rests.until("b", "") == 0.0
    # It may rest anew.
    rests.start("a", "", 60.0)
    assert rests.until("a", "") == 60.0


def test_pitfall_350_others_are_told_once_and_an_old_rest_does_not_come_back() -> None:
    here, there = KeyCooldowns("p"), KeyCooldowns("p")
    here.start("a", "m", 50.0)
    told = json.decode(json.encode(here.take_updates()), type=list[KeyCooldownUpdate])
    assert here.take_updates() == []
    there.merge(told)
    assert there.until("a", "m") == 50.0
    assert there.take_updates() == []
    there.clear(10.0)
    here.merge(there.take_updates())
    here.merge(told)
    assert here.until("a", "m") == 0.0
    here.forget(10.0 + MAX_COOLDOWN_SECONDS)
    assert not here.any


def test_keys_of_another_provider_are_nobodys() -> None:
    rests = KeyCooldowns("p")
    rests.merge([KeyCooldownUpdate("q", "a", "", 50.0)])
    assert not rests.any


notices = st.builds(
    KeyCooldownUpdate,
    st.just("p"),
    st.sampled_from("ab"),
    st.sampled_from(["", "m"]),
    st.integers(1, 4).map(float),
    st.integers(0, 2).map(float),
)


@given(st.lists(notices, max_size=4))
def test_pitfall_350_notices_may_come_in_any_order_and_twice(told: list[KeyCooldownUpdate]) -> None:
    ends = set()
    for order in itertools.permutations(told):
        rests = KeyCooldowns("p")
        rests.merge(order)
        rests.merge(order[:2])
        ends.add(frozenset(rests.snapshot()))
    assert len(ends) == 1


def test_the_number_of_rests_is_bounded_and_the_longest_are_kept() -> None:
    rests = KeyCooldowns("p", max_cooldowns=8)
    rests.start("a", "", 500.0)
    for number in range(100):
        rests.start("a", f"made-up-{number}", 10.0)
    assert len(rests.snapshot()) == 8
    assert rests.until("a", "") == 500.0


def test_pitfall_353_why_a_key_rests_is_told_along() -> None:
    here, there = KeyCooldowns("p"), KeyCooldowns("p")
    here.start("a", "m", 910.0, since=10.0, why="rate_limited", hint=86400.0)
    there.merge(json.decode(json.encode(here.take_updates()), type=list[KeyCooldownUpdate]))
    assert there.active(909.0) == [KeyCooldownUpdate("p", "a", "m", 910.0, 0.0, 10.0, "rate_limited", 86400.0)]
    assert there.active(910.0) == []


def test_pitfall_345_what_keeps_one_model_from_its_keys_is_cleared() -> None:
    rests = KeyCooldowns("p")
    rests.start("a", "m", 50.0)
    rests.start("b", "", 50.0)
    rests.start("b", "n", 60.0)
    rests.start("c", "m", 5.0)
    assert rests.clear(10.0, model="m") == {"a", "b"}
    assert (rests.until("a", "m"), rests.until("b", "m"), rests.until("b", "n")) == (0.0, 0.0, 60.0)
    assert rests.clear(10.0, model="m") == set()


def test_pitfall_454_where_nobody_is_told_nothing_piles_up() -> None:
    rests = KeyCooldowns("p", max_cooldowns=8)
    for number in range(100):
        rests.start("a", f"made-up-{number}", 10.0 + number)
    assert len(rests._dirty) <= 8
    rests.forget(1000.0)
    assert not rests._dirty
