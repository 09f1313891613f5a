"""What a plan must know of a route, worked out once."""

from __future__ import annotations

from msgspec.structs import replace

from tests.routing.lines import A, B, C, line, target


def test_a_target_is_a_leaf_once_where_it_is_met_first() -> None:
    outline = line(A, line(B, A, C), B).summary
    assert [leaf[1] for leaf in outline.leaves] == [A, B, C]
    assert outline.places == {"a/m": 0, "b/m": 1, "c/m": 2}


def test_a_route_that_is_nothing_but_another_one_has_its_policy() -> None:
    outline = line(line(line(A, B, policy="fastest"))).summary
    assert (outline.policy.name, outline.flat, outline.speed) == ("fastest", True, True)


def test_only_what_somebody_wants_to_know_is_asked() -> None:
    plain = line(A, B).summary
    assert not (plain.prices or plain.speed or plain.losses or plain.denies or plain.strict)
    assert line(A, line(B, C, policy="least-loss")).summary.losses
    assert replace(line(A, B), max_cost=1).summary.prices
    assert line(A, target("x", {"images": False})).summary.denies
    assert line(A, replace(B, strict=True)).summary.strict


def test_a_conversation_stays_unless_a_route_above_says_no() -> None:
    inner = replace(line(A, B, policy="weighted"), sticky=False)
    assert [leaf[3] for leaf in line(inner, C).summary.leaves] == [False, False, True]
    assert [leaf[3] for leaf in line(A, B, policy="round-robin").summary.leaves] == [False, False]


def test_weights_that_are_missing_negative_or_huge_are_weights() -> None:
    assert line(A, B, C, policy="weighted", weights=(-1, 10**400)).summary.tree.weights == (0.0, 2.0**53, 1.0)


def test_it_is_worked_out_once() -> None:
    route = line(A, B)
    assert route.summary is route.summary
    assert route.targets is route.targets
