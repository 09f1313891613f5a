"""Queries of the admin API end after their limit, and few run at once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from dragoman.gateway.admin.framework import AdminError
from dragoman.gateway.admin.query_runner import QueryRunner
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.waiting import wait_until_async

# Ends after more steps than any test waits for.
_ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def _endless(tables: RecordTables) -> int:
    return tables.connection.number(_ENDLESS)


def _version(tables: RecordTables) -> int:
    return tables.connection.version


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = str(tmp_path / "state.db")
    open_record_tables(file).close()
    return file


def test_a_query_beyond_its_limit_is_ended_with_advice(path: str) -> None:
    async def ask() -> AdminError:
        runner = QueryRunner(seconds=0.0)
        with pytest.raises(AdminError) as raised:
            await runner.run(path, "ann", _endless)
        assert runner.running == 0
        return raised.value

    error = asyncio.run(ask())
    assert error.status == 504
    assert "smaller range" in error.remedy


def test_many_short_queries_beyond_the_limit_are_ended_too(path: str) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    def many(tables: RecordTables) -> int:
        return sum(_version(tables) for _ in range(1000))

    async def ask() -> int:
        with pytest.raises(AdminError) as raised:
            await QueryRunner(seconds=100.0, clock=clock).run(path, "ann", many)
        return raised.value.status

    assert asyncio.run(ask()) == 504


def test_a_query_whose_client_has_gone_is_ended(path: str) -> None:
    async def leave() -> None:
        runner = QueryRunner(seconds=1e9)
        task = asyncio.ensure_future(runner.run(path, "ann", _endless))
        await wait_until_async(lambda: runner.running == 1, "the query runs")
        task.cancel()
        await wait_until_async(lambda: runner.running == 0, "the query has ended")

    asyncio.run(leave())


def test_two_queries_run_at_once_and_one_for_each_key(path: str) -> None:
    released = threading.Event()

    def hold(tables: RecordTables) -> int:
        assert released.wait(60)
        return _version(tables)

    async def crowd() -> list[AdminError]:
        runner = QueryRunner()
        running = [asyncio.ensure_future(runner.run(path, name, hold)) for name in ("ann", "bob")]
        await wait_until_async(lambda: runner.running == 2, "two queries run")
        refused = []
        for name in ("ann", "carl"):
            with pytest.raises(AdminError) as raised:
                await runner.run(path, name, _version)
            refused.append(raised.value)
        released.set()
        versions = await asyncio.gather(*running)
        assert versions[0] == versions[1] > 0
        assert await runner.run(path, "carl", _version) == versions[0]
        return refused

    same_key, other_key = asyncio.run(crowd())
    assert (same_key.status, other_key.status) == (429, 429)
    assert "of this key" in same_key.message
    assert (b"retry-after", b"1") in other_key.headers


def test_the_connection_only_reads(path: str) -> None:
    def write(tables: RecordTables) -> None:
        tables.offsets.move("journal", 0, 1)

    async def ask() -> AdminError:
        with pytest.raises(AdminError) as raised:
            await QueryRunner().run(path, "ann", write)
        return raised.value

    assert asyncio.run(ask()).status == 503
