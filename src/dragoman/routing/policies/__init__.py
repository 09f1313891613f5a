"""Policies: each ranks the targets of a route; one file and one line here for each, named as in the configuration."""

from __future__ import annotations

from dragoman.routing.policies import cheapest, fallback, fastest, least_loss, round_robin, weighted
from dragoman.routing.policies.policy import Policy

POLICIES = {
    policy.name: policy
    for policy in (
        Policy(name="fallback", order=fallback.order),
        Policy(name="weighted", order=weighted.order),
        Policy(name="round-robin", order=round_robin.order, turns=True),
        Policy(name="cheapest", rank=cheapest.rank, prices=True),
        Policy(name="fastest", rank=fastest.rank, speed=True),
        Policy(name="least-loss", rank=least_loss.rank, prices=True, losses=True),
    )
}
