"""The store's thread: order, one transaction for what waits, others that hold the file, a full disk, and its end."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import StoreBusy, StoreError, Tables, open_tables
from dragoman.store.async_store import Store
from dragoman.store.errors import StoreConflict, StoreFull
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
from tests.store.opened import ALICE
from tests.virtual_time import run, virtual_loop
from tests.waiting import wait_until_async


def _thread(tables: Tables) -> threading.Thread:
    return threading.current_thread()


def _threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "store"]


def test_there_is_one_thread_which_begins_with_the_first_unit_and_ends_with_the_store() -> None:
    async def main() -> None:
        before = _threads()
        async with asking() as store:
            # Those of other stores may be ending meanwhile.
            assert set(_threads()) <= set(before)
            thread = await store.read(_thread)
            assert thread.daemon and thread is not threading.current_thread()
            assert await store.write(_thread) is thread
        await wait_until_async(lambda: not thread.is_alive(), "the thread has ended")

    asyncio.run(main())


@pytest.mark.parametrize("where", ["file", MEMORY])
def test_one_after_the_other_as_asked_for(tmp_path: Path, where: str) -> None:
    async def main() -> None:
        async with asking(open_tables(str(tmp_path / "state.db") if where == "file" else MEMORY, 30)) as store:
            gate = Gate()
            held = store.read(gate)
            found = []
            for count in range(1, 40):
                (store.post if count % 3 else store.write)(put(count))
                found.append(store.read(sizes))
            gate.open()
            await held
            assert await asyncio.gather(*found) == [list(range(1, count + 1)) for count in range(1, 40)]

    asyncio.run(main())


def test_all_that_waits_is_written_in_one_transaction(tmp_path: Path) -> None:
    async def main() -> None:
        tables = open_tables(str(tmp_path / "state.db"), 30)
        async with asking(tables) as store:
            gate = Gate()
            held = store.read(gate)
            await gate.passed_by_nobody()
            with statements(tables) as said:
                written = [store.write(put(count)) for count in range(20)]
                gate.open()
                await asyncio.gather(held, *written)
            assert said.count("BEGIN IMMEDIATE") == said.count("COMMIT") - 1 == 1
            assert await store.read(sizes) == list(range(20))

    asyncio.run(main())


def test_more_than_is_taken_at_once_is_written_all_the_same() -> None:
    async def main() -> None:
        async with asking() as store:
            gate = Gate()
            held = store.read(gate)
            written = [store.write(put(count)) for count in range(1000)]
            gate.open()
            await asyncio.gather(held, *written)
            assert await store.read(sizes) == list(range(1000))

    asyncio.run(main())


def test_a_unit_that_raises_is_undone_alone() -> None:
    async def main() -> None:
        async with asking() as store:
            gate = Gate()
            held = store.read(gate)
            units = [put(1), raising(ValueError("said")), put(2), lambda tables: tables.connection.change("X"), put(3)]
            written = [store.write(unit) for unit in units]
            gate.open()
            await held
            came = await asyncio.gather(*written, return_exceptions=True)
            assert [type(each) for each in came] == [type(None), ValueError, type(None), StoreError, type(None)]
            assert str(came[3]) == 'near "X": syntax error'
            assert await store.read(sizes) == [1, 2, 3]

    asyncio.run(main())


def test_what_a_unit_catches_is_not_kept() -> None:
    def work(tables: Tables) -> str:
        put(1)(tables)
        try:
            with tables.transaction():
                raising(ValueError("said"))(tables)
        except ValueError as error:
            return str(error)
        return ""

    async def main() -> None:
        async with asking() as store:
            assert await store.write(work) == "said"
            assert await store.read(sizes) == [1]

    asyncio.run(main())


@pytest.mark.parametrize("where", ["file", MEMORY])
def test_what_is_read_is_one_state_and_writes_nothing(tmp_path: Path, where: str) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        async with asking(open_tables(str(path) if where == "file" else MEMORY, 30)) as store:
            with pytest.raises(StoreError, match="readonly"):
                await store.read(put(1))
            await store.write(put(2))
            assert await store.read(sizes) == [2]

    def twice(tables: Tables) -> tuple[list[int], list[int]]:
        before = sizes(tables)
        with another(path) as db:
            db.execute("INSERT INTO events VALUES ('other', 9, x'00', x'')")
        return before, sizes(tables)

    async def one_state() -> None:
        async with asking(open_tables(str(path), 30)) as store:
            assert await store.read(twice) == ([2], [2])
            assert await store.read(sizes) == [2, 1]

    asyncio.run(main())
    if where == "file":
        asyncio.run(one_state())


def test_a_unit_too_large_for_the_disk_fails_alone_and_the_others_stand(tmp_path: Path) -> None:
    async def main() -> None:
        tables = open_tables(str(tmp_path / "state.db"), 30)
        tables.connection.change("PRAGMA max_page_count = 60")
        async with asking(tables) as store:
            gate = Gate()
            held = store.read(gate)
            written = [store.write(put(size)) for size in (1, 1_000_000, 2, 3)]
            gate.open()
            await held
            came = await asyncio.gather(*written, return_exceptions=True)
            assert [type(each) for each in came] == [type(None), StoreFull, type(None), type(None)]
            assert "full" in str(came[1])
            assert await store.read(sizes) == [1, 2, 3]

    asyncio.run(main())


def test_nothing_stays_of_a_unit_that_goes_on_after_the_disk_was_full() -> None:
    def work(tables: Tables) -> None:
        put(1)(tables)
        try:
            # Of a table without triggers: where there are some, SQLite undoes the statement alone.
            tables.connection.change("INSERT INTO rests VALUES ('target', 0, zeroblob(1000000))")
        except Exception:
            # Which no unit may do.
            put(2)(tables)

    async def main() -> None:
        tables = open_tables(MEMORY, 30)
        tables.connection.change("PRAGMA max_page_count = 60")
        async with asking(tables) as store:
            with pytest.raises(StoreError, match="taken back"):
                await store.write(work)
            assert await store.read(sizes) == []

    asyncio.run(main())


def test_a_commit_that_fails_is_tried_again_with_each_unit_alone() -> None:
    def insert(parent: int, tables: Tables) -> int:
        return tables.connection.change("INSERT INTO child VALUES (?)", (parent,))

    async def main() -> None:
        tables = open_tables(MEMORY, 30)
        for statement in (
            "PRAGMA foreign_keys = ON",
            "CREATE TABLE parent (id INTEGER PRIMARY KEY)",
            "INSERT INTO parent VALUES (1)",
            "CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
        ):
            tables.connection.change(statement)
        async with asking(tables) as store:
            gate = Gate()
            held = store.read(gate)
            written = [store.write(partial(insert, parent)) for parent in (1, 2, 1)]
            gate.open()
            await held
            came = await asyncio.gather(*written, return_exceptions=True)
            assert came[0] == came[2] == 1
            assert type(came[1]) is StoreError and "FOREIGN KEY" in str(came[1])

    asyncio.run(main())


def test_what_is_read_passes_what_is_stuck_and_that_is_done_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        async with asking(open_tables(str(path), 30)) as store:
            await store.write(put(1))
            with another(path) as db:
                db.execute("BEGIN IMMEDIATE")
                written = [store.write(put(size)) for size in (2, 3)]
                for _ in range(3):
                    assert await store.read(sizes) == [1]
                written.append(store.write(put(4)))
                assert await store.read(sizes) == [1]
                assert not any(future.done() for future in written)
                db.execute("COMMIT")
                await asyncio.gather(*written)
                assert await store.read(sizes) == [1, 2, 3, 4]

    asyncio.run(main())


def test_one_at_a_time_is_tried_and_nothing_is_begun_while_another_process_writes(tmp_path: Path) -> None:
    path, begun = tmp_path / "state.db", list[int]()

    def work(number: int, tables: Tables) -> bool:
        begun.append(number)
        return add(f"r{number}")(tables)

    async def main() -> None:
        tables = open_tables(str(path), 30)
        async with asking_in_virtual_time(tables) as store:
            with another(path) as db, statements(tables) as said:
                db.execute("BEGIN IMMEDIATE")
                writing = [store.write(partial(work, number)) for number in range(5)]
                await asyncio.sleep(0.4)
                assert not begun and not any(future.done() for future in writing)
                # Every 50 ms after the first moments, for all of them together.
                assert 8 <= said.count("BEGIN IMMEDIATE") <= 16
                db.execute("ROLLBACK")
                assert await asyncio.gather(*writing) == [True] * 5
            assert begun == [0, 1, 2, 3, 4]
            # It was busy, and did not fail.
            assert not store.failed

    run(main())


def test_two_that_write_the_same_file_at_once_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "state.db")

    async def keep(store: Store, name: str) -> None:
        for turn in range(20):
            assert all(await asyncio.gather(*(store.write(add(f"{name}-{turn}-{count}")) for count in range(5))))

    def count(tables: Tables) -> int:
        return tables.connection.number("SELECT count(*) FROM responses")

    async def main() -> None:
        async with asking(open_tables(path, 30)) as one, asking(open_tables(path, 30)) as other:
            await asyncio.gather(keep(one, "a"), keep(one, "b"), keep(other, "c"), keep(other, "d"))
            assert await one.read(count) == await other.read(count) == 400

    asyncio.run(main())


def test_who_holds_the_file_for_itself_lets_nobody_read_for_as_long(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    open_tables(str(path), 30).close()

    async def main() -> None:
        with another(path) as db:
            tables = open_tables(str(path), 30)
            # Without a log that is written ahead, readers meet writers.
            tables.connection.change("PRAGMA journal_mode = DELETE")
            async with asking(tables) as store:
                db.execute("BEGIN EXCLUSIVE")
                with pytest.raises(StoreBusy):
                    await store.read(sizes, 0.01)
                read, written = store.read(sizes), store.write(put(1))
                await wait_until_async(lambda: not store.is_working(), "the thread waits for the file")
                assert not read.done() and not written.done()
                db.execute("ROLLBACK")
                assert await read == []
                await written

    asyncio.run(main())


def test_each_waits_for_as_long_as_its_own_patience(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def ends_at(future: asyncio.Future[None]) -> float:
        with pytest.raises(StoreBusy, match="another process holds the file for too long"):
            await future
        return virtual_loop().time()

    async def main() -> list[float]:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")
                times = await asyncio.gather(*(ends_at(store.write(put(1), seconds)) for seconds in (1, 0, 0.5, 2)))
                assert await store.read(sizes) == []
                return times

    times = run(main())
    for late, wanted in zip(times, (1, 0, 0.5, 2), strict=True):
        assert wanted <= late <= wanted + 0.06


def test_what_is_held_for_a_while_is_written_soon_after(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> tuple[float, float, list[int]]:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")
                virtual_loop().call_later(0.004, db.execute, "ROLLBACK")
                await store.write(put(1))
                first = virtual_loop().time()
                db.execute("BEGIN IMMEDIATE")
                virtual_loop().call_later(3, db.execute, "ROLLBACK")
                store.post(put(2))
                await store.write(put(3))
                return first, virtual_loop().time() - first, await store.read(sizes)

    first, second, found = run(main())
    assert 0.004 <= first <= 0.01
    assert 3 <= second <= 3.06
    assert found == [1, 2, 3]


def test_what_breaks_the_thread_fails_all_that_it_has_at_hand_and_it_goes_on() -> None:
    breaks: list[MemoryError] = []

    def clock() -> float:
        if breaks and threading.current_thread().name == "store":
            raise breaks.pop()
        return 0.0

    async def main() -> None:
        lost = Lost()
        store = Store(open_tables(MEMORY, 30), lost, clock)
        gate = Gate()
        held = store.write(gate)
        await gate.passed_by_nobody()
        told = store.write(lambda tables: breaks.append(MemoryError("no room for thought")))
        read, written = store.read(sizes), store.write(put(1))
        store.post(put(2))
        gate.open()
        await asyncio.gather(held, told)
        for future in (read, written):
            with pytest.raises(StoreError, match="no room for thought"):
                await future
        await store.write(put(3))
        assert await store.read(sizes) == [3]
        assert lost == [("no room for thought", 1)]
        await store.close()

    asyncio.run(main())


def test_a_thread_that_cannot_begin_is_an_error_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        async with asking() as store:
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", start)
                with pytest.raises(StoreError, match="can't start"):
                    await store.read(sizes)
            assert await store.read(sizes) == []

    asyncio.run(main())


def test_a_loop_that_was_closed_does_not_stop_the_thread() -> None:
    gate = Gate()
    store = Store(open_tables(MEMORY, 30), Lost())

    async def leaves() -> None:
        store.post(gate)
        store.post(put(1))
        await gate.passed_by_nobody()

    async def comes() -> None:
        await store.write(put(2))
        assert await store.read(sizes) == [1, 2]
        await store.close()

    asyncio.run(leaves())
    gate.open()
    asyncio.run(comes())


def test_a_file_that_was_deleted_takes_nothing_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        async with asking(open_tables(str(path), 30)) as store:
            await store.write(add("r1"))
            path.unlink()
            with pytest.raises(StoreError, match="deleted or replaced"):
                await store.write(add("r2"))
            assert await store.read(known("r1"))

    asyncio.run(main())


def test_item_22_a6_a_store_that_others_write_to_is_waited_for_as_long_as_they_commit(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    # As far apart as a unit would wait at most if nothing moved, and for much longer.
    every, times = 9.0, 20

    async def main() -> tuple[float, float, list[int]]:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")

                def commit() -> None:
                    # The file is free for no moment of the loop's time.
                    db.execute("INSERT INTO promises VALUES (hex(randomblob(8)), 0)")
                    db.execute("COMMIT")
                    db.execute("BEGIN IMMEDIATE")

                for count in range(1, times + 1):
                    virtual_loop().call_later(every * count, commit)
                impatient = store.write(put(1), 10.0)
                writing = store.write(put(2))
                with pytest.raises(StoreBusy):
                    await impatient
                gave_up = virtual_loop().time()
                virtual_loop().call_at(every * times + 1, db.execute, "ROLLBACK")
                await writing
                return gave_up, virtual_loop().time(), await store.read(sizes)

    gave_up, written, found = run(main())
    assert 10 <= gave_up <= 10.06
    assert every * times + 1 <= written <= every * times + 1.06
    assert found == [2]


def test_item_22_a6_a_store_that_stands_still_after_others_have_committed_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> float:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")

                def commit() -> None:
                    db.execute("INSERT INTO promises VALUES ('r', 0)")
                    db.execute("COMMIT")
                    db.execute("BEGIN IMMEDIATE")

                virtual_loop().call_later(5, commit)
                with pytest.raises(StoreBusy, match="another process holds the file for too long"):
                    await store.write(put(1))
                db.execute("ROLLBACK")
                return virtual_loop().time()

    assert 15 <= run(main()) <= 15.2


def test_item_22_a6_a_store_is_tried_soon_after_another_process_has_committed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> float:
        with another(path) as db:
            async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
                db.execute("BEGIN IMMEDIATE")

                def commit() -> None:
                    db.execute("INSERT INTO promises VALUES ('r', 0)")
                    db.execute("COMMIT")
                    db.execute("BEGIN IMMEDIATE")

                # By then it is tried every 50 ms; what was seen within those is followed by quick tries.
                virtual_loop().call_later(3, commit)
                virtual_loop().call_later(3.06, db.execute, "ROLLBACK")
                await store.write(put(1))
                return virtual_loop().time()

    assert 3.06 <= run(main()) <= 3.1


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize(("conflicts", "runs"), [(0, 1), (1, 2), (3, 4), (9, 4)])
def test_work_that_conflicts_with_another_transaction_is_done_again(conflicts: int, runs: int, writes: bool) -> None:
    done: list[int] = []

    def work(tables: Tables) -> str:
        done.append(len(done))
        if writes:
            # What an earlier run wrote is gone.
            assert tables.conversations.find(ALICE, "c1") is None
            tables.conversations.create(ALICE, "c1", b"{}", ())
        if len(done) <= conflicts:
            raise StoreConflict("another transaction changed the same rows")
        return "done"

    async def main() -> None:
        async with asking() as store:
            asked = store.write(work) if writes else store.read(work)
            if conflicts < 4:
                assert await asked == "done"
            else:
                with pytest.raises(StoreConflict):
                    await asked
            found = await store.read(lambda tables: tables.conversations.find(ALICE, "c1"))
            assert (found is not None) is (writes and conflicts < 4)

    asyncio.run(main())
    assert len(done) == runs


def test_a_conflict_of_one_unit_does_not_touch_those_beside_it() -> None:
    tries: list[int] = []

    def conflicting(tables: Tables) -> None:
        tries.append(1)
        raise StoreConflict("another transaction changed the same rows")

    async def main() -> None:
        async with asking() as store:
            gate = Gate()
            held = store.read(gate)
            await gate.passed_by_nobody()
            asked = store.write(add("r1")), store.write(conflicting), store.write(add("r2"))
            gate.open()
            await held
            assert [type(each) for each in await asyncio.gather(*asked, return_exceptions=True)] == [
                *(bool, StoreConflict, bool)
            ]
            assert await store.read(known("r1")) and await store.read(known("r2"))

    asyncio.run(main())
