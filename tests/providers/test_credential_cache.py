"""A credential is fetched once for all who wait, and again before it runs out."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from dragoman.errors import Unreachable
from dragoman.providers.credential_cache import Lease
from tests.waiting import wait_until_async


class Source:
    """Gives numbered tokens that live for `life` seconds of a clock set by hand."""

    def __init__(self, life: float = 3600.0) -> None:
        self.life = life
        self.now = 1000.0
        self.fetched = 0
        self.fails = False
        self.gate = threading.Event()
        self.gate.set()

    def fetch(self) -> tuple[str, float]:
        assert self.gate.wait(30)
        self.fetched += 1
        if self.fails:
            raise Unreachable("no token now")
        return f"token {self.fetched}", self.now + self.life

    def clock(self) -> float:
        return self.now

    def lease(self) -> Lease[str]:
        return Lease(self.fetch, margin=300.0, clock=self.clock)


def test_a_value_is_kept_until_the_margin_before_its_end() -> None:
    source = Source()

    async def run() -> list[str]:
        lease = source.lease()
        found = [await lease.get(), await lease.get()]
        source.now += 3299
        found.append(await lease.get())
        source.now += 1
        found.append(await lease.get())
        return found

    assert asyncio.run(run()) == ["token 1", "token 1", "token 1", "token 2"]


def test_a_value_that_lives_shorter_than_the_margin_is_kept_for_half_its_life() -> None:
    source = Source(life=100)

    async def run() -> list[str]:
        lease = source.lease()
        found = [await lease.get()]
        source.now += 49
        found.append(await lease.get())
        source.now += 1
        found.append(await lease.get())
        return found

    assert asyncio.run(run()) == ["token 1", "token 1", "token 2"]


def test_all_who_wait_share_one_fetch() -> None:
    source = Source()
    source.gate.clear()

    async def run() -> list[str]:
        lease = source.lease()
        waiting = [asyncio.create_task(lease.get()) for _ in range(50)]
        # Each takes its first step before this goes on.
        await asyncio.sleep(0)
        source.gate.set()
        return await asyncio.gather(*waiting)

    assert set(asyncio.run(run())) == {"token 1"}
    assert source.fetched == 1


def test_one_who_gives_up_does_not_take_the_fetch_from_the_others() -> None:
    source = Source()
    source.gate.clear()

    async def run() -> str:
        lease = source.lease()
        first, second = asyncio.create_task(lease.get()), asyncio.create_task(lease.get())
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        source.gate.set()
        return await second

    assert asyncio.run(run()) == "token 1"
    assert source.fetched == 1


def test_an_error_reaches_all_who_wait_and_the_next_one_tries_again() -> None:
    source = Source()
    source.fails = True

    async def run() -> str:
        lease = source.lease()
        failed = await asyncio.gather(lease.get(), lease.get(), return_exceptions=True)
        assert all(isinstance(error, Unreachable) for error in failed)
        source.fails = False
        return await lease.get()

    assert asyncio.run(run()) == "token 2"
    assert source.fetched == 2


def test_an_error_that_nobody_waits_for_is_no_noise() -> None:
    reported: list[object] = []
    source = Source()
    source.fails = True
    source.gate.clear()

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
        lease = source.lease()
        waiting = asyncio.create_task(lease.get())
        await asyncio.sleep(0)
        fetching = lease._fetching
        assert fetching is not None
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        source.gate.set()
        await wait_until_async(fetching.done, "the fetch has failed")

    asyncio.run(run())
    # asyncio reports an error that was never retrieved when its task is freed.
    gc.collect()
    assert source.fetched == 1
    assert not reported
