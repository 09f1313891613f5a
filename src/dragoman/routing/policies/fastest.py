"""Fastest: by the time in which an answer of usual length is expected, from what was measured.

Only answers are measured, so the time is divided by how often there was one: a target that fails fast is not fast.
What was measured grows stale: the older it is, the longer the time that is expected. Whose speed is unknown stands
behind those whose speed is known, and leads now and then, as does the one that was measured the longest ago.
"""

from __future__ import annotations

from math import inf

from dragoman.routing.candidate import Candidate, Why
from dragoman.routing.needs import Needs
from dragoman.routing.policies.policy import Policy
from dragoman.routing.speed import Speed
from dragoman.routing.view import Dice

# The tokens of an answer of usual length, and what comes in a second where nobody measured it.
USUAL_OUTPUT = 256
USUAL_RATE = 50.0
# The age, in seconds, at which figures count for half.
STALE = 600.0


def rank(candidates: list[Candidate], needs: Needs, dice: Dice) -> tuple[list[Candidate], Why]:
    """By expected time, with a little exploration."""
    most = needs.signs.most_output
    output = USUAL_OUTPUT if most is None or most > USUAL_OUTPUT else max(most, 0)
    keyed = []
    for place, candidate in enumerate(candidates):
        speed = candidate.speed
        if speed is None or speed.samples <= 0:
            keyed.append((1, 0.0, place))
        elif (seconds := expected(speed, output)) < inf:
            keyed.append((0, seconds, place))
        else:
            keyed.append((2, 0.0, place))
    keyed.sort()
    ranked = [candidates[place] for _, _, place in keyed]
    if dice.explore < dice.exploring and len(ranked) > 1:
        stalest = max(ranked, key=_age)
        if stalest is not ranked[0]:
            ranked.remove(stalest)
            return [stalest, *ranked], Why.EXPLORED
    return ranked, Why.POLICY


def expected(speed: Speed, output: int) -> float:
    """The seconds in which so many tokens are expected; infinite where no answer is."""
    success = speed.success_rate
    if not success > 0:
        return inf
    rate = speed.rate
    seconds = speed.first_token + output / (rate if rate > 0 else USUAL_RATE)
    seconds = seconds / success * (1 + speed.age / STALE)
    # What cannot have been measured promises nothing.
    return seconds if 0 <= seconds < inf else inf


def _age(candidate: Candidate) -> float:
    speed = candidate.speed
    return inf if speed is None or speed.samples <= 0 else speed.age


POLICY = Policy(name="fastest", chosen="its answer is expected first", rank=rank, speed=True)
