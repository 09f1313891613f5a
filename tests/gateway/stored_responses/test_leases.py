"""The conversations that responses of a process have for themselves, and for how long."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from dragoman.errors import ClientError
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.stored_responses import leases as module
from dragoman.gateway.stored_responses.leases import Leases
from dragoman.store import Tables, open_tables
from dragoman.store import async_store as patience
from dragoman.store.conversations import LEASE
from tests import virtual_time
from tests.store.asked import Gate, Lost, another, asking, asking_in_virtual_time
from tests.store.in_place import InPlace
from tests.store.opened import ALICE, Clock, opened
from tests.waiting import wait_until_async

SHORT = 0.02
RENEW, AGAIN = module._RENEW, module._AGAIN


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RENEW", SHORT)
    monkeypatch.setattr(module, "_AGAIN", SHORT / 2)


def _lost(log: Log, why: str, count: int) -> None:
    log.event("error", "cannot renew conversation leases", reason=why, count=count)


async def _takes(leases: Leases, conversation: str, holder: str) -> bool:
    try:
        await leases.take(ALICE, conversation, holder, (0, 0))
    except ClientError as error:
        assert error.code == "conversation_locked"
        return False
    return True


def _made(store: Tables) -> tuple[Leases, io.StringIO]:
    store.conversations.create(ALICE, "c1", b"{}", ())
    log = io.StringIO()
    said = Log(log, json=True)
    lost = partial(_lost, said)
    return Leases(InPlace(store, lost), said), log


def test_a_lease_is_renewed_as_long_as_it_is_held() -> None:
    clock = Clock()

    async def main() -> None:
        with opened(clock=clock) as store:
            leases, _ = _made(store)
            assert await _takes(leases, "c1", "r1")
            for _ in range(5):
                clock.now += LEASE - 1
                await asyncio.sleep(3 * SHORT)
                assert not store.conversations.lease(ALICE, "c1", "r2")
            leases.release("c1", "r1", ALICE)
            assert store.conversations.lease(ALICE, "c1", "r2")
            await asyncio.sleep(3 * SHORT)
            assert leases._timer is None
            leases.close()

    virtual_time.run(main())


def test_what_another_one_took_is_not_taken_back() -> None:
    clock = Clock()

    async def main() -> None:
        with opened(clock=clock) as store:
            leases, _ = _made(store)
            assert await _takes(leases, "c1", "r1")
            clock.now += LEASE
            assert store.conversations.lease(ALICE, "c1", "r2")
            await asyncio.sleep(3 * SHORT)
            leases.release("c1", "r1", ALICE)
            assert not store.conversations.lease(ALICE, "c1", "r3")
            leases.close()

    virtual_time.run(main())


def test_a_release_that_meets_a_busy_store_is_repeated(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        with opened(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
            leases, log = _made(store)
            assert await _takes(leases, "c1", "r1")
            other.execute("BEGIN IMMEDIATE")
            leases.release("c1", "r1", ALICE)
            await asyncio.sleep(3 * SHORT)
            other.execute("ROLLBACK")
            await wait_until_async(lambda: store.conversations.lease(ALICE, "c1", "r2"), "the conversation is free")
            assert log.getvalue() == ""
            leases.close()

    virtual_time.run(main())


def test_a_store_that_fails_is_told_and_not_tried_for_ever() -> None:
    async def main() -> None:
        with opened() as store:
            leases, log = _made(store)
            assert await _takes(leases, "c1", "r1")
            store._db.change("DROP TABLE conversations")
            leases.release("c1", "r1", ALICE)
            await asyncio.sleep(0)
            assert "cannot renew conversation leases" in log.getvalue()
            assert not leases._held
            leases.close()

    virtual_time.run(main())


def test_a_process_that_ends_lets_go_of_everything() -> None:
    async def main() -> None:
        with opened() as store:
            leases, _ = _made(store)
            assert await _takes(leases, "c1", "r1")
            leases.close()
            assert store.conversations.lease(ALICE, "c1", "r2")

    virtual_time.run(main())


def test_what_is_held_here_is_taken_by_nobody_here_though_it_ran_out(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "state.db"

    async def main() -> None:
        with opened(path, clock=clock) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
            leases, _ = _made(store)
            store.conversations.create(ALICE, "c2", b"{}", ())
            assert await _takes(leases, "c1", "r1")
            other.execute("BEGIN IMMEDIATE")
            clock.now += LEASE
            await asyncio.sleep(3 * SHORT)
            other.execute("ROLLBACK")
            # Before the next renewal is due.
            assert not await _takes(leases, "c1", "r2")
            assert await _takes(leases, "c2", "r2")
            assert not store.conversations.lease(ALICE, "c1", "r3")
            leases.close()

    virtual_time.run(main())


def test_what_was_let_go_while_the_store_was_busy_is_free_for_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        with opened(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
            leases, _ = _made(store)
            assert await _takes(leases, "c1", "r1")
            other.execute("BEGIN IMMEDIATE")
            leases.release("c1", "r1", ALICE)
            other.execute("ROLLBACK")
            assert await _takes(leases, "c1", "r2")
            leases.close()

    virtual_time.run(main())


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "in line"])
def test_a_lease_whose_waiter_left_while_it_was_taken_is_released(tmp_path: Path, begun: bool) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        lost, gate = Lost(), Gate()
        async with asking(open_tables(str(path), 30), lost) as store:
            await store.write(lambda tables: tables.conversations.create(ALICE, "c1", b"{}", ()))
            leases = Leases(store, Log(io.StringIO()))
            if begun:
                # In one transaction with it, which has begun when its waiter leaves.
                line = Gate()
                held = [store.read(line)]
                await line.passed_by_nobody()
                taking = asyncio.ensure_future(leases.take(ALICE, "c1", "r1", (0, 0)))
                await asyncio.sleep(0)
                held.append(store.write(gate))
                line.open()
            else:
                held = [store.read(gate)]
                await gate.passed_by_nobody()
                taking = asyncio.ensure_future(leases.take(ALICE, "c1", "r1", (0, 0)))
            await gate.passed_by_nobody()
            await asyncio.sleep(0)
            taking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taking
            gate.open()
            await asyncio.gather(*held)
            # What is done when nobody hears of it is done in the next turn of the loop.
            await asyncio.sleep(0)
            assert await store.read(_is_free)
            assert await _takes(leases, "c1", "r2") and lost == []
            leases.close()

    asyncio.run(main())


def test_a_lease_whose_waiter_left_while_the_store_was_busy_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    async def main() -> None:
        async with asking_in_virtual_time(open_tables(str(path), 30)) as store:
            await store.write(lambda tables: tables.conversations.create(ALICE, "c1", b"{}", ()))
            leases = Leases(store, Log(io.StringIO()))
            with another(path) as other:
                other.execute("BEGIN IMMEDIATE")
                taking = asyncio.ensure_future(leases.take(ALICE, "c1", "r1", (0, 0)))
                await asyncio.sleep(1)
                taking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await taking
                other.execute("ROLLBACK")
                await asyncio.sleep(1)
            assert await store.read(_is_free)
            leases.close()

    virtual_time.run(main())


def _is_free(tables: Tables) -> bool:
    rows = tables.connection.rows("SELECT busy_until FROM conversations")
    return [row[0] for row in rows] == [0]


def test_a_lease_outlasts_a_wait_for_the_store_and_a_renewal() -> None:
    assert LEASE - 1 > patience.BUSY_TIMEOUT + RENEW + AGAIN
