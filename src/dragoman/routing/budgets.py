"""Budgets: how often a target may be asked again, so that an outage is not multiplied (decision 25).

Each target has a bucket. An answer fills it a little, asking again empties it by one, and so does going on to a target
that does not stand well. While it is empty neither is done: with a target that always fails there are hardly more calls
than requests.
"""

from __future__ import annotations

FULL = 10.0
FILL = 0.2
# Names may come from clients, where a line says `provider/*`.
MOST = 4096


class Budgets:
    """The buckets of all targets; those that are full are not remembered."""

    def __init__(self, most: int = MOST) -> None:
        self._left: dict[str, float] = {}
        self._most = most

    def has(self, target: str) -> bool:
        """Whether a target may be asked again."""
        return self._left.get(target, FULL) >= 1.0

    def spend(self, target: str) -> bool:
        """Take one from a bucket, if there is one."""
        left = self._left.get(target, FULL)
        if left < 1.0:
            return False
        if target not in self._left and len(self._left) >= self._most:
            # Whoever has the most left is the first to be as good as full.
            del self._left[max(self._left, key=self._left.__getitem__)]
        self._left[target] = left - 1.0
        return True

    def fill(self, target: str) -> None:
        """A target has answered."""
        left = self._left.get(target)
        if left is None:
            return
        if left + FILL >= FULL:
            del self._left[target]
        else:
            self._left[target] = left + FILL

    def left(self, target: str) -> float:
        """What is in a bucket."""
        return self._left.get(target, FULL)
