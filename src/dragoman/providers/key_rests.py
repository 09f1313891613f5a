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


class KeyNotice(Struct, frozen=True, array_like=True):
    """What one worker tells the others about a key; without a model it is about all of them."""

    provider: str
    key: str
    model: str
    until: float
    epoch: float = 0.0


class KeyRests:
    """The rests of one provider's keys, by a clock that only grows and that all workers share."""

    __slots__ = ("_dirty", "_found", "_most", "_soonest", "any", "provider")

    def __init__(self, provider: str = "", most: int = MOST) -> None:
        self.provider = provider
        self._most = most
        # Epoch and end, by key and model.
        self._found: dict[tuple[str, str], tuple[float, float]] = {}
        self._dirty: set[tuple[str, str]] = set()
        # When the first of them is over.
        self._soonest = math.inf
        # Whether there may be any rest at all.
        self.any = False

    def rest(self, key: str, model: str, until: float) -> None:
        """Let a key rest; a longer rest that was set before stays."""
        place = (key, model)
        epoch, end = self._found.get(place, (0.0, 0.0))
        if until > end:
            self._set(place, epoch, until)
            self._dirty.add(place)

    def until(self, key: str, model: str) -> float:
        """When a key may be used again for a model; a time that is over if it does not rest."""
        found = self._found
        _, end = found.get((key, ANY_MODEL), _NEVER)
        if model:
            end = max(end, found.get((key, model), _NEVER)[1])
        return end

    def forget(self, now: float) -> None:
        """Drop what is over."""
        if now >= self._soonest:
            self._found = {place: held for place, held in self._found.items() if _over(held) > now}
            self._soonest = min(map(_over, self._found.values()), default=math.inf)
            self.any = bool(self._found)

    def clear(self, now: float, key: str = "") -> None:
        """End the rests of a key, or of all; the other workers are told."""
        for place, (epoch, _) in list(self._found.items()):
            if not key or place[0] == key:
                self._set(place, now if now > epoch else math.nextafter(epoch, math.inf), 0.0)
                self._dirty.add(place)

    def snapshot(self) -> list[KeyNotice]:
        """All that is known, for a worker that knows nothing, for a later start, or to be shown."""
        return [self._notice(place) for place in self._found]

    def news(self) -> list[KeyNotice]:
        """What the other workers were not told yet."""
        told = [self._notice(place) for place in self._dirty if place in self._found]
        self._dirty.clear()
        return told

    def merge(self, notices: Iterable[KeyNotice]) -> None:
        """Take over what other workers found out about keys of this provider."""
        for notice in notices:
            place = (notice.key, notice.model)
            if notice.provider == self.provider and (notice.epoch, notice.until) > self._found.get(place, _NEVER):
                self._set(place, notice.epoch, notice.until)

    def _set(self, place: tuple[str, str], epoch: float, until: float) -> None:
        found = self._found
        if place not in found and len(found) >= self._most:
            nearest = min(found, key=lambda other: found[other][1])
            del found[nearest]
        held = found[place] = (epoch, until)
        self._soonest = min(self._soonest, _over(held))
        self.any = True

    def _notice(self, place: tuple[str, str]) -> KeyNotice:
        epoch, until = self._found[place]
        return KeyNotice(self.provider, *place, until, epoch)


_NEVER = (0.0, 0.0)


def _over(held: tuple[float, float]) -> float:
    """When nothing need be remembered any more: what was cleared, until no older notice can come."""
    epoch, until = held
    return max(until, epoch + LONGEST) if epoch else until
