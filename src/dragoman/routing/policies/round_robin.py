"""Round-robin policy: each request begins with the member after the first one of the last request."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.routing.policies.policy import Policy


def order(weights: Sequence[float], turn: int, draw: float) -> Sequence[int]:
    count = len(weights)
    first = turn % count if count else 0
    return [*range(first, count), *range(first)]


POLICY = Policy(name="round-robin", chosen="it is its turn", order=order, turns=True, sticky=False)
