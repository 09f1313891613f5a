"""Active health checks of providers with targets in cooldown, by their list of models, which is free (decision 27).
Failing (no connection, timeout, 5xx): the cooldowns are remembered. Alive (a list): remembered cooldowns end, and the
next request probes. Other results do nothing. A cooldown without a failed check stays: the check cannot see that
outage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from dragoman.errors import DragomanError
from dragoman.gateway.model_list_fetch import fetch_list, reads_as_list
from dragoman.gateway.runtime import Runtime
from dragoman.providers.provider import Provider
from dragoman.routing.attempt_outcome import counts_for_health
from dragoman.routing.failure_classification import kind_of

# Targets that rest, and until when.
CooldownEnds: TypeAlias = dict[str, float]
# Seconds between two rounds, and timeout of a list.
POLL_INTERVAL = 1.0
TIMEOUT = 5.0
# Maximum checks of a provider per hour, and maximum saved checks.
HOURLY = 60
_HOUR = 3600.0
# Not that it is ill, but that it has no such thing.
_NOT_IMPLEMENTED = 501


class HealthCheckResult(Enum):
    """The result of a check."""

    ALIVE = "alive"
    FAILING = "failing"
    UNKNOWN = "unknown"


class _Watch:
    """The state of checks of one provider."""

    def __init__(self, provider: Provider, now: float, remaining: float = HOURLY) -> None:
        self.provider = provider
        self.result: HealthCheckResult | None = None
        # The rests during which the latest check failed: targets, and until when they rest.
        self.missed: CooldownEnds = {}
        self.due = now
        self.is_busy = False
        # The remaining checks, and the time of that number.
        self.remaining = remaining
        self.counted = now

    def take(self, now: float, seconds: float) -> bool:
        """Whether it may be checked now; after that not for this many seconds."""
        if self.is_busy or now < self.due:
            return False
        self.remaining = min(self.remaining + (now - self.counted) * HOURLY / _HOUR, HOURLY)
        self.counted = now
        if self.remaining < 1.0:
            return False
        self.remaining -= 1.0
        self.due = now + seconds
        return True


class Checks:
    """Checks the providers of one gateway. `service` gives the present one: a reload replaces it."""

    def __init__(self, runtime: Callable[[], Runtime]) -> None:
        self._runtime = runtime
        self._watches: dict[str, _Watch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def follow(self) -> None:
        """Start health checks if the configuration requests any, else stop them. Called after each change."""
        if self._is_closed or not any(
            one.health_check_interval is not None for one in self._runtime().settings.providers.values()
        ):
            self._stop()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL, self._poll)

    async def close(self) -> None:
        """Stop all health checks. Returns when none is in progress."""
        self._is_closed = True
        self._stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()
        self._watches.clear()

    def _poll(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(POLL_INTERVAL, self._poll)
        runtime = self._runtime()
        now = runtime.clock()
        for name, cooldowns in _by_provider(runtime.routing_state.health.cooldowns(now)).items():
            provider = runtime.settings.providers.get(name)
            if provider is None or provider.health_check_interval is None:
                continue
            watch = self._watch(provider, now)
            if watch.take(now, provider.health_check_interval):
                watch.is_busy = True
                task = asyncio.get_running_loop().create_task(self._check(runtime, watch, cooldowns))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _watch(self, provider: Provider, now: float) -> _Watch:
        """The state of a provider; a changed provider keeps only its number of checks."""
        watch = self._watches.get(provider.name)
        if watch is None or watch.provider != provider:
            remaining = HOURLY if watch is None else watch.remaining
            watch = self._watches[provider.name] = _Watch(provider, now, remaining)
        return watch

    async def _check(self, runtime: Runtime, watch: _Watch, cooldowns: CooldownEnds) -> None:
        """Check a provider with targets in cooldown, and apply the result."""
        try:
            result, reason = await _run_check(runtime, watch.provider)
        finally:
            watch.is_busy = False
        name, now, health = watch.provider.name, runtime.clock(), runtime.routing_state.health
        if self._runtime().settings.providers.get(name) != watch.provider:
            # The provider was reconfigured meanwhile.
            return
        runtime.metrics.record_health_check(name, result.value, now)
        current, ended = health.cooldowns(now), 0
        if result is HealthCheckResult.FAILING:
            watch.missed = _still(cooldowns, current)
        elif result is HealthCheckResult.ALIVE:
            # A rest that began meanwhile has a reason of its own.
            ended = sum(health.cut_short(target, now) for target in _still(watch.missed, current))
            watch.missed = {}
        if result is not watch.result:
            watch.result = result
            more = {"reason": reason} if reason else {}
            runtime.log.event(
                "info", "provider health check", provider=name, result=result.value, cooldowns_ended=ended, **more
            )


def _by_provider(cooldowns: CooldownEnds) -> dict[str, CooldownEnds]:
    grouped: dict[str, CooldownEnds] = {}
    for target, until in cooldowns.items():
        grouped.setdefault(target.partition("/")[0], {})[target] = until
    return grouped


def _still(cooldowns: CooldownEnds, current: CooldownEnds) -> CooldownEnds:
    """Those of some rests that go on, and are not others of the same targets."""
    return {target: until for target, until in cooldowns.items() if current.get(target) == until}


async def _run_check(runtime: Runtime, provider: Provider) -> tuple[HealthCheckResult, str]:
    """The result of a provider's model list, and the problem in words."""
    try:
        async with asyncio.timeout(TIMEOUT):
            status, body = await fetch_list(runtime, provider, provider.endpoints[0])
            if status == 200:
                return (
                    (HealthCheckResult.ALIVE, "")
                    if await reads_as_list(body)
                    else (HealthCheckResult.UNKNOWN, "it answered no list")
                )
    except TimeoutError:
        return HealthCheckResult.FAILING, f"no answer within {TIMEOUT:g} s"
    except DragomanError as error:
        # An error of the gateway, or an unreadable list, says nothing about the provider.
        return (HealthCheckResult.FAILING if counts_for_health(kind_of(error)) else HealthCheckResult.UNKNOWN), str(
            error
        )
    is_ill = status >= 500 and status != _NOT_IMPLEMENTED
    return (HealthCheckResult.FAILING if is_ill else HealthCheckResult.UNKNOWN), f"it answered {status}"
