"""Candidates of a plan: each target with its metadata, and the plan itself, as codes and numbers that `explanation`
formats."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import cached_property

from msgspec import Struct

from dragoman.routing.health_state import HealthState
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.speed import Speed
from dragoman.routing.target import Target


class Filter(Enum):
    """The reason why a target is excluded."""

    TOOLS = "tools"
    IMAGES = "images"
    DOCUMENTS = "documents"
    THINKING = "thinking"
    STRUCTURED = "structured"
    WINDOW = "window"
    COST = "cost"
    UNKNOWN_COST = "unknown_cost"
    # The translation rejects the request, or has losses in strict mode.
    REFUSED = "refused"
    STRICT = "strict"
    STORED_ELSEWHERE = "kept_elsewhere"
    OTHER_MODEL = "other_model"
    COOLDOWN = "cooldown"
    ALONE = "alone"


class Deprioritized(Enum):
    """The reason why a target ranks lower than by the policy."""

    TIGHT = "tight"
    SUSPECT = "suspect"
    SLOW_START = "slow_start"
    BUSY = "busy"
    NO_KEY = "no_key"
    # In cooldown: called after all others failed.
    COOLDOWN = "cooldown"


class Why(Enum):
    """The reason why the first target leads."""

    POLICY = "policy"
    ONLY = "only"
    AFFINITY = "pinned"
    ALONE = "alone"
    EXPLORED = "explored"
    # All targets are in cooldown, and it is this one's turn for a probe.
    WAKES = "wakes"
    NO_TARGET = "nobody"


class Candidate(Struct, frozen=True):
    """One target of a route with its metadata. None means not requested."""

    place: int
    target: Target
    health: HealthState
    left_out: Filter | None = None
    deprioritized: Deprioritized | None = None
    # In nano-dollars.
    cost: int | None = None
    speed: Speed | None = None
    losses: int | None = None
    # In tokens.
    window: int | None = None


class Ranked(Struct, frozen=True):
    """The callable targets in order, and all candidates in the order of the route."""

    order: tuple[Target, ...]
    candidates: tuple[Candidate, ...]


class Plan(Struct, frozen=True, dict=True):
    first: Target | None
    written: Target | None
    # The policy that decided, and why its first target leads.
    policy: str
    why: Why
    rule: str
    requirements: Requirements
    now: float
    # Usually the first target succeeds. If all are healthy, the others are therefore ranked only on access.
    ranked: Ranked | Callable[[], Ranked]
    # The deciding rules, in the form of an affinity.
    held: str = ""
    affinity: Affinity | None = None

    @property
    def is_unranked(self) -> bool:
        """Whether all targets were healthy, free and suitable, so that no ranking was needed."""
        return not isinstance(self.ranked, Ranked)

    @property
    def order(self) -> tuple[Target, ...]:
        return self._ranking.order

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self._ranking.candidates

    @cached_property
    def _ranking(self) -> Ranked:
        return self.ranked if isinstance(self.ranked, Ranked) else self.ranked()
