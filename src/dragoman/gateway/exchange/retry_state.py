"""Retry state of one exchange: remaining targets, and what remains of all budgets. Its caps hold over all targets, keys
and names (decision 25). The table in `routing/attempt_outcome.py` decides what follows a failure."""

from __future__ import annotations

import math
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Routing, Timeouts
from dragoman.errors import ClientError, DragomanError, Overloaded, TooLong
from dragoman.gateway.advice import printable
from dragoman.gateway.exchange.attempt import Missed
from dragoman.gateway.observability.record import RouteDecision
from dragoman.gateway.routing_state import RoutingState
from dragoman.model.failure import FailureKind
from dragoman.routing.attempt_outcome import (
    AttemptOutcome,
    NextStep,
    RetryBudgets,
    SentSoFar,
    TargetResult,
    decisive_failure,
    maybe_billed,
    next_step,
)
from dragoman.routing.candidate import Filter, Plan
from dragoman.routing.cooldown import Hint, hint_of
from dragoman.routing.explanation import ABSENT, reason
from dragoman.routing.health_entry import Permit
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import Route
from dragoman.routing.target import Target

# Seconds that a probe may take to be prepared, and to have its outcome recorded.
_MARGIN = 15.0
_USUAL = Timeouts()
# Calls of any kind that one exchange makes, with changes of keys.
MAX_UPSTREAM_CALLS = 16


