"""Check cache: results of provider checks, for a moment: they call with the operator's keys, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from dragoman.gateway.advice import Advice

# Seconds: a launch after a repair must not get the old result.
MAX_AGE_SECONDS = 3.0


class CheckResult(Struct, frozen=True, kw_only=True):
    """The result of a check: whether the provider works, the problem, and its models."""

    able: bool = True
    advice: Advice | None = None
    # None if it has no list.
    models: Sequence[str] | None = None


class CheckCache:
    """The latest checks, by provider and protocol, of which there are as many as the configuration has."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._results: dict[tuple[str, str], tuple[float, CheckResult]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def of(self, key: tuple[str, str], check: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
        """The cached result, else a new one."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            cached = self._results.get(key)
            if cached is not None and self._clock() < cached[0]:
                return cached[1]
            result = await check()
            self._results[key] = self._clock() + MAX_AGE_SECONDS, result
            return result
