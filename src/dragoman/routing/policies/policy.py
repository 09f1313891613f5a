"""Policy: how a route's targets are ordered, and what must be known for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Needs
from dragoman.routing.view import Dice


class Policy(Struct, frozen=True, kw_only=True):
    """One policy, under its name in the configuration. It has either `order` or `rank`."""

    name: str
    # Orders members, nested routes among them, by their weights, the line's turn and chance; gives their indexes.
    order: Callable[[Sequence[float], int, float], Sequence[int]] | None = None
    # Ranks all targets below it; those that are equal stay in the line's order.
    rank: Callable[[list[Candidate], Needs, Dice], tuple[list[Candidate], Why]] | None = None
    # What it wants to know of each target.
    prices: bool = False
    speed: bool = False
    losses: bool = False
    # Whether it takes turns, so that routes in it see each of their own turns once.
    turns: bool = False
