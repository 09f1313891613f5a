"""Policy: the interface of routing policies. Each policy is one file with one record, under its configured name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import RandomDraws


class Policy(Struct, frozen=True, kw_only=True):
    """One policy. It has either `order` or `rank`."""

    name: str
    # The reason why the first target leads, to follow "leads:". The second form is for plans without random numbers.
    chosen: str
    unrandomized: str = ""
    # Orders members, including nested routes, by their weights, the route's turn and random numbers. Returns their
    # indexes.
    order: Callable[[Sequence[float], int, float], Sequence[int]] | None = None
    # Ranks all targets. Equal ones stay in the order of the route.
    rank: Callable[[list[Candidate], Requirements, RandomDraws], tuple[list[Candidate], Why]] | None = None
    # Whether the first healthy target is the one with the shortest expected time.
    soonest: bool = False
    prices: bool = False
    speed: bool = False
    losses: bool = False
    # Whether it takes turns, so that each nested route sees its own turns once.
    turns: bool = False
    weights: bool = False
    # Whether conversations have affinity by default.
    sticky: bool = True
    # Whether the order is that of the configuration for every request.
    as_written: bool = False
