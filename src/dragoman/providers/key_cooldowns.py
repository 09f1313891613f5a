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
LONGEST = 900.0
# Models may be named by clients.
MOST = 1024
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

    __slots__ = ("_dirty", "_found", "_most", "_soonest", "any", "provider")

    def __init__(self, provider: str = "", most: int = MOST) -> None:
        self.provider = provider
        self._most = most
        # By key and model.
        self._found: dict[tuple[str, str], KeyCooldownUpdate] = {}
        self._dirty: set[tuple[str, str]] = set()
        # When the first of them is over.
        self._soonest = math.inf
        # Whether there may be any rest at all.
        self.any = False

    def rest(self, key: str, model: str, until: float, *, since: float = 0.0, why: str = "", hint: float = 0.0) -> None:
        """Let a key rest; a longer rest that was set before stays."""
        place = (key, model)
        former = self._found.get(place)
        if former is None or until > former.until:
            epoch = 0.0 if former is None else former.epoch
            self._set(KeyCooldownUpdate(self.provider, key, model, until, epoch, since, why, hint))
            self._dirty.add(place)

    def until(self, key: str, model: str) -> float:
        """When a key may be used again for a model; a time that is over if it does not rest."""
        found = self._found
        whole = found.get((key, ANY_MODEL))
        end = 0.0 if whole is None else whole.until
        one = found.get((key, model)) if model else None
        return end if one is None else max(end, one.until)

    def resting(self, now: float) -> list[KeyCooldownUpdate]:
        """The rests that are not over, to be shown."""
        return [notice for notice in self._found.values() if notice.until > now]

    def forget(self, now: float) -> None:
        """Drop what is over."""
        if now >= self._soonest:
            self._found = {place: held for place, held in self._found.items() if _over(held) > now}
            self._soonest = min(map(_over, self._found.values()), default=math.inf)
            # Where nobody is told, nobody takes them away.
            self._dirty.intersection_update(self._found)
            self.any = bool(self._found)

    def clear(self, now: float, key: str = "", model: str | None = None) -> set[str]:
        """End the rests of a key, or of all, by which it may not be used for a model, or at all; give whose they were.

        The other workers are told.
        """
        cleared: set[str] = set()
        for place, held in list(self._found.items()):
            if (not key or held.key == key) and (model is None or held.model in (ANY_MODEL, model)):
                if held.until > now:
                    cleared.add(held.key)
                epoch = now if now > held.epoch else math.nextafter(held.epoch, math.inf)
                self._set(KeyCooldownUpdate(self.provider, *place, 0.0, epoch))
                self._dirty.add(place)
        return cleared

    def snapshot(self) -> list[KeyCooldownUpdate]:
        """All that is known, for a worker that knows nothing, for a later start, or to be shown."""
        return list(self._found.values())

    def news(self) -> list[KeyCooldownUpdate]:
        """What the other workers were not told yet."""
        told = [self._found[place] for place in self._dirty if place in self._found]
        self._dirty.clear()
        return told

    def merge(self, notices: Iterable[KeyCooldownUpdate]) -> None:
        """Take over what other workers found out about keys of this provider."""
        for notice in notices:
            if notice.provider == self.provider:
                former = self._found.get((notice.key, notice.model))
                if _rank(notice) > (_NEVER if former is None else _rank(former)):
                    self._set(notice)

    def _set(self, held: KeyCooldownUpdate) -> None:
        found, place = self._found, (held.key, held.model)
        if place not in found and len(found) >= self._most:
            nearest = min(found, key=lambda other: found[other].until)
            del found[nearest]
            self._dirty.discard(nearest)
        found[place] = held
        self._soonest = min(self._soonest, _over(held))
        self.any = True


_NEVER = (0.0, 0.0, 0.0, "", 0.0)


def _rank(held: KeyCooldownUpdate) -> tuple[float, float, float, str, float]:
    return (held.epoch, held.until, held.since, held.why, held.hint)


def _over(held: KeyCooldownUpdate) -> float:
    """When nothing need be remembered any more: what was cleared, until no older notice can come."""
    return max(held.until, held.epoch + LONGEST) if held.epoch else held.until
