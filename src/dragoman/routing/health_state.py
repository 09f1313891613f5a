"""Health state of a target, or of a provider's key, at one moment."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

SLOW_START_SECONDS = 10.0


class HealthLevel(Enum):
    """The states of decision 25, and one for targets whose keys are all in cooldown."""

    HEALTHY = "healthy"
    # It just failed. Until its end it leads in proportion to its success rate.
    SUSPECT = "suspect"
    # In cooldown: it leads no plan until the end, and then gets one probe request.
    COOLDOWN = "cooldown"
    # The probe request is in progress. No other request calls it until its end.
    PROBING = "probing"
    # It recovered. Until its end only some requests call it.
    SLOW_START = "slow_start"
    # No failure is recorded, but every usable key is in cooldown.
    NO_KEY = "no_key"


class HealthState(Struct, frozen=True):
    level: HealthLevel
    until: float = 0.0
    # Of a suspect target: its success rate.
    success_rate: float = 0.0
    # Of a cooldown: whether its errors are prompt, so that it is called after all others failed.
    prompt: bool = False

    def share(self, now: float) -> float:
        """The part of requests that it may lead: in slow start, one in four, one in two, then all."""
        left = self.until - now
        if left <= 0:
            return 1.0
        match self.level:
            case HealthLevel.HEALTHY:
                return 1.0
            case HealthLevel.SUSPECT:
                return self.success_rate
            case HealthLevel.SLOW_START:
                return 0.5 if left <= SLOW_START_SECONDS / 2 else 0.25
            case _:
                return 0.0

    def is_last_resort(self, now: float) -> bool:
        """Whether it is in cooldown, but is called after all others failed."""
        return self.prompt and self.until > now


HEALTHY = HealthState(HealthLevel.HEALTHY)
