"""Members take turns."""

from __future__ import annotations

from dragoman.routing.policies.round_robin import order


def test_each_request_begins_with_the_next_one() -> None:
    assert [list(order((1.0, 1.0, 1.0), turn, 0.0)) for turn in range(4)] == [
        [0, 1, 2],
        [1, 2, 0],
        [2, 0, 1],
        [0, 1, 2],
    ]


def test_nobody_takes_no_turn() -> None:
    assert list(order((), 3, 0.0)) == []


def test_a_huge_turn_is_a_turn() -> None:
    assert list(order((1.0, 1.0), 10**400 + 1, 0.0)) == [1, 0]
