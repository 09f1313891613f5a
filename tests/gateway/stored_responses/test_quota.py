"""How much may be stored: limits, reservations, what is out of date, and other workers (item 22 A7)."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from dragoman.config.settings import MEBIBYTE, Storage
from dragoman.database_location import MEMORY
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses.quota import Quota
from dragoman.gateway.stored_responses.store_failures import NotStored, StorageFull
from dragoman.store import Tables
from tests.store.asked import another
from tests.store.in_place import InPlace
from tests.store.opened import ALICE, BOB, DAY, Clock, item, kept, opened, sqlite
from tests.virtual_time import run, virtual_loop

# What `_add` stores.
SIZE = 256 + len(kept("r0").body)


def _add(tables: Tables, count: int, owner: bytes = ALICE) -> None:
    for number in range(count):
        assert tables.responses.add(owner, kept(f"r{number}" if owner == ALICE else f"b{number}"))


def _quota(tables: Tables, total: int = 0, own: int = 0, path: str = "file") -> Quota:
    storage = Storage(path=path, max_bytes=total, max_bytes_per_key=own)
    return Quota(storage, InPlace(tables), Log(io.StringIO()), virtual_loop().time, tables.bytes_by_owner())


def _with_tables(work: Callable[[Tables, Clock], Coroutine[None, None, None]], path: Path | str = MEMORY) -> None:
    clock = Clock()

    async def main() -> None:
        with opened(path, clock=clock) as tables:
            await work(tables, clock)

    run(main())


@pytest.mark.parametrize(("total", "own", "setting"), [(0, 3 * SIZE, "max_bytes_per_key"), (5 * SIZE, 0, "max_bytes")])
def test_item_22_a7_what_is_beyond_a_limit_is_refused(total: int, own: int, setting: str) -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        _add(tables, 2)
        _add(tables, 2, BOB)
        quota = _quota(tables, total, own)
        (await quota.reserve(ALICE, SIZE))()
        with pytest.raises(StorageFull, match=rf"storage\.{setting}\).*store: false") as told:
            await quota.reserve(ALICE, SIZE + 1)
        assert told.value.status == 507
        # Another key has its own room, and shares that of all.
        if own:
            await quota.reserve(BOB, SIZE)
        else:
            with pytest.raises(StorageFull):
                await quota.reserve(BOB, SIZE + 1)

    _with_tables(work)


def test_item_22_a7_exchanges_under_way_count_until_they_have_stored_something() -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        quota = _quota(tables, own=3 * SIZE)
        rooms = [await quota.reserve(ALICE, SIZE) for _ in range(3)]
        with pytest.raises(StorageFull):
            await quota.reserve(ALICE, 1)
        rooms.pop()()
        rooms.append(await quota.reserve(ALICE, SIZE))
        for room in rooms:
            room()
        _add(tables, 3)
        with pytest.raises(StorageFull):
            await quota.reserve(ALICE, 1)
        tables.responses.delete(ALICE, "r0")
        await quota.reserve(ALICE, SIZE)

    _with_tables(work)


def test_item_22_a7_what_is_out_of_date_goes_first() -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        _add(tables, 100)
        quota = _quota(tables, own=100 * SIZE)
        tables.conversations.create(ALICE, "c1", b"{}", [item("q1")])
        with pytest.raises(StorageFull):
            await quota.reserve(ALICE, SIZE)
        clock.now += 31 * DAY
        # As much as is needed, and no more at once.
        await quota.reserve(ALICE, 50 * SIZE)
        assert 0 < tables.stored(ALICE).own <= 50 * SIZE
        await quota.reserve(ALICE, 50 * SIZE)
        assert tables.stored(ALICE).own == 0

    _with_tables(work)


def test_item_22_a7_what_other_workers_store_counts_within_a_second(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def work(tables: Tables, clock: Clock) -> None:
        quota = _quota(tables, own=10 * SIZE)
        (await quota.reserve(ALICE, SIZE))()
        with opened(path, clock=clock) as others:
            _add(others, 10)
        await asyncio.sleep(1)
        # Nobody waits for a sum as long as the last one was far from the limit.
        (await quota.reserve(ALICE, SIZE))()
        await asyncio.sleep(0)
        with pytest.raises(StorageFull):
            await quota.reserve(ALICE, SIZE)

    _with_tables(work, path)


def test_item_22_a7_the_store_is_not_asked_by_every_request() -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        asked: list[str] = []
        quota = _quota(tables, total=10_000 * SIZE, own=2000 * SIZE)
        sqlite(tables.connection).set_trace_callback(asked.append)
        for _ in range(900):
            (await quota.reserve(ALICE, SIZE))()
        sqlite(tables.connection).set_trace_callback(None)
        assert sum("WHERE owner" in statement for statement in asked) == 1

    _with_tables(work)


def test_item_22_a7_without_limits_nothing_is_asked_and_in_memory_there_is_one() -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        asked: list[str] = []
        for quota in (_quota(tables), _quota(tables, path=MEMORY)):
            sqlite(tables.connection).set_trace_callback(asked.append)
            await quota.reserve(ALICE, 10**15)
            sqlite(tables.connection).set_trace_callback(None)
        assert asked == []
        defaults = Storage()
        for path in ("", MEMORY):
            quota = _quota(tables, defaults.max_bytes, defaults.max_bytes_per_key, path)
            await quota.reserve(ALICE, 256 * MEBIBYTE)
            with pytest.raises(StorageFull, match="max_bytes"):
                await quota.reserve(BOB, 1)

    _with_tables(work)


def test_item_22_a7_a_store_that_cannot_be_read_is_no_full_one() -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        quota = _quota(tables, own=4 * SIZE)
        tables.connection.change("DROP TABLE stored_bytes")
        # Far from the limit, whoever stores something finds out.
        (await quota.reserve(ALICE, SIZE))()
        await asyncio.sleep(0)
        with pytest.raises(NotStored, match="nothing was done") as told:
            await quota.reserve(ALICE, 3 * SIZE)
        assert told.value.status == 500


def test_item_22_a7_what_was_stored_before_the_start_counts_at_once() -> None:
    async def work(tables: Tables, clock: Clock) -> None:
        _add(tables, 9)
        quota = _quota(tables, own=10 * SIZE)
        with pytest.raises(StorageFull):
            await quota.reserve(ALICE, 2 * SIZE)

    _with_tables(work)


def test_item_22_a7_a_store_that_is_slow_holds_up_nobody_who_is_far_from_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def work(tables: Tables, clock: Clock) -> None:
        quota = _quota(tables, own=100 * SIZE)
        with another(path) as db:
            db.execute("BEGIN IMMEDIATE")
            now = virtual_loop().time()
            (await quota.reserve(ALICE, SIZE))()
            assert virtual_loop().time() == now
            db.execute("ROLLBACK")
        await asyncio.sleep(1)

    _with_tables(work, path)

    _with_tables(work)
