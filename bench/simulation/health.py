"""Health, in small: how targets stand and how fast they were, folded from what became of calls."""

from __future__ import annotations

from bench.simulation.world import FIRST_BYTE, Outcome
from dragoman.routing.speed import Speed
from dragoman.routing.standing import GOOD, RAMP, Level, Standing

SUSPICION = 10.0
FIRST_REST = 5.0
LONGEST_REST = 300.0
IN_A_ROW = 5
# How long one refuses calls that came too often.
LIMITED = 10.0
# After how many samples, or seconds, what was measured counts for half.
HALF_SAMPLES = 20
HALF_TIME = 600.0


class Health:
    """What a gateway knows of its targets."""

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._in_a_row: dict[str, int] = {}
        self._rests: dict[str, int] = {}

    def standing(self, name: str) -> Standing:
        """How a target stands."""
        return self._standings.get(name, GOOD)

    def begin(self, name: str, now: float) -> None:
        """A call begins: the first after a rest has the permit."""
        standing = self.standing(name)
        if standing.level in (Level.RESTING, Level.PROBED) and standing.until <= now:
            self._standings[name] = Standing(Level.PROBED, now + FIRST_BYTE)

    def end(self, name: str, outcome: Outcome, now: float) -> None:
        """A call ended."""
        level = self.standing(name).level
        if outcome.limited:
            if level in (Level.GOOD, Level.SUSPECT, Level.KEYLESS):
                self._standings[name] = Standing(Level.KEYLESS, now + LIMITED)
            return
        if outcome.answered:
            self._in_a_row[name] = 0
            if level is Level.PROBED:
                self._standings[name] = Standing(Level.RAMPING, now + RAMP)
            elif level is not Level.RESTING and self.standing(name).until <= now:
                self._standings[name] = GOOD
                self._rests[name] = 0
            return
        self._in_a_row[name] = self._in_a_row.get(name, 0) + 1
        if level in (Level.PROBED, Level.RAMPING) or self._in_a_row[name] >= IN_A_ROW:
            rests = self._rests.get(name, 0)
            self._rests[name] = rests + 1
            self._in_a_row[name] = 0
            self._standings[name] = Standing(Level.RESTING, now + min(FIRST_REST * 2**rests, LONGEST_REST))
        elif level is not Level.RESTING:
            self._standings[name] = Standing(Level.SUSPECT, now + SUSPICION)


class Speeds:
    """How fast targets were."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float, float, float, int]] = {}

    def of(self, name: str, now: float) -> Speed | None:
        """The figures of a target, if there are any."""
        known = self._known.get(name)
        if known is None:
            return None
        first, rate, success, at, samples = known
        return Speed(first_token=first, rate=rate, success_rate=success, age=now - at, samples=samples)

    def note(self, name: str, outcome: Outcome, written: int, now: float) -> None:
        """Fold in what became of a call; only answers say how fast it was."""
        if outcome.limited:
            return
        first, rate, success, at, samples = self._known.get(name, (0.0, 0.0, 1.0, now, 0))
        share = max(1 - 0.5 ** (1 / HALF_SAMPLES + (now - at) / HALF_TIME), 1 / (samples + 1))
        success += (outcome.answered - success) * share
        if outcome.answered:
            pace = written / max(outcome.seconds - outcome.first_token, 1e-6)
            first, rate = first + (outcome.first_token - first) * share, rate + (pace - rate) * share
            at, samples = now, samples + 1
        self._known[name] = (first, rate, success, at, samples)
