"""Key rotation: the keys of one provider are used in turn, except keys in cooldown. After a reload, a rotation
continues the turns of the former one, which still serves running requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2s

from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import ANY_MODEL, Health, HealthReport


def digest_of(key: str) -> str:
    """The digest of a key for use outside of calls."""
    return blake2s(key.encode(), digest_size=8).hexdigest()


class Rotation:
    """The turns of a provider's keys. `clock` is monotonic, and `health` has the keys' cooldowns."""

    __slots__ = ("_clock", "_digests", "_health", "_keys", "_position", "_provider", "count")

    def __init__(
        self,
        provider: str,
        keys: tuple[str, ...],
        health: Health,
        clock: Callable[[], float],
        former: Rotation | None = None,
    ) -> None:
        self._provider = provider
        self._keys = keys
        self._health = health
        self.count = len(keys)
        self._digests = {key: digest_of(key) for key in keys}
        self._clock = clock
        self._position = 0 if former is None else _position_of(former._next_in_turn(), keys)

    def digest(self, key: str) -> str:
        return self._digests.get(key) or digest_of(key)

    def next(self, *, preferred: str = "", model: str = ANY_MODEL, without: Collection[str] = ()) -> str | None:
        """The next key that is not in cooldown, otherwise the one whose cooldown ends first; None without keys. The key
        with digest `preferred` goes first unless in cooldown. A request passes used keys as `without`."""
        keys = self._keys
        if not keys:
            return None
        if self._provider not in self._health.unhealthy and not without and (not preferred or len(keys) == 1):
            position = self._position
            self._position = (position + 1) % self.count
            return keys[position]
        return self._fit(preferred, model, without)

    def _fit(self, preferred: str, model: str, without: Collection[str]) -> str | None:
        """The next key if one is in cooldown, preferred or used before."""
        keys, now = self._keys, self._clock()
        self._health.forget_keys(now)
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
        """When the first key may be used for a model, if all keys are in cooldown."""
        if self._provider not in self._health.unhealthy or not self._keys:
            return None
        first = min(self._until(key, model) for key in self._keys)
        return first if first > self._clock() else None

    def cool(
        self,
        key: str,
        seconds: float,
        model: str = ANY_MODEL,
        kind: AttemptOutcome | None = None,
        hint: float | None = None,
    ) -> None:
        """Put a key into cooldown, for one model or for all. `hint` are the seconds that the provider stated."""
        if key in self._digests:
            now = self._clock()
            self._health.cool_key(self._provider, self._digests[key], model, now + seconds, now, kind, hint or 0.0)

    def active_cooldowns(self) -> list[tuple[int, HealthReport]]:
        """The cooldowns of the keys, each with the position of its key, from 0."""
        places, now = {self._digests[key]: place for place, key in enumerate(self._keys)}, self._clock()
        active = [
            (place, report)
            for report in self._health.reports(now, self._provider)
            if report.health.until > now and (place := places.get(report.subject.partition(" ")[0])) is not None
        ]
        return sorted(active, key=lambda row: (row[0], row[1].model))

    def _until(self, key: str, model: str) -> float:
        return self._health.key_until(self._provider, self._digests[key], model)

    def _next_in_turn(self) -> tuple[str, ...]:
        """All keys, the next one first."""
        return self._keys[self._position :] + self._keys[: self._position]

    def _take(self, position: int) -> str:
        self._position = (position + 1) % len(self._keys)
        return self._keys[position]


def _position_of(turns: tuple[str, ...], keys: tuple[str, ...]) -> int:
    """The position of the first of these keys that is still configured."""
    return next((keys.index(key) for key in turns if key in keys), 0)
