"""Admission: how many calls a provider has at a time, and the queue for its slots. Gateway keys take turns in the
queue. A full queue rejects the key with the most waiting requests, so that one key's backlog does not exclude others.
Slots and queues belong to the provider's name and survive a reload, which may change the limits."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Generator, Iterable, Mapping

from msgspec import Struct

from dragoman.errors import Overloaded
from dragoman.gateway.fair_queue import FairQueue

# The share of the latest call in the mean of how long calls take.
_LATEST = 0.1


class AdmissionLimits(Struct, frozen=True):
    """The limits of one provider: calls at a time, how many may wait for one, and for how many seconds."""

    concurrency: int
    queue_size: int = 256
    queue_timeout: float = 30.0


def divided(limits: AdmissionLimits, workers: int) -> AdmissionLimits:
    """The part of the limits that each of several workers has; at least one call."""
    return AdmissionLimits(
        max(1, limits.concurrency // workers), -(-limits.queue_size // workers), limits.queue_timeout
    )


class Load(Struct, frozen=True):
    """The present load of a provider: calls, limit, and queued calls."""

    calls: int
    most: int | None
    waiting: int


class Slot:
    """The right to one call. It is released once, by `release` or when it is garbage collected."""

    __slots__ = ("_gate", "_taken", "waited")

    def __init__(self, gate: _Gate, taken: float, waited: float) -> None:
        self._gate: _Gate | None = gate
        self._taken = taken
        # Seconds in the queue, for the record.
        self.waited = waited

    def release(self) -> None:
        """Give it back; a second time does nothing."""
        gate = self._gate
        if gate is not None:
            self._gate = None
            gate.give_back(self._taken)

    def __del__(self) -> None:
        # Whatever way out was forgotten: a slot that leaked would be missing until the next start.
        gate = self._gate
        if gate is not None:
            self._gate = None
            gate.lose(self._taken)


class QueuePlace:
    """A place in the queue: awaiting it, once, gives the slot. A cancelled waiter leaves the queue and returns a slot
    that it just got."""

    __slots__ = ("_error", "_gate", "_slot", "_timer", "_woken", "came", "ends", "key")

    def __init__(self, gate: _Gate, key: str, came: float, ends: float) -> None:
        self._gate = gate
        self.key = key
        self.came = came
        self.ends = ends
        # The result, once the waiting request was woken.
        self._slot: Slot | None = None
        self._error: Overloaded | None = None
        self._woken: asyncio.Future[None] = gate.loop.create_future()
        self._timer = gate.loop.call_later(ends - came, self._expire)

    def __await__(self) -> Generator[object, None, Slot]:
        try:
            yield from self._woken.__await__()
        except asyncio.CancelledError:
            self.abandon()
            raise
        slot, error = self._slot, self._error
        # An error that knows a frame which knows the error is left to the collector.
        self._slot = self._error = None
        if slot is not None:
            return slot
        assert error is not None, "a place is awaited once"
        try:
            raise error
        finally:
            del error

    @property
    def over(self) -> bool:
        """Whether no request waits here."""
        return self._woken.done()

    def abandon(self) -> None:
        """Leave the queue; a slot that has come meanwhile goes to the next."""
        self._gate.leave(self)
        self._wake()
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.release()

    def grant(self, slot: Slot) -> None:
        self._slot = slot
        self._wake()

    def refuse(self, error: Overloaded) -> None:
        """Report that no slot will become free."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        self._timer.cancel()
        if not self._woken.done():
            self._woken.set_result(None)

    def _expire(self) -> None:
        self._gate.expire(self)


