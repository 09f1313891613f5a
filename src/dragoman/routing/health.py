"""Health: how each target stands, as a fold over what became of the attempts on it (decision 25).

standing   after                               then
GOOD       a failure, and no answer of late,   SUSPECT for a while: behind the good ones
           or a second failure
SUSPECT    five requests failed in a row, or   RESTING, longer each time
           half of at least ten
RESTING    its end, or that it is cut short    PROBED: one request has the permit, which expires
PROBED     an answer, of whatever kind         RAMPING for a while, then GOOD
           a failure                           RESTING, longer
RAMPING    two requests failed in a row        RESTING, longer

Only failures of the target itself count, each request once, and any well-formed answer is one of a target that lives.
An attempt that began before a rest says nothing about what came after it, and as long as a target rests, only whoever
has the permit finds anything out: anybody may ask for a target by its own name, as often as he likes.

What is found out here is told to the other workers as notices; of two notices the one of the later epoch holds, then
that of the higher rank, then that of the later end. So they may come in any order and as often as they like. A step
down, to a lower rank, begins a new epoch.

How keys stand is another matter: they only rest (`providers/key_rests.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from dragoman.routing.outcomes import COUNTING, LIVING, Kind
from dragoman.routing.standing import GOOD, RAMP, Level, Standing

# Seconds.
SUSPICION = 10.0
FIRST_REST = 5.0
LONGEST_REST = 300.0
# Half of the time in which failures are compared with answers.
HALF_WINDOW = 15.0
# How long a target must have been good for its rests to begin short again; before that they begin half as high.
FORGIVEN = 60.0
# How many requests in a row, how many while it is ramping, and of how many the half.
IN_A_ROW = 5
IN_A_RAMP = 2
SAMPLES = 10
# Names may come from clients, where a line says `provider/*`.
MOST = 4096

_ANSWERED = Kind.ANSWERED
_GOOD, _SUSPECT, _RESTING, _PROBED, _RAMPING = Level.GOOD, Level.SUSPECT, Level.RESTING, Level.PROBED, Level.RAMPING
_ASLEEP = frozenset({_RESTING, _PROBED})
_RANKS = {_GOOD: 0, _SUSPECT: 1, _RESTING: 2, _PROBED: 3, _RAMPING: 4, Level.KEYLESS: 0}


class Notice(Struct, frozen=True, array_like=True):
    """What one worker tells the others about a target."""

    target: str
    level: Level
    until: float
    epoch: float = 0.0
    rests: int = 0
    # For whoever asks: since when it is so, and what failed last, and when.
    since: float = 0.0
    last: Kind | None = None
    failed: float = 0.0


class Permit(Struct, frozen=True):
    """What somebody has who may ask a target; the number is that of the one who finds out about one that rests."""

    number: int = 0


class Report(Struct, frozen=True, kw_only=True):
    """Why a target stands as it does, for whoever asks."""

    target: str
    standing: Standing
    # Since when it is so.
    since: float
    # What failed last, and when.
    last: Kind | None
    failed: float
    in_a_row: int
    rests: int


# Whoever is awake is asked by everybody.
_FREE = Permit()


class _Entry:
    """What is remembered of one target."""

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
        "level",
        "missed",
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
        # Attempts that began before this say nothing any more.
        self.since = -math.inf
        # When its rest ends, whoever has the permit; and since when it is as good as any.
        self.wakes = 0.0
        self.calm = 0.0
        self.last: Kind | None = None
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
        self.good = self.bad = self.good_before = self.bad_before = 0
        self.turn = now + HALF_WINDOW

    def roll(self, now: float) -> None:
        """Go on to the next half of the window."""
        if now >= self.turn + HALF_WINDOW:
            self.forget(now)
        else:
            self.good_before, self.bad_before, self.good, self.bad = self.good, self.bad, 0, 0
            self.turn += HALF_WINDOW

    def key(self) -> tuple[float, int, float, int]:
        return (self.epoch, _RANKS[self.level], self.until, self.rests)


class Health:
    """How targets stand. Time is handed in, in seconds of a clock that only grows and that all workers share."""

    def __init__(self, most: int = MOST) -> None:
        self._entries: dict[str, _Entry] = {}
        self._most = most
        self._dirty: set[str] = set()
        # Those that may not be good, so that nobody asks about the others.
        self._unwell: set[str] = set()
        self._permits = 0

    # Outcomes.

    def note(
        self,
        target: str,
        kind: Kind,
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
                entry = self._made(target, now)
            elif entry.level is not _GOOD and entry.level in _ASLEEP and not self._wake(target, entry, now, permit):
                return
            if now >= entry.turn:
                entry.roll(now)
            entry.good += 1
            entry.in_a_row = 0
            entry.answered = now
        elif kind in COUNTING:
            if charged is not None:
                if target in charged:
                    return
                charged.add(target)
            self._failed(target, entry or self._made(target, now), kind, now, began, permit)
        elif (
            entry is not None
            and kind in LIVING
            and (entry.level not in _ASLEEP or self._wake(target, entry, now, permit))
        ):
            entry.in_a_row = 0
        elif kind is Kind.SLOW:
            self._dawdled(target, entry or self._made(target, now), now, permit)

    def _dawdled(self, target: str, entry: _Entry, now: float, permit: Permit | None) -> None:
        """A whole answer took longer than the first byte of a stream may, which may be the request's own affair."""
        if entry.level in _ASLEEP:
            if entry.holds(permit):
                # Nothing was found out: it rests once more, and no longer than before.
                entry.rests = max(entry.rests - 1, 0)
                self._rest(target, entry, now)
        elif now - entry.answered >= SUSPICION and entry.level is not _RAMPING:
            # Where nobody else is answered either, others had better be asked first; but it does not rest for that.
            _settle(entry, now)
            self._enter(target, entry, _SUSPECT, max(now + SUSPICION, entry.until), now)

    def _wake(self, target: str, entry: _Entry, now: float, permit: Permit | None) -> bool:
        """End a rest, if an answer was that of whoever has the permit."""
        if not entry.holds(permit):
            return False
        entry.since = now
        entry.wakes, entry.calm = 0.0, now + RAMP
        entry.forget(now)
        self._enter(target, entry, _RAMPING, now + RAMP, now)
        return True

    def _failed(self, target: str, entry: _Entry, kind: Kind, now: float, began: float, permit: Permit | None) -> None:
        entry.last, entry.failed = kind, now
        _settle(entry, now)
        level = entry.level
        if level in _ASLEEP:
            if entry.holds(permit):
                holder = entry.holder
                self._rest(target, entry, now)
                # The same request may ask once more, and be answered, before anybody else asks.
                entry.holder = holder
            return
        if began < entry.since:
            # It was under way before the target rested, or answered again.
            return
        if now >= entry.turn:
            entry.roll(now)
        # One request that fails among others that are answered may be to blame itself.
        is_suspect = now - entry.answered >= SUSPICION or now - entry.missed < SUSPICION
        entry.missed = now
        entry.bad += 1
        entry.in_a_row += 1
        bad = entry.bad + entry.bad_before
        total = bad + entry.good + entry.good_before
        if entry.in_a_row >= (IN_A_RAMP if level is _RAMPING else IN_A_ROW) or (
            level is not _RAMPING and total >= SAMPLES and bad * 2 >= total
        ):
            self._rest(target, entry, now)
        elif level is _SUSPECT or (level is _GOOD and is_suspect):
            self._enter(target, entry, _SUSPECT, max(now + SUSPICION, entry.until), now)

    def _rest(self, target: str, entry: _Entry, now: float) -> None:
        if entry.level in (_GOOD, _SUSPECT):
            # It was as good as any since its last rest: for long, or who knows.
            entry.rests = 0 if now - entry.calm > FORGIVEN else entry.rests // 2
        until = now + _rest_time(entry.rests)
        if entry.level in _ASLEEP:
            until = max(until, entry.wakes)
        entry.rests = min(entry.rests + 1, 16)
        entry.since, entry.wakes, entry.in_a_row = now, until, 0
        entry.forget(now)
        self._enter(target, entry, _RESTING, until, now)

    # Questions.

    def standing(self, target: str, now: float) -> Standing:
        """How a target stands; one that rests and whose end is over may be asked by whoever gets the permit."""
        entry = self._entries.get(target)
        if entry is None or entry.level is _GOOD:
            self._unwell.discard(target)
            return GOOD
        if now >= entry.until:
            _settle(entry, now)
        return entry.shown

    def are_good(self, targets: Iterable[str]) -> bool:
        """Whether nothing is held against any of these, as far as can be told at once."""
        return not self._unwell or self._unwell.isdisjoint(targets)

    def knows(self, target: str) -> bool:
        """Whether anything was heard of a target."""
        return target in self._entries

    def wakes(self, target: str, now: float) -> float:
        """When a target that rests may be asked; where somebody finds out at this moment, when that was due."""
        entry = self._entries.get(target)
        return max(now, entry.wakes) if entry is not None else now

    def take_permit(self, target: str, now: float, seconds: float) -> Permit | None:
        """Leave to ask a target, if it may be asked; one that rests by one request at a time, for so long at most.

        A rest need not be over: if all rest, whoever wakes first may be asked before its time.
        """
        entry = self._entries.get(target)
        if entry is None or entry.level is _GOOD:
            return _FREE
        _settle(entry, now)
        if entry.level is _PROBED:
            return None
        if entry.level is not _RESTING:
            return _FREE
        self._permits += 1
        self._enter(target, entry, _PROBED, now + seconds, now)
        entry.holder = self._permits
        return Permit(self._permits)

    def give_back(self, target: str, now: float, permit: Permit | None = None) -> None:
        """Give a permit back that found nothing out: the client left, or nothing was sent."""
        entry = self._entries.get(target)
        if entry is None or not entry.holds(permit):
            return
        entry.holder = 0
        if entry.level is _PROBED:
            self._enter(target, entry, _RESTING, entry.wakes, now)

    def resting(self, now: float) -> dict[str, float]:
        """The targets that rest, and for some time yet, each with the end of its rest, by which that can be told."""
        found = ((target, self.standing(target, now)) for target in self._entries)
        return {target: told.until for target, told in found if told.level is _RESTING and told.until > now}

    def cut_short(self, target: str, now: float) -> bool:
        """End a rest before its time, so that the next request finds out; tell whether there was one.

        How often it rested is not forgotten: if that request fails, it rests longer.
        """
        entry = self._entries.get(target)
        if entry is None or entry.level is not _RESTING or entry.until <= now:
            return False
        entry.wakes = now
        # An earlier end holds nowhere else without a new epoch.
        entry.epoch = _later(entry.epoch, now)
        _show(entry, _RESTING, now, now)
        self._dirty.add(target)
        return True

    def clear(self, target: str, now: float) -> None:
        """Take a target for good, whatever it did; the other workers are told."""
        entry = self._entries.get(target)
        if entry is not None:
            entry.rests = entry.in_a_row = 0
            # What is still under way is not held against it either.
            entry.since, entry.wakes, entry.missed = now, 0.0, -math.inf
            entry.forget(now)
            entry.epoch = _later(entry.epoch, now)
            self._enter(target, entry, _GOOD, now, now)

    def reports(self, now: float) -> list[Report]:
        """All targets that were heard of."""
        return [
            Report(
                target=target,
                standing=self.standing(target, now),
                since=entry.stands,
                last=entry.last,
                failed=entry.failed,
                in_a_row=entry.in_a_row,
                rests=entry.rests,
            )
            for target, entry in self._entries.items()
        ]

    # Other workers.

    def news(self) -> list[Notice]:
        """What the other workers were not told yet."""
        if not self._dirty:
            return []
        told = [_notice(target, self._entries[target]) for target in self._dirty if target in self._entries]
        self._dirty.clear()
        return told

    def snapshot(self) -> list[Notice]:
        """All that would be told to a worker that knows nothing, or kept for a later start."""
        return [_notice(target, entry) for target, entry in self._entries.items() if entry.level is not _GOOD]

    def merge(self, notices: Iterable[Notice]) -> None:
        """Take over what other workers found out; they may come in any order, and more than once."""
        for notice in notices:
            entry = self._entries.get(notice.target)
            if entry is None:
                entry = self._made(notice.target, -math.inf)
            if (notice.epoch, _RANKS[notice.level], notice.until, notice.rests) > entry.key():
                _adopt(entry, notice)
                self._unwell.add(notice.target)

    def _enter(self, target: str, entry: _Entry, level: Level, until: float, now: float) -> None:
        if _RANKS[level] < _RANKS[entry.level]:
            entry.epoch = _later(entry.epoch, now)
        entry.holder = 0
        _show(entry, level, until, now)
        self._dirty.add(target)
        self._unwell.add(target)

    def _made(self, target: str, now: float) -> _Entry:
        if len(self._entries) >= self._most:
            self._make_room()
        entry = self._entries[target] = _Entry(now)
        return entry

    def _make_room(self) -> None:
        """Forget an eighth: those that are good, the oldest first, then those whose end is the nearest."""
        entries = self._entries
        ranked = sorted(entries, key=lambda target: 0.0 if entries[target].level is _GOOD else entries[target].until)
        for target in ranked[: max(self._most // 8, 1)]:
            del entries[target]
            self._dirty.discard(target)
            self._unwell.discard(target)


def _settle(entry: _Entry, now: float) -> None:
    """Let what is over be over."""
    if now < entry.until:
        return
    level = entry.level
    if level is _RAMPING:
        # Every worker comes to the same epoch by itself.
        entry.epoch = max(entry.epoch, entry.until)
        _show(entry, _GOOD, 0.0, entry.until)
    elif level is _SUSPECT:
        _show(entry, _GOOD, 0.0, entry.until)
    elif level is _PROBED:
        # Nobody told what became of the probe: the permit is free again.
        entry.epoch = max(entry.epoch, entry.until)
        _show(entry, _RESTING, entry.wakes, entry.until)


def _show(entry: _Entry, level: Level, until: float, since: float) -> None:
    if level is not entry.level:
        entry.stands = since
    entry.level, entry.until = level, until
    entry.shown = GOOD if level is _GOOD else Standing(level, until)


def _adopt(entry: _Entry, notice: Notice) -> None:
    if notice.level is not _PROBED:
        # Somebody else was quicker to find out.
        entry.holder = 0
    _show(entry, notice.level, notice.until, notice.since)
    if notice.last is not None and notice.failed > entry.failed:
        entry.last, entry.failed = notice.last, notice.failed
    entry.epoch, entry.rests = notice.epoch, notice.rests
    if notice.level is _SUSPECT:
        return
    entry.in_a_row = 0
    entry.forget(-math.inf)
    if notice.level is _RAMPING:
        entry.since, entry.calm, entry.wakes = notice.until - RAMP, notice.until, 0.0
    else:
        # Of what is under way here nobody knows whether it began before.
        entry.since = notice.until
        entry.wakes = notice.until if notice.level is _RESTING else entry.wakes


def _notice(target: str, entry: _Entry) -> Notice:
    return Notice(target, entry.level, entry.until, entry.epoch, entry.rests, entry.stands, entry.last, entry.failed)


def _rest_time(rests: int) -> float:
    return min(FIRST_REST * 2.0**rests, LONGEST_REST)


def _later(epoch: float, now: float) -> float:
    return now if now > epoch else math.nextafter(epoch, math.inf)
