"""Standing: how a target, or a key of a provider, is thought to be at a moment."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

# Seconds of slow start after a cooldown.
SLOW_START_SECONDS = 10.0


class HealthLevel(Enum):
    """The states of decision 25, and one for targets whose keys are all in cooldown."""

    HEALTHY = "healthy"
    # It just failed: leads in proportion to its success rate until its end.
    SUSPECT = "suspect"
    # In cooldown: it leads no plan until the end, and then gets one probe request.
    COOLDOWN = "cooldown"
    # The probe request is in progress: no other request calls it until its end.
    PROBING = "probing"
    # It recovered: called by some requests until its end.
    SLOW_START = "slow_start"
    # No failure is recorded, but every usable key is in cooldown.
    NO_KEY = "no_key"


class HealthState(Struct, frozen=True):
    """Health of a target, and when it ends, by the clock of `now`."""

    level: HealthLevel
    until: float = 0.0
    # Of a suspect one: its share of answers.
    success_rate: float = 0.0
    # For a cooldown: whether its errors are fast, so that it is called after all others failed.
    prompt: bool = False

    def share(self, now: float) -> float:
        """Which part of the requests it may lead: in slow start, one in four, one in two, all."""
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
        """Whether it is in cooldown, and is called anyway after all others failed."""
        return self.prompt and self.until > now


HEALTHY = HealthState(HealthLevel.HEALTHY)
