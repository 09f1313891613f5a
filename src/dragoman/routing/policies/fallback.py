"""Fallback policy: the members in the order of the configuration."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.routing.policies.policy import Policy


def order(weights: Sequence[float], turn: int, draw: float) -> Sequence[int]:
    return range(len(weights))


POLICY = Policy(name="fallback", chosen="it is the first target of the route", order=order, as_written=True)
