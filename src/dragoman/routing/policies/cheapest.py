"""Cheapest policy: by the estimated cost of this request. Targets without a price come last, because unknown is not
free."""

from __future__ import annotations

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import RandomDraws
from dragoman.routing.policies.policy import Policy


def rank(candidates: list[Candidate], requirements: Requirements, draws: RandomDraws) -> tuple[list[Candidate], Why]:
    return sorted(candidates, key=price), Why.POLICY


def price(candidate: Candidate) -> tuple[bool, int]:
    cost = candidate.cost
    return (True, 0) if cost is None else (False, cost)


POLICY = Policy(name="cheapest", chosen="it is the cheapest for this request", rank=rank, prices=True)