class RetryState(Struct, eq=False):
    """Attempts and remaining targets of one request; without targets, those of the plan."""

    # Targets that were not called yet; None means those of the plan, until they are needed.
    _others: tuple[Target, ...] | None
    _routing: Routing
    _route: Route | None = None
    _plan: Plan | None = None
    _routing_state: RoutingState | None = None
    _timeouts: Timeouts = _USUAL
    # Makes the plan of a request that its first target, which was called without one, failed.
    _later: Callable[[], Plan] | None = None
    # The first target of a healthy plan, or the only one, which needs no further check.
    _lead: Target | None = None
    # The affinity key of its conversation, if it has one.
    conversation: str = ""
    # Defaults for the usual case: one target that succeeds.
    several: bool = False
    # Whether clients have keys of their own, which they would take for bad ones.
    has_client_keys: bool = False
    policy: str = ""
    # Whether no ranking was needed for it.
    is_unranked: bool = True
    # The routing decision, for the record.
    decision: RouteDecision | None = None
    # Attempts made; of the present target: retries left and used, its limit for first content, and whether a refusal
    # moves on.
    tries: int = 0
    _retries: int = 0
    pauses: int = 0
    # Whether no target is called again, whatever its route states.
    never_retries: bool = False
    # Whether any target may be called more than once.
    may_retry: bool = False
    first_byte: float | None = None
    _fallback_on_refusal: bool = False
    # Whether its conversation is recorded with the target that answers.
    stays: bool = False
    # Whether it stays there, and not only its cache does; and the rules that applied.
    is_sticky: bool = True
    rule: str = ""
    # Where the conversation was until now.
    affinity: Affinity | None = None
    # Targets in cooldown, and targets that another request probes.
    _unavailable: tuple[Target, ...] = ()
    # Failed attempts, and skipped targets with the reasons.
    _misses: tuple[Missed, ...] = ()
    _left_out: tuple[tuple[Target, str], ...] = ()
    # A target that rested and that this request may try, as long as it was not called.
    permitted: Target | None = None
    _permit: Permit | None = None
    # The remaining billed retries.
    _replays: int = 0

    def __post_init__(self) -> None:
        route, plan, targets = self._route, self._plan, self._others
        self._replays = self._routing.max_billed_retries
        if plan is None and targets is not None and len(targets) == 1:
            # With one target, health is not checked.
            self._lead, self._others = targets[0], ()
        if route is None:
            return
        if (route.retries or route.first_byte is not None or route.fallback_on_refusal) and route.plain:
            self._retries, self.first_byte, self.may_retry = route.retries, route.first_byte, route.retries > 0
            self._fallback_on_refusal = route.fallback_on_refusal
        if plan is None and self._later is None:
            return
        # Whether the route has several targets, of which this request may have one alone.
        self.several, self.is_sticky = len(route.targets) > 1, route.summary.sticky
        if plan is None:
            # Without a conversation, a request that its first target answers has no affinity to record.
            self.policy, self.stays = route.summary.policy.name, self.conversation != ""
            return
        self.policy, self.rule = plan.policy, plan.held
        self.stays, self.is_unranked = route.summary.follows, plan.is_unranked
        if targets is None and self.is_unranked:
            self._lead = plan.first

    # Targets.

    def next(self) -> Target | None:
        """The next callable target, if there is one."""
        if self.permitted is not None:
            self.give_back()
        if self._lead is not None:
            target, self._lead = self._lead, None
            if self._route is not None and not self._route.plain:
                self._turn_to(target)
            return target
        while others := self._remaining():
            target, self._others = others[0], others[1:]
            self._turn_to(target)
            if not self.several or self._may_call(target):
                return target
            self._unavailable += (target,)
        return None

    def _turn_to(self, target: Target) -> None:
        self.pauses = 0
        route = self._route
        if route is not None:
            target_route = route if route.plain else route.around(target)
            self._retries, self.first_byte, self._fallback_on_refusal = (
                target_route.retries,
                target_route.first_byte,
                target_route.fallback_on_refusal,
            )
            self.may_retry = self.may_retry or target_route.retries > 0

    def _remaining(self) -> tuple[Target, ...]:
        """Targets that were not called yet."""
        if self._others is None:
            plan = self._made_plan()
            assert plan is not None
            self._others = plan.order[1:] if plan.is_unranked else plan.order
        return self._others

    def _made_plan(self) -> Plan | None:
        """The plan, if there is one."""
        if self._later is not None and self._route is not None:
            self._plan, self._later = self._later(), None
            self.stays = self._route.summary.follows
        return self._plan

    def _may_call(self, target: Target) -> bool:
        """Whether a target is healthy, or this request may probe it. Retries never multiply an outage."""
        routing_state = self._routing_state
        if routing_state is None or routing_state.is_healthy(target):
            return True
        if self._misses and not routing_state.may_try_next(target):
            return False
        permit = routing_state.permits(target, self._probe_timeout(target))
        if permit is None:
            return routing_state.is_last_resort(target)
        self.permitted, self._permit = target, permit
        return True

    def _probe_timeout(self, target: Target) -> float:
        """Lifetime of a permit: longer than the timeout of its probe, which would not count otherwise."""
        timeouts = self._timeouts
        first_byte = timeouts.first_byte if self.first_byte is None else self.first_byte
        return target.provider.queue_timeout + timeouts.connect + first_byte + _MARGIN

    def use_permit(self) -> Permit | None:
        """The right to try a target that rested, for the call by which that is found out."""
        permit, self._permit, self.permitted = self._permit, None, None
        return permit

    def give_back(self) -> None:
        """Let another request try a target that this one could not even call."""
        if self.permitted is not None and self._routing_state is not None:
            self._routing_state.give_back(self.permitted, self._permit)
            self._permit = self.permitted = None

    @property
    def name(self) -> str:
        """The name of the route."""
        return "" if self._route is None else self._route.name

    @property
    def others(self) -> int:
        """The number of targets that were not called yet."""
        return len(self._remaining())

    def leaves(self, affinity: Affinity) -> bool:
        """Whether a conversation is no longer where it was: a rule has it now, or its target has failed, or rests."""
        if self.rule and self.rule != affinity.rule:
            return True
        failed = (missed.attempt is not None and missed.attempt.target.id == affinity.target for missed in self._misses)
        return any(failed) or self._routing_state is None or self._routing_state.is_in_cooldown(affinity.target)

    def moved(self, target: Target) -> bool:
        """Whether a target is another one than the first of its line."""
        plan = self._plan
        return plan is not None and plan.written is not None and plan.written.id != target.id

    def leave_out(self, target: Target, error: DragomanError) -> bool:
        """Skip a target that cannot be called, which is no failure; False if there is no choice anyway."""
        if not self.several:
            return False
        self.tries -= 1
        self._left_out += ((target, str(error)),)
        return True

    def no_target_error(self) -> DragomanError:
        """The error if no target can be called."""
        if self._unavailable and self._routing_state is not None:
            wait = max(1, math.ceil(min(self._routing_state.wakes_in(target) for target in self._unavailable)))
            return Overloaded(f"all targets of {printable(self.name)} are in cooldown", waited=0.0, retry_after=wait)
        plan = self._made_plan()
        candidates = () if plan is None else [(each.target, reason(each, plan)) for each in plan.candidates]
        filters = [(target, why) for target, why in candidates if why]
        reasons = [
            f"{target.provider.name}/{target.printable_model}: {why}" for target, why in (*filters, *self._left_out)
        ]
        if self._route is not None:
            reasons += (f"{name}: {ABSENT}" for name in self._route.missed)
        details = "; ".join(reasons)
        message = f"no target of {printable(self.name)} can take this request: {details}"
        # Agents compact after this error.
        too_long = (
            plan is not None and plan.candidates and all(each.left_out is Filter.WINDOW for each in plan.candidates)
        )
        return TooLong(message) if too_long and not self._left_out else ClientError(400, message)

    @property
    def is_hopeless(self) -> bool:
        """Whether no target is left, and all that were called must fail again within seconds."""
        permanent = (missed.advice is not None and missed.advice.is_permanent for missed in self._misses)
        return not self._others and not self._unavailable and all(permanent)

    # Failures.

    def miss(self, missed: Missed) -> None:
        """Know of an attempt that failed."""
        self._misses += (missed,)

    def next_step(self, missed: Missed, sent: SentSoFar, *, calls: int, seconds: float, wall: float) -> NextStep:
        """The next step after a failed attempt, with this number of calls and the remaining seconds."""
        return next_step(missed.kind, sent, self._budgets(missed, calls, seconds, self.hint(missed, wall)))

    def take(self, step: NextStep, missed: Missed) -> None:
        """Spend the budgets of a decision."""
        if step is not NextStep.RETURN_ERROR and maybe_billed(missed.kind):
            self._replays -= 1
        if step is NextStep.RETRY:
            self._retries -= 1
            self.pauses += 1
            if self._routing_state is not None and missed.attempt is not None:
                self._routing_state.budgets.spend(missed.attempt.target.id)
        if step is NextStep.NEXT_TARGET and missed.kind is AttemptOutcome.CONTEXT_LENGTH_EXCEEDED:
            self._others = self._larger(missed)

    def hint(self, missed: Missed, wall: float) -> Hint:
        """The retry delay that the provider stated."""
        return Hint() if missed.attempt is None else hint_of(missed.attempt.headers, wall)

    def _budgets(self, missed: Missed, calls: int, seconds: float, hint: Hint) -> RetryBudgets:
        return RetryBudgets(
            retries=0 if self.never_retries else self._retries,
            retry_count=self.pauses,
            has_budget=self._has_budget(missed),
            others=bool(self._remaining()),
            larger=missed.kind is AttemptOutcome.CONTEXT_LENGTH_EXCEEDED and bool(self._larger(missed)),
            attempts=self._routing.max_attempts - self.tries,
            calls=MAX_UPSTREAM_CALLS - calls,
            seconds=seconds,
            billed_retries=self._replays,
            wait=hint.wait,
            should_retry=hint.should_retry,
            fallback_on_refusal=self._fallback_on_refusal,
        )

    def _has_budget(self, missed: Missed) -> bool:
        if self._routing_state is None or missed.attempt is None:
            return True
        return self._routing_state.budgets.has(missed.attempt.target.id)

    def _larger(self, missed: Missed) -> tuple[Target, ...]:
        """The others that are known to take in more than the one that found the request too long."""
        windows = self._windows()
        window = None if missed.attempt is None else windows.get(missed.attempt.target.id)
        if window is None:
            return ()
        return tuple(target for target in self._remaining() if (windows.get(target.id) or 0) > window)

    def _windows(self) -> dict[str, int | None]:
        """The context window of each target, as far as known."""
        plan = self._made_plan()
        return {} if plan is None else {candidate.target.id: candidate.window for candidate in plan.candidates}

    def decisive(self) -> Missed | None:
        """The failure of all that is returned to the client; None if no target was called."""
        windows = self._windows()
        results = [
            TargetResult(kind=each.kind, window=None if each.attempt is None else windows.get(each.attempt.target.id))
            for each in self._misses
        ]
        index = decisive_failure(results)
        return None if index is None else self._as_sent(self._misses[index])

    def _as_sent(self, missed: Missed) -> Missed:
        if missed.kind is not AttemptOutcome.INVALID_KEY or not (self.several or self.has_client_keys):
            return missed
        # No provider refuses the client's own credential, whatever its words (decision 14).
        failure = replace(missed.failure, kind=FailureKind.UPSTREAM_AUTH, status=502)
        return replace(missed, failure=failure, response=None)
