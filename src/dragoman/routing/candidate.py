"""Candidate: one target as a plan saw it, and the plan itself; codes and numbers, which `explain` puts into words."""

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
    """Why a target is not in the order at all."""

    TOOLS = "tools"
    IMAGES = "images"
    DOCUMENTS = "documents"
    THINKING = "thinking"
    STRUCTURED = "structured"
    WINDOW = "window"
    COST = "cost"
    UNKNOWN_COST = "unknown_cost"
    # Its translation refuses the request, or would lose something where nothing may be lost.
    REFUSED = "refused"
    STRICT = "strict"
    # Another provider stores the referenced items.
    STORED_ELSEWHERE = "kept_elsewhere"
    OTHER_MODEL = "other_model"
    COOLDOWN = "cooldown"
    # Only one target is called, and it is another one.
    ALONE = "alone"


class Deprioritized(Enum):
    """Why a target is deprioritized, against its rank by the policy."""

    TIGHT = "tight"
    SUSPECT = "suspect"
    SLOW_START = "slow_start"
    BUSY = "busy"
    NO_KEY = "no_key"
    # In cooldown: called after all others failed.
    COOLDOWN = "cooldown"


class Why(Enum):
    """Why the first of the order is the first."""

    POLICY = "policy"
    # The one that is left.
    ONLY = "only"
    AFFINITY = "pinned"
    # The provider of the referenced items is unknown.
    ALONE = "alone"
    EXPLORED = "explored"
    # All are in cooldown, and this one is woken in its turn.
    WAKES = "wakes"
    NO_TARGET = "nobody"


class Candidate(Struct, frozen=True):
    """One target of a route with its metadata; None means not requested."""

    # Its position in the route.
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
    """Targets that may be called, in their order, and all candidates, in the order of the route."""

    order: tuple[Target, ...]
    candidates: tuple[Candidate, ...]


class Plan(Struct, frozen=True, dict=True):
    """The order of targets, and its reasons."""

    # None if no target can be called.
    first: Target | None
    # The first target of the route as written.
    written: Target | None
    # The policy that chose, and why its choice leads.
    policy: str
    why: Why
    # Which rules decided, as they are shown.
    rule: str
    requirements: Requirements
    now: float
    # Usually the first target succeeds, and the others are not needed: if all are healthy, they are ranked on access.
    ranked: Ranked | Callable[[], Ranked]
    # The deciding rules, in the form of an affinity.
    held: str = ""
    # Where the conversation was until now, wherever it goes.
    affinity: Affinity | None = None

    @property
    def is_unranked(self) -> bool:
        """Whether all targets were well, free and fit, so that the first was known without a look at the others."""
        return not isinstance(self.ranked, Ranked)

    @property
    def order(self) -> tuple[Target, ...]:
        """The targets to call, in order."""
        return self._ranking.order

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All candidates, in the order of the route."""
        return self._ranking.candidates

    @cached_property
    def _ranking(self) -> Ranked:
        return self.ranked if isinstance(self.ranked, Ranked) else self.ranked()
