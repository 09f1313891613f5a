"""Target health: what is remembered of one target, and what workers tell each other of it.

Of two notices the one of the later epoch holds, then that of the higher rank, then that of the later end. So they may
come in any order and as often as they like. A step down, to a lower rank, begins a new epoch. When a target goes from
one level to another stands in `health.py`.
"""

from __future__ import annotations

import math

from msgspec import Struct

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState

# Half of the time in which failures are compared with answers.
HALF_WINDOW = 15.0

_HEALTHY, _SUSPECT, _COOLDOWN, _PROBING, _SLOW_START = (
    HealthLevel.HEALTHY,
    HealthLevel.SUSPECT,
    HealthLevel.COOLDOWN,
    HealthLevel.PROBING,
    HealthLevel.SLOW_START,
)
_RANKS = {_HEALTHY: 0, _SUSPECT: 1, _COOLDOWN: 2, _PROBING: 3, _SLOW_START: 4, HealthLevel.NO_KEY: 0}


class HealthUpdate(Struct, frozen=True, array_like=True):
    """What one worker tells the others about a target."""

    target: str
    level: HealthLevel
    until: float
    epoch: float = 0.0
    cooldowns: int = 0
    # For whoever asks: since when it is so, and what failed last, and when.
    since: float = 0.0
    last: AttemptOutcome | None = None
    failed: float = 0.0
    # Its share of answers, and whether its errors come back quickly.
    success_rate: float = 0.0
    prompt: bool = False
    # Of one that is being tried: when its rest ends.
    wakes: float = 0.0


class Permit(Struct, frozen=True):
    """What somebody has who may ask a target; the number is that of the one who finds out about one that rests."""

    number: int = 0


class TargetHealth:
    """What is remembered of one target: its level, until when, and what led to it."""

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
        # Since when it is so.
        self.level_since = max(now, 0.0)
        self.epoch = 0.0
        self.cooldowns = 0
        # Whether the errors that led to its cooldown came back quickly.
        self.prompt = False
        # Attempts that began before this say nothing any more.
        self.since = -math.inf
        # When its rest ends, whoever has the permit; and since when it is as good as any.
        self.wakes = 0.0
        self.healthy_since = 0.0
        self.last: AttemptOutcome | None = None
        self.failed = 0.0
        self.consecutive_failures = 0
        # When it answered last, and was last found to fail.
        self.last_success = self.missed = -math.inf
        # The number of the permit that was given last, as long as nothing came of it.
        self.holder = 0
        self.forget(now)

    def holds(self, permit: Permit | None) -> bool:
        """Whether somebody may say how a target that rests is."""
        return permit is not None and permit.number != 0 and permit.number == self.holder

    def forget(self, now: float) -> None:
        """Compare failures with answers from here on."""
        self.good = self.bad = self.good_before = self.bad_before = 0
        # Of the bad ones, those that took long.
        self.late = self.late_before = 0
        self.turn = now + HALF_WINDOW

    def roll(self, now: float) -> None:
        """Go on to the next half of the window."""
        if now >= self.turn + HALF_WINDOW:
            self.forget(now)
        else:
            self.good_before, self.bad_before, self.good, self.bad = self.good, self.bad, 0, 0
            self.late_before, self.late = self.late, 0
            self.turn += HALF_WINDOW

    @property
    def successes(self) -> int:
        """How many calls of the window were answered."""
        return self.good + self.good_before

    @property
    def calls(self) -> int:
        """How many calls of the window were answered or failed."""
        return self.successes + self.bad + self.bad_before

    def count_failure(self, *, is_prompt: bool) -> None:
        """Count a failure."""
        self.bad += 1
        self.consecutive_failures += 1
        self.late += not is_prompt

    def expire(self, now: float) -> None:
        """Let what is over be over."""
        if now < self.until:
            return
        level = self.level
        if level is _SLOW_START:
            # Every worker comes to the same epoch by itself.
            self.epoch = max(self.epoch, self.until)
            self.set_state(_HEALTHY, 0.0, self.until)
        elif level is _SUSPECT:
            self.set_state(_HEALTHY, 0.0, self.until)
        elif level is _PROBING:
            # Nobody told what became of the probe: the permit is free again.
            self.epoch = max(self.epoch, self.until)
            self.set_state(_COOLDOWN, self.wakes, self.until)

    def set_state(self, level: HealthLevel, until: float, since: float, success_rate: float | None = None) -> None:
        """Stand at a level; a suspect one with its share of answers, which is counted here unless it is handed in."""
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
        """Come to another level by what was found out here: a step down begins a new epoch."""
        if _RANKS[level] < _RANKS[self.level]:
            self.begin_epoch(now)
        self.holder = 0
        self.set_state(level, until, now)

    def begin_epoch(self, now: float) -> None:
        """Have all that was told before count no more."""
        self.epoch = now if now > self.epoch else math.nextafter(self.epoch, math.inf)

    # Other workers.

    def adopt(self, update: HealthUpdate) -> bool:
        """Take over what another worker found out, if it holds against what is known here."""
        state = self.state
        current = (self.epoch, _RANKS[self.level], self.until, self.cooldowns, state.success_rate, state.prompt)
        incoming = (
            update.epoch,
            _RANKS[update.level],
            update.until,
            update.cooldowns,
            update.success_rate,
            update.prompt,
        )
        if incoming <= current:
            return False
        if update.level is not _PROBING:
            # Somebody else was quicker to find out.
            self.holder = 0
        self.prompt = update.prompt
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
            # Of what is under way here nobody knows whether it began before.
            self.since = update.until
            self.wakes = update.until if update.level is _COOLDOWN else update.wakes
        return True

    def make_update(self, target: str) -> HealthUpdate:
        """What the other workers are told."""
        return HealthUpdate(
            target,
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
        )
