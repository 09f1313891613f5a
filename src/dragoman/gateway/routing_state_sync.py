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
POLL_INTERVAL = 0.2
_HEALTH, _KEYS, _AFFINITIES = "health", "keys", "pins"


class RoutingStateSync:
    """What is told to the other workers, and heard of them. `service` gives the present one: a reload replaces it."""

    def __init__(
        self, channel: WorkerChannel, runtime: Callable[[], Runtime], persisted_cooldowns: PersistedCooldowns
    ) -> None:
        self._channel = channel
        self._persisted_cooldowns = persisted_cooldowns
        self._runtime = runtime
        self._timer: asyncio.TimerHandle | None = None
        channel.subscribe(_HEALTH, HealthUpdate, lambda notice: runtime().routing_state.health.merge((notice,)))
        channel.subscribe(_KEYS, KeyCooldownUpdate, self._merge_key)
        channel.subscribe(
            _AFFINITIES, AffinityUpdate, lambda notice: runtime().routing_state.affinities.merge((notice,))
        )
        channel.offer(_HEALTH, lambda: runtime().routing_state.health.snapshot())
        channel.offer(_KEYS, self._key_snapshot)
        channel.offer(_AFFINITIES, lambda: runtime().routing_state.affinities.snapshot())

    def start(self) -> None:
        """Tell what is new from now on; a worker without others is asked to when it looks after other things."""
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL, self._poll)

    def stop(self) -> None:
        """Tell nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def broadcast(self) -> None:
        """Tell and keep what is new, each notice by itself: one that is too large leaves the others alone."""
        runtime, send = self._runtime(), self._channel.broadcast
        for health_update in runtime.routing_state.health.take_updates():
            send(_HEALTH, health_update)
            self._persisted_cooldowns.update_target(health_update)
        for cooldowns in runtime.key_cooldowns().values():
            for key_update in cooldowns.take_updates():
                send(_KEYS, key_update)
                self._persisted_cooldowns.update_key(key_update)
        affinities = runtime.routing_state.affinities
        if self._channel.is_alone:
            affinities.discard_updates()
            return
        for affinity_update in affinities.take_updates():
            send(_AFFINITIES, affinity_update)

    def _poll(self) -> None:
        self.broadcast()
        self.start()

    def _merge_key(self, update: KeyCooldownUpdate) -> None:
        cooldowns = self._runtime().key_cooldowns().get(update.provider)
        if cooldowns is not None:
            cooldowns.merge((update,))

    def _key_snapshot(self) -> Iterable[KeyCooldownUpdate]:
        for cooldowns in self._runtime().key_cooldowns().values():
            yield from cooldowns.snapshot()
