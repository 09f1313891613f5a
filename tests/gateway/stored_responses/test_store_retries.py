"""Work on the store while another process holds the file, and after it failed."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from dragoman.errors import ClientError
from dragoman.gateway.records.logs import Log
from dragoman.gateway.stored_responses import store_retries as module
from dragoman.gateway.stored_responses.store_retries import StoreRetries
from dragoman.store import Store
from dragoman.store.responses import Item
from tests import virtual_time
from tests.store.opened import ALICE, item, kept, opened


def _patience() -> StoreRetries:
    return StoreRetries(Log(io.StringIO()))


def _nothing() -> int:
    return 0


@contextmanager
def _shared(path: Path) -> Iterator[tuple[Store, sqlite3.Connection]]:
    """A store, and another process's connection to its file."""
    file = path / "state.db"
    with opened(file) as store, closing(sqlite3.connect(file, isolation_level=None)) as other:
        yield store, other


def test_what_the_store_takes_is_done_without_a_step_of_the_loop() -> None:
    with opened() as store:
        done = _patience().write(partial(store.responses.add, ALICE, kept("r1")))
        # A coroutine that never waits is at its end after one step.
        with pytest.raises(StopIteration) as ended:
            done.send(None)
        assert ended.value.value is True


def test_a_busy_store_is_tried_again_while_others_go_on(tmp_path: Path) -> None:
    async def main() -> None:
        with _shared(tmp_path) as (store, other):
            patience = _patience()
            other.execute("BEGIN IMMEDIATE")
            writing = [
                asyncio.ensure_future(patience.write(partial(store.responses.add, ALICE, kept(f"r{count}"))))
                for count in range(5)
            ]
            for _ in range(20):
                await asyncio.sleep(0.01)
            assert patience.waited_for and not any(work.done() for work in writing)
            # Readers do not meet a writer, and do not stand in line.
            assert await patience.read(partial(store.responses.find, ALICE, "r1")) is None
            other.execute("ROLLBACK")
            assert await asyncio.gather(*writing) == [True] * 5
            assert not patience.waited_for and not patience.failed

    virtual_time.run(main())


def test_one_at_a_time_tries_and_the_others_stand_in_line(tmp_path: Path) -> None:
    async def main() -> None:
        with _shared(tmp_path) as (store, other):
            patience, tries, done = _patience(), [0, 0, 0], list[int]()

            def work(number: int) -> None:
                tries[number] += 1
                store.responses.add(ALICE, kept(f"r{number}"))
                done.append(number)

            other.execute("BEGIN IMMEDIATE")
            writing = [asyncio.ensure_future(patience.write(partial(work, number))) for number in range(3)]
            await asyncio.sleep(0.4)
            assert tries[0] > 2 and tries[1:] == [0, 0]
            other.execute("ROLLBACK")
            await asyncio.gather(*writing)
            assert done == [0, 1, 2]

    virtual_time.run(main())


def test_a_store_that_stays_busy_has_failed_and_what_is_to_be_kept_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LITTLE", 0.1)

    async def main() -> None:
        with _shared(tmp_path) as (store, other):
            patience = _patience()
            other.execute("BEGIN IMMEDIATE")
            waiting = [patience.write(partial(store.responses.add, ALICE, kept("r1")), 0.2) for _ in range(3)]
            for error in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(error, sqlite3.OperationalError)
            assert patience.failed
            with pytest.raises(ClientError) as told:
                await patience.check(store)
            assert told.value.status == 503
            other.execute("ROLLBACK")
            await patience.check(store)
            # What was written for a try is no answer.
            assert patience.failed
            await patience.write(partial(store.responses.add, ALICE, kept("r1")), answer=lambda: 9)
            assert not patience.failed

    virtual_time.run(main())


def test_a_full_disk_is_a_failure_until_there_is_room_again() -> None:
    async def main() -> None:
        with opened() as store:
            patience = _patience()
            pages = store._db.execute("PRAGMA page_count").fetchone()[0]
            store._db.execute(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(sqlite3.OperationalError):
                await patience.write(partial(store.probe, 100_000), answer=lambda: 100_000)
            with pytest.raises(ClientError):
                await patience.check(store)
            store._db.execute("PRAGMA max_page_count = 100000")
            await patience.check(store)
            for table in ("responses", "items"):
                assert store._db.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)

    virtual_time.run(main())


