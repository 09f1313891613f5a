"""Kept checks: what was found of providers a moment ago, so that nobody has them asked again and again.

Whoever may ask for a check makes calls with the operator's keys: to one place one at a time, and none again at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from dragoman.gateway.advice import Advice

# Seconds: a launch after a provider was mended must not hear of what was before.
KEPT = 3.0


class CheckResult(Struct, frozen=True, kw_only=True):
    """What was found of a provider: whether it can be used as far as is known, what is wrong, and its models."""

    able: bool = True
    advice: Advice | None = None
    # None where it did not say.
    models: Sequence[str] | None = None


class CheckCache:
    """The latest checks, by provider and protocol, of which there are as many as the configuration has."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._found: dict[tuple[str, str], tuple[float, CheckResult]] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def of(self, place: tuple[str, str], ask: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
        """What was found a moment ago, else what is found now."""
        async with self._locks.setdefault(place, asyncio.Lock()):
            kept = self._found.get(place)
            if kept is not None and self._clock() < kept[0]:
                return kept[1]
            found = await ask()
            self._found[place] = self._clock() + KEPT, found
            return found
