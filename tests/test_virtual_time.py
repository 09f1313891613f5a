"""VirtualLoop: time jumps, threads are waited for, and what would hang fails."""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from functools import partial

import pytest

from tests.virtual_time import Stuck, VirtualLoop, run, virtual_loop
from tests.waiting import LIMIT, wait_until


def act_later(loop: VirtualLoop, action: Callable[[], object]) -> None:
    """Do something in a thread after the loop has looked for threads under way several times, and found this one."""
    looks = 0
    look = loop.busy

    def counted() -> bool:
        nonlocal looks
        looks += 1
        return look()

    def work() -> None:
        wait_until(lambda: looks > 5, "the loop looks for threads")
        action()

    loop.busy = counted  # type: ignore[method-assign]  # of this loop alone
    threading.Thread(target=work, name="later").start()


def test_time_jumps_to_the_next_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []
    select = selectors.DefaultSelector.select

    def watched(self: selectors.DefaultSelector, timeout: float | None = None) -> object:
        waits.append(timeout)
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", watched)

    async def dialogue() -> tuple[float, float]:
        await asyncio.sleep(600)
        first = virtual_loop().time()
        await asyncio.sleep(3 * 86400)
        return first, virtual_loop().time()

    assert run(dialogue()) == (600, 600 + 3 * 86400)
    assert set(waits) == {0}


def test_time_stands_still_while_something_is_ready() -> None:
    async def dialogue() -> float:
        for _ in range(500):
            await asyncio.sleep(0)
        return virtual_loop().time()

    assert run(dialogue(), start=7.0) == 7.0


def test_timers_fire_in_their_order() -> None:
    async def dialogue() -> list[tuple[str, float]]:
        said: list[tuple[str, float]] = []
        loop = virtual_loop()

        def say(name: str) -> None:
            said.append((name, loop.time()))

        for name, delay in (("late", 2.5), ("soon", 0.1), ("later", 30.0)):
            loop.call_later(delay, say, name)
        await asyncio.sleep(60)
        return said

    assert run(dialogue()) == [("soon", 0.1), ("late", 2.5), ("later", 30.0)]


def test_a_timeout_is_virtual() -> None:
    async def dialogue() -> float:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(virtual_loop().create_future(), 120)
        return virtual_loop().time()

    assert run(dialogue()) == 120


def test_an_executor_is_waited_for_and_time_stands_meanwhile() -> None:
    gate = threading.Event()

    async def dialogue() -> tuple[str, float, list[float]]:
        loop = virtual_loop()
        fired: list[float] = []
        loop.call_later(1.0, lambda: fired.append(loop.time()))
        work = loop.run_in_executor(None, lambda: "done" if gate.wait(LIMIT) else "late")
        act_later(loop, gate.set)
        return await work, loop.time(), list(fired)

    assert run(dialogue()) == ("done", 0.0, [])


def test_work_that_nobody_waits_for_any_more_holds_time_as_well() -> None:
    gate, done = threading.Event(), threading.Event()

    def work() -> None:
        gate.wait(LIMIT)
        done.set()

    async def dialogue() -> bool:
        virtual_loop().run_in_executor(None, work).cancel()
        act_later(virtual_loop(), gate.set)
        await asyncio.sleep(5)
        return done.is_set()

    assert run(dialogue())


def test_an_error_of_a_thread_arrives() -> None:
    def fail() -> None:
        raise ValueError("said in a thread")

    async def dialogue() -> None:
        await asyncio.to_thread(fail)

    with pytest.raises(ValueError, match="said in a thread"):
        run(dialogue())


def test_a_held_future_is_waited_for() -> None:
    async def dialogue() -> tuple[int, float]:
        loop = virtual_loop()
        future: asyncio.Future[int] = loop.create_future()
        loop.hold(future)
        loop.call_later(1.0, future.set_result, -1)
        act_later(loop, partial(loop.call_soon_threadsafe, future.set_result, 3))
        return await future, loop.time()

    assert run(dialogue()) == (3, 0.0)


def test_a_watched_thread_is_waited_for_and_may_end_without_a_word() -> None:
    busy = threading.Event()

    async def dialogue() -> tuple[bool, float]:
        loop = virtual_loop()
        loop.watch(busy.is_set)
        busy.set()
        act_later(loop, busy.clear)
        await asyncio.sleep(10)
        return busy.is_set(), loop.time()

    assert run(dialogue()) == (False, 10.0)


def test_quiet_comes_when_all_is_done_that_takes_no_time() -> None:
    async def dialogue() -> tuple[list[int], float]:
        loop, done = virtual_loop(), []

        async def steps() -> None:
            for step in range(5):
                await (asyncio.sleep(0) if step % 2 else asyncio.to_thread(int))
                done.append(step)
            await asyncio.sleep(1)
            done.append(-1)

        working = asyncio.ensure_future(steps())
        await loop.quiet()
        found = list(done)
        working.cancel()
        return found, loop.time()

    assert run(dialogue()) == ([0, 1, 2, 3, 4], 0.0)


def test_what_would_wait_for_ever_fails() -> None:
    async def dialogue() -> None:
        await virtual_loop().create_future()

    with pytest.raises(Stuck, match="no timer is set"):
        run(dialogue())


def test_what_goes_in_circles_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.virtual_time.MOST_TURNS", 100)

    async def dialogue() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="time does not pass"):
        run(dialogue())


def test_a_thread_that_never_comes_back_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.virtual_time.PATIENCE", 0.05)

    async def dialogue() -> None:
        virtual_loop().watch(lambda: True)
        await asyncio.sleep(1)

    with pytest.raises(Stuck, match="did not come back"):
        run(dialogue())
