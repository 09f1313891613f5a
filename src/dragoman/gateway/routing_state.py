"""Routing state beyond one exchange (decision 25): health, retry budgets, speeds and output lengths of targets,
affinities of conversations, turns of routes. It outlives a reload. A plan is made from it, a random number and the
time."""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Sequence

from msgspec.structs import replace

from dragoman.gateway.target_info import TargetInfo
from dragoman.model.response import Usage
from dragoman.routing.affinity import Affinities
from dragoman.routing.attempt_outcome import GATEWAY_OUTCOMES, AttemptOutcome, counts_for_health
from dragoman.routing.candidate import Plan, Why
from dragoman.routing.health import Health
from dragoman.routing.health_entry import Permit
from dragoman.routing.health_state import HEALTHY, HealthLevel, HealthState
from dragoman.routing.needs import DEFAULT_OUTPUT_TOKENS, Requirements
from dragoman.routing.output_length import UNMEASURED_OUTPUT, Outputs, rounded
from dragoman.routing.plan import NO_DRAWS, Lead, plan, plan_behind
from dragoman.routing.plan_inputs import Affinity, PlanInputs, RandomDraws
from dragoman.routing.retry_budget import TargetRetryBudgets
from dragoman.routing.route import Route
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.speed import Speed
from dragoman.routing.speeds import Speeds
from dragoman.routing.target import Target

# Lines whose turns are counted; a name may come from outside, where a line is a pattern.
_MAX_ROUTES = 4096
# Characters of a target's name: one may come from outside, be as large as a body, and would be remembered for long.
_MAX_TARGET_LENGTH = 512
# Members of an enumeration are slow to find, and these are looked for in most requests.
_AFFINITY, _EXPLORED, _POLICY, _ANSWERED = Why.AFFINITY, Why.EXPLORED, Why.POLICY, AttemptOutcome.ANSWERED


