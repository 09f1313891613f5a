"""The order in which members are written."""

from __future__ import annotations

from dragoman.routing.policies.fallback import order


def test_members_stay_as_written() -> None:
    assert list(order((1.0, 5.0, 0.0), 7, 0.9)) == [0, 1, 2]
    assert list(order((), 0, 0.0)) == []
