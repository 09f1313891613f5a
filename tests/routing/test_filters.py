"""Who cannot be asked, and who had better be asked last."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.model.request_features import RequestFeatures
from dragoman.routing.candidate import Deprioritized, Filter, Why
from dragoman.routing.explanation import explain
from dragoman.routing.filters import DEPTH, FEATURE_FILTERS, deprioritized_by_health, is_in_cooldown
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState
from dragoman.routing.needs import LossCounts, Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import PlanInputs
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from tests.routing.lines import DICE, NOW, RESTING, SUSPECT, A, B, C, D, line, names, seen, target

BOTH = line(A, B)


def left_out(route: Route, needs: Requirements, view: PlanInputs) -> dict[str, Filter]:
    made = plan(route, needs, view, DICE)
    return {found.target.provider.name: found.left_out for found in made.candidates if found.left_out is not None}


ALL_SIGNS = RequestFeatures(tools=True, images=True, documents=True, thinking=True, structured=True)


@pytest.mark.parametrize(
    ("abilities", "signs", "found"),
    [
        pytest.param({"tool_limit": 0}, RequestFeatures(tools=True), Filter.TOOLS, id="tools"),
        pytest.param({"images": False}, RequestFeatures(images=True), Filter.IMAGES, id="images"),
        pytest.param({"documents": False}, RequestFeatures(documents=True), Filter.DOCUMENTS, id="documents"),
        pytest.param({"reasons": False}, RequestFeatures(thinking=True), Filter.THINKING, id="thinking"),
        pytest.param(
            {"output_schema": False, "json_mode": False},
            RequestFeatures(structured=True),
            Filter.STRUCTURED,
            id="structured",
        ),
        pytest.param({"output_schema": False}, ALL_SIGNS, None, id="a JSON mode is structured output"),
        pytest.param({"tool_limit": 128}, ALL_SIGNS, None, id="a limit of tools is no lack of them"),
        pytest.param({"images": False, "reasons": False}, RequestFeatures(tools=True), None, id="nobody asked for it"),
        pytest.param({}, ALL_SIGNS, None, id="what is unknown leaves nobody out"),
        pytest.param({"images": False, "tool_limit": 0}, ALL_SIGNS, Filter.TOOLS, id="the first is told"),
    ],
)
def test_abilities_leave_out_whoever_cannot(
    abilities: dict[str, bool | int], signs: RequestFeatures, found: Filter | None
) -> None:
    unable = target("x", abilities)
    needs = Requirements(size=10, request_features=signs)
    assert left_out(line(unable, A), needs, seen()) == ({} if found is None else {"x": found})


def test_every_sign_has_a_filter() -> None:
    flags = {name for name in RequestFeatures.__struct_fields__ if isinstance(getattr(RequestFeatures(), name), bool)}
    # What some provider keeps leaves nobody out by what it can do: one target alone is asked.
    assert {*FEATURE_FILTERS, "references_stored"} == flags


def test_a_request_of_at_most_four_bytes_a_token_is_in_its_place() -> None:
    made = plan(BOTH, Requirements(size=4000), seen(windows={"a": 1000}), DICE)
    assert (names(made), made.candidates[0].deprioritized) == ("a b", None)


def test_between_four_and_eight_bytes_it_stands_behind() -> None:
    for size in (4001, 8000):
        made = plan(BOTH, Requirements(size=size), seen(windows={"a": 1000}), DICE)
        assert (names(made), made.candidates[0].deprioritized) == ("b a", Deprioritized.TIGHT)


def test_beyond_that_it_is_left_out() -> None:
    assert left_out(BOTH, Requirements(size=8001), seen(windows={"a": 1000})) == {"a": Filter.WINDOW}


def test_media_are_no_text() -> None:
    needs = Requirements(size=10**7, request_features=RequestFeatures(media=10**7 - 100))
    assert left_out(BOTH, needs, seen(windows={"a": 1000})) == {}


def test_pitfall_318_no_hop_leads_into_a_smaller_window() -> None:
    view = seen(windows={"a": 200_000, "b": 8_000, "c": 200_000})
    made = plan(line(A, B, C), Requirements(size=400_000), view, DICE)
    assert names(made) == "a c"
    # For what follows "too long", each candidate tells its window.
    assert [found.window for found in made.candidates] == [200_000, 8_000, 200_000]


def test_a_warm_cache_ranks_but_never_passes_a_limit_of_cost() -> None:
    def cost(found: Target, needs: Requirements) -> int:
        return {"a": 60, "b": 40, "c": 30}[found.provider.name] // (10 if needs.warm == found.id else 1)

    route, view = line(A, B, C, policy="cheapest"), replace(seen(), cost_at=cost)
    limited = replace(route, max_cost=50)
    assert names(plan(route, Requirements(size=100, warm=A.id), view, DICE)) == "a c b"
    made = plan(limited, Requirements(size=100, warm=A.id), view, DICE)
    assert (names(made), made.candidates[0].cost) == ("c b", 60)
    assert names(plan(limited, Requirements(size=100, warm=B.id), view, DICE)) == "b c"


def test_a_limit_of_cost_leaves_out_the_dear_and_the_unknown() -> None:
    limited = replace(line(A, B, C), max_cost=50)
    view = seen(costs={"a": 51, "b": 50})
    assert left_out(limited, Requirements(size=1), view) == {"a": Filter.COST, "c": Filter.UNKNOWN_COST}
    told = explain(plan(limited, Requirements(size=1), view, DICE))
    assert "left out: a/m: its estimated cost exceeds max_cost" in told[2]
    assert "left out: c/m: its price is unknown, and there is a max_cost" in told[3]


def test_limits_of_nested_routes_hold_below_them() -> None:
    inner = replace(line(A, B, policy="cheapest"), max_cost=10)
    outer = replace(line(inner, C), max_cost=100)
    view = seen(costs={"a": 11, "b": 9, "c": 101})
    assert left_out(outer, Requirements(size=1), view) == {"a": Filter.COST, "c": Filter.COST}


def test_what_a_provider_keeps_is_asked_of_it_alone() -> None:
    assert left_out(line(A, B, C), Requirements(size=1, storing_provider="b"), seen()) == {
        "a": Filter.STORED_ELSEWHERE,
        "c": Filter.STORED_ELSEWHERE,
    }
    made = plan(BOTH, Requirements(size=1, storing_provider="x"), seen(), DICE)
    assert made.order == ()


def test_of_what_nobody_knows_the_keeper_of_one_is_asked() -> None:
    cheap = line(A, B, C, policy="cheapest")
    # However it does: another one could not know what is meant.
    kept: tuple[dict[str, HealthState], ...] = ({}, {"a": SUSPECT}, {"a": RESTING})
    for standings in kept:
        view = seen(costs={"c": 1}, standings=standings)
        made = plan(cheap, Requirements(size=1, alone=True), view, DICE)
        assert (names(made), made.why) == ("a", Why.ALONE)
        assert left_out(cheap, Requirements(size=1, alone=True), view) == {"b": Filter.ALONE, "c": Filter.ALONE}
        assert "the owner of the referenced items is unknown" in explain(made)[0]
    # The conversation's own target knows best.
    for level in (HEALTHY, SUSPECT, RESTING):
        standings = {"c": level}
        assert names(plan(cheap, Requirements(size=1, alone=True), seen(pin="c", standings=standings), DICE)) == "c"


def test_what_nobody_knows_the_keeper_of_is_asked_of_the_clients_own_family_first() -> None:
    other = target("x", protocol="anthropic-messages")
    near = target("y", protocol="openai-chat")
    mixed = line(other, near)
    assert names(plan(mixed, Requirements(size=1, alone=True, protocol="openai-responses"), seen(), DICE)) == "y"
    assert names(plan(mixed, Requirements(size=1, alone=True, protocol="anthropic-messages"), seen(), DICE)) == "x"
    assert names(plan(line(other), Requirements(size=1, alone=True, protocol="openai-chat"), seen(), DICE)) == "x"


def test_embeddings_never_change_the_model() -> None:
    other, same = target("x", model="n"), target("y")
    assert names(plan(line(A, other, same), Requirements(size=1, same_model=True), seen(), DICE)) == "a y"


def test_a_translation_that_refuses_is_told_with_its_reason() -> None:
    needs = Requirements(size=1, refused={"a/m": "audio cannot be said"})
    made = plan(BOTH, needs, seen(), DICE)
    assert names(made) == "b"
    assert "left out: a/m: the request cannot be translated for it: audio cannot be said; healthy" in explain(made)


def test_under_strict_nothing_may_be_lost() -> None:
    losses = {"a/m": LossCounts(1, 1), "b/m": LossCounts(0, 0)}
    assert left_out(BOTH, Requirements(size=1, strict=True, losses=losses), seen()) == {"a": Filter.STRICT}
    assert left_out(BOTH, Requirements(size=1, losses=losses), seen()) == {}
    careful = line(replace(A, strict=True), B)
    assert left_out(careful, Requirements(size=1, losses=losses), seen()) == {"a": Filter.STRICT}


def test_bookkeeping_leaves_a_target_out_only_where_strict_is_all() -> None:
    losses = {"a/m": LossCounts(0, 3), "b/m": LossCounts(0, 0)}
    assert left_out(BOTH, Requirements(size=1, strict=True, losses=losses), seen()) == {}
    assert left_out(BOTH, Requirements(size=1, strict="all", losses=losses), seen()) == {"a": Filter.STRICT}
    careful = line(replace(A, strict="all"), B)
    assert left_out(careful, Requirements(size=1, strict=True, losses=losses), seen()) == {"a": Filter.STRICT}


@pytest.mark.parametrize(
    ("standing", "resting", "behind"),
    [
        pytest.param(HEALTHY, False, None, id="healthy"),
        pytest.param(SUSPECT, False, Deprioritized.SUSPECT, id="suspect"),
        pytest.param(HealthState(HealthLevel.SUSPECT, NOW), False, None, id="no longer suspect"),
        pytest.param(RESTING, True, None, id="cooldown"),
        pytest.param(HealthState(HealthLevel.COOLDOWN, NOW), False, None, id="to be tried after its rest"),
        pytest.param(HealthState(HealthLevel.PROBING, NOW + 1), True, None, id="being tried"),
        pytest.param(HealthState(HealthLevel.PROBING, NOW), False, None, id="tried too long"),
        pytest.param(HealthState(HealthLevel.SUSPECT, NOW + 1, 0.6), False, None, id="suspect, and in its share"),
        pytest.param(
            HealthState(HealthLevel.SUSPECT, NOW + 1, 0.5), False, Deprioritized.SUSPECT, id="suspect, beyond its share"
        ),
        pytest.param(
            HealthState(HealthLevel.COOLDOWN, NOW + 1, prompt=True),
            False,
            Deprioritized.COOLDOWN,
            id="asked if all others fail",
        ),
        pytest.param(
            HealthState(HealthLevel.PROBING, NOW + 1, prompt=True),
            False,
            Deprioritized.COOLDOWN,
            id="tried, asked if all others fail",
        ),
        pytest.param(
            HealthState(HealthLevel.SLOW_START, NOW + SLOW_START_SECONDS),
            False,
            Deprioritized.SLOW_START,
            id="one in four, and not this one",
        ),
        pytest.param(
            HealthState(HealthLevel.SLOW_START, NOW + 1),
            False,
            Deprioritized.SLOW_START,
            id="one in two, and not this one",
        ),
        pytest.param(HealthState(HealthLevel.SLOW_START, NOW), False, None, id="ramped"),
        pytest.param(HealthState(HealthLevel.NO_KEY, NOW + 1), False, Deprioritized.NO_KEY, id="all keys rest"),
        pytest.param(HealthState(HealthLevel.NO_KEY, NOW), False, None, id="a key is back"),
    ],
)
def test_standings(standing: HealthState, resting: bool, behind: Deprioritized | None) -> None:
    assert is_in_cooldown(standing, NOW) is resting
    assert deprioritized_by_health(standing, NOW, 0.5) is behind


def test_a_ramp_lets_some_through() -> None:
    ramping = HealthState(HealthLevel.SLOW_START, NOW + SLOW_START_SECONDS)
    assert [deprioritized_by_health(ramping, NOW, chance) for chance in (0.0, 0.24, 0.25, 0.99)] == [
        None,
        None,
        Deprioritized.SLOW_START,
        Deprioritized.SLOW_START,
    ]


def test_whoever_has_no_key_comes_after_all_others() -> None:
    standings = {"a": HealthState(HealthLevel.NO_KEY, NOW + 1), "b": SUSPECT}
    assert names(plan(line(A, B, C, D), Requirements(size=1), seen(standings=standings, busy="c"), DICE)) == "d b c a"
    assert set(DEPTH) == set(Deprioritized)
