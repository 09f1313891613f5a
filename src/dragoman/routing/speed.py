"""Speed: how fast a target was of late, measured by what it answered."""

from __future__ import annotations

from msgspec import Struct


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
