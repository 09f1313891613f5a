"""What clients are told where the store fails, and who hears of what nobody waits for any more."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

from dragoman.errors import ClientError
from dragoman.gateway.records.logs import Log
from dragoman.gateway.stored_responses.store_failures import NotKept, change, check, heard, unreadable
from dragoman.store import StoreError, open_tables
from tests import virtual_time
from tests.store.asked import add, another, asking, asking_in_virtual_time


def test_a_change_that_fails_is_told_without_the_stores_words() -> None:
    async def main() -> None:
        log = io.StringIO()
        async with asking() as store:
            assert await change(store, Log(log), add("r1"))
            await store.read(lambda tables: None)
            await store.write(lambda tables: tables.connection.execute("DROP TABLE responses") and None)
            with pytest.raises(NotKept, match="nothing was done") as told:
                await change(store, Log(log), add("r2"))
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
                    await store.write(add("r1"), 0.2, answer=lambda: 1)
                with pytest.raises(ClientError, match="at present") as told:
                    await check(store, Log(log))
                assert told.value.status == 503 and "the store still fails" in log.getvalue()
                other.execute("ROLLBACK")
                await check(store, Log(log))

    virtual_time.run(main())


def test_what_cannot_be_read_is_told_without_the_stores_words() -> None:
    log = io.StringIO()
    told = unreadable(StoreError("no such table: responses"), Log(log))
    assert (told.status, "table" in told.message) == (500, False)
    assert "no such table" in log.getvalue()


def test_what_comes_in_the_moment_in_which_its_waiter_leaves_is_not_lost() -> None:
    async def main() -> None:
        left: list[int] = []
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(heard(future, left.append))
        await asyncio.sleep(0)
        future.set_result(7)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert left == [7]

    asyncio.run(main())
