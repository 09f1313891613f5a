"""Speed: recent measurements of a target, and the expected time of a response."""

from __future__ import annotations

from math import inf

from msgspec import Struct

# Tokens per second before any measurement.
USUAL_RATE = 50.0
# The age, in seconds, at which figures count for half.
STALE = 600.0


class Speed(Struct, frozen=True, kw_only=True):
    """Decaying averages of one target, for requests of about one size."""

    # Seconds to the first text, thinking or argument.
    first_token: float
    # Tokens per second after that; 0 is unknown.
    rate: float
    # Which part of its requests succeeded, from 0 to 1.
    success_rate: float = 1.0
    # Seconds since the last sample.
    age: float = 0.0
    samples: int = 0
    # Whether the last sample was far from the others, and no request has looked again since.
    in_doubt: bool = False

    def expected(self, output: int) -> float:
        """The expected seconds for this many tokens; infinite without responses. Only responses are measured, so divide
        by the success rate; it grows with the age of the figures."""
        if not self.success_rate > 0:
            return inf
        seconds = needed(self.first_token, self.rate, output) / self.success_rate * (1 + self.age / STALE)
        # An impossible measurement predicts nothing.
        return seconds if 0 <= seconds < inf else inf


def needed(first_token: float, rate: float, output: int) -> float:
    """The seconds for this many tokens, by these figures."""
    return first_token + output / (rate if rate > 0 else USUAL_RATE)
