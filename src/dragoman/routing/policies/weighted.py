"""Weighted policy: random order in proportion to weights. One random number decides the order: its remainder after each
choice is uniform again. The others replace a failed target in proportion to their weights."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.routing.policies.policy import Policy

_BELOW_ONE = 1 - 2**-53


def order(weights: Sequence[float], turn: int, draw: float) -> Sequence[int]:
    """Draw by weight. Members with weight 0 come last, in the order of the configuration."""
    left = [index for index, weight in enumerate(weights) if weight > 0]
    idle = [index for index, weight in enumerate(weights) if weight <= 0]
    drawn = []
    while len(left) > 1:
        point = draw * sum([weights[index] for index in left])
        for index in left:
            weight = weights[index]
            if point < weight:
                break
            point -= weight
        # Only rounding moves the point beyond the last member.
        draw = min(point / weight, _BELOW_ONE)
        drawn.append(index)
        left.remove(index)
    return drawn + left + idle


POLICY = Policy(
    name="weighted",
    chosen="chance chose it, by weight",
    unrandomized="chance chooses by weight, and no dice are rolled for this",
    order=order,
    weights=True,
)
