"""What was found of a provider is kept for a moment, and found by one at a time."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.gateway.check_cache import MAX_AGE_SECONDS, CheckCache, CheckResult
from tests.virtual_time import run

PLACE = ("chat", "openai-chat")


class Provider:
    """Somebody who is asked, takes a second, and counts."""

    def __init__(self) -> None:
        self.asked = self.busy = self.most = 0

    async def __call__(self) -> CheckResult:
        self.asked += 1
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(1.0)
        finally:
            self.busy -= 1
        return CheckResult(able=self.asked == 1)


def test_a_crowd_has_one_call_made() -> None:
    async def main() -> None:
        provider, checks = Provider(), CheckCache(asyncio.get_running_loop().time)
        found = await asyncio.gather(*(checks.of(PLACE, provider) for _ in range(50)))
        assert (provider.asked, {each.able for each in found}) == (1, {True})
        other = await checks.of(("chat", "anthropic-messages"), provider)
        assert (provider.asked, other.able) == (2, False)

    run(main())


def test_what_is_old_is_found_anew() -> None:
    async def main() -> None:
        provider, checks = Provider(), CheckCache(asyncio.get_running_loop().time)
        await checks.of(PLACE, provider)
        await asyncio.sleep(MAX_AGE_SECONDS - 0.1)
        await checks.of(PLACE, provider)
        assert provider.asked == 1
        await asyncio.sleep(0.2)
        await checks.of(PLACE, provider)
        assert provider.asked == 2

    run(main())


def test_one_who_leaves_leaves_the_place_to_the_next() -> None:
    async def main() -> None:
        provider, checks = Provider(), CheckCache(asyncio.get_running_loop().time)
        first = asyncio.ensure_future(checks.of(PLACE, provider))
        second = asyncio.ensure_future(checks.of(PLACE, provider))
        await asyncio.sleep(0.5)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await second
        assert (provider.asked, provider.most) == (2, 1)

    run(main())
