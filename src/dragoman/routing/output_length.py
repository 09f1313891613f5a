"""Output length: recent output tokens of targets, for small and large requests, to estimate cost and time. A new target
gets the average of the others. With a high default it would look expensive and never be called."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.routing.speeds import LARGE

UNMEASURED_OUTPUT = 500.0
# The weight of the latest response in the average, after this number of responses.
_LATEST, _SOME = 0.1, 10
# The weight of other targets' responses next to a target's own, and the maximum count of either.
_DOUBT = 20
_COUNTED = 100
# Clients may choose model names if a route has `provider/*`.
MAX_TARGETS = 4096


def rounded(tokens: float) -> int:
    """Round a length to three significant bits, so that cached results serve many requests."""
    whole = int(tokens)
    dropped = max(whole.bit_length() - 3, 0)
    return whole >> dropped << dropped


class Outputs:
    def __init__(self, max_targets: int = MAX_TARGETS) -> None:
        self._max_targets = max_targets
        # By target, for small and for large requests: the average length, and the number of responses.
        self._small: dict[str, tuple[float, int]] = {}
        self._large: dict[str, tuple[float, int]] = {}

    def record(self, target: str, size: int, tokens: int) -> None:
        """Record the output length of a response to a request of this size."""
        lengths = self._large if size >= LARGE else self._small
        known = lengths.get(target)
        if known is None:
            if len(lengths) >= self._max_targets:
                lengths.clear()
            lengths[target] = (float(tokens), 1)
        else:
            mean, count = known
            if count < _COUNTED:
                count += 1
            lengths[target] = (mean + (tokens - mean) * (_LATEST if count >= _SOME else 1 / count), count)

    def among(self, targets: Iterable[str], size: int) -> float:
        lengths = self._large if size >= LARGE else self._small
        total, responses = UNMEASURED_OUTPUT, 1
        for known in map(lengths.get, targets):
            if known is not None:
                mean, count = known
                total += mean * count
                responses += count
        return total / responses

    def usual(self, target: str, size: int, among: float) -> float:
        """The expected output of this target. `among` is the average of all."""
        mean, count = self._of(size).get(target, (0.0, 0))
        return (mean * count + among * _DOUBT) / (count + _DOUBT)

    def _of(self, size: int) -> dict[str, tuple[float, int]]:
        return self._large if size >= LARGE else self._small
