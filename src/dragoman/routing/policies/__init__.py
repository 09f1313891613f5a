"""Routing policies: each ranks the targets of a route. Each has one file, and one line here with its configured
name."""

from __future__ import annotations

from dragoman.routing.policies import cheapest, fallback, fastest, least_loss, round_robin, weighted

POLICIES = {
    policy.name: policy
    for policy in (
        fallback.POLICY,
        weighted.POLICY,
        round_robin.POLICY,
        cheapest.POLICY,
        fastest.POLICY,
        least_loss.POLICY,
    )
}
