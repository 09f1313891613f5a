"""Fastest policy: by the expected time of a response of usual length. The time is divided by the success rate, because
only responses are measured, and grows with the age of a sample. Targets of unknown speed go last. They, and the one
measured longest ago, lead now and then. After an unexpected duration a target leads once."""

from __future__ import annotations

from math import inf

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import RandomDraws
from dragoman.routing.policies.policy import Policy


def rank(candidates: list[Candidate], requirements: Requirements, draws: RandomDraws) -> tuple[list[Candidate], Why]:
    output = requirements.expected_output
    keyed = []
    for place, candidate in enumerate(candidates):
        speed = candidate.speed
        if speed is None or speed.samples <= 0:
            keyed.append((1, 0.0, place))
        elif (seconds := speed.expected(output)) < inf:
            keyed.append((0, seconds, place))
        else:
            keyed.append((2, 0.0, place))
    keyed.sort()
    ranked = [candidates[place] for _, _, place in keyed]
    explored = _explored(ranked, draws)
    if explored is ranked[0]:
        return ranked, Why.POLICY
    ranked.remove(explored)
    return [explored, *ranked], Why.EXPLORED


def _explored(ranked: list[Candidate], draws: RandomDraws) -> Candidate:
    """The candidate that leads: at once one whose figures are in doubt, now and then the stalest, otherwise the
    fastest."""
    if draws.exploration_rate:
        for candidate in ranked:
            if candidate.speed is not None and candidate.speed.in_doubt:
                return candidate
    return max(ranked, key=_age) if draws.explore < draws.exploration_rate else ranked[0]


def _age(candidate: Candidate) -> float:
    speed = candidate.speed
    return inf if speed is None or speed.samples <= 0 else speed.age


POLICY = Policy(
    name="fastest",
    chosen="its response is expected first",
    rank=rank,
    soonest=True,
    speed=True,
)
