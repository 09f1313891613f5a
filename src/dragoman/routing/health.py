"""Health: the circuit breaker of each target, and the cooldowns of keys (decisions 25, 37 and 42).

level       event                               next level
HEALTHY     a failure without a success within  SUSPECT for 10 s: leads in proportion to its success rate
            10 s, or a second failure
SUSPECT     it trips (see below)                COOLDOWN, longer each time
COOLDOWN    its end, an early end, or no other  PROBING (half-open): one request has the permit, which expires
            target is usable
PROBING     any response                        SLOW_START for 10 s, then HEALTHY
            a failure                           COOLDOWN, longer; an early probe does not move the end
SLOW_START  it trips                            COOLDOWN, longer

A target trips if
- a request got no response within its timeout, and no other request succeeded meanwhile;
- five consecutive requests failed; for a target that fails partly, as many more as its success rate makes unlikely;
- slow errors are half of at least ten calls, or two in a row during SLOW_START: a slow error costs the client time.

After prompt errors, a target in cooldown no longer leads, but is still tried when all others have failed: a prompt
error costs less than no attempt. So the breaker never serves fewer requests than no breaker would. After slow errors it
is tried then, too, but only by the holder of the permit, and within its retry budget.

Only failures caused by the target count, once per request. Any well-formed response shows that the target is alive. An
attempt that began before a cooldown does not count after it. During a cooldown only the holder of the permit changes
the level, because clients may name a target directly, as often as they like.

A key that its provider rejects is in COOLDOWN, for one model or for all, until a stated end. It needs no probe.

Each worker broadcasts its observations as updates (`health_entry.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.routing.attempt_outcome import COUNTING, LIVING, AttemptOutcome
from dragoman.routing.health_entry import TARGETS, HealthEntry, HealthUpdate, Permit
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState

SUSPICION = 10.0
FIRST_COOLDOWN = 5.0
MAX_COOLDOWN = 300.0
# A probe that fails promptly costs next to nothing.
MAX_PROMPT_COOLDOWN = 30.0
# Providers state days, and renew a quota long before. Resets are stored no longer, either.
MAX_KEY_COOLDOWN = 900.0
# Seconds in the state healthy after which cooldowns start short again; before, they start half as long.
FORGIVEN = 60.0
# Errors within this many seconds are prompt.
PROMPT = 5.0
# Consecutive failures, the same in slow start, and the calls of which half may fail.
CONSECUTIVE_FAILURES = 5
SLOW_START_FAILURES = 2
SAMPLES = 10
# Clients may choose model names if a route has `provider/*`.
MAX_ENTRIES = 8192
# Stands for a key's cooldown for all models.
ANY_MODEL = ""

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
    subject: str
    health: HealthState
    since: float
    last: AttemptOutcome | None
    failed: float
    consecutive_failures: int
    cooldowns: int
    # Of a key: the seconds that its provider stated, 0 for none.
    hint: float

    @property
    def model(self) -> str:
        """Of a key: the model of its cooldown."""
        return self.subject.partition(" ")[2]


# The permit of targets that are not in cooldown: every request may call them.
_FREE = Permit()


def _key_subject(key: str, model: str) -> str:
    """Keys are stored by digest, because updates, rows and `/status` must not contain secrets."""
    return f"{key} {model}"


class Health:
    """The health of targets and keys. Time is an argument, in seconds of a monotonic clock that all workers share."""

    def __init__(self, max_entries: int = MAX_ENTRIES) -> None:
        self._targets: dict[str, HealthEntry] = {}
        # By group: targets, and the keys of each provider.
        self._groups: dict[str, dict[str, HealthEntry]] = {TARGETS: self._targets}
        self._max_entries = max_entries
        self._dirty: set[tuple[str, str]] = set()
        # Targets that may not be healthy, and providers with a key that may be in cooldown.
        self.unhealthy: set[str] = set()
        self._permits = 0
        # When the first key entry expires.
        self._next_expiry = math.inf

    def record(
        self,
        target: str,
        kind: AttemptOutcome,
        now: float,
        began: float,
        charged: set[str] | None = None,
        permit: Permit | None = None,
    ) -> None:
        """Count an attempt's outcome. `permit` is its permit. A failure counts once per target and request: see
        `charged`."""
        entry = self._targets.get(target)
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
            # If other requests succeeded meanwhile, this request may only take long.
            self._failed(target, entry or self._create(target, now), kind, now, began, permit)

    def record_content_start(self, target: str, now: float, permit: Permit | None = None) -> None:
        """Count the first content of a stream: it ends a cooldown, and shows that not all requests time out."""
        entry = self._targets.get(target) or self._create(target, now)
        if entry.level in _IN_COOLDOWN and not self._wake(target, entry, now, permit):
            return
        entry.last_success = now

    def _wake(self, target: str, entry: HealthEntry, now: float, permit: Permit | None) -> bool:
        if not entry.holds(permit):
            return False
        entry.since = now
        entry.wakes, entry.healthy_since = 0.0, now + SLOW_START_SECONDS
        entry.forget(now)
        self._enter(target, entry, _SLOW_START, now + SLOW_START_SECONDS, now)
        return True

    def _failed(
        self, target: str, entry: HealthEntry, kind: AttemptOutcome, now: float, began: float, permit: Permit | None
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
            # The attempt began before the cooldown, or before the target recovered.
            return
        if now >= entry.turn:
            entry.roll(now)
        # A single failing request among successful ones may be to blame itself.
        is_suspect = now - entry.last_success >= SUSPICION or now - entry.missed < SUSPICION
        entry.missed = now
        entry.count_failure(is_prompt=is_prompt)
        if (kind in _TIMEOUTS and entry.last_success < began) or _trips(entry, now, is_prompt=is_prompt):
            entry.prompt = is_prompt
            self._start_cooldown(target, entry, now)
        elif level is _SUSPECT or (level is _HEALTHY and is_suspect):
            self._enter(target, entry, _SUSPECT, max(now + SUSPICION, entry.until), now)

    def _extend_cooldown(self, target: str, entry: HealthEntry, now: float, began: float) -> None:
        """Extend a cooldown after a failed probe, if the cooldown was over when the probe began."""
        holder = entry.holder
        if began < entry.wakes:
            # No other target was usable. Early probes do not move the end of a cooldown.
            self._enter(target, entry, _COOLDOWN, entry.wakes, now)
        else:
            self._start_cooldown(target, entry, now)
        # The same request may retry and succeed before another request does.
        entry.holder = holder

    def _start_cooldown(self, target: str, entry: HealthEntry, now: float) -> None:
        entry.cooldowns = _counted_cooldowns(entry, now)
        until = now + min(FIRST_COOLDOWN * 2.0**entry.cooldowns, MAX_PROMPT_COOLDOWN if entry.prompt else MAX_COOLDOWN)
        entry.cooldowns = min(entry.cooldowns + 1, 16)
        entry.since, entry.wakes, entry.consecutive_failures = now, until, 0
        entry.forget(now)
        self._enter(target, entry, _COOLDOWN, until, now)

    def state(self, target: str, now: float) -> HealthState:
        """The health of a target. After its cooldown, a target waits for a request with the permit."""
        entry = self._targets.get(target)
        if entry is None or entry.level is _HEALTHY:
            self.unhealthy.discard(target)
            return HEALTHY
        if now >= entry.until:
            entry.expire(now)
        return entry.state

    def are_healthy(self, subjects: Iterable[str]) -> bool:
        """Whether all of these targets and providers are healthy. False also if that is not known without a look-up."""
        return not self.unhealthy or self.unhealthy.isdisjoint(subjects)

    def has_target(self, target: str) -> bool:
        return target in self._targets

    def wakes(self, target: str, now: float) -> float:
        """The end of a target's cooldown, probed or not; `now` if it has none."""
        entry = self._targets.get(target)
        return max(now, entry.wakes) if entry is not None else now

    def take_permit(self, target: str, now: float, seconds: float) -> Permit | None:
        """Return a permit to call a target. In cooldown only one request at a time gets it, even before the end: if all
        targets are in cooldown, they are probed early, in turn."""
        entry = self._targets.get(target)
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
        """Return the permit of a probe without an outcome: the client disconnected, or nothing was sent."""
        entry = self._targets.get(target)
        if entry is None or not entry.holds(permit):
            return
        entry.holder = 0
        if entry.level is _PROBING:
            self._enter(target, entry, _COOLDOWN, entry.wakes, now)

    def cooldowns(self, now: float) -> dict[str, float]:
        """The targets in cooldown with the ends of their cooldowns. The end identifies a cooldown."""
        states = ((target, self.state(target, now)) for target in self._targets)
        return {target: state.until for target, state in states if state.level is _COOLDOWN and state.until > now}

    def cut_short(self, target: str, now: float) -> bool:
        """End a cooldown early, for a probe, and return whether there was one. Earlier cooldowns still count."""
        entry = self._targets.get(target)
        if entry is None or entry.level is not _COOLDOWN or entry.until <= now:
            return False
        entry.wakes = now
        # Without a new epoch, other workers would ignore an earlier end.
        entry.begin_epoch(now)
        entry.set_state(_COOLDOWN, now, now)
        self._dirty.add((TARGETS, target))
        return True

    def reset(self, subject: str, now: float, group: str = TARGETS) -> None:
        """Make a target or a key healthy, in all workers."""
        entry = self._groups.get(group, {}).get(subject)
        if entry is not None:
            entry.cooldowns = entry.consecutive_failures = 0
            # Running calls do not count against it, either.
            entry.since, entry.wakes, entry.missed, entry.prompt, entry.hint = now, 0.0, -math.inf, False, 0.0
            entry.forget(now)
            entry.begin_epoch(now)
            self._enter(subject, entry, _HEALTHY, now, now, group)

    def reports(self, now: float, group: str = TARGETS) -> list[HealthReport]:
        """Reports of all called targets, or of a provider's keys that are or were in cooldown."""
        return [
            HealthReport(
                subject=subject,
                health=entry.state if group else self.state(subject, now),
                since=entry.level_since,
                last=entry.last,
                failed=entry.failed,
                consecutive_failures=entry.consecutive_failures,
                cooldowns=entry.cooldowns,
                hint=entry.hint,
            )
            for subject, entry in self._groups.get(group, {}).items()
        ]

    def cool_key(
        self,
        provider: str,
        key: str,
        model: str,
        until: float,
        now: float,
        kind: AttemptOutcome | None = None,
        hint: float = 0.0,
    ) -> None:
        """Put a key into cooldown, for one model or for all. A longer cooldown stays."""
        subject = _key_subject(key, model)
        entry = self._groups.get(provider, {}).get(subject) or self._create(subject, now, provider)
        if until > entry.state.until:
            entry.last, entry.failed, entry.hint, entry.level_since = kind, now, hint, now
            self._enter(subject, entry, _COOLDOWN, until, now, provider)

    def key_until(self, provider: str, key: str, model: str) -> float:
        """The end of a key's cooldown for a model, in the past if there is none."""
        entries = self._groups.get(provider, {})
        both = (entries.get(_key_subject(key, ANY_MODEL)), entries.get(_key_subject(key, model)))
        return max([entry.state.until for entry in both if entry is not None], default=0.0)

    def reset_keys(self, provider: str, now: float, model: str | None = None) -> set[str]:
        """End all cooldowns of a provider's keys, or those for a model. Return the digests of the keys."""
        ended: set[str] = set()
        for subject, entry in self._groups.get(provider, {}).items():
            key, _, cooled = subject.partition(" ")
            if model is None or cooled in (ANY_MODEL, model):
                if entry.state.until > now:
                    ended.add(key)
                self.reset(subject, now, provider)
        return ended

    def forget_keys(self, now: float) -> None:
        if now < self._next_expiry:
            return
        for group, entries in list(self._groups.items()):
            if group:
                self._drop(group, [subject for subject, entry in entries.items() if _expiry(entry) <= now])
        keys = (entry for group, entries in self._groups.items() if group for entry in entries.values())
        self._next_expiry = min(map(_expiry, keys), default=math.inf)

    def take_updates(self) -> list[HealthUpdate]:
        """Return the updates that were not broadcast yet."""
        if not self._dirty:
            return []
        updates = [self._groups[group][subject].make_update(subject, group) for group, subject in self._dirty]
        self._dirty.clear()
        return updates

    def snapshot(self) -> list[HealthUpdate]:
        """All updates for a new worker, including keys that were reset: an older update must not win."""
        return [
            entry.make_update(subject, group)
            for group, entries in self._groups.items()
            for subject, entry in entries.items()
            if entry.level is not _HEALTHY or group
        ]

    def merge(self, updates: Iterable[HealthUpdate]) -> None:
        for update in updates:
            group, subject = update.group, update.subject
            entry = self._groups.get(group, {}).get(subject) or self._create(subject, -math.inf, group)
            if entry.adopt(update):
                self._watch(group, subject, entry)

    def merge_persisted(self, update: HealthUpdate) -> None:
        """Adopt an update without an epoch from another machine, unless the subject was reset here since."""
        entry = self._groups.get(update.group, {}).get(update.subject)
        if entry is not None and update.since > entry.epoch:
            update = replace(update, epoch=entry.epoch)
        self.merge((update,))

    def _enter(
        self, subject: str, entry: HealthEntry, level: HealthLevel, until: float, now: float, group: str = TARGETS
    ) -> None:
        entry.enter(level, until, now)
        self._dirty.add((group, subject))
        self._watch(group, subject, entry)

    def _watch(self, group: str, subject: str, entry: HealthEntry) -> None:
        """Mark a subject as possibly not healthy."""
        self.unhealthy.add(group or subject)
        if group:
            self._next_expiry = min(self._next_expiry, _expiry(entry))

    def _create(self, subject: str, now: float, group: str = TARGETS) -> HealthEntry:
        if sum(map(len, self._groups.values())) >= self._max_entries:
            self._make_room()
        entry = self._groups.setdefault(group, {})[subject] = HealthEntry(now)
        return entry

    def _make_room(self) -> None:
        """Drop an eighth of the largest group: healthy entries first, the oldest first, then cooldowns that end
        first."""
        group, entries = max(self._groups.items(), key=lambda each: len(each[1]))
        ranked = sorted(entries, key=lambda each: 0.0 if entries[each].level is _HEALTHY else entries[each].until)
        self._drop(group, ranked[: max(len(ranked) // 8, 1)])

    def _drop(self, group: str, subjects: Iterable[str]) -> None:
        entries = self._groups[group]
        for subject in subjects:
            del entries[subject]
            self._dirty.discard((group, subject))
            self.unhealthy.discard(subject)
        if group and not entries:
            del self._groups[group]
            self.unhealthy.discard(group)


def _expiry(entry: HealthEntry) -> float:
    """When the entry of a key expires: after its end, and after a reset once no older update can arrive."""
    return max(entry.until, entry.epoch + MAX_KEY_COOLDOWN) if entry.epoch else entry.until


def _trips(entry: HealthEntry, now: float, *, is_prompt: bool) -> bool:
    """Whether the failure that was just counted trips the circuit breaker."""
    successes, calls, consecutive_failures = entry.successes, entry.calls, entry.consecutive_failures
    if not is_prompt:
        if consecutive_failures >= (SLOW_START_FAILURES if entry.level is _SLOW_START else CONSECUTIVE_FAILURES):
            return True
        return entry.level is not _SLOW_START and calls >= SAMPLES and (entry.late + entry.late_before) * 2 >= calls
    # A target that answers one call in ten often fails five times in a row, but hardly ever fifty times. A target that
    # recovered from several cooldowns is likely to be such a target.
    calls_per_success = (calls - consecutive_failures) / successes if successes else 1.0
    return consecutive_failures >= CONSECUTIVE_FAILURES * max(calls_per_success, 1 + _counted_cooldowns(entry, now))


def _counted_cooldowns(entry: HealthEntry, now: float) -> int:
    """The number of cooldowns that count: all in a row, half of them after the target was healthy, then none."""
    if entry.level not in (_HEALTHY, _SUSPECT):
        return entry.cooldowns
    return 0 if now - entry.healthy_since > FORGIVEN else entry.cooldowns // 2
