"""A plan in words."""

from __future__ import annotations

import msgspec
from hypothesis import given

from dragoman.records.journal_entry import CandidateEntry
from dragoman.routing.candidate import Deprioritized, Filter, Why
from dragoman.routing.explanation import DEPRIORITIZED, LEADS, LEFT_OUT, because, candidate_entries, explain, reason
from dragoman.routing.needs import LossCounts, Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import PlanInputs, RandomDraws
from dragoman.routing.route import Route
from tests.routing.lines import (
    ALL_DICE,
    DICE,
    RESTING,
    SUSPECT,
    A,
    B,
    C,
    fast,
    line,
    routes,
    seen,
    target,
    worlds,
)


def test_every_code_has_its_words() -> None:
    assert set(LEFT_OUT) == set(Filter)
    assert set(DEPRIORITIZED) == set(Deprioritized)
    assert set(LEADS) == set(Why) - {Why.POLICY, Why.NO_TARGET}


def test_a_plan_reads_as_a_page() -> None:
    view = seen(
        standings={"a": SUSPECT, "c": RESTING},
        costs={"a": 1_000_000, "b": 12_500_000},
        windows={"b": 128_000},
    )
    assert explain(plan(line(A, B, C, policy="cheapest"), Requirements(size=10), view, DICE)) == (
        "b/m leads: it is the cheapest for this request (cheapest)",
        "1. b/m: healthy; costs about $0.0125; window of 128000 tokens",
        "2. a/m: deprioritized, failed 5 s ago; suspect for 5 s; costs about $0.001",
        "3. c/m: deprioritized, in cooldown: called if all others fail; cooldown for 5 s; price unknown",
    )


def test_a_policy_that_chooses_by_chance_says_whether_it_did() -> None:
    weighted = plan(line(A, B, policy="weighted"), Requirements(size=10), seen(), DICE)
    assert because(weighted) == "chance chose it, by weight"
    assert because(weighted, randomized=False) == "chance chooses by weight, and no dice are rolled for this"
    cheapest = plan(line(A, B, policy="cheapest"), Requirements(size=10), seen(), DICE)
    assert because(cheapest, randomized=False) == because(cheapest)


def test_speed_is_told_with_its_age() -> None:
    made = plan(line(A, B, policy="fastest"), Requirements(size=10), seen(speeds={"b": fast(0.25, age=12.0)}), DICE)
    assert explain(made)[1:] == (
        "1. b/m: healthy; first token after 0.25 s, 100 tokens/s, 100% succeed, measured 12 s ago (20 samples)",
        "2. a/m: healthy; speed unknown",
    )


def test_a_record_has_a_plan_in_the_same_words() -> None:
    view = seen(standings={"a": SUSPECT, "c": RESTING}, costs={"a": 1_000_000, "b": 12_500_000})
    made = plan(line(A, B, C, policy="cheapest"), Requirements(size=10), view, DICE)
    assert candidate_entries(made, ["gone/arn:aws:bedrock:eu-west-1:123456789012:model/x"]) == (
        (
            CandidateEntry("b/m", "", 12_500_000),
            CandidateEntry("a/m", "deprioritized: failed 5 s ago", 1_000_000),
            CandidateEntry("c/m", "deprioritized: in cooldown: called if all others fail"),
            CandidateEntry("gone/model/x", "left out: its provider is not configured"),
        ),
        None,
    )


def test_a_record_has_costs_that_the_database_can_store() -> None:
    most = (1 << 63) - 1
    view = seen(costs={"a": most, "b": most + 1})
    told, _ = candidate_entries(plan(line(A, B, policy="cheapest"), Requirements(size=10), view, DICE))
    assert [(found.target, found.cost) for found in told] == [("a/m", most), ("b/m", None)]


def test_a_record_has_speeds_where_they_were_asked_for() -> None:
    view = seen(standings={"a": SUSPECT}, speeds={"a": fast(0.2), "b": fast(0.25)})
    by_speed, _ = candidate_entries(plan(line(A, B, C, policy="fastest"), Requirements(size=10), view, DICE))
    assert [(found.target, found.first_token, found.rate) for found in by_speed] == [
        ("b/m", 250_000, 100.0),
        ("c/m", None, None),
        ("a/m", 200_000, 100.0),
    ]
    as_written, _ = candidate_entries(plan(line(A, B), Requirements(size=10), view, DICE))
    assert [found.first_token for found in as_written] == [None, None]


def test_what_a_translation_said_of_a_request_is_explained_and_not_recorded() -> None:
    needs = Requirements(size=10, losses={"b/m": LossCounts(3, 5)}, refused={"a/m": "nobody takes a raven"})
    made = plan(line(A, B, policy="least-loss"), needs, seen(), DICE)
    left = next(found for found in made.candidates if found.left_out is Filter.REFUSED)
    assert reason(left, made).endswith("nobody takes a raven")
    assert candidate_entries(made)[0] == (
        CandidateEntry("b/m", losses=3),
        CandidateEntry("a/m", "left out: the request cannot be translated for it"),
    )


def test_a_record_has_sixteen_of_them_with_names_of_bounded_length() -> None:
    made = plan(
        line(*(target(f"{number:02}", model="x" * 1000) for number in range(20)), policy="cheapest"),
        Requirements(size=10),
        seen(),
        DICE,
    )
    told, more = candidate_entries(made, ["gone/m"])
    assert (len(told), more) == (16, 5)
    assert [found.target[:3] for found in told] == [f"{number:02}/" for number in range(16)]
    assert {len(found.target) for found in told} == {256}


@given(routes(), worlds(), ALL_DICE)
def test_whatever_was_planned_is_recorded_as_it_is_explained(route: Route, view: PlanInputs, dice: RandomDraws) -> None:
    made = plan(route, Requirements(size=10), view, dice)
    told, more = candidate_entries(made)
    lines = explain(made)[1:]
    assert more is None
    assert [found.target for found in told[: len(made.order)]] == [found.id for found in made.order]
    for found, line_ in zip(told, lines, strict=True):
        kind, _, words = found.why.partition(": ")
        assert f"{found.target}: " in line_
        assert words in line_
        assert line_.startswith("left out: ") == (kind == "left out")
        assert (": deprioritized, " in line_) == (kind == "deprioritized")
    assert msgspec.json.decode(msgspec.json.encode(told), type=tuple[CandidateEntry, ...]) == told
