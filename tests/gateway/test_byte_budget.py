"""Byte budget: a key has its part, the next key finds room, and of all readers one can always finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import OffloadBusy
from dragoman.gateway.byte_budget import _READ, ByteBudget, ReaderCharge
from tests import virtual_time
from tests.step_counting import assert_linear

MIB = 1024 * 1024


class Reader:
    """A body of so many bytes that comes in reads of 256 KiB, unless its reader is paused."""

    def __init__(self, budget: ByteBudget, key: str, length: int) -> None:
        self.left = length
        self.paused = False
        self.pauses = 0
        self.charge: ReaderCharge = budget.of(key).open(self._pause, self._resume)

    def _pause(self) -> None:
        self.paused = True
        self.pauses += 1

    def _resume(self) -> None:
        assert self.paused
        self.paused = False

    def read(self) -> bool:
        """Read once if it may; whether it did."""
        if self.paused or not self.left:
            return False
        size = min(self.left, _READ)
        self.left -= size
        self.charge.add(size)
        if not self.left:
            self.charge.close()
        return True


def read_all(readers: list[Reader]) -> None:
    """Let all read in turn until none may."""
    while any([reader.read() for reader in readers]):
        pass


def stuck(budget: ByteBudget, key: str, count: int) -> list[Reader]:
    """Readers of a key whose oldest stands still just before its end, when all others have read what they may."""
    readers = [Reader(budget, key, 31 * MIB) for _ in range(count)]
    readers[0].left = 1
    read_all(readers[1:])
    return readers


def test_item_22_a4_uploads_of_one_key_have_one_half_of_the_budget() -> None:
    budget = ByteBudget(256 * MIB)
    readers = stuck(budget, "a", 60)
    assert all(reader.paused for reader in readers[1:])
    assert 128 * MIB <= budget.size <= 128 * MIB + 60 * _READ
    read_all(readers)
    assert [reader.left for reader in readers] == [0] * 60
    assert budget.size == 0 and not budget._accounts


def test_item_22_a4_a_key_with_few_bytes_is_not_paused_by_one_with_many() -> None:
    budget = ByteBudget(256 * MIB)
    flood = stuck(budget, "a", 60)
    others = [Reader(budget, "b", 2 * MIB) for _ in range(12)]
    read_all(others)
    assert not any(reader.left or reader.pauses for reader in others)
    assert flood[0].left


def test_item_22_a4_keys_that_come_later_have_their_part() -> None:
    budget = ByteBudget(240 * MIB)
    for number, key in enumerate("abcd", 2):
        readers = stuck(budget, key, 300)
        size = sum(reader.charge.size for reader in readers)
        assert 240 * MIB // number <= size <= 240 * MIB // number + 300 * _READ


def test_item_22_a4_the_next_oldest_reads_on_when_the_oldest_ends() -> None:
    budget = ByteBudget(0)
    first, second, third = readers = [Reader(budget, "a", 4 * MIB) for _ in range(3)]
    for reader in readers:
        reader.read()
    assert [reader.paused for reader in readers] == [False, True, True]
    assert first.charge.is_contended
    # Whatever ends it.
    first.charge.close()
    first.charge.close()
    first.charge.add(MIB)
    assert [reader.paused for reader in readers] == [False, False, True]
    third.charge.close()
    assert not second.charge.is_contended
    assert budget.size == second.charge.size == _READ


def test_item_22_a4_more_room_by_a_change_of_the_limit_lets_readers_go_on() -> None:
    budget = ByteBudget(0)
    readers = stuck(budget, "a", 10)
    assert all(reader.paused for reader in readers[1:])
    budget.set_limit(20 * MIB)
    assert not any(reader.paused for reader in readers)


def test_item_22_a4_only_as_many_are_resumed_as_there_is_room_for() -> None:
    budget = ByteBudget(128 * MIB)
    readers = stuck(budget, "a", 1000)
    readers[0].read()
    before = budget.size
    assert sum(not reader.paused for reader in readers[1:]) <= 2
    # The one of them that is the oldest now ends.
    readers[1].charge.close()
    assert sum(not reader.paused for reader in readers[2:]) * _READ <= before - budget.size + 2 * _READ


def test_item_22_a4_the_steps_grow_with_the_number_of_readers() -> None:
    def work(count: int) -> Callable[[], object]:
        def pause_and_end() -> None:
            budget = ByteBudget(0)
            readers = [Reader(budget, "a", _READ + 1) for _ in range(count)]
            for _ in range(2):
                for reader in readers:
                    reader.read()
            assert budget.size == 0

        return pause_and_end

    assert_linear(work, 200)


@given(
    st.integers(0, 40),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 20)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_item_22_a4_all_readers_finish_whatever_the_limit_and_the_order(
    limit: int, bodies: list[tuple[str, int]], random: Random
) -> None:
    budget = ByteBudget(limit * MIB)
    readers = [Reader(budget, key, length * MIB // 2) for key, length in bodies]
    going = [*readers]
    while going:
        able = [reader for reader in going if not reader.paused]
        assert able, "one of them can always go on"
        random.choice(able).read()
        going = [reader for reader in going if reader.left]
    assert budget.size == 0 and not budget._accounts


def test_what_is_complete_counts_until_it_is_closed_and_no_more_than_a_part_of_it_is_held() -> None:
    budget = ByteBudget(64 * MIB)
    readers = [Held(budget, "alice", 8 * MIB) for _ in range(40)]
    read_all([*readers])
    # One half, and what one reader brings.
    assert 32 * MIB <= budget.held <= 40 * MIB
    assert sum(not reader.left for reader in readers) == budget.held // (8 * MIB)
    other = Held(budget, "bob", 8 * MIB)
    read_all([other])
    assert not other.left
    for count in range(40):
        # Each that ends lets another one come, in the order in which they came.
        assert not readers[count].left
        readers[count].charge.close()
        read_all([*readers])
        assert budget.held - 8 * MIB <= 40 * MIB
    other.charge.close()
    assert (budget.held, budget.size) == (0, 0)


class Held(Reader):
    """A reader whose bytes are held when all of them have come."""

    def read(self) -> bool:
        if self.paused or not self.left:
            return False
        size = min(self.left, _READ)
        self.left -= size
        self.charge.add(size)
        if not self.left:
            self.charge.complete()
        return True


def test_readers_of_unknown_size_take_turns_and_wait_for_room() -> None:
    budget = ByteBudget(64 * MIB)
    reading, most = 0, 0
    charges: list[ReaderCharge] = []

    async def read(key: str) -> None:
        nonlocal reading, most
        async with budget.turn(key) as charge:
            reading, most = reading + 1, max(most, reading + 1)
            await asyncio.sleep(0)
            charge.take(4 * MIB)
            reading -= 1
        charges.append(charge)

    async def main() -> None:
        tasks = [asyncio.create_task(read("alice")) for _ in range(16)]
        await virtual_time.virtual_loop().quiet()
        # One half of the budget, and not more at a time than may read.
        assert (len(charges), most) == (8, 4)
        await read("bob")
        charges.pop().close()
        for task in tasks[8:11]:
            charges.pop(0).close()
            await task
        tasks[11].cancel()
        await asyncio.wait(tasks[11:12])
        # The others waited for too long.
        for task in tasks[12:]:
            with pytest.raises(OffloadBusy):
                await task
        for charge in charges:
            charge.close()
        assert (budget.held, budget.size) == (0, 0)
        await read("alice")

    virtual_time.run(main())
