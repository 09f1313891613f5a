"""Traffic news: what a worker has learned of targets, keys and conversations, told to the others within a second.

Health, rests and pins say by themselves what is new, and bear to hear the same twice, late or in any order. All
times are of the machine's clock that only grows, and so mean the same to every worker. Rests are kept for later, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from dragoman.gateway.cooldown_persistence import PersistedCooldowns
from dragoman.gateway.processes.worker_channel import WorkerChannel
from dragoman.gateway.runtime import Runtime
from dragoman.providers.key_cooldowns import KeyCooldownUpdate
from dragoman.routing.affinity import AffinityUpdate
from dragoman.routing.target_health import HealthUpdate

# Seconds between two looks at what is new.
LOOK = 0.2
_HEALTH, _KEYS, _PINS = "health", "keys", "pins"


class RoutingStateSync:
    """What is told to the other workers, and heard of them. `service` gives the present one: a reload replaces it."""

    def __init__(self, channel: WorkerChannel, service: Callable[[], Runtime], kept: PersistedCooldowns) -> None:
        self._channel = channel
        self._kept = kept
        self._service = service
        self._timer: asyncio.TimerHandle | None = None
        channel.subscribe(_HEALTH, HealthUpdate, lambda notice: service().traffic.health.merge((notice,)))
        channel.subscribe(_KEYS, KeyCooldownUpdate, self._hear_of_key)
        channel.subscribe(_PINS, AffinityUpdate, lambda notice: service().traffic.pins.merge((notice,)))
        channel.offer(_HEALTH, lambda: service().traffic.health.snapshot())
        channel.offer(_KEYS, self._known_of_keys)
        channel.offer(_PINS, lambda: service().traffic.pins.snapshot())

    def start(self) -> None:
        """Tell what is new from now on; a worker without others is asked to when it looks after other things."""
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)

    def stop(self) -> None:
        """Tell nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def tell(self) -> None:
        """Tell and keep what is new, each notice by itself: one that is too large leaves the others alone."""
        service, tell = self._service(), self._channel.tell
        for notice in service.traffic.health.news():
            tell(_HEALTH, notice)
            self._kept.note_target(notice)
        for rests in service.key_rests().values():
            for told in rests.news():
                tell(_KEYS, told)
                self._kept.note_key(told)
        pins = service.traffic.pins
        if self._channel.is_alone:
            pins.hush()
            return
        for pinned in pins.news():
            tell(_PINS, pinned)

    def _look(self) -> None:
        self.tell()
        self.start()

    def _hear_of_key(self, notice: KeyCooldownUpdate) -> None:
        rests = self._service().key_rests().get(notice.provider)
        if rests is not None:
            rests.merge((notice,))

    def _known_of_keys(self) -> Iterable[KeyCooldownUpdate]:
        for rests in self._service().key_rests().values():
            yield from rests.snapshot()
