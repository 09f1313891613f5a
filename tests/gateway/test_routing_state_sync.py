"""What one worker learns of targets, keys and conversations, the others know soon."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.gateway.cooldown_persistence import PersistedCooldowns
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.peer_workers import PeerWorkers, new_token
from dragoman.gateway.routing_state_sync import POLL_INTERVAL, RoutingStateSync
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.workers.shared_memory import SharedMemory
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import CONSECUTIVE_FAILURES
from dragoman.routing.health_state import HealthLevel
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.rotation import digest_of
from tests.gateway.harness import PROVIDER_KEY, settings_for
from tests.http.raw import Run, on_both_loops
from tests.waiting import wait_until_async

TARGET, ANOTHER = "chat/served", "messages/served"
HERE = Affinity(ANOTHER, "digest", "large")
# A time of day.
NOON = 1_700_000_000.0


class Colleague:
    """A worker as far as news goes."""

    def __init__(self, page: SharedMemory, number: int, token: bytes) -> None:
        self.metrics = Metrics()
        self.service = Runtime(settings_for(1), self.metrics, Log(io.StringIO(), json=True))
        self._stop_clock()
        self.others = PeerWorkers(page, number, token, self.metrics)
        self.news = RoutingStateSync(
            self.others.channel, lambda: self.service, PersistedCooldowns(lambda: self.service, lambda: NOON)
        )

    def _stop_clock(self) -> None:
        """Let no rest end before the test does, however slow the machine is."""
        now = self.service.loop.time()
        self.service.clock = lambda: now

    def fail(self, target: str, times: int) -> None:
        """Let requests fail."""
        for _ in range(times):
            now = self.service.clock()
            self.service.routing_state.health.record(target, AttemptOutcome.UNREACHABLE, now, now)

    def level(self, target: str) -> HealthLevel:
        """How it thinks of a target."""
        return self.service.routing_state.health.state(target, self.service.clock()).level

    def rests(self, provider: str = "chat", model: str = "") -> bool:
        """Whether the key of a provider rests here."""
        until = self.service.routing_state.health.key_until(provider, digest_of(PROVIDER_KEY), model)
        return until > self.service.clock()

    def cool(self, provider: str = "chat", model: str = "") -> None:
        """Let the key of a provider rest."""
        now = self.service.clock()
        self.service.routing_state.health.cool_key(provider, digest_of(PROVIDER_KEY), model, now + 60.0, now)

    def pinned(self, conversation: str) -> Affinity | None:
        """Where it thinks that a conversation is."""
        return self.service.routing_state.affinities.lookup(conversation, self.service.clock())

    async def reload(self) -> None:
        """Begin to serve by another configuration."""
        old = self.service
        self.service = Runtime(old.settings, self.metrics, old.log, old.state, former=old)
        self._stop_clock()
        await old.close()

    async def start(self) -> None:
        """Begin, as a worker does."""
        await self.others.listen()
        await self.others.channel.catch_up()
        self.news.start()

    async def stop(self) -> None:
        """End, as a worker does."""
        await self.others.close()
        self.news.stop()
        await self.service.close()
        await self.service.state.close(0.0)


@asynccontextmanager
async def colleagues(count: int) -> AsyncIterator[list[Colleague]]:
    page, token = SharedMemory(count), new_token()
    made = [Colleague(page, number, token) for number in range(count)]
    try:
        yield made
    finally:
        for each in made:
            await each.stop()


@on_both_loops
def test_pitfall_343_what_one_worker_finds_out_the_others_know_within_a_second(run: Run) -> None:
    async def main() -> None:
        async with colleagues(3) as (one, two, three):
            for each in (one, two, three):
                await each.start()
            one.fail(TARGET, CONSECUTIVE_FAILURES)
            one.fail(ANOTHER, 1)
            one.cool(model="served")
            one.service.routing_state.affinities.put("me", "c", HERE, one.service.clock())
            for other in (two, three):
                await wait_until_async(lambda other=other: other.pinned("c") is not None, "the pin is known")  # type: ignore[misc]
                assert (other.level(TARGET), other.level(ANOTHER)) == (HealthLevel.COOLDOWN, HealthLevel.SUSPECT)
                assert other.rests(model="served")
                assert not other.rests()
                assert not other.rests("messages", "served")
                assert other.pinned("c") == HERE

    run(main())
    assert POLL_INTERVAL < 1.0


def test_pitfall_343_a_rest_that_is_cleared_is_cleared_for_all() -> None:
    async def main() -> None:
        async with colleagues(2) as (one, two):
            for each in (one, two):
                await each.start()
            one.fail(TARGET, CONSECUTIVE_FAILURES)
            one.cool()
            await wait_until_async(
                lambda: two.level(TARGET) is HealthLevel.COOLDOWN and two.rests(), "the rests are known"
            )
            two.service.routing_state.health.reset(TARGET, two.service.clock())
            two.service.routing_state.health.reset_keys("chat", two.service.clock())
            await wait_until_async(
                lambda: one.level(TARGET) is HealthLevel.HEALTHY and not one.rests(), "the rests have ended"
            )

    asyncio.run(main())


def test_pitfall_350_a_worker_that_is_started_anew_knows_what_the_others_know() -> None:
    async def main() -> None:
        async with colleagues(2) as (one, two):
            await one.start()
            one.fail(TARGET, CONSECUTIVE_FAILURES)
            one.service.routing_state.affinities.put("me", "c", HERE, one.service.clock())
            one.cool()
            # What was told while nobody heard it is not told again by itself.
            one.news.broadcast()
            await two.start()
            assert two.level(TARGET) is HealthLevel.COOLDOWN
            assert two.rests()
            assert two.pinned("c") == HERE

    asyncio.run(main())


def test_a_reload_keeps_telling_and_hearing() -> None:
    async def main() -> None:
        async with colleagues(2) as (one, two):
            for each in (one, two):
                await each.start()
                await each.reload()
            one.fail(TARGET, CONSECUTIVE_FAILURES)
            two.fail(ANOTHER, CONSECUTIVE_FAILURES)
            await wait_until_async(
                lambda: two.level(TARGET) is HealthLevel.COOLDOWN and one.level(ANOTHER) is HealthLevel.COOLDOWN,
                "each knows what the other found out",
            )

    asyncio.run(main())


def test_news_of_a_provider_that_is_not_here_means_nothing() -> None:
    async def main() -> None:
        async with colleagues(2) as (one, two):
            for each in (one, two):
                await each.start()
            del two.service._rotations["chat"]
            one.cool()
            one.cool("messages")
            await wait_until_async(lambda: two.rests("messages"), "the rest is known")
            keys = two.metrics.keys_in_cooldown()
            assert keys["messages"] == 1 and "chat" not in keys

    asyncio.run(main())
