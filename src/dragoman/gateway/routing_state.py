"""Traffic: what is known of targets and conversations beyond one exchange (decision 25). It outlives a reload.

    health     how targets stand           note, of every call that ended
    budgets    what may be asked again     spend, fill
    speeds     how fast targets are        note, of every answer
    outputs    how much targets say        note, of every answer
    pins       where conversations are     pin, when an answer is told
    turns      how often a line was asked  plan

A plan is made from all of that, with the throw of dice and the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Sequence

from msgspec.structs import replace

from dragoman.gateway.target_info import TargetInfo
from dragoman.model.response import Usage
from dragoman.routing.affinity import Affinities
from dragoman.routing.attempt_outcome import OUR_OWN, AttemptOutcome, counts_for_health
from dragoman.routing.health import Health
from dragoman.routing.health_state import GOOD, HealthLevel, HealthState
from dragoman.routing.needs import Requirements
from dragoman.routing.output_length import UNHEARD, Outputs, rounded
from dragoman.routing.plan import Affinity, Dice, Plan, PlanInputs, Why, plan
from dragoman.routing.retry_budget import Budgets
from dragoman.routing.route import Route
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.speed import Speed
from dragoman.routing.speeds import Speeds
from dragoman.routing.target import Target
from dragoman.routing.target_health import Permit

# Lines whose turns are counted; a name may come from outside, where a line is a pattern.
_MOST_LINES = 4096
# Characters of a target's name: one may come from outside, be as large as a body, and would be remembered for long.
_LONGEST = 512
# Members of an enumeration are slow to find, and these are looked for in most requests.
_PINNED, _EXPLORED, _ANSWERED = Why.PINNED, Why.EXPLORED, AttemptOutcome.ANSWERED


class RoutingState:
    """What one process has seen, and was told by its siblings. `clock` only grows; `chance` is from 0 to below 1."""

    def __init__(self, clock: Callable[[], float], chance: Callable[[], float] = random.random) -> None:
        self.clock = clock
        self.chance = chance
        self.health = Health()
        self.budgets = Budgets(clock)
        self.speeds = Speeds()
        self.pins = Affinities()
        self._turns: dict[str, int] = {}
        self.outputs = Outputs()

    # Before a request is put to anybody.

    def plan(
        self, route: Route, needs: Requirements, known: TargetInfo, conversation: str = "", exploring: float = 0.0
    ) -> Plan:
        """In which order the targets of a route are tried for a request, which takes its turn unless it stays."""
        now, chance = self.clock(), self.chance
        pin = self.pins.pin(conversation, now) if conversation else None
        if pin is not None and route.priced:
            needs = replace(needs, warm=pin.target)
        turn = self._turns.get(route.name, 0)
        dice = Dice(chance(), chance(), chance(), exploring)
        among = self.usual_output(route, needs) if route.priced or route.timed else UNHEARD
        if route.timed:
            needs = replace(needs, output=rounded(among))
        made = plan(route, needs, _PlanInputs(now, pin, turn, traffic=self, known=known, among=among), dice)
        if made.why is not _PINNED and (turn or len(self._turns) < _MOST_LINES):
            self._turns[route.name] = turn + 1
        if made.why is _EXPLORED and made.first is not None:
            self.speeds.explore(made.first.id, needs.size)
        return made

    def glance(self, route: Route, needs: Requirements, known: TargetInfo, *, conversation: str = "") -> Plan:
        """The plan as it would be, without dice, and without taking a turn."""
        now = self.clock()
        pin = self.pins.seen(conversation, now) if conversation else None
        if pin is not None:
            needs = replace(needs, warm=pin.target)
        among = self.usual_output(route, needs)
        needs = replace(needs, output=rounded(among))
        view = _PlanInputs(now, pin, self._turns.get(route.name, 0), traffic=self, known=known, among=among)
        # From one that has only just come back most requests are kept away.
        return plan(route, needs, view, Dice(ramp=0.5, exploring=0.0))

    def usual_output(self, route: Route, needs: Requirements) -> float:
        """How many tokens a request is answered with, whoever of a route is asked."""
        return self.outputs.among([target.id for target in route.targets], needs.size)

    def cost(self, target: Target, needs: Requirements, known: TargetInfo, among: float) -> int | None:
        """What a request is estimated to cost, in nano-dollars, if its answer is as long as is usual there.

        `among` is how long it is among all who might be asked.
        """
        return known.cost(target, needs, self.outputs.usual(target.id, needs.size, among))

    def is_good(self, target: Target) -> bool:
        """Whether a target may be asked by anybody."""
        return self.health.standing(target.id, self.clock()) is GOOD

    def wakes_in(self, target: Target) -> float:
        """After how many seconds a target may be asked that rests."""
        now = self.clock()
        return self.health.wakes(target.id, now) - now

    def is_last_resort(self, target: Target) -> bool:
        """Whether a target in cooldown is asked, with or without a permit, by a request that all others have failed."""
        now = self.clock()
        return self.health.standing(target.id, now).is_last_resort(now)

    def may_ask_next(self, target: Target) -> bool:
        """Whether a request that failed elsewhere may go on to a target: to one that rests as its budget allows.

        One that others are answered by takes whoever comes, or two that fail now and then could not help each other.
        """
        standing = self.health.standing(target.id, self.clock())
        if standing.prompt:
            # A prompt error costs less than no attempt.
            return True
        if standing.level is HealthLevel.PROBED:
            # Somebody else is finding out.
            return False
        return standing.level is not HealthLevel.RESTING or self.budgets.spend(target.id)

    def permits(self, target: Target, seconds: float) -> Permit | None:
        """Leave to ask a target, if it may be asked: one request at a time finds out whether one that rested is well.

        It has some seconds for that, and says with its permit what became of it; of others nobody hears as long.
        """
        return self.health.take_permit(target.id, self.clock(), seconds)

    def give_back(self, target: Target, permit: Permit | None) -> None:
        """Let somebody else find out: no call was made with a permit."""
        self.health.give_back(target.id, self.clock(), permit)

    def rests(self, target: str) -> bool:
        """Whether a target is not asked by everybody, by its id."""
        return self.health.standing(target, self.clock()).level in (HealthLevel.RESTING, HealthLevel.PROBED)

    # During and after a call.

    def speaks(self, target: Target, permit: Permit | None, now: float) -> None:
        """Know that the content of a stream has begun."""
        if len(target.id) <= _LONGEST:
            self.health.speaks(target.id, now, permit)

    def ended(
        self,
        target: Target,
        kind: AttemptOutcome,
        *,
        began: float,
        first: float,
        usage: Usage | None,
        size: int,
        charged: set[str],
        slowed: bool,
        permit: Permit | None = None,
    ) -> None:
        """Learn from a call that ended; `charged` are the targets that the same exchange was a failure for.

        `slowed` says that the client kept the provider waiting: then how fast it spoke says nothing of it.
        """
        name, now = target.id, self.clock()
        if len(name) > _LONGEST:
            return
        self.health.note(name, kind, now, began, charged, permit)
        if kind is _ANSWERED:
            self.budgets.fill(name)
            if usage is not None:
                self.outputs.note(name, size, usage.output)
            known = usage is not None and not slowed
            self.speeds.answered(
                name,
                size,
                now,
                seconds=now - (first or began) if known else -1.0,
                tokens=float(usage.output) if usage is not None else 0.0,
                first=first - began if first else None,
            )
        elif counts_for_health(kind) or kind is AttemptOutcome.SLOW:
            self.speeds.failed(name, size, now)
        elif kind in OUR_OWN or kind is AttemptOutcome.UNRESOLVED:
            # It found nothing out of a target that was being tried.
            self.health.give_back(name, now, permit)

    def pin(self, owner: str, conversation: str, pin: Affinity) -> None:
        """Say where a conversation is: with whoever answered it."""
        if len(pin.target) <= _LONGEST:
            self.pins.put(owner, conversation, pin, self.clock())


class _PlanInputs(PlanInputs, frozen=True, kw_only=True):
    """What a plan sees of the traffic, and of what a configuration knows."""

    traffic: RoutingState
    known: TargetInfo
    # How long an answer is, whoever gives it.
    among: float

    def standings(self, outline: RouteSummary) -> Sequence[HealthState]:
        """How the targets stand, their keys considered."""
        if self.traffic.health.are_good(outline.ids) and not self.known.keys_rest(outline):
            return outline.good
        return [self._standing(target) for _, target, _, _ in outline.leaves]

    def _standing(self, target: Target) -> HealthState:
        found = self.traffic.health.standing(target.id, self.now)
        until = self.known.wakes(target)
        if until is not None and found.level is not HealthLevel.RESTING:
            return HealthState(HealthLevel.KEYLESS, until)
        return found

    def busy(self, outline: RouteSummary) -> Container[str]:
        return self.known.busy(outline)

    def windows(self, outline: RouteSummary) -> Sequence[int | None]:
        return self.known.windows(outline)

    def speeds(self, outline: RouteSummary, size: int) -> Sequence[Speed | None]:
        return self.traffic.speeds.speeds(outline.ids, size, self.now)

    def cost(self, target: Target, needs: Requirements) -> int | None:
        return self.traffic.cost(target, needs, self.known, self.among)

    def is_calm(self, outline: RouteSummary, size: int) -> bool:
        if self.traffic.health.are_good(outline.ids) and self.known.is_calm(outline, size):
            return True
        # Of what may be held against somebody nothing may be left.
        return super().is_calm(outline, size)

    def has_doubts(self, outline: RouteSummary, size: int) -> bool:
        return self.traffic.speeds.has_doubts(outline.ids, size)

    def soonest(self, outline: RouteSummary, size: int, output: int) -> int:
        return self.traffic.speeds.soonest(outline.ids, size, self.now, output)
