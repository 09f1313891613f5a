"""Health entry: the state of one target or key, and the update that a worker broadcasts. The later epoch wins, then the
higher rank, then the later end, so updates may arrive in any order and repeatedly. A step down begins an epoch."""

from __future__ import annotations

import math

from msgspec import Struct

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState

# Half of the window in which failures and successes are counted.
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
    """An update about a target or a key, for the other workers. It is persisted: add new members at the end."""

    subject: str
    level: HealthLevel
    until: float
    epoch: float = 0.0
    cooldowns: int = 0
    # The start of the level; the last failure, and its time.
    since: float = 0.0
    last: AttemptOutcome | None = None
    failed: float = 0.0
    # The success rate of calls, and whether errors are prompt.
    success_rate: float = 0.0
    prompt: bool = False
    # Of a probing target: the end of its cooldown.
    wakes: float = 0.0
    # Of a key: the seconds that its provider stated, 0 for none; and its provider.
    hint: float = 0.0
    group: str = TARGETS


class Permit(Struct, frozen=True):
    """The right to call a target. The number identifies the probe of a target in cooldown; otherwise it is 0."""

    number: int = 0


class HealthEntry:
    """The state of one target or key: its level, the end of that, and the counts behind it."""

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
        self.level_since = max(now, 0.0)
        self.epoch = 0.0
        self.cooldowns = 0
        # Whether the errors that led to its cooldown were prompt.
        self.prompt = False
        # Attempts that began before this do not count.
        self.since = -math.inf
        # The end of its cooldown, probed or not; and the time since which it is healthy.
        self.wakes = 0.0
        self.healthy_since = 0.0
        self.last: AttemptOutcome | None = None
        self.failed = 0.0
        self.hint = 0.0
        self.consecutive_failures = 0
        # Times of the last success and of the last counted failure.
        self.last_success = self.missed = -math.inf
        # The number of the last permit, until its probe has an outcome.
        self.holder = 0
        self.forget(now)

    def holds(self, permit: Permit | None) -> bool:
        """Whether an outcome with this permit decides about a target in cooldown."""
        return permit is not None and permit.number != 0 and permit.number == self.holder

    def forget(self, now: float) -> None:
        self.good = self.bad = self.good_before = self.bad_before = 0
        self.late = self.late_before = 0
        self.turn = now + HALF_WINDOW

    def roll(self, now: float) -> None:
        if now >= self.turn + HALF_WINDOW:
            self.forget(now)
        else:
            self.good_before, self.bad_before, self.good, self.bad = self.good, self.bad, 0, 0
            self.late_before, self.late = self.late, 0
            self.turn += HALF_WINDOW

    @property
    def successes(self) -> int:
        return self.good + self.good_before

    @property
    def calls(self) -> int:
        return self.successes + self.bad + self.bad_before

    def count_failure(self, *, is_prompt: bool) -> None:
        self.bad += 1
        self.consecutive_failures += 1
        self.late += not is_prompt

    def expire(self, now: float) -> None:
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
        """Set the level. `success_rate` belongs to a suspect target; by default it is computed here."""
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
        """Change the level because of an outcome in this worker. A step down begins a new epoch."""
        if _RANKS[level] < _RANKS[self.level]:
            self.begin_epoch(now)
        self.holder = 0
        self.set_state(level, until, now)

    def begin_epoch(self, now: float) -> None:
        self.epoch = now if now > self.epoch else math.nextafter(self.epoch, math.inf)

    def adopt(self, update: HealthUpdate) -> bool:
        """Adopt the update of another worker, if it wins over the present state."""
        if _order(update) <= _order(self.make_update("", TARGETS)):
            return False
        if update.level is not _PROBING:
            # Another worker's probe was faster.
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
            # Calls that are running here may have begun before.
            self.since = update.until
            self.wakes = update.until if update.level is _COOLDOWN else update.wakes
        return True

    def make_update(self, subject: str, group: str) -> HealthUpdate:
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
    """The order of updates of one subject. The greatest wins."""
    return (
        update.epoch,
        _RANKS[update.level],
        update.until,
        update.cooldowns,
        update.success_rate,
        update.prompt,
        update.hint,
    )
