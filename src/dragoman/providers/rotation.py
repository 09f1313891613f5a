"""Rotation: several keys of one provider take turns, and a key that was refused rests for a while.

A rotation that takes the place of a former one goes on with whose turn it is, and both know of the same rests: requests
still run under the former one.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Rotation:
    """Whose turn it is among a provider's keys; `clock` gives seconds that only grow."""

    __slots__ = ("_clock", "_keys", "_position", "_rested")

    def __init__(
        self, keys: tuple[str, ...], clock: Callable[[], float] = time.monotonic, former: Rotation | None = None
    ) -> None:
        self._keys = keys
        self._clock = clock
        self._position = 0 if former is None else _place(former._next_in_turn(), keys)
        # When each of the resting keys may be used again.
        self._rested: dict[str, float] = {} if former is None else former._rested

    @property
    def count(self) -> int:
        """How many keys take turns."""
        return len(self._keys)

    def next(self) -> str | None:
        """The next key in turn that does not rest; if all rest, the one that recovers first; None without keys."""
        keys = self._keys
        if not keys:
            return None
        if not self._rested:
            return self._take(self._position)
        now = self._clock()
        for key in [key for key, until in self._rested.items() if until <= now]:
            del self._rested[key]
        for step in range(len(keys)):
            position = (self._position + step) % len(keys)
            if keys[position] not in self._rested:
                return self._take(position)
        return min(keys, key=self._rested.__getitem__)

    def cool(self, key: str, seconds: float) -> None:
        """Let a key rest for so long; a longer rest that was set before stays."""
        if key in self._keys:
            until = self._clock() + seconds
            self._rested[key] = max(until, self._rested.get(key, until))

    def _next_in_turn(self) -> tuple[str, ...]:
        """All keys, the one whose turn it is first."""
        return self._keys[self._position :] + self._keys[: self._position]

    def _take(self, position: int) -> str:
        self._position = (position + 1) % len(self._keys)
        return self._keys[position]


def _place(turns: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """Where the first of these keys stands that is still there."""
    return next((keys.index(key) for key in turns if key in keys), 0)
