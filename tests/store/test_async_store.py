"""What is asked of the store: who waits and who leaves, posts, a store that failed, and how it is closed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import Expedite, LeaseLost, StoreBusy, StoreError, Tables, open_tables
from dragoman.store import async_store as interface_module
from dragoman.store import worker_thread as thread_module
from dragoman.store.async_store import Store
from dragoman.store.errors import StoreFull
from tests.store.asked import (
    Gate,
    Lost,
    add,
    another,
    asking,
    asking_in_virtual_time,
    known,
    put,
    raising,
    sizes,
    statements,
)
from tests.store.opened import ALICE, BOB, item
from tests.virtual_time import run, virtual_loop
from tests.waiting import wait_until_async

T = TypeVar("T")
FULL = 1_000_000


def _small_disk() -> Tables:
    tables = open_tables(MEMORY, 30)
    tables.connection.change("PRAGMA max_page_count = 150")
    return tables


def test_what_a_unit_gives_and_raises_reaches_who_asked_for_it() -> None:
    def append(tables: Tables) -> bool:
        tables.conversations.create(ALICE, "c1", b"{}", ())
        return tables.conversations.append(ALICE, "c1", [item("i1")], "somebody")

    async def main() -> None:
        async with asking() as store:
            assert await store.write(add("r1")) is True
            found = await store.read(lambda tables: tables.responses.find(ALICE, "r1"))
            assert found is not None and found.id == "r1"
            with pytest.raises(LeaseLost):
                await store.write(append)
            assert await store.read(lambda tables: tables.conversations.find(ALICE, "c1")) is None

    asyncio.run(main())


def test_work_of_one_owner_keeps_its_order_and_that_of_others_goes_on_meanwhile(tmp_path: Path) -> None:
    path, gate = str(tmp_path / "state.db"), Gate()
    # These two have different connections of two.
    assert crc32(ALICE) % 2 != crc32(BOB) % 2

    async def main() -> None:
        store = Store(open_tables(path, 30), Lost(), more=[open_tables(path, 30)])
        held = store.read(gate, owner=ALICE)
        await gate.passed_by_nobody()
        store.post(lambda tables: tables.turns.add(ALICE, "call", b"turn"), owner=ALICE)
        turns = store.read(lambda tables: tables.turns.find(ALICE, ["call"]), owner=ALICE)
        assert await store.read(lambda tables: tables.turns.find(ALICE, ["call"]), owner=BOB) == {}
        assert not held.done() and not turns.done() and store.is_working()
        gate.open()
        assert await turns == {"call": b"turn"}
        await store.close()

    asyncio.run(main())


def test_the_loop_goes_on_meanwhile() -> None:
    async def main() -> None:
        async with asking() as store:
            gate = Gate()
            held = store.write(gate)
            await gate.passed_by_nobody()
            assert not held.done()
            gate.open()
            await held

    asyncio.run(main())


def test_what_is_told_was_committed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        async with asking(open_tables(str(path), 30)) as store:
            for count in range(20):
                await store.write(put(count))
                with another(path) as db:
                    assert db.execute("SELECT count(*) FROM events").fetchone() == (count + 1,)

    asyncio.run(main())


@pytest.mark.parametrize("at_last", [False, True], ids=["dropped", "at last"])
def test_who_leaves_before_it_has_begun_leaves_it_undone_unless_it_is_a_last_one(at_last: bool) -> None:
    async def main() -> None:
        lost = Lost()
        async with asking(lost=lost) as store:
            gate = Gate()
            held = store.read(gate)
            unheard: list[None] = []
            written, read = store.write(put(1), at_last=at_last, on_abandoned=unheard.append), store.read(sizes)
            waits, looks = asyncio.ensure_future(_wait(written)), asyncio.ensure_future(_wait(read))
            await gate.passed_by_nobody()
            for task in (waits, looks):
                task.cancel()
            await asyncio.wait([waits, looks])
            assert waits.cancelled() and looks.cancelled()
            gate.open()
            await held
            assert await store.read(sizes) == ([1] if at_last else [])
            await asyncio.sleep(0)
            assert unheard == ([None] if at_last else [])
            assert lost == []

    asyncio.run(main())


async def _wait(future: asyncio.Future[T]) -> T:
    return await future


def test_what_has_begun_is_done_though_nobody_waits_and_somebody_else_hears_of_it() -> None:
    def work(gate: Gate, tables: Tables) -> str:
        gate(tables)
        put(1)(tables)
        return "done"

    async def main() -> None:
        async with asking() as store:
            gate = Gate()
            heard: list[str] = []
            future = store.write(partial(work, gate), on_abandoned=heard.append)
            await gate.passed_by_nobody()
            future.cancel()
            gate.open()
            assert await store.read(sizes) == [1]
            await wait_until_async(lambda: heard == ["done"], "somebody else hears of it")

    asyncio.run(main())


def test_who_waits_is_told_and_nobody_else() -> None:
    async def main() -> None:
        async with asking() as store:
            heard: list[None] = []
            await store.write(put(1), on_abandoned=heard.append)
            await store.read(sizes)
            assert heard == []

    asyncio.run(main())


def test_a_last_one_that_fails_unheard_is_said_to_be_lost() -> None:
    async def main() -> None:
        lost = Lost()
        async with asking(_small_disk(), lost) as store:
            gate = Gate()
            held = store.read(gate)
            future = store.write(put(FULL), at_last=True, response_size=lambda: FULL)
            future.cancel()
            gate.open()
            await held
            await store.read(sizes)
            await asyncio.sleep(0)
            assert lost == [("database or disk is full", 1)]
            assert store.failed

    asyncio.run(main())


def test_what_is_stuck_is_dropped_when_nobody_waits_any_more(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")
                gone, last = store.write(put(1)), store.write(put(2), at_last=True)
                store.post(put(3))
                await asyncio.sleep(1)
                gone.cancel()
                last.cancel()
                await asyncio.sleep(1)
                db.execute("ROLLBACK")
                await asyncio.sleep(1)
                assert await store.read(sizes) == [2, 3]

    run(main())


def test_posts_are_done_in_their_turn_and_what_they_raise_is_said_to_be_lost() -> None:
    async def main() -> None:
        lost = Lost()
        async with asking(lost=lost) as store:
            store.post(put(1))
            store.post(raising(ValueError("said")))
            store.post(put(2), size=100)
            assert await store.read(sizes) == [1, 2]
            await asyncio.sleep(0)
            assert lost == [("said", 1)]
            assert not store.failed

    asyncio.run(main())


@pytest.mark.parametrize("size", [0, 100], ids=["small", "by bytes"])
def test_too_many_posts_are_dropped_counted_and_said_to_be_lost(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(interface_module, "_MAX_POSTS", 3)
    monkeypatch.setattr(interface_module, "_MAX_POST_BYTES", 350)

    async def main() -> None:
        lost = Lost()
        async with asking(lost=lost) as store:
            gate = Gate()
            held = store.read(gate)
            for count in range(8):
                store.post(put(count), size)
            assert store.dropped == 5
            assert lost == [("the write queue is full", 1)]
            # Those of the other kind wait apart.
            store.post(put(20), 100 - size)
            gate.open()
            await held
            assert await store.read(sizes) == [0, 1, 2, 20]
            store.post(put(30), size)
            assert await store.read(sizes) == [0, 1, 2, 20, 30]
            assert lost == [("the write queue is full", 1), ("the write queue was full", 4)]
            assert store.dropped == 5

    asyncio.run(main())


def test_posts_wait_for_as_long_as_the_store_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.db"
    # An hour of tries every 50 ms would be long for a test.
    monkeypatch.setattr(thread_module, "_MAX_PAUSE", 60.0)

    async def main() -> None:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")
                store.post(put(1))
                await asyncio.sleep(3600)
                assert await store.read(sizes) == []
                db.execute("ROLLBACK")
                await asyncio.sleep(60)
                assert await store.read(sizes) == [1]

    run(main())


def test_a_store_that_failed_is_tried_with_as_much_before_it_is_asked_again() -> None:
    async def main() -> None:
        tables = _small_disk()
        async with asking(tables) as store:
            with statements(tables) as said:
                await store.check()
                await store.read(sizes)
            assert not any("INSERT" in statement for statement in said)
            with pytest.raises(StoreError, match="full"):
                await store.write(put(FULL), response_size=lambda: FULL)
            assert store.failed
            # A little would find room.
            await store.write(put(1))
            with pytest.raises(StoreError, match="full"):
                await store.check()
            tables.connection.change("PRAGMA max_page_count = 1000000")
            await store.check()
            assert store.failed
            assert await store.read(sizes) == [1]
            assert await store.read(lambda tables: tables.responses.items("", 0)) == []
            await store.write(put(2), response_size=lambda: 2)
            assert not store.failed

    asyncio.run(main())


def test_what_is_raised_by_a_unit_of_its_own_is_no_failure_of_the_store() -> None:
    async def main() -> None:
        async with asking() as store:
            with pytest.raises(ValueError, match="said"):
                await store.write(raising(ValueError("said")), response_size=lambda: 1)
            with pytest.raises(StoreError, match="readonly"):
                await store.read(put(1))
            assert not store.failed

    asyncio.run(main())


def test_a_busy_store_has_failed_when_patience_is_over_and_a_try_has_little(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> float:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreBusy):
                    await store.write(put(1), response_size=lambda: 1)
                assert store.failed
                began = virtual_loop().time()
                with pytest.raises(StoreBusy):
                    await store.check()
                db.execute("ROLLBACK")
                return virtual_loop().time() - began

    assert 1 <= run(main()) <= 1.06


def test_what_was_asked_for_is_done_before_it_is_closed_and_nothing_after() -> None:
    async def main() -> None:
        lost = Lost()
        tables = open_tables(MEMORY, 30)
        found: list[list[int]] = []
        store = Store(tables, lost)
        gate = Gate()
        held = store.read(gate)
        written = [store.write(put(1)), store.write(lambda tables: found.append(sizes(tables)))]
        store.post(put(2))
        store.post(lambda tables: found.append(sizes(tables)))
        gate.open()
        await store.close()
        assert all(future.done() for future in (held, *written))
        assert found == [[1], [1, 2]]
        with pytest.raises(StoreError, match="closed"):
            sizes(tables)
        for ask in (store.read, store.write):
            refused = ask(sizes)
            assert refused.done()
            with pytest.raises(StoreError, match="closed"):
                await refused
        store.post(sizes)
        assert lost == [("the store is closed", 1)]
        await store.close()

    asyncio.run(main())


def test_one_that_nobody_asked_is_closed_as_well() -> None:
    async def main() -> None:
        tables = open_tables(MEMORY, 30)
        await Store(tables, Lost()).close()
        with pytest.raises(StoreError, match="closed"):
            sizes(tables)

    asyncio.run(main())


def test_what_is_stuck_when_it_is_closed_is_tried_for_as_long_as_there_is_time(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main(frees_after: float) -> tuple[float, list[object], Lost]:
        lost = Lost()
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30), lost) as store:
                loop = virtual_loop()
                db.execute("BEGIN IMMEDIATE")
                frees = loop.call_later(frees_after, db.execute, "ROLLBACK")
                written = [store.write(put(1)), store.write(put(2), 0.5)]
                store.post(put(3))
                await asyncio.sleep(0.25)
                await store.close(2.0)
                frees.cancel()
                return loop.time(), await asyncio.gather(*written, return_exceptions=True), lost

    ended, came, lost = run(main(1.0))
    assert 1.0 <= ended <= 1.06
    assert came[0] is None and type(came[1]) is StoreBusy and lost == []
    ended, came, lost = run(main(100.0))
    assert 2.25 <= ended <= 2.31
    assert type(came[0]) is StoreError and type(came[1]) is StoreBusy
    assert lost == [("the store was closed before this could be done", 1)]


def test_a_thread_that_does_not_come_back_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interface_module, "_GRACE", 0.01)

    async def main() -> None:
        lost = Lost()
        store = Store(open_tables(MEMORY, 30), lost)
        gate = Gate()
        held = store.read(gate)
        await gate.passed_by_nobody()
        await store.close(0.0)
        assert lost == [("the file cannot be closed in time", 1)]
        gate.open()
        await held
        await store.close()

    asyncio.run(main())


class Held:
    """Something that must not be left behind."""


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _raise(tables: Tables) -> None:
    raise ValueError("said")


def _taking(held: Held, then: Callable[[Tables], object], tables: Tables) -> object:
    return then(tables)


Reference = weakref.ReferenceType[Held] | weakref.ReferenceType[asyncio.Future[object]]


def _all_gone(left: list[Reference]) -> bool:
    """As soon as the thread has turned to something else."""
    return all(reference() is None for reference in left)


@pytest.mark.parametrize(
    "then",
    [put(1), put(FULL), _raise, sizes, lambda tables: tables.connection.change("X")],
    ids=["done", "full", "raised", "read", "failed"],
)
def test_nothing_is_left_of_a_unit_without_the_collector(then: Callable[[Tables], object]) -> None:
    async def main() -> None:
        async with asking(_small_disk()) as store:
            for ask in (store.read, store.write):
                for leave in (False, True):
                    held = Held()
                    future = ask(partial(_taking, held, then))
                    left: list[Reference] = [weakref.ref(held), weakref.ref(future)]
                    if leave:
                        future.cancel()
                    with suppress(StoreError, ValueError, asyncio.CancelledError):
                        await future
                    del held, future
                    await wait_until_async(partial(_all_gone, left), "nothing is left of the unit")
            held = Held()
            store.post(partial(_taking, held, then))
            left = [weakref.ref(held)]
            del held
            await wait_until_async(partial(_all_gone, left), "nothing is left of the unit")

    with _without_collector():
        asyncio.run(main())


def test_whoever_loses_patience_has_the_store_tried_once_more(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "state.db"
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with another(path) as other:
                for count, free in enumerate((False, True)):
                    other.execute("BEGIN IMMEDIATE")
                    haste = Expedite()
                    writing = store.write(add(f"r{count}"), expedite=haste)
                    await asyncio.sleep(1)
                    assert not writing.done()
                    if free:
                        other.execute("ROLLBACK")
                    # In the same moment of the loop's time, before the next try is due.
                    now = asyncio.get_running_loop().time()
                    store.expedite_now(haste)
                    await asyncio.wait({writing})
                    assert asyncio.get_running_loop().time() == now
                    assert isinstance(writing.exception(), StoreBusy) is not free
                    if not free:
                        other.execute("ROLLBACK")
                assert [await store.read(known(name)) for name in ("r0", "r1")] == [False, True]

    run(main())


def test_what_does_not_count_says_nothing_of_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "state.db"
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with another(path) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreBusy):
                    await store.write(add("r1"), 0.0, counts=False)
                assert not store.failed
                with pytest.raises(StoreBusy):
                    await store.write(add("r1"), 0.0)
                assert store.failed

    run(main())


def test_item_22_a6_a_client_that_cannot_wait_says_nothing_of_the_store(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "state.db"
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with another(path) as other:
                other.execute("BEGIN IMMEDIATE")
                haste = Expedite()
                writing = store.write(add("r1"), expedite=haste, response_size=lambda: 1)
                store.expedite_now(haste)
                with pytest.raises(StoreBusy):
                    await writing
                assert not store.failed
                # Nobody is refused for it, nor has to wait.
                now = virtual_loop().time()
                await store.check()
                assert virtual_loop().time() == now

    run(main())


def test_item_22_a6_one_try_is_made_for_all_who_ask_at_a_time() -> None:
    async def main() -> None:
        tables = _small_disk()
        async with asking(tables) as store:
            with pytest.raises(StoreError, match="full"):
                await store.write(put(FULL), response_size=lambda: FULL)
            with statements(tables) as said:
                leaving = asyncio.ensure_future(store.check())
                checks = [asyncio.ensure_future(store.check()) for _ in range(50)]
                await asyncio.sleep(0)
                leaving.cancel()
                came = await asyncio.gather(*checks, return_exceptions=True)
                assert {type(each) for each in came} == {StoreFull} and len({id(each) for each in came}) == 50
                tables.connection.change("PRAGMA max_page_count = 1000000")
                await asyncio.gather(*(store.check() for _ in range(50)))
            # The first try fails, the second is taken back.
            assert said.count("BEGIN IMMEDIATE") == 3

    asyncio.run(main())


def test_item_22_a6_a_try_waits_for_as_long_as_others_commit(tmp_path: Path) -> None:
    async def main() -> float:
        path = tmp_path / "state.db"
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with another(path) as db:
                db.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreBusy):
                    await store.write(add("r1"), response_size=lambda: 1)
                assert store.failed

                def commit() -> None:
                    db.execute("INSERT INTO promises VALUES (hex(randomblob(8)), 0)")
                    db.execute("COMMIT")
                    db.execute("BEGIN IMMEDIATE")

                began = virtual_loop().time()
                for count in range(1, 10):
                    virtual_loop().call_later(0.9 * count, commit)
                virtual_loop().call_later(8.5, db.execute, "ROLLBACK")
                await store.check()
                return virtual_loop().time() - began

    assert 8.5 <= run(main()) <= 8.6
