"""Health entry: state of one target or key, and the update that a worker broadcasts. The later epoch wins, then the
higher rank, then the later end, so updates may come in any order and repeatedly. A step down begins an epoch."""

from __future__ import annotations

import math

from msgspec import Struct

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState

# Half of the time in which failures are compared with answers.
HALF_WINDOW = 15.0
# The group of all targets. The group of a key is its provider.
TARGETS = ""

_HEALTHY, _SUSPECT, _COOLDOWN, _PROBING, _SLOW_START = (
    HealthLevel.HEALTHY,
    HealthLevel.SUSPECT,
    HealthLevel.COOLDOWN,
    HealthLevel.PROBING,
    HealthLevel.SLOW_START,
)
_RANKS = {_HEALTHY: 0, _SUSPECT: 1, _COOLDOWN: 2, _PROBING: 3, _SLOW_START: 4, HealthLevel.NO_KEY: 0}


class HealthUpdate(Struct, frozen=True, array_like=True):
    """An update about a target or a key, for the other workers. Persisted, too: new members are added at the end
    alone."""

    subject: str
    level: HealthLevel
    until: float
    epoch: float = 0.0
    cooldowns: int = 0
    # Since when it is so; the last failure, and its time.
    since: float = 0.0
    last: AttemptOutcome | None = None
    failed: float = 0.0
    # The share of calls that are answered, and whether errors come back quickly.
    success_rate: float = 0.0
    prompt: bool = False
    # Of a target that is probed: the end of its cooldown.
    wakes: float = 0.0
    # Of a key: the seconds that its provider stated, 0 for none; and its provider.
    hint: float = 0.0
    group: str = TARGETS


class Permit(Struct, frozen=True):
    """The right to call a target; the number is that of the probe of a target in cooldown, else 0."""

    number: int = 0


