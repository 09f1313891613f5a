"""Key concurrency: the limit of simultaneous exchanges per gateway key. An exchange over the limit is refused at once,
before its body is read. An exchange has its slot until it ends, over all attempts, and hands it on if it continues in
the background. Counts are by the key's owner and outlive a reload, which may change limits, and a rotation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from dragoman.errors import KeyBusy
from dragoman.identities.identity import Identity

# The share of the latest exchange in the mean of how long they take.
_LATEST = 0.1
# Upper bound of `retry-after` in seconds, however long requests take.
_MAX_WAIT_SECONDS = 30.0


class KeySlot:
    """One of a key's places. It is released once."""

    __slots__ = ("_counted", "_since")

    def __init__(self, counted: _Counted, since: float) -> None:
        self._counted: _Counted | None = counted
        self._since = since

    def release(self) -> None:
        """Give it back; a second time does nothing."""
        counted, self._counted = self._counted, None
        if counted is not None:
            counted.give_back(self._since)

    def hand_on(self) -> KeySlot | None:
        """The same slot for a continuation; None if it was given back meanwhile."""
        counted, self._counted = self._counted, None
        return None if counted is None else KeySlot(counted, self._since)


class _Counted:
    """The exchanges of one key."""

    __slots__ = ("_clock", "_mean", "taken")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.taken = 0
        # Mean duration of the requests, by which the wait for a slot is estimated; 0 if unknown.
        self._mean = 0.0

    def take(self) -> KeySlot:
        self.taken += 1
        return KeySlot(self, self._clock())

    def give_back(self, since: float) -> None:
        took = self._clock() - since
        self._mean = self._mean + (took - self._mean) * _LATEST if self._mean else took
        self.taken -= 1

    def wait(self, limit: int) -> float:
        """After how many seconds a place is likely to be free."""
        return min(self._mean / limit, _MAX_WAIT_SECONDS)


class KeyCalls:
    """The places of all keys of one process. `rng` gives numbers of [0, 1)."""

    def __init__(self, clock: Callable[[], float], rng: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._rng = rng
        self._counted: dict[bytes, _Counted] = {}

    def take(self, key: Identity | None, workers: int = 1) -> KeySlot | None:
        """A slot of this worker's part (rounded up) of a key's limit, or `KeyBusy`; None without a limit."""
        concurrency = None if key is None else key.rights.concurrency
        if key is None or concurrency is None:
            return None
        limit = -(-concurrency // workers)
        counted = self._counted.get(key.owner)
        if counted is None:
            counted = self._counted[key.owner] = _Counted(self._clock)
        if counted.taken >= limit:
            wait = max(1, math.ceil(counted.wait(limit) * (1 + self._rng() / 4)))
            calls = "1 call at a time, which is" if concurrency == 1 else f"{concurrency} calls at a time, all"
            raise KeyBusy(f"this gateway key has {calls} taken", retry_after=wait)
        return counted.take()

    def taken(self, key: Identity) -> int:
        """The number of running requests of a key that count."""
        counted = self._counted.get(key.owner)
        return 0 if counted is None else counted.taken
