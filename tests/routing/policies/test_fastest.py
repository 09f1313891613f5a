"""By the time in which an answer is expected."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given

from dragoman.model.request_features import RequestFeatures
from dragoman.routing.candidate import Why
from dragoman.routing.explanation import explain
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import EXPLORATION_RATE, RandomDraws
from dragoman.routing.speed import Speed
from tests.routing.lines import DICE, SPEEDS, A, B, C, D, fast, line, names, seen

FASTEST = line(A, B, C, D, policy="fastest")
NEEDS = Requirements(size=4000)
CURIOUS = RandomDraws(weight=0.0, explore=EXPLORATION_RATE / 2, slow_start=0.5)


def test_the_fastest_leads() -> None:
    speeds = {"a": fast(2.0), "b": fast(0.5), "c": fast(1.0), "d": fast(3.0)}
    assert names(plan(FASTEST, NEEDS, seen(speeds=speeds), DICE)) == "b c a d"


def test_a_short_answer_is_worth_its_first_token() -> None:
    speeds = {
        "a": Speed(first_token=0.2, rate=20.0, samples=9),
        "b": Speed(first_token=1.0, rate=200.0, samples=9),
    }
    both = line(A, B, policy="fastest")
    assert names(plan(both, NEEDS, seen(speeds=speeds), DICE)) == "b a"
    short = Requirements(size=4000, request_features=RequestFeatures(max_output=10))
    assert names(plan(both, short, seen(speeds=speeds), DICE)) == "a b"


def test_pitfall_364_old_figures_are_discounted_and_their_age_is_told() -> None:
    speeds = {"a": fast(0.9, age=7200.0), "b": fast(1.0)}
    made = plan(line(A, B, policy="fastest"), NEEDS, seen(speeds=speeds), DICE)
    assert names(made) == "b a"
    assert "measured 7.2e+03 s ago" in explain(made)[2]


def test_pitfall_365_a_target_that_fails_fast_is_not_fast() -> None:
    speeds = {"a": fast(0.1, success_rate=0.1), "b": fast(1.0), "c": fast(0.0, success_rate=0.0)}
    # One that never answered is behind those of which nothing is known.
    assert names(plan(FASTEST, NEEDS, seen(speeds=speeds), DICE)) == "b a d c"


def test_pitfall_366_the_figures_are_of_content_and_an_unknown_rate_is_a_usual_one() -> None:
    # Whoever told only whole answers has no rate, which makes it neither the fastest nor the slowest.
    speeds = {"a": fast(3.0), "b": Speed(first_token=0.5, rate=0.0, samples=9), "c": fast(0.5)}
    assert names(plan(line(A, B, C, policy="fastest"), NEEDS, seen(speeds=speeds), DICE)) == "c a b"


def test_pitfall_367_without_samples_nothing_is_known_and_somebody_looks() -> None:
    speeds = {"b": fast(1.0), "c": Speed(first_token=0.0, rate=0.0, samples=0)}
    view = seen(speeds=speeds)
    assert names(plan(FASTEST, NEEDS, view, DICE)) == "b a c d"
    made = plan(FASTEST, NEEDS, view, CURIOUS)
    assert names(made) == "a b c d"
    assert made.why is Why.EXPLORED
    assert "are the oldest" in explain(made)[0]


def test_where_all_was_measured_the_oldest_is_looked_at_again() -> None:
    speeds = {"a": fast(1.0), "b": fast(2.0, age=60.0), "c": fast(3.0, age=90.0), "d": fast(9.0, age=1.0)}
    assert names(plan(FASTEST, NEEDS, seen(speeds=speeds), CURIOUS)) == "c a b d"


def test_how_often_is_a_setting() -> None:
    view = seen(speeds={"b": fast(1.0)})
    assert plan(FASTEST, NEEDS, view, RandomDraws(0.0, 0.0, 0.5, exploration_rate=0.0)).why is Why.POLICY
    assert plan(FASTEST, NEEDS, view, RandomDraws(0.0, 0.99, 0.5, exploration_rate=1.0)).why is Why.EXPLORED


def test_a_conversation_explores_nothing() -> None:
    speeds = {"a": fast(1.0), "b": fast(2.0)}
    made = plan(FASTEST, NEEDS, seen(speeds=speeds, pin="b"), CURIOUS)
    assert (names(made), made.why) == ("b c a d", Why.AFFINITY)


@pytest.mark.parametrize("figure", [0.0, -1.0, 5e-324, 1e308, inf, -inf, nan])
def test_no_figure_breaks_it(figure: float) -> None:
    for speed in (
        Speed(first_token=figure, rate=1.0),
        Speed(first_token=1.0, rate=figure),
        Speed(first_token=1.0, rate=1.0, success_rate=figure),
        Speed(first_token=1.0, rate=1.0, age=figure),
    ):
        assert 0 <= speed.expected(256) <= inf


@given(SPEEDS)
def test_what_is_expected_is_never_less_than_nothing(speed: Speed) -> None:
    assert 0 <= speed.expected(256) <= inf
