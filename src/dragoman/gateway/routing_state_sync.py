"""Routing state sync: a worker broadcasts what it learned of targets, keys and conversations. An update may arrive
late, twice and in any order. Times are of the machine's monotonic clock, the same in every worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.gateway.cooldown_persistence import PersistedCooldowns
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.workers.worker_channel import WorkerChannel
from dragoman.routing.affinity import AffinityUpdate
from dragoman.routing.health_entry import HealthUpdate

# Seconds between two broadcasts.
POLL_INTERVAL = 0.2
_HEALTH, _AFFINITIES = "health", "pins"


class RoutingStateSync:
    """The updates from and to the other workers. `runtime` gives the present one: a reload replaces it."""

    def __init__(
        self, channel: WorkerChannel, runtime: Callable[[], Runtime], persisted_cooldowns: PersistedCooldowns
    ) -> None:
        self._channel = channel
        self._persisted_cooldowns = persisted_cooldowns
        self._runtime = runtime
        self._timer: asyncio.TimerHandle | None = None
        channel.subscribe(_HEALTH, HealthUpdate, lambda update: runtime().routing_state.health.merge((update,)))
        channel.subscribe(
            _AFFINITIES, AffinityUpdate, lambda update: runtime().routing_state.affinities.merge((update,))
        )
        channel.offer(_HEALTH, lambda: runtime().routing_state.health.snapshot())
        channel.offer(_AFFINITIES, lambda: runtime().routing_state.affinities.snapshot())

    def start(self) -> None:
        """Broadcast from now on; a worker without others broadcasts with its other periodic work."""
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL, self._poll)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def broadcast(self) -> None:
        """Send and persist updates one by one, so that one that is too large does not block the others."""
        routing_state, send = self._runtime().routing_state, self._channel.broadcast
        for health_update in routing_state.health.take_updates():
            send(_HEALTH, health_update)
            self._persisted_cooldowns.update(health_update)
        if self._channel.is_alone:
            routing_state.affinities.discard_updates()
            return
        for affinity_update in routing_state.affinities.take_updates():
            send(_AFFINITIES, affinity_update)

    def _poll(self) -> None:
        self.broadcast()
        self.start()
