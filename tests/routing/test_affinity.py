"""Where conversations are."""

from __future__ import annotations

import gc
import itertools

from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from dragoman.routing.affinity import LIFE, REFRESH_SECONDS, Affinities, AffinityUpdate
from dragoman.routing.plan_inputs import Affinity

HERE, THERE = Affinity("one/model", "k1"), Affinity("two/model", "k2", "large")


def test_pitfall_357_a_conversation_stays_with_its_target_and_key() -> None:
    pins = Affinities()
    assert pins.lookup("c", 0.0) is None
    pins.put("me", "c", HERE, 0.0)
    assert [pins.lookup("c", float(turn)) for turn in range(20)] == [HERE] * 20


def test_a_pin_that_was_changed_in_the_meantime_is_not_the_one_that_was_found() -> None:
    pins = Affinities()
    assert not pins.holds("c", None)
    pins.put("me", "c", HERE, 0.0)
    found = pins.lookup("c", 1.0)
    assert pins.holds("c", found)
    assert not pins.holds("other", found)
    pins.put("you", "c", THERE, 2.0)
    assert not pins.holds("c", found)


def test_a_pin_without_a_key_is_not_changed_by_an_answer_without_one() -> None:
    pins = Affinities()
    pins.put("me", "c", Affinity("one/model"), 0.0)
    assert [notice.changed for notice in pins.take_updates()] == [0.0]
    # The digest of no key is empty.
    pins.put("me", "c", Affinity("one/model", "", ""), 1.0)
    assert pins.take_updates() == []


def test_pitfall_360_after_a_failure_it_is_with_whoever_answered() -> None:
    pins = Affinities()
    pins.put("me", "c", HERE, 0.0)
    pins.put("me", "c", THERE, 1.0)
    assert pins.lookup("c", 2.0) == THERE


def test_pitfall_358_it_ends_an_hour_after_its_last_use() -> None:
    pins = Affinities()
    pins.put("me", "c", HERE, 0.0)
    assert pins.lookup("c", LIFE - 1) == HERE
    assert pins.lookup("c", 2 * LIFE - 2) == HERE
    assert pins.lookup("c", 3 * LIFE) is None
    assert len(pins) == 0


def test_pitfall_358_the_number_is_bounded_and_the_latest_used_are_kept() -> None:
    pins = Affinities(max_size=100)
    for owner in range(20):
        for number in range(10):
            pins.put(f"key{owner}", f"{owner}-{number}", HERE, float(owner))
            pins.lookup("0-0", float(owner))
    assert len(pins) == 100
    assert pins.lookup("0-0", 20.0) == HERE
    assert pins.lookup("0-1", 20.0) is None
    assert pins.lookup("19-9", 20.0) == HERE


def test_pitfall_358_one_gateway_key_has_a_tenth_at_most() -> None:
    pins = Affinities(max_size=100)
    pins.put("you", "yours", HERE, 0.0)
    for number in range(1000):
        pins.put("me", f"mine{number}", HERE, 1.0)
    assert len(pins) == 11
    assert pins.lookup("yours", 2.0) == HERE
    assert pins.lookup("mine999", 2.0) == HERE
    assert pins.lookup("mine0", 2.0) is None


def test_others_are_told_what_changes_and_now_and_then_that_it_is_used() -> None:
    pins = Affinities()
    pins.put("me", "c", HERE, 0.0)
    assert json.decode(json.encode(pins.take_updates()), type=list[AffinityUpdate]) == [
        AffinityUpdate("me", "c", HERE, 0.0, 0.0)
    ]
    pins.put("me", "c", HERE, 1.0)
    assert pins.lookup("c", 2.0) == HERE
    assert pins.take_updates() == []
    pins.put("me", "c", HERE, REFRESH_SECONDS)
    assert pins.take_updates() == [AffinityUpdate("me", "c", HERE, 0.0, REFRESH_SECONDS)]
    pins.put("me", "c", THERE, REFRESH_SECONDS + 1)
    assert pins.take_updates() == [AffinityUpdate("me", "c", THERE, REFRESH_SECONDS + 1, REFRESH_SECONDS + 1)]


def test_a_later_change_holds_whoever_used_it_last() -> None:
    here, there = Affinities(), Affinities()
    here.put("me", "c", HERE, 0.0)
    there.merge(here.take_updates())
    there.put("me", "c", THERE, 10.0)
    # It is asked for here before the other's word is.
    assert here.lookup("c", 11.0) == HERE
    here.merge(there.take_updates())
    assert here.lookup("c", 12.0) == THERE
    assert here.take_updates() == []


notices = st.builds(
    AffinityUpdate,
    st.just("me"),
    st.sampled_from("cd"),
    st.sampled_from([HERE, THERE]),
    st.integers(0, 2).map(float),
    st.integers(2, 4).map(float),
)


@given(st.lists(notices, max_size=4))
def test_notices_may_come_in_any_order_and_twice(told: list[AffinityUpdate]) -> None:
    ends = set()
    for order in itertools.permutations(told):
        pins = Affinities()
        pins.merge(order)
        pins.merge(order[:2])
        ends.add(
            (pins.lookup("c", LIFE + 2.5), pins.lookup("d", LIFE + 2.5), pins.lookup("c", 5.0), pins.lookup("d", 5.0))
        )
    assert len(ends) == 1


def test_pins_of_others_are_bounded_too() -> None:
    pins = Affinities(max_size=100)
    pins.merge(AffinityUpdate("me", f"c{number}", HERE, 0.0, 0.0) for number in range(1000))
    assert len(pins) == 10


def test_a_snapshot_is_all_that_a_worker_knows() -> None:
    pins, other = Affinities(), Affinities()
    pins.put("me", "c", HERE, 0.0)
    pins.put("you", "d", THERE, 1.0)
    assert pins.take_updates()
    other.merge(pins.snapshot())
    assert (other.lookup("c", 2.0), other.lookup("d", 2.0)) == (HERE, THERE)
    assert pins.take_updates() == []


def test_where_nobody_is_told_nothing_is_news() -> None:
    pins = Affinities()
    pins.put("me", "c", HERE, 0.0)
    pins.discard_updates()
    assert pins.take_updates() == []
    pins.put("me", "c", THERE, 1.0)
    assert [notice.affinity for notice in pins.take_updates()] == [THERE]
    assert len(pins.snapshot()) == 1


def test_nobody_has_to_look_through_pins_for_garbage() -> None:
    pins = Affinities()
    pins.put("me", "c", HERE, 0.0)
    assert not gc.is_tracked(pins._held["c"]) and not gc.is_tracked(HERE)