class RoutingState:
    """What one process has measured, and updates of its siblings. `clock` only grows; `rng` is from 0 to below 1."""

    def __init__(self, clock: Callable[[], float], rng: Callable[[], float] = random.random) -> None:
        self.clock = clock
        self.rng = rng
        self.health = Health()
        self.budgets = TargetRetryBudgets(clock)
        self.speeds = Speeds()
        self.affinities = Affinities()
        self._turns: dict[str, int] = {}
        self.outputs = Outputs()

    # Before a request is sent to any target.

    def plan(
        self,
        route: Route,
        requirements: Requirements,
        target_info: TargetInfo,
        conversation: str = "",
        draws: RandomDraws | None = None,
    ) -> Plan:
        """In which order the targets of a route are tried for a request, which takes its turn unless it stays."""
        now = self.clock()
        affinity = self.affinities.lookup(conversation, now) if conversation else None
        if affinity is not None and route.priced:
            requirements = replace(requirements, warm=affinity.target)
        turn = self._turns.get(route.name, 0)
        among = self.usual_output(route, requirements) if route.priced or route.timed else UNMEASURED_OUTPUT
        if route.timed:
            requirements = replace(requirements, output=rounded(among))
        made = plan(
            route,
            requirements,
            _PlanInputs(now, affinity, turn, routing_state=self, target_info=target_info, among=among),
            self.draw(0.0) if draws is None else draws,
        )
        if made.why is not _AFFINITY:
            self._take_turn(route)
        if made.why is _EXPLORED and made.first is not None:
            self.speeds.explore(made.first.id, requirements.size)
        return made

    def draw(self, exploration_rate: float) -> RandomDraws:
        """The random numbers of one request."""
        rng = self.rng
        return RandomDraws(rng(), rng(), rng(), exploration_rate)

    def leads(self, route: Route, size: int, target_info: TargetInfo, draws: RandomDraws | None) -> bool:
        """Whether the first target of a route that `leads` may take a request of this size without a plan."""
        summary, unhealthy = route.summary, self.health.unhealthy
        return (
            (not unhealthy or unhealthy.isdisjoint(summary.subjects))
            and target_info.are_all_available(summary, size)
            and (draws is None or draws.explore >= draws.exploration_rate)
        )

    def lead(self, route: Route, size: int, conversation: str, draws: RandomDraws | None) -> Lead | None:
        """The target that takes a request without a plan, and its turn unless it stays; None if a plan must be made
        first."""
        summary, now, affinity, output = route.summary, self.clock(), None, DEFAULT_OUTPUT_TOKENS
        if conversation:
            affinity = self.affinities.lookup(conversation, now)
        if draws is not None:
            output = rounded(self.outputs.among(summary.ids, size))
        if affinity is not None and (place := summary.places.get(affinity.target)) is not None:
            _, target, _, may_stay = summary.leaves[place]
            if may_stay:
                return Lead(target, _AFFINITY, now, affinity, output, draws or NO_DRAWS)
        leader = summary.leader
        if leader is None:
            leader = summary.leaves[self.speeds.soonest(summary.ids, size, now, output)][1]
            if draws is not None and draws.exploration_rate and self.speeds.has_doubts(summary.ids, size, leader.id):
                return None
        self._take_turn(route)
        return Lead(leader, _POLICY, now, affinity, output, draws or NO_DRAWS)

    def plan_behind(self, lead: Lead, route: Route, requirements: Requirements, target_info: TargetInfo) -> Plan:
        """The plan of a request that went to its first target without one."""
        inputs = _PlanInputs(
            lead.now, lead.affinity, 0, routing_state=self, target_info=target_info, among=UNMEASURED_OUTPUT
        )
        return plan_behind(lead, route, replace(requirements, output=lead.output), inputs)

    def _take_turn(self, route: Route) -> None:
        """Count a request for rotation."""
        turn = self._turns.get(route.name, 0)
        if turn or len(self._turns) < _MAX_ROUTES:
            self._turns[route.name] = turn + 1

    def glance(
        self, route: Route, requirements: Requirements, target_info: TargetInfo, *, conversation: str = ""
    ) -> Plan:
        """The plan as it would be, without dice, and without taking a turn."""
        now = self.clock()
        affinity = self.affinities.peek(conversation, now) if conversation else None
        if affinity is not None:
            requirements = replace(requirements, warm=affinity.target)
        among = self.usual_output(route, requirements)
        requirements = replace(requirements, output=rounded(among))
        inputs = _PlanInputs(
            now, affinity, self._turns.get(route.name, 0), routing_state=self, target_info=target_info, among=among
        )
        # A target in slow start gets only a part of the requests.
        return plan(route, requirements, inputs, RandomDraws(slow_start=0.5, exploration_rate=0.0))

    def usual_output(self, route: Route, requirements: Requirements) -> float:
        """The usual output tokens of a request, for all targets of a route."""
        return self.outputs.among([target.id for target in route.targets], requirements.size)

    def cost(self, target: Target, requirements: Requirements, target_info: TargetInfo, among: float) -> int | None:
        """The estimated cost in nano-dollars; `among` is the usual length of output among all targets."""
        return target_info.cost(target, requirements, self.outputs.usual(target.id, requirements.size, among))

    def is_healthy(self, target: Target) -> bool:
        """Whether all requests may call a target."""
        return self.health.state(target.id, self.clock()) is HEALTHY

    def wakes_in(self, target: Target) -> float:
        """Seconds until a target in cooldown may be probed."""
        now = self.clock()
        return self.health.wakes(target.id, now) - now

    def is_last_resort(self, target: Target) -> bool:
        """Whether a request that all other targets have failed may call a target in cooldown, with or without a
        permit."""
        now = self.clock()
        return self.health.state(target.id, now).is_last_resort(now)

    def may_try_next(self, target: Target) -> bool:
        """Whether a failed request may try a target: one in cooldown within its budget, which other requests share."""
        health = self.health.state(target.id, self.clock())
        if health.prompt:
            # A prompt error costs less than no attempt.
            return True
        if health.level is HealthLevel.PROBING:
            # Another request is probing.
            return False
        return health.level is not HealthLevel.COOLDOWN or self.budgets.spend(target.id)

    def permits(self, target: Target, seconds: float) -> Permit | None:
        """A probe permit, if a target may be probed: one request at a time tests whether the target is healthy again.
        The holder reports within some seconds; other reports do not count meanwhile."""
        return self.health.take_permit(target.id, self.clock(), seconds)

    def give_back(self, target: Target, permit: Permit | None) -> None:
        """Return an unused permit, so that another request can probe."""
        self.health.give_back(target.id, self.clock(), permit)

    def is_in_cooldown(self, target: str) -> bool:
        """Whether a target is in cooldown, by its ID."""
        return self.health.state(target, self.clock()).level in (HealthLevel.COOLDOWN, HealthLevel.PROBING)

    # During and after a call.

    def record_content_start(self, target: Target, permit: Permit | None, now: float) -> None:
        """Know that the content of a stream has begun."""
        if len(target.id) <= _MAX_TARGET_LENGTH:
            self.health.record_content_start(target.id, now, permit)

    def record_outcome(
        self,
        target: Target,
        kind: AttemptOutcome,
        began: float,
        first: float,
        usage: Usage | None,
        size: int,
        charged: set[str],
        slowed: bool,
        permit: Permit | None = None,
    ) -> None:
        """Learn from a call that ended. `charged` are targets that this exchange failed on already; `slowed` means that
        the client was slow, so that the speed does not count."""
        name, now = target.id, self.clock()
        if len(name) > _MAX_TARGET_LENGTH:
            return
        self.health.record(name, kind, now, began, charged, permit)
        if kind is _ANSWERED:
            if self.budgets.held:
                self.budgets.fill(name)
            if usage is not None:
                self.outputs.record(name, size, usage.output)
            self.speeds.record_response(
                name,
                size,
                now,
                -1.0 if slowed or usage is None else now - (first or began),
                0.0 if usage is None else float(usage.output),
                first - began if first else None,
            )
        elif counts_for_health(kind) or kind is AttemptOutcome.SLOW_RESPONSE:
            self.speeds.record_failure(name, size, now)
        elif kind in GATEWAY_OUTCOMES or kind is AttemptOutcome.UNRESOLVED:
            # The attempt was no test of the probed target.
            self.health.give_back(name, now, permit)

    def set_affinity(self, owner: str, conversation: str, affinity: Affinity) -> None:
        """Record the target of a conversation."""
        if len(affinity.target) <= _MAX_TARGET_LENGTH:
            self.affinities.put(owner, conversation, affinity, self.clock())


