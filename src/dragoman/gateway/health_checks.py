"""Checks: providers whose targets rest are asked whether they are back, where the configuration says so (decision 27).

    found     from                                     then
    failing   no connection, no answer in time, 5xx    the rests that go on are remembered
    alive     a list of models                         they are over: the next request finds out
    unknown   anything else                            nothing

It is the list of models that is asked for, which costs nothing. A check ends rests and does nothing else, and only
those during which one has failed: who never saw an outage cannot see its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from dragoman.errors import DragomanError
from dragoman.gateway.model_list_fetch import ask_for_list, reads_as_list
from dragoman.gateway.runtime import Runtime
from dragoman.providers.provider import Provider
from dragoman.routing.attempt_outcome import counts_for_health
from dragoman.routing.failure_classification import kind_of

# Targets that rest, and until when.
PersistedChecks: TypeAlias = dict[str, float]
# Seconds between two looks at who rests, and for which a list is waited.
LOOK = 1.0
PATIENCE = 5.0
# How many checks of a provider an hour has, and as many may be saved up.
HOURLY = 60
_HOUR = 3600.0
# Not that it is ill, but that it has no such thing.
_NOT_IMPLEMENTED = 501


class HealthCheckResult(Enum):
    """What a check found."""

    ALIVE = "alive"
    FAILING = "failing"
    UNKNOWN = "unknown"


class _Watch:
    """What checks know of one provider."""

    def __init__(self, provider: Provider, now: float, left: float = HOURLY) -> None:
        self.provider = provider
        self.result: HealthCheckResult | None = None
        # The rests during which the latest check failed: targets, and until when they rest.
        self.missed: PersistedChecks = {}
        self.due = now
        self.is_busy = False
        # How many checks it may have, and when that was.
        self.left = left
        self.counted = now

    def take(self, now: float, seconds: float) -> bool:
        """Whether it may be checked now; then not again before so many seconds."""
        if self.is_busy or now < self.due:
            return False
        self.left = min(self.left + (now - self.counted) * HOURLY / _HOUR, HOURLY)
        self.counted = now
        if self.left < 1.0:
            return False
        self.left -= 1.0
        self.due = now + seconds
        return True


class Checks:
    """Checks the providers of one gateway. `service` gives the present one: a reload replaces it."""

    def __init__(self, service: Callable[[], Runtime]) -> None:
        self._service = service
        self._watches: dict[str, _Watch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def follow(self) -> None:
        """Look from now on if the configuration wants anybody checked, else no more; to be called when it changes."""
        if self._is_closed or not any(_is_checked(one) for one in self._service().settings.providers.values()):
            self._stop()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)

    async def close(self) -> None:
        """Check nobody any more; return when nothing is under way."""
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

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)
        service = self._service()
        now = service.clock()
        for name, rests in _by_provider(service.traffic.health.resting(now)).items():
            provider = service.settings.providers.get(name)
            if provider is None or provider.check_every is None:
                continue
            watch = self._watch(provider, now)
            if watch.take(now, provider.check_every):
                watch.is_busy = True
                task = asyncio.get_running_loop().create_task(self._check(service, watch, rests))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _watch(self, provider: Provider, now: float) -> _Watch:
        """What is known of a provider; of one that is another now, how often it was asked."""
        found = self._watches.get(provider.name)
        if found is None or found.provider != provider:
            left = HOURLY if found is None else found.left
            found = self._watches[provider.name] = _Watch(provider, now, left)
        return found

    async def _check(self, service: Runtime, watch: _Watch, rests: PersistedChecks) -> None:
        """Ask a provider some of whose targets rest, and draw the conclusion."""
        try:
            result, why = await _found(service, watch.provider)
        finally:
            watch.is_busy = False
        name, now, health = watch.provider.name, service.clock(), service.traffic.health
        if self._service().settings.providers.get(name) != watch.provider:
            # It is another one by now.
            return
        service.metrics.note_check(name, result.value, now)
        resting, ended = health.resting(now), 0
        if result is HealthCheckResult.FAILING:
            watch.missed = _still(rests, resting)
        elif result is HealthCheckResult.ALIVE:
            # A rest that began meanwhile has a reason of its own.
            ended = sum(health.cut_short(target, now) for target in _still(watch.missed, resting))
            watch.missed = {}
        if result is not watch.result:
            watch.result = result
            more = {"why": why} if why else {}
            service.log.event(
                "info", "a provider was checked", provider=name, result=result.value, rests_ended=ended, **more
            )


def _is_checked(provider: Provider) -> bool:
    return provider.check_every is not None


def _by_provider(resting: PersistedChecks) -> dict[str, PersistedChecks]:
    found: dict[str, PersistedChecks] = {}
    for target, until in resting.items():
        found.setdefault(target.partition("/")[0], {})[target] = until
    return found


def _still(rests: PersistedChecks, resting: PersistedChecks) -> PersistedChecks:
    """Those of some rests that go on, and are not others of the same targets."""
    return {target: until for target, until in rests.items() if resting.get(target) == until}


async def _found(service: Runtime, provider: Provider) -> tuple[HealthCheckResult, str]:
    """What a provider's list says of it, and in words what is wrong."""
    try:
        async with asyncio.timeout(PATIENCE):
            status, body = await ask_for_list(service, provider, provider.endpoints[0])
            if status == 200:
                return (
                    (HealthCheckResult.ALIVE, "")
                    if await reads_as_list(body)
                    else (HealthCheckResult.UNKNOWN, "it answered no list")
                )
    except TimeoutError:
        return HealthCheckResult.FAILING, f"no answer within {PATIENCE:g} s"
    except DragomanError as error:
        # What is our own affair, or a list that cannot be read, says nothing of the provider.
        return (HealthCheckResult.FAILING if counts_for_health(kind_of(error)) else HealthCheckResult.UNKNOWN), str(
            error
        )
    is_ill = status >= 500 and status != _NOT_IMPLEMENTED
    return (HealthCheckResult.FAILING if is_ill else HealthCheckResult.UNKNOWN), f"it answered {status}"
