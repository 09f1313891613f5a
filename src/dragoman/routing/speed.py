"""Speed: recent measurements of a target, and the expected time of a response."""

from __future__ import annotations

from math import inf

from msgspec import Struct

# Tokens per second before any measurement.
USUAL_RATE = 50.0
# The age, in seconds, at which figures count for half.
STALE = 600.0


class Speed(Struct, frozen=True, kw_only=True):
    """Decaying averages of one target, for requests of one size class."""

    # Seconds to the first text, thinking or argument.
    first_token: float
    # Tokens per second after that; 0 is unknown.
    rate: float
    # The success rate of its requests, from 0 to 1.
    success_rate: float = 1.0
    # Seconds since the last sample.
    age: float = 0.0
    samples: int = 0
    # Whether the last sample was an outlier that no request has checked since.
    in_doubt: bool = False

    def expected(self, output: int) -> float:
        """The expected seconds for this many tokens; infinite without responses. Only responses are measured, so the
        time is divided by the success rate. It grows with the age of the figures."""
        if not self.success_rate > 0:
            return inf
        seconds = needed(self.first_token, self.rate, output) / self.success_rate * (1 + self.age / STALE)
        # Overflow of the measurements.
        return seconds if 0 <= seconds < inf else inf


def needed(first_token: float, rate: float, output: int) -> float:
    return first_token + output / (rate if rate > 0 else USUAL_RATE)
