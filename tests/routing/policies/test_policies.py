"""The policies that there are."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

import pytest

from bench.simulation.run import goal
from dragoman.gateway.model_resolver import ModelResolver
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.routing.explanation import explain
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import plan
from dragoman.routing.plan_inputs import PlanInputs
from dragoman.routing.policies import POLICIES
from dragoman.routing.policies.policy import Policy
from tests.config.support import problems_of, settings_of
from tests.routing.lines import DICE


def test_they_are_named_as_in_the_configuration() -> None:
    assert list(POLICIES) == ["fallback", "weighted", "round-robin", "cheapest", "fastest", "least-loss"]


def test_each_has_one_way_to_order() -> None:
    assert all((policy.order is None) is not (policy.rank is None) for policy in POLICIES.values())


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("prices", {"cheapest", "least-loss"}),
        ("speed", {"fastest"}),
        ("losses", {"least-loss"}),
        ("turns", {"round-robin"}),
        ("weights", {"weighted"}),
        ("sticky", POLICIES.keys() - {"round-robin"}),
        ("as_written", {"fallback"}),
    ],
)
def test_each_asks_for_what_it_needs_and_for_nothing_else(flag: str, names: Set[str]) -> None:
    assert {name for name, policy in POLICIES.items() if getattr(policy, flag)} == names


def test_a_new_one_is_one_record_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    latest = Policy(
        name="latest",
        chosen="it was written last",
        order=lambda weights, turn, chance: range(len(weights) - 1, -1, -1),
        weights=True,
        sticky=False,
        prices=True,
    )
    monkeypatch.setitem(POLICIES, latest.name, latest)
    text = '[models]\na = { policy = "latest", targets = { "echo/x" = 1, "echo/y" = 2 } }\n'
    route = ModelResolver(settings_of(tmp_path, text)).route("a", "openai-chat", ALL_RIGHTS)
    assert not route.sticky
    assert explain(plan(route, Requirements(size=10), PlanInputs(), DICE)) == (
        "echo/y leads: it was written last (latest)",
        "1. echo/y: healthy; price unknown",
        "2. echo/x: healthy; price unknown",
    )
    plain = '[models]\na = { policy = "latest", targets = ["echo/x", "echo/y"] }\n'
    assert "models.a.targets: has no weights" in problems_of(tmp_path, plain)[0]
    measure, oracle = goal(latest)
    assert (measure.words, oracle) == ("$ per 1,000", "cost")
