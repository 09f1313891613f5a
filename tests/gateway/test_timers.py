"""Timers that are handed on: armed once, and each owner is called no later than it wants to be."""

from __future__ import annotations

import asyncio

from dragoman.gateway.timers import Timers


def test_an_armed_timer_is_taken_over_and_calls_its_owner_of_then() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timers, called, now = Timers(loop), asyncio.Event(), loop.time()
        timer = timers.take(now, now + 0.01, lambda: None)
        timer.hand_on()
        assert timers.idle == [timer]
        assert timers.take(now, now + 60.0, called.set) is timer
        assert not timers.idle
        async with asyncio.timeout(30.0):
            await called.wait()

    asyncio.run(main())


def test_a_timer_that_fires_too_late_or_should_have_fired_is_not_taken_over() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timers, now = Timers(loop), loop.time()
        late = timers.take(now, now + 60.0, lambda: None)
        late.hand_on()
        nearer = timers.take(now, now + 30.0, lambda: None)
        assert nearer is not late
        nearer.hand_on()
        assert timers.take(now + 31.0, now + 90.0, lambda: None) is not nearer
        assert not timers.idle

    asyncio.run(main())


def test_an_idle_timer_leaves_the_list_when_it_fires() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        timers, called, now = Timers(loop), asyncio.Event(), loop.time()
        timers.take(now, now + 0.005, called.set).hand_on()
        timers.take(now + 1.0, now + 0.01, called.set)
        timers.take(now, now + 0.005, lambda: None).hand_on()
        async with asyncio.timeout(30.0):
            await called.wait()
        assert not timers.idle

    asyncio.run(main())
