"""Which targets a request is tried on, in which order, and why."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.model.request_features import RequestFeatures
from dragoman.routing.candidate import Deprioritized, Filter, Why
from dragoman.routing.explanation import explain
from dragoman.routing.health_state import HEALTHY, HealthLevel, HealthState
from dragoman.routing.needs import LossCounts, Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import Affinity, PlanInputs, RandomDraws
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import Route
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.speed import Speed
from dragoman.routing.target import Target
from tests.routing.lines import (
    ALL_DICE,
    DICE,
    NOW,
    POLICY_NAMES,
    RESTING,
    SUSPECT,
    A,
    B,
    C,
    D,
    Told,
    fast,
    line,
    names,
    routes,
    seen,
    worlds,
)

NEEDS = Requirements(size=4000)
ANY_NEEDS = st.builds(
    Requirements,
    size=st.integers(0, 10**6) | st.just(10**400),
    request_features=st.builds(
        RequestFeatures, tools=st.booleans(), media=st.integers(0, 10**7), max_output=st.none() | st.integers(0)
    ),
    strict=st.booleans(),
    losses=st.dictionaries(
        st.sampled_from(["a/m", "b/m", "c/m", "d/m"]), st.builds(LossCounts, st.integers(0, 3), st.just(3))
    ),
    refused=st.dictionaries(st.sampled_from(["a/m", "b/m"]), st.just("so")),
    storing_provider=st.sampled_from(["", "", "", "c", "x"]),
    alone=st.booleans(),
)
STICKY = [name for name, policy in POLICIES.items() if policy.sticky]


@given(routes(), ANY_NEEDS, worlds(), ALL_DICE)
def test_any_plan_is_sound(route: Route, needs: Requirements, view: PlanInputs, dice: RandomDraws) -> None:
    made = plan(route, needs, view, dice)
    assert made == plan(route, needs, view, dice)
    ids = [found.id for found in made.order]
    assert len(ids) == len(set(ids))
    # Everybody is in the order or left out, with the reason.
    candidates = {found.target.id: found for found in made.candidates}
    assert set(candidates) == {found.id for found in route.targets}
    assert {key for key, found in candidates.items() if found.left_out is None} == set(ids)
    told = explain(made)
    assert len(told) == 1 + len(candidates)
    # Nobody who rests or is not well goes before somebody who is.
    well = [candidates[key].deprioritized in (None, Deprioritized.TIGHT) for key in ids]
    assert well == sorted(well, reverse=True)
    asleep = [
        key
        for key in ids
        if candidates[key].health.level in (HealthLevel.COOLDOWN, HealthLevel.PROBING)
        and candidates[key].health.until > NOW
    ]
    # Where one alone may know what is meant, it is asked however it does. Else they are the last resort.
    if ids != asleep:
        assert ids[len(ids) - len(asleep) :] == asleep
        assert {candidates[key].deprioritized for key in asleep} <= {Deprioritized.COOLDOWN}
    assert bool(ids) is (made.why is not Why.NO_TARGET)


@given(routes(), ANY_NEEDS, worlds(), ALL_DICE, st.booleans())
def test_a_calm_plan_is_what_a_look_at_everybody_makes_of_it(
    route: Route, needs: Requirements, world: PlanInputs, dice: RandomDraws, well: bool
) -> None:
    if well:
        needs = replace(needs, losses={}, refused={}, storing_provider="", alone=False)
        windows: list[int | None] = [None, needs.size // 4 + 1]
        world = replace(
            world,
            standings_of=lambda outline: [HEALTHY] * len(outline.leaves),
            busy_in=lambda _: (),
            windows_of=lambda outline: [windows[place % 2] for place, *_ in outline.leaves],
        )
    made = plan(route, needs, world, dice)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanInputs, "are_all_available", lambda *_: False)
        looked = plan(route, needs, world, dice)
    assert not looked.is_unranked
    assert (made.order, made.candidates) == (looked.order, looked.candidates)
    assert made.first is (made.order[0] if made.order else None)
    assert replace(made, ranked=looked.ranked) == looked


@pytest.mark.parametrize("policy", [name for name in STICKY if not (POLICIES[name].prices or POLICIES[name].losses)])
def test_where_a_conversation_is_nobody_else_is_looked_at_on_a_calm_day(policy: str) -> None:
    asked: list[int] = []

    def speeds(outline: RouteSummary, size: int) -> list[Speed | None]:
        asked.append(size)
        return [None] * len(outline.leaves)

    made = plan(line(A, B, C, policy=policy), NEEDS, Told(affinity=Affinity(B.id), speeds_of=speeds), DICE)
    assert (made.first, made.why, made.is_unranked) == (B, Why.AFFINITY, True)
    assert asked == []
    assert made.order[0] is B and {found.id for found in made.order} == {A.id, B.id, C.id}
    assert len(asked) == POLICIES[policy].speed


def test_what_becomes_of_targets_later_changes_no_plan() -> None:
    standings = [HEALTHY, HEALTHY, HEALTHY]
    busy: list[str] = []
    made = plan(line(A, B, C), NEEDS, Told(standings_of=lambda _: standings, busy_in=lambda _: busy), DICE)
    standings[:] = [SUSPECT, RESTING, HEALTHY]
    busy.append("c")
    assert names(made) == "a b c"
    assert [found.health for found in made.candidates] == [HEALTHY] * 3


@given(st.sampled_from(STICKY), st.sampled_from([A, B, C, D]), worlds(), ALL_DICE)
def test_sticky_is_sticky(policy: str, pinned: Target, world: PlanInputs, dice: RandomDraws) -> None:
    view = replace(world, affinity=Affinity(pinned.id))
    made = plan(line(A, B, C, D, policy=policy), Requirements(size=0), view, dice)
    found = next(candidate for candidate in made.candidates if candidate.target is pinned)
    well = found.left_out is None and found.deprioritized in (None, Deprioritized.TIGHT)
    if well and found.health.level not in (HealthLevel.COOLDOWN, HealthLevel.PROBING):
        assert made.order[0] is pinned
        assert made.why is Why.AFFINITY
        assert "the conversation is there" in explain(made)[0]


def test_round_robin_turns_whatever_a_pin_says() -> None:
    route = line(A, B, C, policy="round-robin")
    turns = [plan(route, NEEDS, seen(turn=turn, pin="b"), DICE).order[0].provider.name for turn in range(6)]
    assert turns == list("abcabc")
    # Unless the line wants turns for new conversations alone.
    assert names(plan(replace(route, sticky=True), NEEDS, seen(turn=0, pin="b"), DICE)) == "b a c"


def test_whoever_is_well_takes_the_turns_of_those_who_are_not() -> None:
    route = line(A, B, C, policy="round-robin")
    led = Counter(names(plan(route, NEEDS, seen(turn=turn, standings={"b": RESTING}), DICE))[0] for turn in range(10))
    assert led == {"a": 5, "c": 5}


def test_a_line_may_say_that_nothing_stays() -> None:
    loose = replace(line(A, B, policy="weighted", weights=(1, 0)), sticky=False)
    assert names(plan(loose, NEEDS, seen(pin="b"), DICE)) == "a b"


@pytest.mark.parametrize("policy", STICKY)
def test_pitfall_357_a_conversation_of_twenty_turns_has_one_target(policy: str) -> None:
    route = line(A, B, C, D, policy=policy)
    dice = Random(7)
    pin: Affinity | None = None
    led = set()
    for turn in range(20):
        speeds = {name: fast(dice.random()) for name in "abcd"}
        costs = {name: dice.randrange(9) for name in "abcd"}
        view = replace(seen(speeds=speeds, costs=costs, turn=turn), affinity=pin)
        made = plan(route, NEEDS, view, RandomDraws(dice.random(), dice.random(), dice.random()))
        pin = Affinity(made.order[0].id, "", made.rule)
        led.add(pin.target)
    assert len(led) == 1


def test_pitfall_358_a_thousand_conversations_spread() -> None:
    route = line(A, B, C, D, policy="weighted")
    dice = Random(8)
    led = Counter(names(plan(route, NEEDS, seen(), RandomDraws(dice.random()))).split()[0] for _ in range(1000))
    assert set(led) == set("abcd")
    assert min(led.values()) > 200


def test_pitfall_348_a_pin_is_no_reason_to_ask_the_dead() -> None:
    route = line(A, B, C)
    for standing in (
        SUSPECT,
        RESTING,
        HealthState(HealthLevel.COOLDOWN, NOW - 1),
        HealthState(HealthLevel.PROBING, NOW + 1),
    ):
        made = plan(route, NEEDS, seen(standings={"b": standing}, pin="b"), DICE)
        assert made.order[0] is A
        assert made.why is not Why.AFFINITY
    # And those behind it are there when it fails.
    assert names(plan(route, NEEDS, seen(pin="b"), DICE)) == "b a c"


def test_pitfall_357_where_all_have_failed_a_moment_ago_a_conversation_stays() -> None:
    standings = {"a": SUSPECT, "b": SUSPECT, "c": RESTING}
    made = plan(line(A, B, C), NEEDS, seen(standings=standings, pin="b"), DICE)
    assert names(made) == "b a c"
    assert made.why is Why.AFFINITY
    # But not at one that has no place, or that rests.
    assert names(plan(line(A, B), NEEDS, seen(standings={"a": SUSPECT}, pin="b", busy="b"), DICE)) == "a b"
    assert names(plan(line(A, B, C), NEEDS, seen(standings=standings, pin="c"), DICE)) == "a b c"


def test_pitfall_363_at_the_limit_of_calls_stickiness_yields() -> None:
    made = plan(line(A, B), NEEDS, seen(pin="a", busy="a"), DICE)
    assert names(made) == "b a"
    assert "deprioritized, all its slots are taken" in explain(made)[2]


def test_pitfall_362_a_pin_chooses_only_among_the_targets_of_the_name() -> None:
    made = plan(line(A, B), NEEDS, seen(pin="c"), DICE)
    assert (names(made), made.why) == ("a b", Why.POLICY)
    needs = Requirements(size=4000, refused={"b/m": "no"})
    assert names(plan(line(A, B, C), needs, seen(pin="b"), DICE)) == "a c"


def test_pitfall_347_if_all_rest_those_that_nobody_tries_take_turns() -> None:
    standings = {
        "a": HealthState(HealthLevel.COOLDOWN, NOW + 30),
        "b": HealthState(HealthLevel.PROBING, NOW + 1),
        "c": HealthState(HealthLevel.COOLDOWN, NOW + 2),
    }
    turns = [plan(line(A, B, C), NEEDS, seen(standings=standings, turn=turn), DICE) for turn in range(4)]
    assert [(names(made), made.why) for made in turns] == [("a b c", Why.WAKES), ("c b a", Why.WAKES)] * 2
    assert explain(turns[1])[0] == "c/m leads: all targets are in cooldown, and it is its turn to be probed (fallback)"
    # Whoever cannot be asked at all is not woken, and one that is being tried only if there is no other.
    made = plan(line(A, B, C), Requirements(size=1, refused={"c/m": "no"}), seen(standings=standings, turn=1), DICE)
    assert names(made) == "a b"
    refused = {"a/m": "no", "c/m": "no"}
    assert names(plan(line(A, B, C), Requirements(size=1, refused=refused), seen(standings=standings), DICE)) == "b"
    # One that stands and is not well is still better than those that rest, which are the last resort.
    made = plan(line(A, B, C, D), NEEDS, seen(standings={**standings, "d": SUSPECT}), DICE)
    assert (names(made), made.why) == ("d b c a", Why.ONLY)


def test_after_its_rest_one_request_tries_it_in_its_place() -> None:
    view = seen(standings={"a": HealthState(HealthLevel.COOLDOWN, NOW - 1)})
    made = plan(line(A, B), NEEDS, view, DICE)
    assert names(made) == "a b"
    assert "tried again after a cooldown" in explain(made)[1]


@given(POLICY_NAMES, ANY_NEEDS, worlds(), ALL_DICE)
def test_pitfall_367_no_figure_breaks_a_plan(
    policy: str, needs: Requirements, view: PlanInputs, dice: RandomDraws
) -> None:
    made = plan(line(A, B, C, D, policy=policy, weights=(0, 10**400)), needs, view, dice)
    assert len(made.candidates) == 4
    assert all(explain(made))


def test_nobody_left_names_each_with_its_filter() -> None:
    made = plan(line(A, B), Requirements(size=10**6), seen(windows={"a": 10, "b": 10}), DICE)
    assert (made.order, made.why) == ((), Why.NO_TARGET)
    assert [found.left_out for found in made.candidates] == [Filter.WINDOW, Filter.WINDOW]
    assert explain(made)[0] == "no target can be called"


class TestNested:
    """Routes within routes."""

    def test_a_member_that_is_a_route_is_ordered_by_its_own_policy_in_its_place(self) -> None:
        route = line(A, line(B, C, policy="cheapest"), D)
        assert names(plan(route, NEEDS, seen(costs={"b": 2, "c": 1}), DICE)) == "a c b d"

    def test_those_who_rank_rank_all_below_them(self) -> None:
        route = line(line(A, B), line(C, D, policy="weighted"), policy="cheapest")
        assert names(plan(route, NEEDS, seen(costs={"a": 4, "b": 1, "c": 3, "d": 2}), DICE)) == "b d c a"

    def test_a_target_in_two_routes_is_tried_where_it_comes_first(self) -> None:
        route = line(line(A, B), line(B, A, C), B)
        assert names(plan(route, NEEDS, seen(), DICE)) == "a b c"

    def test_whoever_is_well_in_a_later_route_goes_before_who_is_not_in_an_earlier_one(self) -> None:
        route = line(line(A, B), line(C, D))
        assert names(plan(route, NEEDS, seen(standings={"a": SUSPECT, "c": RESTING}), DICE)) == "b d a c"

    def test_turns_within_turns_reach_everybody(self) -> None:
        route = line(line(A, B, policy="round-robin"), line(C, D, policy="round-robin"), policy="round-robin")
        led = [plan(route, NEEDS, seen(turn=turn), DICE).order[0].provider.name for turn in range(4)]
        assert led == list("acbd")

    def test_weights_within_weights_multiply(self) -> None:
        inner = line(A, B, policy="weighted", weights=(3, 1))
        route = line(inner, C, policy="weighted", weights=(1, 1))
        dice = Random(9)
        led = Counter(
            plan(route, NEEDS, seen(), RandomDraws(dice.random())).order[0].provider.name for _ in range(8000)
        )
        assert {name: count / 8000 for name, count in led.items()} == pytest.approx(
            {"a": 0.375, "b": 0.125, "c": 0.5}, abs=0.02
        )

    def test_weights_go_with_those_who_are_left(self) -> None:
        route = line(line(A), B, line(C, D), policy="weighted", weights=(1, 0, 1))
        needs = Requirements(size=1, refused={"a/m": "no"})
        assert names(plan(route, needs, seen(), RandomDraws(0.99))) == "c d b"

    def test_exploring_is_told_if_the_route_that_explores_leads(self) -> None:
        route = line(line(A, B, policy="fastest"), C)
        view = seen(speeds={"a": fast(1.0)})
        assert plan(route, NEEDS, view, RandomDraws(0.0, 0.0)).why is Why.EXPLORED
        assert plan(line(C, line(A, B, policy="fastest")), NEEDS, view, RandomDraws(0.0, 0.0)).why is Why.POLICY


def test_pitfall_359_whoever_sealed_the_reasoning_leads_where_nobody_remembers_the_conversation() -> None:
    route, needs = line(A, B, C), Requirements(size=1, issuer="b/m")
    made = plan(route, needs, seen(), DICE)
    assert (names(made), made.why) == ("b a c", Why.AFFINITY)
    assert names(plan(route, needs, seen(pin="c"), DICE)) == "c a b"
    # It is preferred, and no more than that.
    assert names(plan(route, needs, seen(standings={"b": RESTING}), DICE)) == "a c b"
    assert names(plan(line(A, B, policy="round-robin"), needs, seen(), DICE)) == "a b"
    assert names(plan(route, Requirements(size=1, issuer="gone/m"), seen(), DICE)) == "a b c"
