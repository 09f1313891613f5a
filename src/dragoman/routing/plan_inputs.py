"""Plan inputs: everything that a plan depends on, as arguments: health, speed, prices, affinity, random numbers."""

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

EXPLORATION_RATE = 0.05


class Affinity(Struct, frozen=True, gc=False):
    """The target ID of a conversation, the digest of the provider's key, and the rules that led there. Strings only:
    there are many long-lived entries, and the garbage collector skips strings."""

    target: str
    key: str = ""
    rule: str = ""


class PlanInputs(Struct, frozen=True):
    """The inputs at one moment. By default all targets are healthy and free, with unknown price and speed. Sequences
    are in the order of a route's targets."""

    now: float = 0.0
    affinity: Affinity | None = None
    turn: int = 0

    def health_states(self, summary: RouteSummary) -> Sequence[HealthState]:
        return summary.all_healthy

    def busy(self, summary: RouteSummary) -> Container[str]:
        """The names of providers without a free slot."""
        return ()

    def windows(self, summary: RouteSummary) -> Sequence[int | None]:
        return [None] * len(summary.leaves)

    def speeds(self, summary: RouteSummary, size: int) -> Sequence[Speed | None]:
        """The speeds of the targets for requests of this size in bytes; None is unknown."""
        return [None] * len(summary.leaves)

    def cost(self, target: Target, requirements: Requirements) -> int | None:
        """The estimated cost of the request there, in nano-dollars; None is unknown."""
        return None

    def are_all_available(self, summary: RouteSummary, size: int) -> bool:
        """Whether all targets are healthy, free, and large enough for this many bytes of text."""
        if self.busy(summary):
            return False
        for window in self.windows(summary):
            if window is not None and size > window * BYTES_PER_TOKEN:
                return False
        health_states = self.health_states(summary)
        return health_states is summary.all_healthy or health_states.count(HEALTHY) == len(health_states)

    def has_doubts(self, summary: RouteSummary, size: int, but: int) -> bool:
        """Whether the speed of a target other than index `but` may have changed, for requests of this size in bytes."""
        return any(
            speed is not None and speed.in_doubt and index != but
            for index, speed in enumerate(self.speeds(summary, size))
        )

    def soonest(self, summary: RouteSummary, size: int, output: int) -> int:
        """The index of the target with the shortest expected time for this many output tokens. If none was measured, an
        unknown one."""
        speeds = self.speeds(summary, size)
        measured = [speed is not None and speed.samples > 0 for speed in speeds]
        times = [
            inf if speed is None or not measured[index] else speed.expected(output)
            for index, speed in enumerate(speeds)
        ]
        least = min(times)
        return times.index(least) if least < inf else measured.index(False) if False in measured else 0


class RandomDraws(Struct, frozen=True):
    """Random numbers, each from 0 up to, but not including, 1."""

    weight: float = 0.0
    explore: float = 0.5
    slow_start: float = 0.0
    # The part of requests for which a learning policy calls the least-known target first.
    exploration_rate: float = EXPLORATION_RATE