def test_to_look_something_up_says_nothing_about_writing() -> None:
    async def main() -> None:
        with opened() as store:
            patience = _patience()
            patience.failed = True
            await patience.read(partial(store.responses.find, ALICE, "r1"))
            assert patience.failed
            assert patience.write_now(partial(store.responses.add, ALICE, kept("r1")), _nothing) == ""
            assert not patience.failed
            store._db.execute("DROP TABLE responses")
            with pytest.raises(sqlite3.OperationalError):
                await patience.read(partial(store.responses.find, ALICE, "r1"))
            assert not patience.failed
            assert "no such table" in patience.write_now(partial(store.responses.delete, ALICE, "r1"), _nothing)
            assert patience.failed

    virtual_time.run(main())


def test_what_nobody_waits_for_is_repeated_until_the_store_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN", 0.02)

    async def main() -> None:
        with _shared(tmp_path) as (store, other):
            patience = _patience()
            other.execute("BEGIN IMMEDIATE")
            for name in ("r1", "r2"):
                patience.write_later(partial(store.responses.note, ALICE, name, "chat"))
            await asyncio.sleep(0.1)
            assert not store.responses.known("r1")
            other.execute("ROLLBACK")
            async with asyncio.timeout(20):
                while not store.responses.known("r2"):
                    await asyncio.sleep(0.01)
            patience.write_later(partial(store.responses.note, ALICE, "r3", "chat"))
            assert store.responses.known("r3")

    virtual_time.run(main())


@pytest.mark.parametrize("free", [False, True], ids=["busy", "free again"])
def test_what_is_left_at_the_end_is_tried_once_more(tmp_path: Path, free: bool) -> None:
    async def main() -> None:
        with _shared(tmp_path) as (store, other):
            log = io.StringIO()
            patience = StoreRetries(Log(log))
            other.execute("BEGIN IMMEDIATE")
            patience.write_later(partial(store.responses.note, ALICE, "r1", "chat"))
            if free:
                other.execute("ROLLBACK")
            patience.close()
            assert (store.responses.known("r1"), "could not be" in log.getvalue()) == (free, not free)

    virtual_time.run(main())


def test_what_a_store_that_fails_was_left_to_do_is_told_to_the_log() -> None:
    async def main() -> None:
        with opened() as store:
            log = io.StringIO()
            patience = StoreRetries(Log(log))
            store._db.execute("DROP TABLE responses")
            patience.write_later(partial(store.responses.note, ALICE, "r1", "chat"))
            assert "no such table" in log.getvalue()
            assert patience._timer is None

    virtual_time.run(main())


@pytest.mark.parametrize("table", ["responses", "items"])
def test_a_store_that_fails_for_answers_is_not_tried_with_anything_else(table: str) -> None:
    async def main() -> None:
        with opened() as store:
            patience = _patience()
            store._db.execute(f"CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT raise(FAIL, 'no'); END")
            writing = partial(store.responses.add, ALICE, kept("r1"), [item("q")])
            with pytest.raises(sqlite3.Error):
                await patience.write(writing, answer=lambda: 1)
            # Something else that is kept says nothing about it.
            await patience.write(partial(store.conversations.create, ALICE, "c1", b"{}", ()))
            for _ in range(3):
                with pytest.raises(ClientError):
                    await patience.check(store)
            store._db.execute("DROP TRIGGER t")
            await patience.check(store)

    virtual_time.run(main())


def test_a_store_is_tried_with_as_much_as_failed() -> None:
    async def main() -> None:
        with opened() as store:
            patience = _patience()
            pages = store._db.execute("PRAGMA page_count").fetchone()[0]
            store._db.execute(f"PRAGMA max_page_count = {pages + 100}")
            large = [Item("q", bytes(1_000_000))]
            with pytest.raises(sqlite3.Error):
                await patience.write(partial(store.responses.add, ALICE, kept("r1"), large), answer=lambda: 1_000_000)
            store.probe(64 * 1024)
            with pytest.raises(ClientError):
                await patience.check(store)
            store._db.execute(f"PRAGMA max_page_count = {pages + 1000}")
            await patience.check(store)

    virtual_time.run(main())
