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

from dragoman.errors import OffloadBusy, WireError
from dragoman.gateway import thread_offload
from dragoman.gateway.thread_offload import INLINE, offload, share_interpreter
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, read_answer, running, settings_for
from tests.gateway.keeping_house import ALICE, BOB
from tests.gateway.says import question, tells
from tests.sdk.digging import dig_text
from tests.virtual_time import run, virtual_loop
from tests.waiting import LIMIT, wait_until

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
        assert await offload(threading.current_thread, INLINE, "k") is threading.current_thread()
        there = await offload(threading.current_thread, LARGE, "k")
        assert there is not threading.current_thread() and there.daemon
        assert await offload(SAID.get, LARGE, "k") == "said"

    asyncio.run(main())


@pytest.mark.parametrize("size", [INLINE, LARGE], ids=["at once", "in a thread"])
def test_what_it_raises_is_raised_where_it_is_waited_for(size: int) -> None:
    async def main() -> None:
        with pytest.raises(WireError, match="Held"):
            await offload(partial(_failing, Held()), size, "k")

    asyncio.run(main())


def test_others_go_on_meanwhile() -> None:
    async def main() -> None:
        go_on = threading.Event()
        work = asyncio.ensure_future(offload(partial(go_on.wait, LIMIT), LARGE, "k"))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not work.done()
        go_on.set()
        assert await work

    asyncio.run(main())


