"""A plan in words."""

from __future__ import annotations

from dragoman.routing.explanation import BEHIND, LEADS, LEFT_OUT, explain
from dragoman.routing.needs import Needs
from dragoman.routing.plan import Behind, Filter, Why, plan
from tests.routing.lines import DICE, RESTING, SUSPECT, A, B, C, fast, line, seen


def test_every_code_has_its_words() -> None:
    assert set(LEFT_OUT) == set(Filter)
    assert set(BEHIND) == set(Behind)
    assert set(LEADS) == set(Why) - {Why.POLICY, Why.NOBODY}


def test_a_plan_reads_as_a_page() -> None:
    view = seen(
        standings={"a": SUSPECT, "c": RESTING},
        costs={"a": 1_000_000, "b": 12_500_000},
        windows={"b": 128_000},
    )
    assert explain(plan(line(A, B, C, policy="cheapest"), Needs(size=10), view, DICE)) == (
        "b/m leads: it is the cheapest for this request (cheapest)",
        "1. b/m: good; costs about $0.0125; window of 128000 tokens",
        "2. a/m: behind, it failed a moment ago; suspect for 5 s; costs about $0.001",
        "left out: c/m: it rests; resting for 5 s; price unknown",
    )


def test_speed_is_told_with_its_age() -> None:
    made = plan(line(A, B, policy="fastest"), Needs(size=10), seen(speeds={"b": fast(0.25, age=12.0)}), DICE)
    assert explain(made)[1:] == (
        "1. b/m: good; first token after 0.25 s, 100 tokens/s, 100% succeed, measured 12 s ago (20 samples)",
        "2. a/m: good; speed unknown",
    )
