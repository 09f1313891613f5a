"""The policies that there are."""

from __future__ import annotations

from dragoman.routing.policies import POLICIES


def test_they_are_named_as_in_the_configuration() -> None:
    assert list(POLICIES) == ["fallback", "weighted", "round-robin", "cheapest", "fastest", "least-loss"]


def test_each_has_one_way_to_order() -> None:
    assert all((policy.order is None) is not (policy.rank is None) for policy in POLICIES.values())
    assert {name for name, policy in POLICIES.items() if policy.losses} == {"least-loss"}
