"""Round-robin: each request begins with the member after the one that the last request began with."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.routing.policies.policy import Policy


def order(weights: Sequence[float], turn: int, draw: float) -> Sequence[int]:
    """From the one whose turn it is, around to the one before it."""
    count = len(weights)
    first = turn % count if count else 0
    return [*range(first, count), *range(first)]


POLICY = Policy(name="round-robin", chosen="it is its turn", order=order, turns=True, sticky=False)