class _Gate:
    """The calls to one provider, and the queue before them."""

    __slots__ = ("_clock", "_mean", "_rng", "_waiting", "calls", "limits", "loop", "name")

    def __init__(self, name: str, clock: Callable[[], float], rng: Callable[[], float]) -> None:
        self.name = name
        self.limits: AdmissionLimits | None = None
        self.calls = 0
        self.loop = asyncio.get_running_loop()
        self._clock = clock
        self._rng = rng
        self._waiting: FairQueue[QueuePlace] = FairQueue()
        # Mean duration of the calls, by which the wait for a slot is estimated; 0 if unknown.
        self._mean = 0.0

    @property
    def free(self) -> bool:
        """Whether a call could be made at once."""
        limits = self.limits
        return limits is None or self.calls < limits.concurrency

    @property
    def load(self) -> Load:
        """The present load."""
        return Load(self.calls, None if self.limits is None else self.limits.concurrency, len(self._waiting))

    @property
    def idle(self) -> bool:
        """Whether there are neither calls nor waiting requests."""
        return not self.calls and not self._waiting

    def enter(self, key: str, deadline: float) -> Slot | QueuePlace:
        """A slot, or a place in the queue; `Overloaded` if that is full."""
        limits = self.limits
        now = self._clock()
        if limits is None or self.calls < limits.concurrency:
            self.calls += 1
            return Slot(self, now, 0.0)
        if len(self._waiting) >= limits.queue_size:
            self._make_room(key, limits.queue_size)
        place = QueuePlace(self, key, now, min(deadline, now + limits.queue_timeout))
        self._waiting.append(key, place)
        return place

    def give_back(self, taken: float) -> None:
        """Release a slot and let the next waiter in."""
        took = self._clock() - taken
        self._mean = self._mean + (took - self._mean) * _LATEST if self._mean else took
        self.calls -= 1
        if self._waiting:
            self.serve()

    def lose(self, taken: float) -> None:
        """The same, from wherever garbage is collected: that may be another thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.give_back, taken)

    def serve(self) -> None:
        """Let waiters in as far as slots are free, one of each key in turn."""
        while self._waiting and self.free:
            place = self._waiting.pop()
            now = self._clock()
            if place.ends <= now:
                # The timer is late because the loop is blocked. The waiting request gets another error.
                place.refuse(self._late(place, now))
            elif not place.over:
                self.calls += 1
                place.grant(Slot(self, now, now - place.came))

    def leave(self, place: QueuePlace) -> None:
        """Take a place out of the queue, if it is in there."""
        self._waiting.remove(place.key, place)

    def expire(self, place: QueuePlace) -> None:
        """End the time of a place."""
        self.leave(place)
        place.refuse(self._late(place, self._clock()))

    def _make_room(self, key: str, queue: int) -> None:
        """Refuse the key that has most waiting: the last to come of its requests, or the one that comes now."""
        last = next(reversed(self._waiting.largest(key)), None)
        # After a change of the limits there may be more than may wait; they become fewer first.
        if last is None or len(self._waiting) > queue:
            raise self._full(0.0)
        self.leave(last)
        last.refuse(self._full(self._clock() - last.came))

    def _full(self, waited: float) -> Overloaded:
        message = f"too many requests wait for {self.name}"
        return Overloaded(message, waited=waited, retry_after=self._retry_after())

    def _late(self, place: QueuePlace, now: float) -> Overloaded:
        waited = now - place.came
        message = f"no call to {self.name} was free within {waited:.3g} s"
        return Overloaded(message, waited=waited, retry_after=self._retry_after())

    def _retry_after(self) -> int:
        """The estimated time until all present waiters are served, with jitter."""
        limits = self.limits
        if limits is None:
            return 1
        seconds = limits.queue_timeout
        if self._mean:
            seconds = min(seconds, (len(self._waiting) + 1) * self._mean / limits.concurrency)
        return max(1, math.ceil(seconds * (1 + self._rng() / 4)))


class Admission:
    """The limits of all providers; it belongs to one event loop. `dice` gives numbers of [0, 1)."""

    def __init__(self, clock: Callable[[], float], rng: Callable[[], float] = random.random) -> None:
        self._clock = clock
        self._rng = rng
        self._gates: dict[str, _Gate] = {}
        # The providers that have a limit.
        self.limited: frozenset[str] = frozenset()

    def set_limits(self, limits: Mapping[str, AdmissionLimits]) -> None:
        """Set the limits by provider; others have none. A higher one admits waiting calls; a lower one ends none."""
        self.limited = frozenset(limits)
        for name, gate in list(self._gates.items()):
            gate.limits = limits.get(name)
            gate.serve()
            if gate.idle and name not in limits:
                del self._gates[name]
        for name, limit in limits.items():
            self._gate(name).limits = limit

    def enter(self, provider: str, key: str, deadline: float = math.inf) -> Slot | QueuePlace:
        """A slot for a call, or what to await for it until the deadline; `Overloaded` if none will be free."""
        gate = self._gates.get(provider)
        if gate is None:
            gate = self._gate(provider)
        return gate.enter(key, deadline)

    def busy(self, providers: Iterable[str]) -> list[str]:
        """The providers without a free slot."""
        gates = self._gates
        return [name for name in providers if name in gates and not gates[name].free] if gates else []

    def loads(self) -> dict[str, Load]:
        """The load of all providers that were called."""
        return {name: gate.load for name, gate in self._gates.items()}

    def _gate(self, provider: str) -> _Gate:
        gate = self._gates.get(provider)
        if gate is None:
            gate = self._gates[provider] = _Gate(provider, self._clock, self._rng)
        return gate
