"""Policy: how a route's targets are ordered. Each policy is one file with one record, named as in the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import RandomDraws


class Policy(Struct, frozen=True, kw_only=True):
    """One policy, under its name in the configuration. It has either `order` or `rank`."""

    name: str
    # Why the first target leads, to follow "leads:"; and the same without random numbers, if the policy uses any.
    chosen: str
    unrandomized: str = ""
    # Orders members, nested routes among them, by their weights, the route's turn and random numbers; returns their
    # indexes.
    order: Callable[[Sequence[float], int, float], Sequence[int]] | None = None
    # Ranks all targets; equal ones stay in the order of the route.
    rank: Callable[[list[Candidate], Requirements, RandomDraws], tuple[list[Candidate], Why]] | None = None
    # Whether the first of all healthy targets is the one whose response is expected first.
    soonest: bool = False
    # Which metadata of targets it needs.
    prices: bool = False
    speed: bool = False
    losses: bool = False
    # Whether it takes turns, so that routes in it see each of their own turns once.
    turns: bool = False
    # Whether its targets are written with their weights.
    weights: bool = False
    # Whether a conversation has affinity by default.
    sticky: bool = True
    # Whether the targets are in the order in which they are written, whatever the request.
    as_written: bool = False
