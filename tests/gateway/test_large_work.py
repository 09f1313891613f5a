"""Large work beside the loop: what it gives and raises, how much may wait, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

import pytest

from dragoman.errors import ClientError, WireError
from dragoman.gateway import large_work
from dragoman.gateway.large_work import INLINE, beside_loop, share_interpreter
from tests.waiting import LIMIT, wait_until_async

LARGE = INLINE + 1
SAID: ContextVar[str] = ContextVar("SAID", default="nothing")


class Held:
    """Something that must not be left behind."""


class Busy:
    """Work that says when it begins, and goes on until it is told to end."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self._begun = threading.Semaphore(0)

    def __call__(self) -> bool:
        self._begun.release()
        return self.go_on.wait(LIMIT)

    async def has_begun(self, times: int = 1) -> None:
        """Wait until it has begun once more, or so often."""
        for _ in range(times):
            assert await asyncio.to_thread(self._begun.acquire, timeout=LIMIT)


def _failing(held: Held) -> None:
    raise WireError("", "something else", type(held).__name__)


def test_little_is_done_at_once_and_much_in_a_thread_that_knows_the_same() -> None:
    async def main() -> None:
        SAID.set("said")
        assert await beside_loop(threading.current_thread, INLINE) is threading.current_thread()
        there = await beside_loop(threading.current_thread, LARGE)
        assert there is not threading.current_thread() and there.daemon
        assert await beside_loop(SAID.get, LARGE) == "said"

    asyncio.run(main())


@pytest.mark.parametrize("size", [INLINE, LARGE], ids=["at once", "in a thread"])
def test_what_it_raises_is_raised_where_it_is_waited_for(size: int) -> None:
    async def main() -> None:
        with pytest.raises(WireError, match="Held"):
            await beside_loop(partial(_failing, Held()), size)

    asyncio.run(main())


def test_others_go_on_meanwhile() -> None:
    async def main() -> None:
        go_on = threading.Event()
        work = asyncio.ensure_future(beside_loop(partial(go_on.wait, LIMIT), LARGE))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not work.done()
        go_on.set()
        assert await work

    asyncio.run(main())


def test_more_than_may_wait_is_refused_unless_it_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_work, "_MOST_WAITING", 3)
    monkeypatch.setattr(large_work, "_PAUSE", 0.001)
    threads = large_work._Threads()
    submit, refused = threads.submit, 0

    def counted(job: large_work._Job[object]) -> bool:
        nonlocal refused
        taken = submit(job)
        refused += not taken
        return taken

    monkeypatch.setattr(threads, "submit", counted)
    monkeypatch.setattr(large_work, "_threads", threads)

    async def main() -> None:
        wait = Busy()
        busy = [asyncio.ensure_future(beside_loop(wait, LARGE)) for _ in range(2)]
        await wait.has_begun(2)
        waiting = [asyncio.ensure_future(beside_loop(wait, LARGE)) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ClientError) as told:
            await beside_loop(wait, LARGE)
        assert told.value.status == 503
        paid = asyncio.ensure_future(beside_loop(wait, LARGE, paid=True))
        await wait_until_async(lambda: refused > 3, "what is paid for was refused several times")
        assert not paid.done()
        wait.go_on.set()
        assert all(await asyncio.gather(*busy, *waiting, paid))

    asyncio.run(main())


def test_what_is_given_up_in_the_line_is_not_done() -> None:
    async def main() -> None:
        wait = Busy()
        done: list[int] = []
        busy = [asyncio.ensure_future(beside_loop(wait, LARGE)) for _ in range(2)]
        given_up = asyncio.ensure_future(beside_loop(partial(done.append, 1), LARGE))
        await wait.has_begun(2)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        wait.go_on.set()
        await asyncio.gather(*busy)
        await beside_loop(partial(done.append, 2), LARGE)
        assert done == [2]

    asyncio.run(main())


def test_who_goes_away_leaves_the_place_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_work, "_MOST_WAITING", 3)
    monkeypatch.setattr(large_work, "_threads", large_work._Threads())

    async def main() -> None:
        wait = Busy()
        busy = [asyncio.ensure_future(beside_loop(wait, LARGE)) for _ in range(2)]
        await wait.has_begun(2)
        for _ in range(4):
            gone = [asyncio.ensure_future(beside_loop(wait, LARGE)) for _ in range(3)]
            await asyncio.sleep(0)
            for work in gone:
                work.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
        waiting = asyncio.ensure_future(beside_loop(wait, LARGE))
        await asyncio.sleep(0)
        wait.go_on.set()
        assert all(await asyncio.gather(*busy, waiting))

    asyncio.run(main())


def test_what_runs_and_waits_is_bounded_in_bytes_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_work, "_MOST_BYTES", 3 * LARGE)
    monkeypatch.setattr(large_work, "_threads", large_work._Threads())

    async def main() -> None:
        wait = Busy()
        running = [asyncio.ensure_future(beside_loop(wait, LARGE)) for _ in range(2)]
        await wait.has_begun(2)
        waiting = asyncio.ensure_future(beside_loop(wait, 100 * LARGE))
        await asyncio.sleep(0)
        with pytest.raises(ClientError) as told:
            await beside_loop(wait, LARGE)
        assert told.value.status == 503
        # Whoever gives up what runs does not end it.
        running[0].cancel()
        waiting.cancel()
        await asyncio.gather(running[0], waiting, return_exceptions=True)
        other = asyncio.ensure_future(beside_loop(wait, LARGE))
        await asyncio.sleep(0)
        with pytest.raises(ClientError):
            await beside_loop(wait, LARGE)
        wait.go_on.set()
        assert all(await asyncio.gather(running[1], other))
        # One that is larger than all that may wait has its turn, too, and leaves nothing behind, even if it fails.
        for _ in range(3):
            with pytest.raises(WireError):
                await beside_loop(partial(_failing, Held()), 100 * LARGE)
            assert await beside_loop(wait, 100 * LARGE)
            await asyncio.sleep(0)

    asyncio.run(main())


def _late(wait: Busy, held: Held) -> Held:
    wait()
    return held


def _result(held: Held) -> Callable[[], Held]:
    return lambda: held


@pytest.mark.parametrize("way", ["done", "failed", "cancelled"])
def test_nothing_is_left_for_the_collector(way: str) -> None:
    async def main() -> weakref.ref[Held]:
        held = Held()
        known = weakref.ref(held)
        if way == "done":
            await beside_loop(_result(held), LARGE)
        elif way == "failed":
            # Not `pytest.raises`, which holds what was raised.
            with suppress(WireError):
                await beside_loop(partial(_failing, held), LARGE)
        else:
            wait = Busy()
            work = asyncio.ensure_future(beside_loop(partial(_late, wait, held), LARGE))
            await wait.has_begun()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            wait.go_on.set()
            del work
        del held
        # The threads let go of what they had when both of them have turned to something else.
        other = Busy()
        turned = [asyncio.ensure_future(beside_loop(other, LARGE)) for _ in range(2)]
        await other.has_begun(2)
        other.go_on.set()
        await asyncio.gather(*turned)
        return known

    asyncio.run(asyncio.sleep(0))
    gc.collect()
    gc.disable()
    try:
        known = asyncio.run(main())
        assert known() is None
    finally:
        gc.enable()


def test_threads_take_turns_often() -> None:
    before = sys.getswitchinterval()
    try:
        share_interpreter()
        assert sys.getswitchinterval() == pytest.approx(0.001)
    finally:
        sys.setswitchinterval(before)