def test_more_than_may_wait_is_refused_unless_it_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_offload, "_MAX_WAITING", 3)
    monkeypatch.setattr(thread_offload, "_threads", thread_offload._Threads())

    async def main() -> None:
        wait = Busy()
        busy = [asyncio.ensure_future(offload(wait, LARGE, "k")) for _ in range(2)]
        await wait.has_begun(2)
        paid = [asyncio.ensure_future(offload(wait, LARGE, "k", paid=True)) for _ in range(9)]
        waiting = [asyncio.ensure_future(offload(wait, LARGE, "k")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(OffloadBusy):
            await offload(wait, LARGE, "k")
        paid.append(asyncio.ensure_future(offload(wait, LARGE, "k", paid=True)))
        await asyncio.sleep(0)
        wait.go_on.set()
        assert all(await asyncio.gather(*busy, *waiting, *paid))

    asyncio.run(main())


class Queue:
    """The queue before threads that are all busy: none takes a job unless `serve` is called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 4) -> None:
        self.threads = thread_offload._Threads(0)
        self.done: list[str] = []
        monkeypatch.setattr(thread_offload, "_threads", self.threads)
        monkeypatch.setattr(thread_offload, "_MAX_WAITING", most)

    async def put(self, jobs: str, size: int = LARGE, *, paid: bool = False) -> list[asyncio.Task[None]]:
        """Jobs such as `a1 a2 b1`, each of the key that its first letter is."""
        put = [
            asyncio.ensure_future(offload(partial(self.done.append, job), size, job[0], paid=paid))
            for job in jobs.split()
        ]
        await virtual_loop().quiet()
        return put

    async def serve(self, times: int) -> str:
        """Let a thread take so many jobs; what has been done since the start."""
        for _ in range(times):
            self.threads._next().run(self.threads._leave)
        await virtual_loop().quiet()
        return " ".join(self.done)


def refused(work: asyncio.Future[None]) -> bool:
    return work.done() and isinstance(work.exception(), OffloadBusy)


def test_item_22_a2_keys_take_turns_at_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        queue = Queue(monkeypatch, most=64)
        await queue.put("a1 a2 a3 a4 b1 b2 c1")
        assert await queue.serve(7) == "a1 b1 c1 a2 b2 a3 a4"

    run(story())


def test_item_22_a2_the_key_with_most_waiting_is_refused_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        queue = Queue(monkeypatch)
        flood = await queue.put("a1 a2 a3 a4 a5 a6")
        assert [refused(work) for work in flood] == [False] * 4 + [True] * 2
        others = await queue.put("b1 b2 c1 b3")
        assert [refused(work) for work in flood] == [False] + [True] * 5
        # The last one would make its key the one with most waiting.
        assert [refused(work) for work in others] == [False] * 3 + [True]
        assert await queue.serve(4) == "a1 b1 c1 b2"

    run(story())


def test_item_22_a2_seventy_requests_of_a_key_refuse_none_of_twelve_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        queue = Queue(monkeypatch, most=64)
        flood = await queue.put(" ".join(f"a{number}" for number in range(70)))
        others = await queue.put(" ".join(f"b{number}" for number in range(12)))
        assert not any(map(refused, others))
        assert sum(map(refused, flood)) == 70 + 12 - 64
        # Each of them waits for one of the flood.
        done = await queue.serve(24)
        assert all(f"b{number}" in done.split() for number in range(12))
        await queue.serve(40)

    run(story())


def test_item_22_a2_beyond_the_bytes_the_key_with_most_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(thread_offload, "_MAX_BYTES", 100 * LARGE)
        queue = Queue(monkeypatch, most=64)
        small = await queue.put("b1 b2 b3 b4")
        large = await queue.put("a1 a2", 50 * LARGE)
        small += await queue.put("b5 c1")
        assert not any(map(refused, small))
        assert [refused(work) for work in large] == [False, True]
        large = await queue.put("d1 d2 d3", 40 * LARGE)
        small = await queue.put("e1")
        assert [refused(work) for work in (*large, *small)] == [False, True, True, False]
        await queue.serve(9)
        # Nothing is left of what was refused, or of what was done.
        assert queue.threads._bytes == queue.threads._jobs == len(queue.threads._waiting) == 0

    run(story())


def test_item_22_a2_a_job_waits_for_five_seconds_and_an_answer_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        queue = Queue(monkeypatch)
        (answer,) = await queue.put("a1", paid=True)
        begun, late = await queue.put("b1 b2")
        await queue.serve(2)
        assert begun.done() and answer.done()
        (answer,) = await queue.put("a2", paid=True)
        start = virtual_loop().time()
        with pytest.raises(OffloadBusy) as told:
            await late
        assert (virtual_loop().time() - start, told.value.retry_after) == (5.0, 5)
        await asyncio.sleep(3600)
        assert not answer.done()
        assert await queue.serve(1) == "a1 b1 a2"

    run(story())


def test_item_22_a2_answers_of_a_key_do_not_take_the_places_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        queue = Queue(monkeypatch, most=2)
        answers = await queue.put("a1 a2 a3 a4 a5", paid=True)
        requests = await queue.put("b1 a6 b2")
        assert not any(map(refused, answers))
        assert [refused(work) for work in requests] == [False, False, True]
        assert await queue.serve(7) == "a1 b1 a2 a3 a4 a5 a6"

    run(story())


@pytest.mark.parametrize("client", PROTOCOLS)
def test_item_22_a2_a_refused_client_reads_its_own_protocol_and_when_to_try_again(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_offload, "_MAX_WAITING", 1)
    threads = thread_offload._Threads(0)
    monkeypatch.setattr(thread_offload, "_threads", threads)
    asked = {**question(client, CHAT), "user": "x" * LARGE}
    paths = [PATHS[client], "/v1/messages/count_tokens"] if client == MESSAGES else [PATHS[client]]
    with running(lambda _: tells(CHAT), lambda port: settings_for(port, keys=(ALICE, BOB))) as house:
        for path in paths:
            with house.begin_post(path, asked, authorization=f"Bearer {ALICE}") as first:
                wait_until(lambda: len(threads._waiting) == 1, "Alice's request waits")
                full = house.post(path, asked, authorization=f"Bearer {ALICE}")
                house.pass_time(5.0)
                late = read_answer(first)
            for answer in (full, late):
                assert answer.status == (529 if client == MESSAGES else 503)
                assert answer.header("retry-after") == "5"
                assert dig_text(answer.json(), "error", "type") == _OVERLOADED[client]
                assert "try again in 5 s" in dig_text(answer.json(), "error", "message")
        assert not house.provider.received
        assert not threads._waiting


_OVERLOADED = {
    MESSAGES: "overloaded_error",
    CHAT: "service_unavailable_error",
    RESPONSES: "service_unavailable_error",
}


def test_what_is_given_up_in_the_line_is_not_done() -> None:
    async def main() -> None:
        wait = Busy()
        done: list[int] = []
        busy = [asyncio.ensure_future(offload(wait, LARGE, "k")) for _ in range(2)]
        given_up = asyncio.ensure_future(offload(partial(done.append, 1), LARGE, "k"))
        await wait.has_begun(2)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        wait.go_on.set()
        await asyncio.gather(*busy)
        await offload(partial(done.append, 2), LARGE, "k")
        assert done == [2]

    asyncio.run(main())


def test_who_goes_away_leaves_the_place_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_offload, "_MAX_WAITING", 3)
    monkeypatch.setattr(thread_offload, "_threads", thread_offload._Threads())

    async def main() -> None:
        wait = Busy()
        busy = [asyncio.ensure_future(offload(wait, LARGE, "k")) for _ in range(2)]
        await wait.has_begun(2)
        for _ in range(4):
            gone = [asyncio.ensure_future(offload(wait, LARGE, "k")) for _ in range(3)]
            await asyncio.sleep(0)
            for work in gone:
                work.cancel()
            await asyncio.gather(*gone, return_exceptions=True)
        waiting = asyncio.ensure_future(offload(wait, LARGE, "k"))
        await asyncio.sleep(0)
        wait.go_on.set()
        assert all(await asyncio.gather(*busy, waiting))

    asyncio.run(main())


def test_what_runs_and_waits_is_bounded_in_bytes_until_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_offload, "_MAX_BYTES", 3 * LARGE)
    monkeypatch.setattr(thread_offload, "_threads", thread_offload._Threads())

    async def main() -> None:
        wait = Busy()
        running = [asyncio.ensure_future(offload(wait, LARGE, "k")) for _ in range(2)]
        await wait.has_begun(2)
        waiting = asyncio.ensure_future(offload(wait, 100 * LARGE, "k"))
        await asyncio.sleep(0)
        with pytest.raises(OffloadBusy):
            await offload(wait, LARGE, "k")
        # Whoever gives up what runs does not end it.
        running[0].cancel()
        waiting.cancel()
        await asyncio.gather(running[0], waiting, return_exceptions=True)
        other = asyncio.ensure_future(offload(wait, LARGE, "k"))
        await asyncio.sleep(0)
        with pytest.raises(OffloadBusy):
            await offload(wait, LARGE, "k")
        wait.go_on.set()
        assert all(await asyncio.gather(running[1], other))
        # One that is larger than all that may wait has its turn, too, and leaves nothing behind, even if it fails.
        for _ in range(3):
            with pytest.raises(WireError):
                await offload(partial(_failing, Held()), 100 * LARGE, "k")
            assert await offload(wait, 100 * LARGE, "k")
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
            await offload(_result(held), LARGE, "k")
        elif way == "failed":
            # Not `pytest.raises`, which holds what was raised.
            with suppress(WireError):
                await offload(partial(_failing, held), LARGE, "k")
        else:
            wait = Busy()
            work = asyncio.ensure_future(offload(partial(_late, wait, held), LARGE, "k"))
            await wait.has_begun()
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            wait.go_on.set()
            del work
        del held
        # The threads let go of what they had when both of them have turned to something else.
        other = Busy()
        turned = [asyncio.ensure_future(offload(other, LARGE, "k")) for _ in range(2)]
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
