"""By what this request is estimated to cost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given

from dragoman.routing.candidate import Deprioritized, Why
from dragoman.routing.explanation import explain
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import PlanInputs, RandomDraws
from tests.routing.lines import ALL_DICE, DICE, A, B, C, D, Told, line, names, seen, worlds

CHEAPEST = line(A, B, C, D, policy="cheapest")
NEEDS = Requirements(size=4000)


def test_the_cheapest_leads_and_equals_stay_as_written() -> None:
    assert names(plan(CHEAPEST, NEEDS, seen(costs={"a": 5, "b": 3, "c": 9, "d": 3}), DICE)) == "b d a c"


@given(worlds(), ALL_DICE)
def test_cheapest_is_minimal_among_those_that_are_equally_well(view: PlanInputs, dice: RandomDraws) -> None:
    made = plan(CHEAPEST, NEEDS, view, dice)
    order = [next(found for found in made.candidates if found.target is target) for target in made.order]
    if made.why is Why.AFFINITY:
        order = order[1:]
    for ahead, after in pairwise(order):
        # Targets in cooldown are a last resort, in the order in which their cooldowns end.
        if ahead.deprioritized is after.deprioritized and ahead.deprioritized is not Deprioritized.COOLDOWN:
            assert after.cost is None or (ahead.cost is not None and ahead.cost <= after.cost)


def test_pitfall_369_an_unknown_price_is_not_free() -> None:
    made = plan(CHEAPEST, NEEDS, seen(costs={"b": 10**15}), DICE)
    assert names(made) == "b a c d"
    assert "price unknown" in explain(made)[2]


def test_pitfall_368_a_warm_cache_is_in_the_price() -> None:
    def cost(target: object, needs: Requirements) -> int:
        # One tenth of the price for what is read from the cache.
        dear = target is A
        price = 3 if dear else 2
        return price * needs.tokens * (1 if needs.warm == "a/m" and dear else 10)

    view = Told(cost_at=cost)
    assert names(plan(CHEAPEST, NEEDS, view, DICE)) == "b c d a"
    assert names(plan(CHEAPEST, Requirements(size=4000, warm="a/m"), view, DICE)) == "a b c d"
