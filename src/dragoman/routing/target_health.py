"""Target health: what is remembered of one target, and what workers tell each other of it.

Of two notices the one of the later epoch holds, then that of the higher rank, then that of the later end. So they may
come in any order and as often as they like. A step down, to a lower rank, begins a new epoch. When a target goes from
one level to another stands in `health.py`.
"""

from __future__ import annotations

import math

from msgspec import Struct

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health_state import GOOD, RAMP, HealthLevel, HealthState

# Half of the time in which failures are compared with answers.
HALF_WINDOW = 15.0

_GOOD, _SUSPECT, _RESTING, _PROBED, _RAMPING = (
    HealthLevel.GOOD,
    HealthLevel.SUSPECT,
    HealthLevel.RESTING,
    HealthLevel.PROBED,
    HealthLevel.RAMPING,
)
_RANKS = {_GOOD: 0, _SUSPECT: 1, _RESTING: 2, _PROBED: 3, _RAMPING: 4, HealthLevel.KEYLESS: 0}


class HealthUpdate(Struct, frozen=True, array_like=True):
    """What one worker tells the others about a target."""

    target: str
    level: HealthLevel
    until: float
    epoch: float = 0.0
    rests: int = 0
    # For whoever asks: since when it is so, and what failed last, and when.
    since: float = 0.0
    last: AttemptOutcome | None = None
    failed: float = 0.0
    # Its share of answers, and whether its errors come back quickly.
    share: float = 0.0
    prompt: bool = False
    # Of one that is being tried: when its rest ends.
    wakes: float = 0.0


class Permit(Struct, frozen=True):
    """What somebody has who may ask a target; the number is that of the one who finds out about one that rests."""

    number: int = 0


class TargetHealth:
    """What is remembered of one target: its level, until when, and what led to it."""

    __slots__ = (
        "answered",
        "bad",
        "bad_before",
        "calm",
        "epoch",
        "failed",
        "good",
        "good_before",
        "holder",
        "in_a_row",
        "last",
        "late",
        "late_before",
        "level",
        "missed",
        "prompt",
        "rests",
        "shown",
        "since",
        "stands",
        "turn",
        "until",
        "wakes",
    )

    def __init__(self, now: float) -> None:
        self.level = _GOOD
        self.until = 0.0
        self.shown = GOOD
        # Since when it is so.
        self.stands = max(now, 0.0)
        self.epoch = 0.0
        self.rests = 0
        # Whether the errors that led to its cooldown came back quickly.
        self.prompt = False
        # Attempts that began before this say nothing any more.
        self.since = -math.inf
        # When its rest ends, whoever has the permit; and since when it is as good as any.
        self.wakes = 0.0
        self.calm = 0.0
        self.last: AttemptOutcome | None = None
        self.failed = 0.0
        self.in_a_row = 0
        # When it answered last, and was last found to fail.
        self.answered = self.missed = -math.inf
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
    def answers(self) -> int:
        """How many calls of the window were answered."""
        return self.good + self.good_before

    @property
    def calls(self) -> int:
        """How many calls of the window were answered or failed."""
        return self.answers + self.bad + self.bad_before

    def failing(self, *, is_prompt: bool) -> None:
        """Count a failure."""
        self.bad += 1
        self.in_a_row += 1
        self.late += not is_prompt

    def settle(self, now: float) -> None:
        """Let what is over be over."""
        if now < self.until:
            return
        level = self.level
        if level is _RAMPING:
            # Every worker comes to the same epoch by itself.
            self.epoch = max(self.epoch, self.until)
            self.show(_GOOD, 0.0, self.until)
        elif level is _SUSPECT:
            self.show(_GOOD, 0.0, self.until)
        elif level is _PROBED:
            # Nobody told what became of the probe: the permit is free again.
            self.epoch = max(self.epoch, self.until)
            self.show(_RESTING, self.wakes, self.until)

    def show(self, level: HealthLevel, until: float, since: float, answers: float | None = None) -> None:
        """Stand at a level; a suspect one with its share of answers, which is counted here unless it is handed in."""
        if level is not self.level:
            self.stands = since
        self.level, self.until = level, until
        if level is _GOOD:
            self.shown = GOOD
        elif level is _SUSPECT:
            counted = self.answers / self.calls if self.calls else 0.0
            self.shown = HealthState(level, until, counted if answers is None else answers)
        else:
            self.shown = HealthState(level, until, prompt=self.prompt and level is not _RAMPING)

    def enter(self, level: HealthLevel, until: float, now: float) -> None:
        """Come to another level by what was found out here: a step down begins a new epoch."""
        if _RANKS[level] < _RANKS[self.level]:
            self.begin_epoch(now)
        self.holder = 0
        self.show(level, until, now)

    def begin_epoch(self, now: float) -> None:
        """Have all that was told before count no more."""
        self.epoch = now if now > self.epoch else math.nextafter(self.epoch, math.inf)

    # Other workers.

    def adopt(self, notice: HealthUpdate) -> bool:
        """Take over what another worker found out, if it holds against what is known here."""
        shown = self.shown
        known = (self.epoch, _RANKS[self.level], self.until, self.rests, shown.answers, shown.prompt)
        news = (notice.epoch, _RANKS[notice.level], notice.until, notice.rests, notice.share, notice.prompt)
        if news <= known:
            return False
        if notice.level is not _PROBED:
            # Somebody else was quicker to find out.
            self.holder = 0
        self.prompt = notice.prompt
        self.show(notice.level, notice.until, notice.since, notice.share)
        if notice.last is not None and notice.failed > self.failed:
            self.last, self.failed = notice.last, notice.failed
        self.epoch, self.rests = notice.epoch, notice.rests
        if notice.level is _SUSPECT:
            return True
        self.in_a_row = 0
        self.forget(-math.inf)
        if notice.level is _RAMPING:
            self.since, self.calm, self.wakes = notice.until - RAMP, notice.until, 0.0
        else:
            # Of what is under way here nobody knows whether it began before.
            self.since = notice.until
            self.wakes = notice.until if notice.level is _RESTING else notice.wakes
        return True

    def notice(self, target: str) -> HealthUpdate:
        """What the other workers are told."""
        return HealthUpdate(
            target,
            self.level,
            self.until,
            self.epoch,
            self.rests,
            self.stands,
            self.last,
            self.failed,
            self.shown.answers,
            self.shown.prompt,
            self.wakes if self.level is _PROBED else 0.0,
        )
