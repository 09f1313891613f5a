"""Least-loss policy: by the losses of this request's translation, then by price."""

from __future__ import annotations

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import RandomDraws
from dragoman.routing.policies.cheapest import price
from dragoman.routing.policies.policy import Policy


def rank(candidates: list[Candidate], requirements: Requirements, draws: RandomDraws) -> tuple[list[Candidate], Why]:
    """By losses. Targets with unknown losses come last."""
    return sorted(candidates, key=_losses), Why.POLICY


def _losses(candidate: Candidate) -> tuple[bool, int, bool, int]:
    losses = candidate.losses
    return (losses is None, losses or 0, *price(candidate))


POLICY = Policy(name="least-loss", chosen="the least is lost there", rank=rank, prices=True, losses=True)
