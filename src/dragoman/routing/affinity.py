"""Session affinity: the target of each conversation, so that it keeps its prompt cache and its reasoning (decision 25).
An entry lasts an hour after its last use. The number of entries is limited, and one gateway key has at most a tenth.
Workers broadcast entries, which merge in any order: the later change wins, and the later use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from dragoman.routing.plan_inputs import Affinity

MAX_AFFINITIES = 10_000
# The part of all entries that one gateway key may have is one divided by this.
SHARE = 10
# Seconds after the last use, and the interval of broadcasts about a used affinity.
LIFE = 3600.0
REFRESH_SECONDS = 300.0


class AffinityUpdate(Struct, frozen=True, array_like=True):
    owner: str
    conversation: str
    affinity: Affinity
    changed: float
    used: float


class _Held(Struct, gc=False):
    """An affinity, its start, its last use, and the time of its last broadcast."""

    owner: str
    affinity: Affinity
    changed: float
    used: float
    broadcast_at: float


class Affinities:
    """Affinities by conversation (see `affinity_key`), and by gateway key."""

    def __init__(self, max_size: int = MAX_AFFINITIES) -> None:
        self._max_size = max_size
        self._share = max(max_size // SHARE, 1)
        # Both are sorted by the last use.
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._owned: dict[str, OrderedDict[str, None]] = {}
        self._dirty: set[str] = set()

    def __len__(self) -> int:
        return len(self._held)

    def lookup(self, conversation: str, now: float) -> Affinity | None:
        """The affinity of a conversation. A lookup extends it."""
        held = self._held.get(conversation)
        if held is None:
            return None
        if now >= held.used + LIFE:
            self._drop(conversation)
            return None
        self._use(conversation, held, now)
        return held.affinity

    def peek(self, conversation: str, now: float) -> Affinity | None:
        """The affinity of a conversation, without extending it."""
        held = self._held.get(conversation)
        return None if held is None or now >= held.used + LIFE else held.affinity

    def holds(self, conversation: str, affinity: Affinity | None) -> bool:
        held = self._held.get(conversation)
        return held is not None and held.affinity is affinity

    def put(self, owner: str, conversation: str, affinity: Affinity, now: float) -> None:
        held = self._held.get(conversation)
        if held is not None:
            self._use(conversation, held, now)
            if held.affinity == affinity:
                return
            held.affinity, held.changed = affinity, now
        else:
            self._create(owner, conversation, affinity, now)
        self._dirty.add(conversation)

    def take_updates(self) -> list[AffinityUpdate]:
        updates: list[AffinityUpdate] = []
        for conversation in self._dirty:
            held = self._held.get(conversation)
            if held is not None:
                held.broadcast_at = held.used
                updates.append(AffinityUpdate(held.owner, conversation, held.affinity, held.changed, held.used))
        self._dirty.clear()
        return updates

    def discard_updates(self) -> None:
        """Discard updates if there is no other worker."""
        self._dirty.clear()

    def snapshot(self) -> list[AffinityUpdate]:
        """All entries, for a new worker."""
        return [
            AffinityUpdate(held.owner, conversation, held.affinity, held.changed, held.used)
            for conversation, held in self._held.items()
        ]

    def merge(self, updates: Iterable[AffinityUpdate]) -> None:
        """Apply affinities of other workers, which may arrive in any order, and repeatedly."""
        for update in updates:
            held = self._held.get(update.conversation)
            if held is None:
                held = self._create(update.owner, update.conversation, update.affinity, update.changed)
            elif _rank(update.changed, update.affinity) > _rank(held.changed, held.affinity):
                held.affinity, held.changed = update.affinity, update.changed
            held.used = max(held.used, update.used)
            held.broadcast_at = max(held.broadcast_at, update.used)

    def _use(self, conversation: str, held: _Held, now: float) -> None:
        if now > held.used:
            held.used = now
        if now >= held.broadcast_at + REFRESH_SECONDS:
            self._dirty.add(conversation)
        self._held.move_to_end(conversation)
        self._owned[held.owner].move_to_end(conversation)

    def _create(self, owner: str, conversation: str, affinity: Affinity, now: float) -> _Held:
        owned = self._owned.get(owner)
        if owned is not None and len(owned) >= self._share:
            oldest, _ = owned.popitem(last=False)
            del self._held[oldest]
            self._dirty.discard(oldest)
        elif len(self._held) >= self._max_size:
            self._drop(next(iter(self._held)))
            owned = self._owned.get(owner)
        if owned is None:
            owned = self._owned[owner] = OrderedDict()
        held = self._held[conversation] = _Held(owner, affinity, now, now, now)
        owned[conversation] = None
        return held

    def _drop(self, conversation: str) -> None:
        held = self._held.pop(conversation)
        owned = self._owned[held.owner]
        del owned[conversation]
        if not owned:
            del self._owned[held.owner]
        self._dirty.discard(conversation)


def _rank(changed: float, affinity: Affinity) -> tuple[float, str, str, str]:
    return (changed, affinity.target, affinity.key, affinity.rule)
