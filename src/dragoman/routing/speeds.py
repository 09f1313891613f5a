"""Speeds of targets as decaying averages, for small and large requests (decision 25). Only responses are measured;
failures lower the success rate. A sample's weight halves after twenty others, or ten minutes. Streams give time to
first content and rate. Full responses give their duration, which is used if no stream was measured. After an outlier
the next request checks again (`fastest`). After a third in one direction the averages start anew."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from math import inf

from dragoman.routing.speed import STALE, USUAL_RATE, Speed, needed

# The minimum size of a large request, in bytes.
LARGE = 16 * 1024
# The remaining weight of a sample after another one, and its half-life in seconds.
_STEP = 0.5 ** (1 / 20)
HALF_LIFE = 600.0
# A smaller weight counts as never measured.
_LEAST = 1e-6
_LIMIT = 1e9
# An outlier differs from the averages by this factor, and by at least `_APART` seconds. The last value is the number of
# outliers after which the averages start anew.
FAR = 2.0
_APART = 0.05
_CHANGE = 3
# Clients may choose model names if a route has `provider/*`.
MAX_TARGETS = 4096


class _Averages:
    __slots__ = (
        "attempts",
        "failures",
        "far",
        "first",
        "full_seconds",
        "full_tokens",
        "in_doubt",
        "last",
        "needed",
        "output",
        "samples",
        "seconds",
        "streams",
        "tokens",
    )

    def __init__(self, now: float) -> None:
        self.last = now
        self.samples = 0
        # The number of consecutive outliers: positive for slower ones, negative for faster ones.
        self.far = 0
        self.in_doubt = False
        # Weights of all attempts, failures and streams.
        self.attempts = self.failures = self.streams = 0.0
        # Of streams: the time to the first content, and the tokens and seconds after it.
        self.first = self.tokens = self.seconds = 0.0
        # Of full responses: tokens and seconds.
        self.full_tokens = self.full_seconds = 0.0
        # Seconds for a number of tokens, cached until the next sample; -1 means not computed.
        self.output = -1
        self.needed = 0.0

    def fade(self, now: float) -> None:
        passed = now - self.last
        self.last = now
        left = _STEP if passed <= 0 else _STEP * 0.5 ** (passed / HALF_LIFE)
        if left < _LEAST:
            self.samples, left = 0, 0.0
        self.attempts = self.attempts * left + 1.0
        if self.failures:
            self.failures *= left
        if self.streams:
            self.streams *= left
            self.first *= left
            self.tokens *= left
            self.seconds *= left
        if self.full_tokens or self.full_seconds:
            self.full_tokens *= left
            self.full_seconds *= left
        self.output = -1

    def add(self, seconds: float, tokens: float, first: float | None) -> None:
        measured = 0.0 <= seconds < _LIMIT and 0.0 <= tokens < _LIMIT
        if first is None:
            if measured:
                # Streams and full responses are not comparable.
                if self.samples and not self.streams:
                    rate = self.full_tokens / self.full_seconds if self.full_seconds else 0.0
                    expected = tokens / (rate or USUAL_RATE)
                    if self.far or not expected / FAR < seconds < expected * FAR:
                        self._compare(seconds, expected)
                self.samples += 1
                self.full_tokens += tokens
                self.full_seconds += seconds
        elif 0.0 <= first < _LIMIT:
            if measured and self.samples and self.streams:
                rate = self.tokens / self.seconds if self.seconds else 0.0
                duration, expected = seconds + first, self.first / self.streams + tokens / (rate or USUAL_RATE)
                if self.far or not expected / FAR < duration < expected * FAR:
                    self._compare(duration, expected)
            self.samples += 1
            self.streams += 1.0
            self.first += first
            if measured:
                self.tokens += tokens
                self.seconds += seconds

    def _compare(self, duration: float, expected: float) -> None:
        """Count an outlier, and start anew after several on the same side."""
        if expected / FAR < duration < expected * FAR or expected - _APART < duration < expected + _APART:
            self.far, self.in_doubt = 0, False
            return
        self.far = max(self.far, 0) + 1 if duration > expected else min(self.far, 0) - 1
        self.in_doubt = abs(self.far) < _CHANGE
        if not self.in_doubt:
            self.far = 0
            self.streams = self.first = self.tokens = self.seconds = self.full_tokens = self.full_seconds = 0.0

    def speed(self, now: float, *, in_doubt: bool) -> Speed:
        first, rate = self._pace()
        age = max(now - self.last, 0.0)
        return Speed(
            first_token=first,
            rate=rate,
            success_rate=self.success_rate(age),
            age=age,
            samples=self.samples,
            in_doubt=in_doubt,
        )

    def work_out(self, output: int) -> bool:
        """Cache the seconds for this many tokens. False if nothing was measured."""
        if not self.samples:
            return False
        first, rate = self._pace()
        self.output, self.needed = output, needed(first, rate, output)
        return True

    def _pace(self) -> tuple[float, float]:
        """The seconds to the first content, and the tokens per second after it."""
        if self.streams > 0.0:
            first, tokens, seconds = self.first / self.streams, self.tokens, self.seconds
        else:
            first, tokens, seconds = 0.0, self.full_tokens, self.full_seconds
        return first, tokens / seconds if seconds > 0.0 else 0.0

    def success_rate(self, age: float) -> float:
        """The success rate, `age` seconds after the last attempt."""
        # One success is assumed, so that old failures fade and no rate is zero.
        left: float = 0.5 ** (age / HALF_LIFE)
        return ((self.attempts - self.failures) * left + 1.0) / (self.attempts * left + 1.0)


class Speeds:
    def __init__(self, max_targets: int = MAX_TARGETS) -> None:
        # The averages of small requests, and of large ones, sorted by the last sample.
        self._averages: tuple[OrderedDict[str, _Averages], OrderedDict[str, _Averages]] = (OrderedDict(), OrderedDict())
        self._max_targets = max_targets
        # Targets whose averages are in doubt, for small or large requests.
        self._doubted: set[tuple[str, bool]] = set()

    def record_response(
        self, target: str, size: int, now: float, seconds: float, tokens: float, first: float | None = None
    ) -> None:
        """Record a response to a request of this size. `first` is the time of a stream's first content. `seconds`
        exclude the time spent waiting for the client. Impossible values are ignored."""
        large = size >= LARGE
        averages = self._averages[large].get(target)
        if averages is None:
            averages = self._begin(target, large, now)
        else:
            self._averages[large].move_to_end(target)
        averages.fade(now)
        averages.add(seconds, tokens, first)
        if averages.in_doubt:
            self._doubted.add((target, large))
        elif self._doubted:
            self._doubted.discard((target, large))

    def record_failure(self, target: str, size: int, now: float) -> None:
        large = size >= LARGE
        averages = self._averages[large].get(target) or self._begin(target, large, now)
        self._averages[large].move_to_end(target)
        averages.fade(now)
        averages.failures += 1.0

    def speed(self, target: str, size: int, now: float) -> Speed | None:
        """The speed of a target for requests of this size, or None."""
        return self.speeds((target,), size, now)[0]

    def speeds(self, targets: Iterable[str], size: int, now: float) -> list[Speed | None]:
        by_target = self._averages[size >= LARGE]
        return [
            None
            if (averages := by_target.get(target)) is None or not averages.samples
            else averages.speed(now, in_doubt=(target, size >= LARGE) in self._doubted)
            for target in targets
        ]

    def has_doubts(self, targets: Iterable[str], size: int, but: str = "") -> bool:
        large = size >= LARGE
        return bool(self._doubted) and any((target, large) in self._doubted for target in targets if target != but)

    def explore(self, target: str, size: int) -> None:
        """Record that a request checks a target, so that no other request has to."""
        self._doubted.discard((target, size >= LARGE))

    def soonest(self, targets: Iterable[str], size: int, now: float, output: int) -> int:
        """The index of the target with the shortest expected time for this many tokens. If none was measured, an
        unknown one."""
        place, least, unknown = -1, inf, -1
        for index, averages in enumerate(map(self._averages[size >= LARGE].get, targets)):
            if averages is None or (averages.output != output and not averages.work_out(output)):
                unknown = index if unknown < 0 else unknown
                continue
            seconds = averages.needed
            # Age and failures only make it longer.
            if seconds < least:
                age = now - averages.last
                if averages.failures:
                    seconds /= averages.success_rate(age if age > 0.0 else 0.0)
                if age > 0.0:
                    seconds *= 1 + age / STALE
                if seconds < least:
                    place, least = index, seconds
        return place if place >= 0 else max(unknown, 0)

    def _begin(self, target: str, large: bool, now: float) -> _Averages:
        if len(self._averages[0]) + len(self._averages[1]) >= self._max_targets:
            self._make_room()
        averages = self._averages[large][target] = _Averages(now)
        return averages

    def _make_room(self) -> None:
        oldest = [(next(iter(held.values())).last, large) for large, held in enumerate(self._averages) if held]
        _, large = min(oldest)
        target, _ = self._averages[large].popitem(last=False)
        self._doubted.discard((target, bool(large)))
