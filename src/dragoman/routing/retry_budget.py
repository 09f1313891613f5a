"""Retry budgets: a token bucket per target, so that retries do not multiply an outage (decision 25). Responses and time
fill it. A retry, or a call to a target in cooldown, takes one token."""

from __future__ import annotations

from collections.abc import Callable

FULL = 10.0
FILL = 0.2
# Seconds in which one token is added.
EACH = 10.0
# Clients may choose model names if a route has `provider/*`.
MAX_TARGETS = 4096


class TargetRetryBudgets:
    """The retry budgets of all targets. Full buckets are not stored. `clock` is monotonic."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0, max_targets: int = MAX_TARGETS) -> None:
        self._clock = clock
        self.held: dict[str, tuple[float, float]] = {}
        self._max_targets = max_targets

    def has(self, target: str) -> bool:
        return self.remaining(target) >= 1.0

    def spend(self, target: str) -> bool:
        remaining = self.remaining(target)
        if remaining < 1.0:
            return False
        if target not in self.held and len(self.held) >= self._max_targets:
            # The fullest bucket is nearest to the default.
            del self.held[max(self.held, key=self.held.__getitem__)]
        self.held[target] = (remaining - 1.0, self._clock())
        return True

    def fill(self, target: str) -> None:
        if target not in self.held:
            return
        remaining = self.remaining(target) + FILL
        if remaining >= FULL:
            del self.held[target]
        else:
            self.held[target] = (remaining, self._clock())

    def remaining(self, target: str) -> float:
        held = self.held.get(target)
        return FULL if held is None else min(held[0] + (self._clock() - held[1]) / EACH, FULL)