class _PlanInputs(PlanInputs, frozen=True, kw_only=True):
    """The inputs of a plan from routing state and configuration."""

    routing_state: RoutingState
    target_info: TargetInfo
    # The usual output length, over all targets.
    among: float

    def health_states(self, summary: RouteSummary) -> Sequence[HealthState]:
        """The health of the targets, including their keys."""
        if self.routing_state.health.are_healthy(summary.subjects):
            return summary.all_healthy
        return [self._health_state(target) for _, target, _, _ in summary.leaves]

    def _health_state(self, target: Target) -> HealthState:
        health = self.routing_state.health.state(target.id, self.now)
        until = self.target_info.wakes(target)
        if until is not None and health.level is not HealthLevel.COOLDOWN:
            return HealthState(HealthLevel.NO_KEY, until)
        return health

    def busy(self, summary: RouteSummary) -> Container[str]:
        return self.target_info.busy(summary)

    def windows(self, summary: RouteSummary) -> Sequence[int | None]:
        return self.target_info.windows(summary)

    def speeds(self, summary: RouteSummary, size: int) -> Sequence[Speed | None]:
        return self.routing_state.speeds.speeds(summary.ids, size, self.now)

    def cost(self, target: Target, requirements: Requirements) -> int | None:
        return self.routing_state.cost(target, requirements, self.target_info, self.among)

    def are_all_available(self, summary: RouteSummary, size: int) -> bool:
        if self.routing_state.health.are_healthy(summary.subjects) and self.target_info.are_all_available(
            summary, size
        ):
            return True
        # Not one target may have a recorded failure.
        return super().are_all_available(summary, size)

    def has_doubts(self, summary: RouteSummary, size: int, but: int) -> bool:
        return self.routing_state.speeds.has_doubts(summary.ids, size, summary.ids[but])

    def soonest(self, summary: RouteSummary, size: int, output: int) -> int:
        return self.routing_state.speeds.soonest(summary.ids, size, self.now, output)