class HealthEntry:
    """The state of one target or key: its level, the end of that, and what led to it."""

    __slots__ = (
        "bad",
        "bad_before",
        "consecutive_failures",
        "cooldowns",
        "epoch",
        "failed",
        "good",
        "good_before",
        "healthy_since",
        "hint",
        "holder",
        "last",
        "last_success",
        "late",
        "late_before",
        "level",
        "level_since",
        "missed",
        "prompt",
        "since",
        "state",
        "turn",
        "until",
        "wakes",
    )

    def __init__(self, now: float) -> None:
        self.level = _HEALTHY
        self.until = 0.0
        self.state = HEALTHY
        # Since when it is at this level.
        self.level_since = max(now, 0.0)
        self.epoch = 0.0
        self.cooldowns = 0
        # Whether the errors that led to its cooldown were fast.
        self.prompt = False
        # Attempts that began before this do not count any more.
        self.since = -math.inf
        # The end of its cooldown, probed or not; and since when it is healthy.
        self.wakes = 0.0
        self.healthy_since = 0.0
        self.last: AttemptOutcome | None = None
        self.failed = 0.0
        # Of a key: the seconds that its provider stated.
        self.hint = 0.0
        self.consecutive_failures = 0
        # Times of the last answer and of the last counted failure.
        self.last_success = self.missed = -math.inf
        # The number of the last permit, until its probe has an outcome.
        self.holder = 0
        self.forget(now)

    def holds(self, permit: Permit | None) -> bool:
        """Whether an outcome with this permit decides about a target in cooldown."""
        return permit is not None and permit.number != 0 and permit.number == self.holder

    def forget(self, now: float) -> None:
        """Compare failures with answers from now on."""
        self.good = self.bad = self.good_before = self.bad_before = 0
        # The failures that took long.
        self.late = self.late_before = 0
        self.turn = now + HALF_WINDOW

    def roll(self, now: float) -> None:
        """Begin the next half of the window."""
        if now >= self.turn + HALF_WINDOW:
            self.forget(now)
        else:
            self.good_before, self.bad_before, self.good, self.bad = self.good, self.bad, 0, 0
            self.late_before, self.late = self.late, 0
            self.turn += HALF_WINDOW

    @property
    def successes(self) -> int:
        """The number of answered calls in the window."""
        return self.good + self.good_before

    @property
    def calls(self) -> int:
        """The number of calls in the window that were answered or failed."""
        return self.successes + self.bad + self.bad_before

    def count_failure(self, *, is_prompt: bool) -> None:
        """Count a failure."""
        self.bad += 1
        self.consecutive_failures += 1
        self.late += not is_prompt

    def expire(self, now: float) -> None:
        """Leave a level whose end has passed."""
        if now < self.until:
            return
        level = self.level
        if level is _SLOW_START:
            # Every worker computes the same epoch.
            self.epoch = max(self.epoch, self.until)
            self.set_state(_HEALTHY, 0.0, self.until)
        elif level is _SUSPECT:
            self.set_state(_HEALTHY, 0.0, self.until)
        elif level is _PROBING:
            # The probe has no outcome: the permit is free again.
            self.epoch = max(self.epoch, self.until)
            self.set_state(_COOLDOWN, self.wakes, self.until)

    def set_state(self, level: HealthLevel, until: float, since: float, success_rate: float | None = None) -> None:
        """Set the level; `success_rate` is that of a suspect target, counted here by default."""
        if level is not self.level:
            self.level_since = since
        self.level, self.until = level, until
        if level is _HEALTHY:
            self.state = HEALTHY
        elif level is _SUSPECT:
            counted = self.successes / self.calls if self.calls else 0.0
            self.state = HealthState(level, until, counted if success_rate is None else success_rate)
        else:
            self.state = HealthState(level, until, prompt=self.prompt and level is not _SLOW_START)

    def enter(self, level: HealthLevel, until: float, now: float) -> None:
        """Go to another level because of an outcome in this worker: a step down begins a new epoch."""
        if _RANKS[level] < _RANKS[self.level]:
            self.begin_epoch(now)
        self.holder = 0
        self.set_state(level, until, now)

    def begin_epoch(self, now: float) -> None:
        """Make all earlier updates lose."""
        self.epoch = now if now > self.epoch else math.nextafter(self.epoch, math.inf)

    # Other workers.

    def adopt(self, update: HealthUpdate) -> bool:
        """Adopt the update of another worker, if it wins over the present state."""
        if _order(update) <= _order(self.make_update("", TARGETS)):
            return False
        if update.level is not _PROBING:
            # Another probe was quicker.
            self.holder = 0
        self.prompt, self.hint = update.prompt, update.hint
        self.set_state(update.level, update.until, update.since, update.success_rate)
        if update.last is not None and update.failed > self.failed:
            self.last, self.failed = update.last, update.failed
        self.epoch, self.cooldowns = update.epoch, update.cooldowns
        if update.level is _SUSPECT:
            return True
        self.consecutive_failures = 0
        self.forget(-math.inf)
        if update.level is _SLOW_START:
            self.since, self.healthy_since, self.wakes = update.until - SLOW_START_SECONDS, update.until, 0.0
        else:
            # Calls that are under way here may have begun before.
            self.since = update.until
            self.wakes = update.until if update.level is _COOLDOWN else update.wakes
        return True

    def make_update(self, subject: str, group: str) -> HealthUpdate:
        """The state, as it is broadcast."""
        return HealthUpdate(
            subject,
            self.level,
            self.until,
            self.epoch,
            self.cooldowns,
            self.level_since,
            self.last,
            self.failed,
            self.state.success_rate,
            self.state.prompt,
            self.wakes if self.level is _PROBING else 0.0,
            self.hint,
            group,
        )


def _order(update: HealthUpdate) -> tuple[float, ...]:
    """The order of updates of one subject: the greatest wins."""
    return (
        update.epoch,
        _RANKS[update.level],
        update.until,
        update.cooldowns,
        update.success_rate,
        update.prompt,
        update.hint,
    )
