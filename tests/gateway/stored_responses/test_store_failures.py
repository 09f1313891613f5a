"""What clients are told where the store fails, and who hears of what nobody waits for any more."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from dragoman.config.settings import Storage
from dragoman.database_location import MEMORY
from dragoman.errors import ClientError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.store_failures import NotStored, await_result, change, check, unreadable
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.store import StoreBusy, StoreError, Tables, open_tables
from dragoman.store.responses import Item
from tests import virtual_time
from tests.store.asked import add, another, asking, asking_in_virtual_time, known
from tests.store.opened import ALICE, item, kept, opened


def test_a_change_that_fails_is_told_without_the_stores_words() -> None:
    async def main() -> None:
        log = io.StringIO()
        async with asking() as store:
            assert await change(store, Log(log), ALICE, add("r1"))
            await store.read(lambda tables: None)
            await store.write(lambda tables: tables.connection.change("DROP TABLE responses") and None)
            with pytest.raises(NotStored, match="nothing was done") as told:
                await change(store, Log(log), ALICE, add("r2"))
            assert told.value.status == 500 and "no such table" in log.getvalue()

    asyncio.run(main())


def test_what_could_not_be_kept_is_refused_while_the_store_still_fails(tmp_path: Path) -> None:
    async def main() -> None:
        log, path = io.StringIO(), tmp_path / "state.db"
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with another(path) as other:
                await check(store, Log(log))
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreError):
                    await store.write(add("r1"), 0.2, response_size=lambda: 1)
                with pytest.raises(ClientError, match="is not available") as told:
                    await check(store, Log(log))
                assert told.value.status == 503 and "store is still unavailable" in log.getvalue()
                other.execute("ROLLBACK")
                await check(store, Log(log))

    virtual_time.run(main())


def test_a_store_that_stays_busy_has_failed_until_an_answer_is_kept(tmp_path: Path) -> None:
    async def main() -> None:
        log, path = io.StringIO(), tmp_path / "state.db"
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            with another(path) as other:
                other.execute("BEGIN IMMEDIATE")
                waiting = [store.write(add("r1"), 0.2) for _ in range(3)]
                for error in await asyncio.gather(*waiting, return_exceptions=True):
                    assert isinstance(error, StoreBusy)
                assert store.failed
                with pytest.raises(ClientError):
                    await check(store, Log(log))
                other.execute("ROLLBACK")
            await check(store, Log(log))
            # What was written for a try is no answer, nor is anything else.
            await store.write(add("r1"))
            assert store.failed
            await store.write(add("r2"), response_size=lambda: 9)
            assert not store.failed

    virtual_time.run(main())


def test_a_full_disk_refuses_what_is_to_be_kept_until_there_is_room_for_as_much() -> None:
    async def main() -> None:
        log, tables = io.StringIO(), open_tables(MEMORY, 30)
        db = tables.connection
        pages = db.number("PRAGMA page_count")
        db.change(f"PRAGMA max_page_count = {pages + 100}")
        large = [Item("q", bytes(1_000_000))]
        async with asking(tables) as store:
            with pytest.raises(StoreError, match="full"):
                await store.write(
                    lambda tables: tables.responses.add(ALICE, kept("r1"), large), response_size=lambda: 1_000_000
                )
            # The least that is tried would find room.
            await store.write(lambda tables: tables.write_trial(64 * 1024))
            await store.write(Tables.remove_trial)
            with pytest.raises(ClientError) as told:
                await check(store, Log(log))
            assert told.value.status == 503
            db.change(f"PRAGMA max_page_count = {pages + 1000}")
            await check(store, Log(log))
            assert await store.read(_rows) == (0, 0)

    asyncio.run(main())


def _rows(tables: Tables) -> tuple[int, int]:
    """How many responses and items there are."""
    count = "SELECT (SELECT count(*) FROM responses), (SELECT count(*) FROM items)"
    ((responses, items),) = tables.connection.rows(count)
    return responses, items


@pytest.mark.parametrize("table", ["responses", "items"])
def test_a_store_that_fails_for_answers_is_not_tried_with_anything_else(table: str) -> None:
    async def main() -> None:
        log, tables = io.StringIO(), open_tables(MEMORY, 30)
        tables.connection.change(f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT raise(FAIL, 'no'); END")
        async with asking(tables) as store:
            with pytest.raises(StoreError):
                await store.write(
                    lambda tables: tables.responses.add(ALICE, kept("r1"), [item("q")]), response_size=lambda: 1
                )
            # Something else that is kept says nothing about it.
            await store.write(lambda tables: tables.conversations.create(ALICE, "c1", b"{}", ()))
            for _ in range(3):
                with pytest.raises(ClientError):
                    await check(store, Log(log))
            assert await store.read(_rows) == (0, 0)
            await store.write(lambda tables: tables.connection.change("DROP TRIGGER t") and None)
            await check(store, Log(log))

    asyncio.run(main())


def test_to_look_something_up_says_nothing_about_writing() -> None:
    async def main() -> None:
        async with asking() as store:
            store.failed = True
            await store.read(known("r1"))
            assert store.failed
            await store.write(add("r1"), response_size=lambda: 0)
            assert not store.failed
            await store.write(lambda tables: tables.connection.change("DROP TABLE responses") and None)
            with pytest.raises(StoreError, match="no such table"):
                await store.read(known("r1"))
            assert not store.failed
            with pytest.raises(StoreError, match="no such table"):
                await store.write(lambda tables: tables.responses.delete(ALICE, "r1"))
            assert store.failed

    asyncio.run(main())


@pytest.mark.parametrize("free", [False, True], ids=["busy", "free again"])
def test_what_is_left_at_the_end_is_done_or_told_to_the_log(tmp_path: Path, free: bool) -> None:
    path, log = tmp_path / "state.db", io.StringIO()

    async def main() -> None:
        loop = virtual_time.virtual_loop()

        def alarm(seconds: float, wake: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(loop.call_later, seconds, wake)

        state = StoredState(Storage(path=str(path)), Log(log), loop.time, alarm)
        assert state.store is not None
        loop.watch(state.store.is_working)
        with another(path) as other:
            other.execute("BEGIN IMMEDIATE")
            for name in ("r1", "r2"):
                state.store.post(partial(_note, name))
            if free:
                loop.call_later(1.0, other.execute, "ROLLBACK")
            await state.close(0.0)

    virtual_time.run(main())
    with opened(path) as tables:
        assert [tables.responses.exists(name) for name in ("r1", "r2")] == [free, free]
    assert log.getvalue().count("cannot store cached turns") == (0 if free else 2)


def _note(name: str, tables: Tables) -> None:
    tables.responses.record_owner(ALICE, name, "chat")


def test_what_a_store_that_fails_was_left_to_do_is_told_to_the_log_and_not_repeated() -> None:
    async def main() -> None:
        log = io.StringIO()
        state = StoredState(Storage(), Log(log))
        store = state.store
        assert store is not None
        await store.write(lambda tables: tables.connection.change("DROP TABLE responses") and None)
        store.post(partial(_note, "r1"))
        await store.read(lambda tables: None)
        await state.close(0.0)
        assert log.getvalue().count("no such table") == 1

    asyncio.run(main())


def test_what_cannot_be_read_is_told_without_the_stores_words() -> None:
    log = io.StringIO()
    told = unreadable(StoreError("no such table: responses"), Log(log))
    assert (told.status, "table" in told.message) == (500, False)
    assert "no such table" in log.getvalue()


def test_what_comes_in_the_moment_in_which_its_waiter_leaves_is_not_lost() -> None:
    async def main() -> None:
        left: list[int] = []
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(await_result(future, left.append))
        await asyncio.sleep(0)
        future.set_result(7)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert left == [7]

    asyncio.run(main())
