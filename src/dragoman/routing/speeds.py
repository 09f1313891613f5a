"""Speeds: how fast targets answered of late, as decaying averages, small and large requests apart (decision 25).

Only answers are measured; failures lower the success rate, by which whoever compares divides. A sample counts for half
after twenty others, or after ten minutes. Streams tell the time to their first content and the rate after it; answers
that came whole only tell how long they took, and are asked for where no stream was seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.routing.speed import Speed

# Bytes from which a request is a large one.
LARGE = 16 * 1024
# What is left of a sample's weight after another one, and the seconds after which half of it is.
_STEP = 0.5 ** (1 / 20)
HALF_LIFE = 600.0
# What weighs less than this is as good as never measured.
_LEAST = 1e-6
# No time and no number of tokens comes to this.
_LIMIT = 1e9
# Names may come from clients, where a line says `provider/*`.
MOST = 4096


class _Averages:
    """Sums of one target, each sample with its weight."""

    __slots__ = ("answers", "attempts", "first", "last", "samples", "seconds", "streams", "tokens", "took", "whole")

    def __init__(self, now: float) -> None:
        self.last = now
        self.samples = 0
        # Weights: of all attempts, of those that were answered, of streams.
        self.attempts = self.answers = self.streams = 0.0
        # Of streams: the time to the first content, and what came in which time after it.
        self.first = self.tokens = self.seconds = 0.0
        # Of whole answers: what came in which time.
        self.whole = self.took = 0.0

    def fade(self, now: float) -> None:
        """Let all that was count for less."""
        passed = now - self.last
        left = _STEP if passed <= 0 else _STEP * 0.5 ** (passed / HALF_LIFE)
        if left < _LEAST:
            self.samples, left = 0, 0.0
        self.attempts *= left
        self.answers *= left
        self.streams *= left
        self.first *= left
        self.tokens *= left
        self.seconds *= left
        self.whole *= left
        self.took *= left

    def speed(self, now: float) -> Speed:
        """What they come to."""
        age = now - self.last
        if age < 0.0:
            age = 0.0
        left = 0.5 ** (age / HALF_LIFE)
        if self.streams > 0.0:
            first, tokens, seconds = self.first / self.streams, self.tokens, self.seconds
        else:
            first, tokens, seconds = 0.0, self.whole, self.took
        return Speed(
            first_token=first,
            rate=tokens / seconds if seconds > 0.0 else 0.0,
            # One answer is taken for granted: failures of long ago fade, and nobody is without any chance.
            success_rate=(self.answers * left + 1.0) / (self.attempts * left + 1.0),
            age=age,
            samples=self.samples,
        )


class Speeds:
    """How fast targets are. Times are in seconds of a clock that only grows."""

    def __init__(self, most: int = MOST) -> None:
        self._found: dict[tuple[str, bool], _Averages] = {}
        self._most = most

    def answered(
        self, target: str, size: int, now: float, *, seconds: float, tokens: float, first: float | None = None
    ) -> None:
        """Note an answer to a request of so many bytes: `first` is when a stream's content began.

        `seconds` are those after it in which the provider was read, without those in which the client was waited for;
        of an answer that came whole, all of them. Values that cannot be are left out.
        """
        found = self._at(target, size, now)
        found.attempts += 1.0
        found.answers += 1.0
        found.last = now
        measured = 0.0 <= seconds < _LIMIT and 0.0 <= tokens < _LIMIT
        if first is None:
            if measured:
                found.whole += tokens
                found.took += seconds
                found.samples += 1
        elif 0.0 <= first < _LIMIT:
            found.samples += 1
            found.streams += 1.0
            found.first += first
            if measured:
                found.tokens += tokens
                found.seconds += seconds

    def failed(self, target: str, size: int, now: float) -> None:
        """Note a failure of the target's own."""
        found = self._at(target, size, now)
        found.attempts += 1.0
        found.last = now

    def speed(self, target: str, size: int, now: float) -> Speed | None:
        """How fast a target is for requests of about this size; None if nothing was measured."""
        return self.speeds((target,), size, now)[0]

    def speeds(self, targets: Iterable[str], size: int, now: float) -> list[Speed | None]:
        """The same of several targets."""
        known, large = self._found, size >= LARGE
        return [
            None if (found := known.get((target, large))) is None or not found.samples else found.speed(now)
            for target in targets
        ]

    def _at(self, target: str, size: int, now: float) -> _Averages:
        place = (target, size >= LARGE)
        found = self._found.get(place)
        if found is None:
            if len(self._found) >= self._most:
                del self._found[min(self._found, key=lambda other: self._found[other].last)]
            found = self._found[place] = _Averages(now)
        else:
            found.fade(now)
        return found
