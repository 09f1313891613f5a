"""Health: the circuit breaker of each target, as a fold over what became of the attempts on it (decisions 25 and 37).

level       after                               then
HEALTHY     a failure, and no answer of late,   SUSPECT for a while: leads in proportion to its share of answers
            or a second failure
SUSPECT     it does not answer (see below)      COOLDOWN, longer each time
COOLDOWN    its end, or that it is cut short,   PROBING, which is half-open: one request has the permit, which expires
            or that nobody else is usable
PROBING     an answer, of whatever kind         SLOW_START for a while, then HEALTHY
            a failure                           COOLDOWN, longer; to the end that it had, if it was asked before that
SLOW_START  it does not answer                  COOLDOWN, longer

A target does not answer if
- a request met silence up to its timeout, and no other was answered meanwhile;
- five requests in a row failed, or so many more as its share of answers makes unlikely for one that fails partly;
- slow errors are half of at least ten calls, or two in a row during SLOW_START: a slow error costs the client time.

After prompt errors the cooldown is one of leading alone: the target is still asked when all others have failed, since a
prompt error costs less than no attempt. So the breaker never answers fewer requests than there would be without it.
After slow ones it is asked then, too, but by the holder of the permit alone, and within its retry budget.

Only failures of the target itself count, each request once, and any well-formed answer is one of a target that lives.
An attempt that began before a cooldown says nothing about what came after it. During a cooldown only the holder of the
permit changes the level: any client may name a target itself, as often as it likes.

What is found out here is told to the other workers as notices (`target_health.py`).

How keys stand is another matter: they only rest (`providers/key_cooldowns.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from dragoman.routing.attempt_outcome import COUNTING, LIVING, AttemptOutcome
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState
from dragoman.routing.target_health import HealthUpdate, Permit, TargetHealth

# Seconds.
SUSPICION = 10.0
FIRST_COOLDOWN = 5.0
MAX_COOLDOWN = 300.0
# A probe that fails promptly costs next to nothing.
MAX_PROMPT_COOLDOWN = 30.0
# How long a target must have been good for its rests to begin short again; before that they begin half as high.
FORGIVEN = 60.0
# An error that takes less than this is a prompt one.
PROMPT = 5.0
# How many requests in a row, how many in slow start, and of how many the half.
CONSECUTIVE_FAILURES = 5
SLOW_START_FAILURES = 2
SAMPLES = 10
# Names may come from clients, where a line says `provider/*`.
MAX_TARGETS = 4096

_ANSWERED = AttemptOutcome.ANSWERED
_HEALTHY, _SUSPECT, _COOLDOWN, _PROBING, _SLOW_START = (
    HealthLevel.HEALTHY,
    HealthLevel.SUSPECT,
    HealthLevel.COOLDOWN,
    HealthLevel.PROBING,
    HealthLevel.SLOW_START,
)
_IN_COOLDOWN = frozenset({_COOLDOWN, _PROBING})
_TIMEOUTS = frozenset({AttemptOutcome.FIRST_BYTE_TIMEOUT, AttemptOutcome.SLOW_RESPONSE})


class HealthReport(Struct, frozen=True, kw_only=True):
    """Why a target stands as it does, for whoever asks."""

    target: str
    health: HealthState
    # Since when it is so.
    since: float
    # What failed last, and when.
    last: AttemptOutcome | None
    failed: float
    consecutive_failures: int
    cooldowns: int


# Whoever is awake is asked by everybody.
_FREE = Permit()


class Health:
    """How targets stand. Time is handed in, in seconds of a clock that only grows and that all workers share."""

    def __init__(self, max_targets: int = MAX_TARGETS) -> None:
        self._entries: dict[str, TargetHealth] = {}
        self._max_targets = max_targets
        self._dirty: set[str] = set()
        # Those that may not be good, so that nobody asks about the others.
        self._unhealthy: set[str] = set()
        self._permits = 0

    # Outcomes.

    def record(
        self,
        target: str,
        kind: AttemptOutcome,
        now: float,
        began: float,
        charged: set[str] | None = None,
        permit: Permit | None = None,
    ) -> None:
        """Fold in what became of an attempt that began at a time, and that was made with a permit, if it took one.

        `charged` belongs to one exchange, and holds the targets that it was a failure for: to each once.
        """
        entry = self._entries.get(target)
        if kind is _ANSWERED:
            if entry is None:
                entry = self._create(target, now)
            elif (
                entry.level is not _HEALTHY
                and entry.level in _IN_COOLDOWN
                and not self._wake(target, entry, now, permit)
            ):
                return
            if now >= entry.turn:
                entry.roll(now)
            entry.good += 1
            entry.consecutive_failures = 0
            entry.last_success = now
        elif kind in COUNTING:
            if charged is not None:
                if target in charged:
                    return
                charged.add(target)
            self._failed(target, entry or self._create(target, now), kind, now, began, permit)
        elif (
            entry is not None
            and kind in LIVING
            and (entry.level not in _IN_COOLDOWN or self._wake(target, entry, now, permit))
        ):
            entry.consecutive_failures = 0
        elif kind is AttemptOutcome.SLOW_RESPONSE and (entry is None or entry.last_success < began):
            # If others were answered meanwhile, the request itself may take long.
            self._failed(target, entry or self._create(target, now), kind, now, began, permit)

    def record_content_start(self, target: str, now: float, permit: Permit | None = None) -> None:
        """Know that the content of a stream has begun: that ends a cooldown, and shows that silence is not general."""
        entry = self._entries.get(target) or self._create(target, now)
        if entry.level in _IN_COOLDOWN and not self._wake(target, entry, now, permit):
            return
        entry.last_success = now

    def _wake(self, target: str, entry: TargetHealth, now: float, permit: Permit | None) -> bool:
        """End a rest, if an answer was that of whoever has the permit."""
        if not entry.holds(permit):
            return False
        entry.since = now
        entry.wakes, entry.healthy_since = 0.0, now + SLOW_START_SECONDS
        entry.forget(now)
        self._enter(target, entry, _SLOW_START, now + SLOW_START_SECONDS, now)
        return True

    def _failed(
        self, target: str, entry: TargetHealth, kind: AttemptOutcome, now: float, began: float, permit: Permit | None
    ) -> None:
        entry.last, entry.failed = kind, now
        entry.expire(now)
        level, is_prompt = entry.level, now - began < PROMPT and kind not in _TIMEOUTS
        if level in _IN_COOLDOWN:
            if entry.holds(permit):
                entry.prompt = is_prompt
                self._extend_cooldown(target, entry, now, began)
            return
        if began < entry.since:
            # It was under way before the target rested, or answered again.
            return
        if now >= entry.turn:
            entry.roll(now)
        # One request that fails among others that are answered may be to blame itself.
        is_suspect = now - entry.last_success >= SUSPICION or now - entry.missed < SUSPICION
        entry.missed = now
        entry.count_failure(is_prompt=is_prompt)
        if (kind in _TIMEOUTS and entry.last_success < began) or _trips(entry, now, is_prompt=is_prompt):
            entry.prompt = is_prompt
            self._start_cooldown(target, entry, now)
        elif level is _SUSPECT or (level is _HEALTHY and is_suspect):
            self._enter(target, entry, _SUSPECT, max(now + SUSPICION, entry.until), now)

    def _extend_cooldown(self, target: str, entry: TargetHealth, now: float, began: float) -> None:
        """Let a target rest on after a probe in vain, which is held against it if its rest was over by then."""
        holder = entry.holder
        if began < entry.wakes:
            # Nobody else was there to be asked: however many come so early, its rest ends when it would have.
            self._enter(target, entry, _COOLDOWN, entry.wakes, now)
        else:
            self._start_cooldown(target, entry, now)
        # The same request may ask once more, and be answered, before anybody else asks.
        entry.holder = holder

    def _start_cooldown(self, target: str, entry: TargetHealth, now: float) -> None:
        entry.cooldowns = _counted_cooldowns(entry, now)
        until = now + min(FIRST_COOLDOWN * 2.0**entry.cooldowns, MAX_PROMPT_COOLDOWN if entry.prompt else MAX_COOLDOWN)
        entry.cooldowns = min(entry.cooldowns + 1, 16)
        entry.since, entry.wakes, entry.consecutive_failures = now, until, 0
        entry.forget(now)
        self._enter(target, entry, _COOLDOWN, until, now)

    # Questions.

    def state(self, target: str, now: float) -> HealthState:
        """How a target stands; one that rests and whose end is over may be asked by whoever gets the permit."""
        entry = self._entries.get(target)
        if entry is None or entry.level is _HEALTHY:
            self._unhealthy.discard(target)
            return HEALTHY
        if now >= entry.until:
            entry.expire(now)
        return entry.state

    def are_healthy(self, targets: Iterable[str]) -> bool:
        """Whether nothing is held against any of these, as far as can be told at once."""
        return not self._unhealthy or self._unhealthy.isdisjoint(targets)

    def has_target(self, target: str) -> bool:
        """Whether anything was heard of a target."""
        return target in self._entries

    def wakes(self, target: str, now: float) -> float:
        """When a target that rests may be asked; where somebody finds out at this moment, when that was due."""
        entry = self._entries.get(target)
        return max(now, entry.wakes) if entry is not None else now

    def take_permit(self, target: str, now: float, seconds: float) -> Permit | None:
        """Leave to ask a target, if it may be asked; one that rests by one request at a time, for so long at most.

        A rest need not be over: if all rest, they are asked before their time, and take turns.
        """
        entry = self._entries.get(target)
        if entry is None or entry.level is _HEALTHY:
            return _FREE
        entry.expire(now)
        if entry.level is _PROBING:
            return None
        if entry.level is not _COOLDOWN:
            return _FREE
        self._permits += 1
        self._enter(target, entry, _PROBING, now + seconds, now)
        entry.holder = self._permits
        return Permit(self._permits)

    def give_back(self, target: str, now: float, permit: Permit | None = None) -> None:
        """Give a permit back that found nothing out: the client left, or nothing was sent."""
        entry = self._entries.get(target)
        if entry is None or not entry.holds(permit):
            return
        entry.holder = 0
        if entry.level is _PROBING:
            self._enter(target, entry, _COOLDOWN, entry.wakes, now)

    def cooldowns(self, now: float) -> dict[str, float]:
        """The targets that rest, and for some time yet, each with the end of its rest, by which that can be told."""
        states = ((target, self.state(target, now)) for target in self._entries)
        return {target: state.until for target, state in states if state.level is _COOLDOWN and state.until > now}

    def cut_short(self, target: str, now: float) -> bool:
        """End a rest before its time, so that the next request finds out; tell whether there was one.

        How often it rested is not forgotten: if that request fails, it rests longer.
        """
        entry = self._entries.get(target)
        if entry is None or entry.level is not _COOLDOWN or entry.until <= now:
            return False
        entry.wakes = now
        # An earlier end holds nowhere else without a new epoch.
        entry.begin_epoch(now)
        entry.set_state(_COOLDOWN, now, now)
        self._dirty.add(target)
        return True

    def reset(self, target: str, now: float) -> None:
        """Take a target for good, whatever it did; the other workers are told."""
        entry = self._entries.get(target)
        if entry is not None:
            entry.cooldowns = entry.consecutive_failures = 0
            # What is still under way is not held against it either.
            entry.since, entry.wakes, entry.missed, entry.prompt = now, 0.0, -math.inf, False
            entry.forget(now)
            entry.begin_epoch(now)
            self._enter(target, entry, _HEALTHY, now, now)

    def reports(self, now: float) -> list[HealthReport]:
        """All targets that were heard of."""
        return [
            HealthReport(
                target=target,
                health=self.state(target, now),
                since=entry.level_since,
                last=entry.last,
                failed=entry.failed,
                consecutive_failures=entry.consecutive_failures,
                cooldowns=entry.cooldowns,
            )
            for target, entry in self._entries.items()
        ]

    # Other workers.

    def take_updates(self) -> list[HealthUpdate]:
        """What the other workers were not told yet."""
        if not self._dirty:
            return []
        updates = [self._entries[target].make_update(target) for target in self._dirty if target in self._entries]
        self._dirty.clear()
        return updates

    def snapshot(self) -> list[HealthUpdate]:
        """All that would be told to a worker that knows nothing, or kept for a later start."""
        return [entry.make_update(target) for target, entry in self._entries.items() if entry.level is not _HEALTHY]

    def merge(self, updates: Iterable[HealthUpdate]) -> None:
        """Take over what other workers found out; they may come in any order, and more than once."""
        for update in updates:
            entry = self._entries.get(update.target)
            if entry is None:
                entry = self._create(update.target, -math.inf)
            if entry.adopt(update):
                self._unhealthy.add(update.target)

    def _enter(self, target: str, entry: TargetHealth, level: HealthLevel, until: float, now: float) -> None:
        entry.enter(level, until, now)
        self._dirty.add(target)
        self._unhealthy.add(target)

    def _create(self, target: str, now: float) -> TargetHealth:
        if len(self._entries) >= self._max_targets:
            self._make_room()
        entry = self._entries[target] = TargetHealth(now)
        return entry

    def _make_room(self) -> None:
        """Forget an eighth: those that are good, the oldest first, then those whose end is the nearest."""
        entries = self._entries
        ranked = sorted(entries, key=lambda target: 0.0 if entries[target].level is _HEALTHY else entries[target].until)
        for target in ranked[: max(self._max_targets // 8, 1)]:
            del entries[target]
            self._dirty.discard(target)
            self._unhealthy.discard(target)


def _trips(entry: TargetHealth, now: float, *, is_prompt: bool) -> bool:
    """Whether a failure that was just counted is one of a target that does not answer."""
    successes, calls, consecutive_failures = entry.successes, entry.calls, entry.consecutive_failures
    if not is_prompt:
        if consecutive_failures >= (SLOW_START_FAILURES if entry.level is _SLOW_START else CONSECUTIVE_FAILURES):
            return True
        return entry.level is not _SLOW_START and calls >= SAMPLES and (entry.late + entry.late_before) * 2 >= calls
    # A target that answers one call in ten fails five times in a row as a rule, and fifty times hardly ever. One that
    # answered again after several cooldowns is likely to be such a target.
    calls_per_success = (calls - consecutive_failures) / successes if successes else 1.0
    return consecutive_failures >= CONSECUTIVE_FAILURES * max(calls_per_success, 1 + _counted_cooldowns(entry, now))


def _counted_cooldowns(entry: TargetHealth, now: float) -> int:
    """How many cooldowns count against a target: all in a row, half of them once it was good, none after a while."""
    if entry.level not in (_HEALTHY, _SUSPECT):
        return entry.cooldowns
    return 0 if now - entry.healthy_since > FORGIVEN else entry.cooldowns // 2
