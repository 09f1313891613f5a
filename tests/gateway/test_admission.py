"""Admission: never more calls than a provider may have, fair between keys, and nobody waits for longer than allowed."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import Overloaded, UpstreamError
from dragoman.gateway.admission import Admission, AdmissionLimits, Load, QueuePlace, Slot, divided
from dragoman.gateway.forwarding.error_responses import encode_error, failure_of
from dragoman.gateway.paths import CHAT, MESSAGES, RESPONSES
from dragoman.model.failure import FailureKind
from tests.http.test_no_residue import nothing_left
from tests.virtual_time import run, virtual_loop


def make(limits: AdmissionLimits | None = None, dice: float = 0.0) -> Admission:
    admission = Admission(virtual_loop().time, lambda: dice)
    if limits is not None:
        admission.set_limits({"p": limits})
    return admission


async def entered(admission: Admission, key: str = "k", deadline: float = 1e9) -> Slot:
    found = admission.enter("p", key, deadline)
    return found if isinstance(found, Slot) else await found


def slot(admission: Admission, key: str = "k") -> Slot:
    """A slot that must be there at once."""
    found = admission.enter("p", key)
    assert isinstance(found, Slot)
    return found


def place(admission: Admission, key: str = "k", deadline: float = 1e9) -> QueuePlace:
    """A place in the queue, where there must be no slot."""
    found = admission.enter("p", key, deadline)
    assert isinstance(found, QueuePlace)
    return found


async def started(work: Coroutine[Any, Any, Slot]) -> asyncio.Task[Slot]:
    task = asyncio.create_task(work)
    await virtual_loop().quiet()
    return task


def load(admission: Admission) -> Load:
    return admission.loads()["p"]


def test_without_a_limit_everybody_enters_at_once_and_is_counted() -> None:
    async def dialogue() -> None:
        admission = make()
        slots = [slot(admission) for _ in range(1000)]
        assert admission.busy(["p"]) == []
        assert load(admission) == Load(1000, None, 0)
        for one in slots:
            one.release()
        assert load(admission) == Load(0, None, 0)
        assert admission.busy(["never heard of"]) == []

    run(dialogue())


def test_a_slot_is_given_back_once() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(2))
        one, two = slot(admission), slot(admission)
        assert admission.busy(["p"]) == ["p"]
        one.release()
        one.release()
        assert load(admission).calls == 1
        two.release()
        del one, two
        await virtual_loop().quiet()
        assert load(admission) == Load(0, 2, 0)

    run(dialogue())


def test_who_waits_gets_the_slot_that_is_given_back_and_its_wait_is_told() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1))
        first = slot(admission)
        waiting = await started(entered(admission))
        assert load(admission).waiting == 1
        await asyncio.sleep(3)
        first.release()
        assert (await waiting).waited == 3
        assert load(admission) == Load(1, 1, 0)

    run(dialogue())


def test_pitfall_370_keys_take_turns_and_a_full_queue_refuses_at_once() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_size=6))
        busy = slot(admission)
        order: list[str] = []

        async def work(key: str) -> None:
            one = await entered(admission, key)
            order.append(key)
            await asyncio.sleep(1)
            one.release()

        tasks = [asyncio.create_task(work(key)) for key in ("a", "a", "a", "a", "b", "c")]
        await virtual_loop().quiet()
        with pytest.raises(Overloaded):
            admission.enter("p", "a")
        assert virtual_loop().time() == 0
        busy.release()
        await asyncio.gather(*tasks)
        assert order == ["a", "b", "c", "a", "a", "a"]
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


def test_pitfall_370_a_pile_up_of_one_key_keeps_nobody_else_out() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_size=4))
        busy = slot(admission)
        many = [await started(entered(admission, "many")) for _ in range(4)]
        other = await started(entered(admission, "other"))
        # The last of those who came in numbers has made room.
        with pytest.raises(Overloaded):
            await many[3]
        second = await started(entered(admission, "other"))
        with pytest.raises(Overloaded):
            await many[2]
        # Now both have the same.
        for key in ("other", "many"):
            with pytest.raises(Overloaded):
                admission.enter("p", key)
        assert load(admission).waiting == 4
        busy.release()
        (await many[0]).release()
        (await other).release()
        (await many[1]).release()
        (await second).release()
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


@pytest.mark.parametrize(("deadline", "seconds"), [(1e9, 30), (7, 7)], ids=["the queue's time", "the exchange's"])
def test_nobody_waits_beyond_the_end_of_its_time(deadline: float, seconds: float) -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_timeout=30))
        busy = slot(admission)
        with pytest.raises(Overloaded) as caught:
            await entered(admission, deadline=deadline)
        assert virtual_loop().time() == caught.value.waited == seconds
        assert load(admission).waiting == 0
        busy.release()
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


def test_pitfall_371_the_deadline_of_the_queue_does_not_end_the_call_and_expired_entries_never_start() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_timeout=5))
        busy = slot(admission)
        lucky = await started(entered(admission))
        late = await started(entered(admission))
        await asyncio.sleep(4)
        busy.release()
        got = await lucky
        # Long after the end of the queue's time the call still has its slot.
        await asyncio.sleep(100)
        assert load(admission) == Load(1, 1, 0)
        with pytest.raises(Overloaded):
            await late
        got.release()
        await virtual_loop().quiet()
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


def test_pitfall_371_an_entry_whose_timer_is_late_does_not_start_either() -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    async def dialogue() -> None:
        clock = Clock()
        admission = Admission(clock, lambda: 0.0)
        admission.set_limits({"p": AdmissionLimits(1, queue_timeout=5)})
        busy = slot(admission)
        late = await started(entered(admission))
        # The loop stood still, and no timer has fired.
        clock.now = 6.0
        busy.release()
        with pytest.raises(Overloaded):
            await late
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


def test_pitfall_371_who_gave_up_gets_no_slot() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1))
        busy = slot(admission)
        gone = await started(entered(admission))
        patient = await started(entered(admission))
        gone.cancel()
        # In the same turn of the loop, before the task has heard of it.
        busy.release()
        got = await patient
        assert gone.cancelled()
        assert load(admission) == Load(1, 1, 0)
        got.release()
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


def test_a_slot_that_comes_as_its_call_is_given_up_goes_to_the_next() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1))
        busy = slot(admission)
        gone = await started(entered(admission))
        patient = await started(entered(admission))
        busy.release()
        gone.cancel()
        (await patient).release()
        assert load(admission) == Load(0, 1, 0)
        # A place that nobody awaits can be given up as well, before and after a slot came.
        busy = slot(admission)
        left, granted = place(admission), place(admission)
        left.abandon()
        busy.release()
        assert load(admission) == Load(1, 1, 0)
        granted.abandon()
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the loop", "in another thread"])
def test_a_slot_that_is_garbage_is_given_back(elsewhere: bool) -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1))
        held = [slot(admission)]
        waiting = await started(entered(admission))
        if elsewhere:
            thread = threading.Thread(target=held.clear)
            thread.start()
            thread.join()
        else:
            held.clear()
        (await waiting).release()
        assert load(admission) == Load(0, 1, 0)

    run(dialogue())


def test_pitfall_372_streams_cut_at_random_points_leave_no_slot() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(20, queue_size=300, queue_timeout=10))
        chance = random.Random(372)
        ends: Counter[str] = Counter()

        async def stream() -> None:
            one = await entered(admission, f"key {chance.randrange(5)}")
            if chance.random() < 0.1:
                # Its driver is forgotten: nobody says a word.
                ends["lost"] += 1
                return
            try:
                for _ in range(chance.randrange(20)):
                    await asyncio.sleep(chance.random() / 10)
                ends["whole"] += 1
            finally:
                one.release()

        async def cut() -> None:
            await asyncio.sleep(chance.random() * 20)
            try:
                async with asyncio.timeout(chance.random() * 5):
                    await stream()
            except (TimeoutError, Overloaded) as error:
                ends[type(error).__name__] += 1

        await asyncio.gather(*(cut() for _ in range(1000)))
        gc.collect()
        await virtual_loop().quiet()
        assert sum(ends.values()) == 1000
        assert min(ends["whole"], ends["lost"], ends["TimeoutError"]) > 20
        assert load(admission) == Load(0, 20, 0)

    run(dialogue())


def test_pitfall_373_a_fall_back_has_one_slot_at_a_time() -> None:
    async def dialogue() -> None:
        admission = make()
        admission.set_limits({"first": AdmissionLimits(1), "second": AdmissionLimits(1)})
        for _ in range(3):
            for provider in ("first", "second"):
                one = admission.enter(provider, "k")
                assert isinstance(one, Slot)
                assert sum(found.calls for found in admission.loads().values()) == 1
                one.release()
        assert set(admission.loads().values()) == {Load(0, 1, 0)}

    run(dialogue())


@pytest.mark.parametrize("protocol", [MESSAGES, CHAT, RESPONSES])
def test_pitfall_341_342_374_the_error_is_our_own_and_says_that_nothing_was_sent(protocol: str) -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_size=0))
        busy = slot(admission)
        with pytest.raises(Overloaded) as caught:
            admission.enter("p", "k")
        busy.release()
        error = caught.value
        # Health and fail-over know providers' errors by their class.
        assert not isinstance(error, UpstreamError)
        assert "was not sent" in str(error)
        assert f"try again in {error.retry_after} s" in str(error)
        failure = failure_of(error)
        assert failure is not None
        assert failure.kind is FailureKind.OVERLOADED
        reply = encode_error(error, protocol, "req_1")
        assert reply.status == (529 if protocol == MESSAGES else 503)
        assert b"was not sent" in reply.body

    run(dialogue())


@pytest.mark.parametrize("dice", [0.0, 0.999])
@pytest.mark.parametrize("known", [False, True], ids=["of calls unknown", "of calls known"])
def test_pitfall_381_who_waits_as_long_as_told_succeeds(known: bool, dice: float) -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(4, queue_size=8, queue_timeout=10), dice)

        async def work(seconds: float = 2) -> float:
            one = await entered(admission)
            try:
                await asyncio.sleep(seconds)
            finally:
                one.release()
            return one.waited

        if known:
            await asyncio.gather(*(work() for _ in range(4)))
        tasks = [asyncio.create_task(work()) for _ in range(12)]
        await virtual_loop().quiet()
        with pytest.raises(Overloaded) as caught:
            admission.enter("p", "k")
        seconds = caught.value.retry_after
        assert seconds >= 1
        if known:
            # Nine have to go, four at a time, two seconds each.
            assert seconds == (5 if dice == 0 else 6)
        else:
            assert seconds == (10 if dice == 0 else 13)
        await asyncio.sleep(seconds)
        assert max(await asyncio.gather(work(), *tasks)) <= 10

    run(dialogue())


def test_at_three_times_the_load_as_many_are_served_as_can_be_and_nobody_waits_too_long() -> None:
    async def dialogue() -> None:
        # Ten calls of a second at a time: ten a second. Thirty come, for five minutes.
        admission = make(AdmissionLimits(10, queue_size=20, queue_timeout=5), 0.5)
        done = refused = 0
        longest = 0.0

        async def ask(key: str) -> None:
            nonlocal done, refused, longest
            asked = virtual_loop().time()
            try:
                one = await entered(admission, key)
            except Overloaded:
                refused += 1
                longest = max(longest, virtual_loop().time() - asked)
                return
            longest = max(longest, virtual_loop().time() - asked)
            await asyncio.sleep(1)
            done += 1
            one.release()

        tasks = []
        for number in range(300 * 30):
            tasks.append(asyncio.create_task(ask(f"key {number % 7}")))
            await asyncio.sleep(1 / 30)
        await asyncio.gather(*tasks)
        assert done + refused == 9000
        assert done >= 300 * 10 * 0.99
        assert longest <= 5
        assert load(admission) == Load(0, 10, 0)

    run(dialogue())


def test_limits_may_change_while_calls_are_made_and_others_wait() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_size=3))
        slots = [slot(admission)]
        waiting = [await started(entered(admission)) for _ in range(3)]
        admission.set_limits({"p": AdmissionLimits(2, queue_size=3)})
        slots.append(await waiting[0])
        assert load(admission) == Load(2, 2, 2)
        # Fewer: nobody loses anything, and nobody is let in until there is room.
        admission.set_limits({"p": AdmissionLimits(1, queue_size=1)})
        with pytest.raises(Overloaded):
            admission.enter("p", "another key")
        slots.pop().release()
        await virtual_loop().quiet()
        assert load(admission) == Load(1, 1, 2)
        # The provider is gone, and whoever still has to do with it is free to.
        admission.set_limits({})
        slots += [await waiting[1], await waiting[2]]
        assert load(admission) == Load(3, None, 0)
        # Back again: those calls still count.
        admission.set_limits({"p": AdmissionLimits(3)})
        assert admission.busy(["p"]) == ["p"]
        for one in slots:
            one.release()
        assert load(admission) == Load(0, 3, 0)
        admission.set_limits({})
        assert admission.loads() == {}

    run(dialogue())


@pytest.mark.parametrize(
    ("whole", "workers", "part"),
    [
        (AdmissionLimits(64, 256, 30.0), 4, AdmissionLimits(16, 64, 30.0)),
        (AdmissionLimits(64, 256, 30.0), 3, AdmissionLimits(21, 86, 30.0)),
        (AdmissionLimits(2, 0, 1.0), 4, AdmissionLimits(1, 0, 1.0)),
    ],
)
def test_workers_share_the_limits(whole: AdmissionLimits, workers: int, part: AdmissionLimits) -> None:
    assert divided(whole, workers) == part


def test_waits_of_every_end_leave_nothing_for_the_collector() -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(1, queue_size=2, queue_timeout=5))

        async def wait(number: int) -> None:
            try:
                async with asyncio.timeout(3 if number % 2 else None):
                    (await entered(admission)).release()
            except (TimeoutError, Overloaded):
                return

        for number in range(20):
            busy = slot(admission)
            tasks = [asyncio.create_task(wait(number)) for _ in range(3)]
            await asyncio.sleep(number)
            busy.release()
            await asyncio.gather(*tasks)
        assert load(admission) == Load(0, 1, 0)

    with nothing_left():
        run(dialogue())


STEPS = st.lists(
    st.tuples(st.sampled_from(["enter", "release", "cancel", "time", "limit", "lose"]), st.integers(0, 7)), max_size=60
)


@given(steps=STEPS, calls=st.integers(1, 3), queue=st.integers(0, 4))
def test_whatever_happens_the_limits_hold_and_nothing_is_left(
    steps: list[tuple[str, int]], calls: int, queue: int
) -> None:
    async def dialogue() -> None:
        admission = make(AdmissionLimits(calls, queue, 5.0))
        concurrency = most = calls
        tasks: list[asyncio.Task[Slot | None]] = []

        async def taking(key: str) -> Slot | None:
            try:
                return await entered(admission, key)
            except Overloaded:
                return None

        for what, number in steps:
            if what == "enter":
                tasks.append(asyncio.create_task(taking(f"key {number % 3}")))
            elif what == "limit":
                concurrency = 1 + number % 3
                most = max(most, concurrency)
                admission.set_limits({"p": AdmissionLimits(concurrency, queue, 5.0)})
            elif what == "time":
                await asyncio.sleep(number)
            elif tasks:
                # Else it is lost sight of.
                task = tasks.pop(number % len(tasks))
                if what == "cancel":
                    task.cancel()
                elif what == "release" and task.done() and (held := task.result()) is not None:
                    held.release()
                    del held
                del task
            await virtual_loop().quiet()
            found = load(admission)
            assert found.calls <= most
            # Nobody waits beside a free slot.
            assert not found.waiting or found.calls >= concurrency
        while tasks:
            tasks.pop().cancel()
        await asyncio.sleep(6)
        assert load(admission) == Load(0, concurrency, 0)

    run(dialogue())
