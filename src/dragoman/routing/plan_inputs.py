"""Plan inputs: everything that a plan depends on, as arguments: health, speed, prices, the conversation, random
numbers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.routing.health_state import HEALTHY, HealthState
from dragoman.routing.needs import BYTES_PER_TOKEN, Requirements
from dragoman.routing.speed import Speed
from dragoman.routing.target import Target

if TYPE_CHECKING:
    from dragoman.routing.route_summary import RouteSummary

# One request in twenty.
EXPLORATION_RATE = 0.05


class Affinity(Struct, frozen=True, gc=False):
    """Where a conversation is: target id, digest of the provider's key, and the rules that led there. Texts alone,
    because entries are many and long-lived, and the garbage collector skips texts."""

    target: str
    key: str = ""
    rule: str = ""


class PlanInputs(Struct, frozen=True):
    """The inputs at one moment; by default all targets are healthy and free, of unknown price and speed. Most fields
    are per route, in the order of its targets, and usually empty."""

    now: float = 0.0
    # Where the conversation is, if it is anywhere.
    affinity: Affinity | None = None
    # The number of earlier requests of the route.
    turn: int = 0

    def health_states(self, summary: RouteSummary) -> Sequence[HealthState]:
        """The health of the targets."""
        return summary.all_healthy

    def busy(self, summary: RouteSummary) -> Container[str]:
        """The names of providers that have no slot for one more call."""
        return ()

    def windows(self, summary: RouteSummary) -> Sequence[int | None]:
        """The context windows of the targets; None is unknown."""
        return [None] * len(summary.leaves)

    def speeds(self, summary: RouteSummary, size: int) -> Sequence[Speed | None]:
        """The speeds of the targets for requests of about this many bytes; None is unknown."""
        return [None] * len(summary.leaves)

    def cost(self, target: Target, requirements: Requirements) -> int | None:
        """The estimated cost of the request there, in nano-dollars; None is unknown."""
        return None

    def are_all_available(self, summary: RouteSummary, size: int) -> bool:
        """Whether all targets are healthy and free, and have room for this many bytes of text."""
        if self.busy(summary):
            return False
        for window in self.windows(summary):
            if window is not None and size > window * BYTES_PER_TOKEN:
                return False
        health_states = self.health_states(summary)
        return health_states is summary.all_healthy or health_states.count(HEALTHY) == len(health_states)

    def has_doubts(self, summary: RouteSummary, size: int, but: int) -> bool:
        """Whether the speed of any target, but that at one index, may have changed, for requests of about this many
        bytes."""
        return any(
            speed is not None and speed.in_doubt and index != but
            for index, speed in enumerate(self.speeds(summary, size))
        )

    def soonest(self, summary: RouteSummary, size: int, output: int) -> int:
        """The index of the target with the shortest expected time for this many tokens; an unknown one, if no other is
        known."""
        speeds = self.speeds(summary, size)
        measured = [speed is not None and speed.samples > 0 for speed in speeds]
        times = [
            inf if speed is None or not measured[index] else speed.expected(output)
            for index, speed in enumerate(speeds)
        ]
        least = min(times)
        return times.index(least) if least < inf else measured.index(False) if False in measured else 0


class RandomDraws(Struct, frozen=True):
    """Chance, each throw a number from 0 up to, but not including, 1."""

    weight: float = 0.0
    explore: float = 0.5
    slow_start: float = 0.0
    # The share of requests for which a learning policy calls the least-known target first.
    exploration_rate: float = EXPLORATION_RATE
