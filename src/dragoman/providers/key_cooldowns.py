"""Key rests: which keys of a provider are left alone, for one model or for all, and until when.

The one truth about keys: a rotation passes over those that rest, and whatever it knows is told to other workers as
notices. Of two notices the one of the later epoch holds, then that of the later end, so that they may come in any
order; who clears a rest begins a new epoch. Keys go by digests: what is told and shown must not hold secrets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from hashlib import blake2s

from msgspec import Struct

# No rest is longer, in seconds: what is cleared need not be remembered for longer either.
MAX_COOLDOWN_SECONDS = 900.0
# Models may be named by clients.
MAX_COOLDOWNS = 1024
ANY_MODEL = ""


def digest_of(key: str) -> str:
    """What a key is known by wherever it is not used."""
    return blake2s(key.encode(), digest_size=8).hexdigest()


class KeyCooldownUpdate(Struct, frozen=True, array_like=True):
    """What one worker tells the others about a key; without a model it is about all of them."""

    provider: str
    key: str
    model: str
    until: float
    epoch: float = 0.0
    # Since when it rests, the kind of failure that it rests for, and how many seconds the provider said, 0 for none.
    since: float = 0.0
    why: str = ""
    hint: float = 0.0


class KeyCooldowns:
    """The rests of one provider's keys, by a clock that only grows and that all workers share."""

    __slots__ = ("_dirty", "_entries", "_max_cooldowns", "_soonest", "any", "provider")

    def __init__(self, provider: str = "", max_cooldowns: int = MAX_COOLDOWNS) -> None:
        self.provider = provider
        self._max_cooldowns = max_cooldowns
        # By key and model.
        self._entries: dict[tuple[str, str], KeyCooldownUpdate] = {}
        self._dirty: set[tuple[str, str]] = set()
        # When the first of them is over.
        self._soonest = math.inf
        # Whether there may be any rest at all.
        self.any = False

    def start(
        self, key: str, model: str, until: float, *, since: float = 0.0, why: str = "", hint: float = 0.0
    ) -> None:
        """Let a key rest; a longer rest that was set before stays."""
        place = (key, model)
        former = self._entries.get(place)
        if former is None or until > former.until:
            epoch = 0.0 if former is None else former.epoch
            self._set(KeyCooldownUpdate(self.provider, key, model, until, epoch, since, why, hint))
            self._dirty.add(place)

    def until(self, key: str, model: str) -> float:
        """When a key may be used again for a model; a time that is over if it does not rest."""
        entries = self._entries
        all_models = entries.get((key, ANY_MODEL))
        end = 0.0 if all_models is None else all_models.until
        one = entries.get((key, model)) if model else None
        return end if one is None else max(end, one.until)

    def active(self, now: float) -> list[KeyCooldownUpdate]:
        """The rests that are not over, to be shown."""
        return [update for update in self._entries.values() if update.until > now]

    def forget(self, now: float) -> None:
        """Drop what is over."""
        if now >= self._soonest:
            self._entries = {place: held for place, held in self._entries.items() if _over(held) > now}
            self._soonest = min(map(_over, self._entries.values()), default=math.inf)
            # Where nobody is told, nobody takes them away.
            self._dirty.intersection_update(self._entries)
            self.any = bool(self._entries)

    def clear(self, now: float, key: str = "", model: str | None = None) -> set[str]:
        """End the rests of a key, or of all, by which it may not be used for a model, or at all; give whose they were.

        The other workers are told.
        """
        cleared: set[str] = set()
        for place, held in list(self._entries.items()):
            if (not key or held.key == key) and (model is None or held.model in (ANY_MODEL, model)):
                if held.until > now:
                    cleared.add(held.key)
                epoch = now if now > held.epoch else math.nextafter(held.epoch, math.inf)
                self._set(KeyCooldownUpdate(self.provider, *place, 0.0, epoch))
                self._dirty.add(place)
        return cleared

    def snapshot(self) -> list[KeyCooldownUpdate]:
        """All that is known, for a worker that knows nothing, for a later start, or to be shown."""
        return list(self._entries.values())

    def take_updates(self) -> list[KeyCooldownUpdate]:
        """What the other workers were not told yet."""
        updates = [self._entries[place] for place in self._dirty if place in self._entries]
        self._dirty.clear()
        return updates

    def merge(self, updates: Iterable[KeyCooldownUpdate]) -> None:
        """Take over what other workers found out about keys of this provider."""
        for update in updates:
            if update.provider == self.provider:
                former = self._entries.get((update.key, update.model))
                if _rank(update) > (_NEVER if former is None else _rank(former)):
                    self._set(update)

    def _set(self, held: KeyCooldownUpdate) -> None:
        entries, place = self._entries, (held.key, held.model)
        if place not in entries and len(entries) >= self._max_cooldowns:
            nearest = min(entries, key=lambda other: entries[other].until)
            del entries[nearest]
            self._dirty.discard(nearest)
        entries[place] = held
        self._soonest = min(self._soonest, _over(held))
        self.any = True


_NEVER = (0.0, 0.0, 0.0, "", 0.0)


def _rank(held: KeyCooldownUpdate) -> tuple[float, float, float, str, float]:
    return (held.epoch, held.until, held.since, held.why, held.hint)


def _over(held: KeyCooldownUpdate) -> float:
    """When nothing need be remembered any more: what was cleared, until no older notice can come."""
    return max(held.until, held.epoch + MAX_COOLDOWN_SECONDS) if held.epoch else held.until
