"""Rotation: several keys of one provider take turns, and a key that was refused rests for a while.

A rotation that takes the place of a former one goes on with whose turn it is, and both know of the same rests: requests
still run under the former one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from dragoman.providers.key_cooldowns import ANY_MODEL, KeyCooldowns, KeyCooldownUpdate, digest_of


class Rotation:
    """Whose turn it is among a provider's keys; `clock` gives seconds that only grow."""

    __slots__ = ("_clock", "_digests", "_keys", "_position", "cooldowns", "count")

    def __init__(
        self,
        keys: tuple[str, ...],
        clock: Callable[[], float] = time.monotonic,
        former: Rotation | None = None,
        provider: str = "",
    ) -> None:
        self._keys = keys
        # How many keys take turns.
        self.count = len(keys)
        self._digests = {key: digest_of(key) for key in keys}
        self._clock = clock
        self._position = 0 if former is None else _position_of(former._next_in_turn(), keys)
        # Which keys rest, and until when.
        self.cooldowns: KeyCooldowns = KeyCooldowns(provider) if former is None else former.cooldowns

    def digest(self, key: str) -> str:
        """What one of the keys is known by wherever it is not used."""
        return self._digests.get(key) or digest_of(key)

    def next(self, *, preferred: str = "", model: str = ANY_MODEL, without: Collection[str] = ()) -> str | None:
        """The next key in turn that does not rest; if all rest, the one that recovers first; None without keys.

        The key with the digest `preferred` goes before its turn, unless it rests. Keys in `without` are as if they were
        not there: no request uses one twice.
        """
        keys = self._keys
        if not keys:
            return None
        if not self.cooldowns.any and not without and (not preferred or len(keys) == 1):
            position = self._position
            self._position = (position + 1) % self.count
            return keys[position]
        now = self._clock()
        self.cooldowns.forget(now)
        if preferred:
            wanted = next((key for key in keys if self._digests[key] == preferred and key not in without), None)
            if wanted is not None and self._until(wanted, model) <= now:
                return wanted
        left = [place for step in range(len(keys)) if keys[place := (self._position + step) % len(keys)] not in without]
        for place in left:
            if self._until(keys[place], model) <= now:
                return self._take(place)
        return min((keys[place] for place in sorted(left)), key=lambda key: self._until(key, model), default=None)

    def wakes(self, model: str = ANY_MODEL) -> float | None:
        """When the first of the keys may be used for a model, if all of them rest."""
        if not self.cooldowns.any or not self._keys:
            return None
        first = min(self._until(key, model) for key in self._keys)
        return first if first > self._clock() else None

    def cool(
        self, key: str, seconds: float, model: str = ANY_MODEL, *, why: str = "", hint: float | None = None
    ) -> None:
        """Let a key rest for so long, for one model or for all; a longer rest that was set before stays.

        Why it rests, and how long the provider said, is for whoever asks.
        """
        if key in self._digests:
            now = self._clock()
            self.cooldowns.start(self._digests[key], model, now + seconds, since=now, why=why, hint=hint or 0.0)

    def active_cooldowns(self) -> list[tuple[int, KeyCooldownUpdate]]:
        """The rests of the keys that are here, each with the place of its key, from 0."""
        if not self.cooldowns.any:
            return []
        places = {self._digests[key]: place for place, key in enumerate(self._keys)}
        entries = [
            (places[update.key], update) for update in self.cooldowns.active(self._clock()) if update.key in places
        ]
        return sorted(entries, key=lambda row: (row[0], row[1].model))

    def _until(self, key: str, model: str) -> float:
        return self.cooldowns.until(self._digests[key], model)

    def _next_in_turn(self) -> tuple[str, ...]:
        """All keys, the one whose turn it is first."""
        return self._keys[self._position :] + self._keys[: self._position]

    def _take(self, position: int) -> str:
        self._position = (position + 1) % len(self._keys)
        return self._keys[position]


def _position_of(turns: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """Where the first of these keys stands that is still there."""
    return next((keys.index(key) for key in turns if key in keys), 0)
