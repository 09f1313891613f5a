"""Standing: how a target, or a key of a provider, is thought to be at a moment."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

# How long a target that answers again is spared, in seconds.
RAMP = 10.0


class Level(Enum):
    """The words of the table of decision 25, and one for targets whose keys all rest."""

    GOOD = "good"
    # It failed a moment ago: behind the good ones until its end.
    SUSPECT = "suspect"
    # It failed often: asked by nobody until its end, and then by one request.
    RESTING = "resting"
    # That one request is under way: asked by nobody else until its end.
    PROBED = "probed"
    # It answered: asked by some until its end.
    RAMPING = "ramping"
    # Nothing is said against it, but every key that could be used for it rests.
    KEYLESS = "keyless"


class Standing(Struct, frozen=True):
    """How somebody stands, and when that ends, by the clock that `now` is of."""

    level: Level
    until: float = 0.0

    def share(self, now: float) -> float:
        """Which part of the requests may be led to it while it is ramping: one in four, one in two, all."""
        left = self.until - now
        return 1.0 if left <= 0 else 0.5 if left <= RAMP / 2 else 0.25


GOOD = Standing(Level.GOOD)
