"""Lines on the disk: many at a time, and files are closed by nobody who does not know whether they are being synced."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

from dragoman.records.journal_sync import JournalSync
from tests.waiting import LIMIT


def opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)


def test_everybody_who_waits_meanwhile_is_served_by_the_next_sync(tmp_path: Path) -> None:
    entered, goes_on = threading.Event(), threading.Event()
    syncs: list[int] = []

    def sync(descriptor: int) -> None:
        syncs.append(descriptor)
        entered.set()
        assert goes_on.wait(LIMIT)

    async def check() -> None:
        files = JournalSync(lambda error: None, sync)
        descriptor = opened(tmp_path / "a")
        first = files.synced(descriptor)
        await asyncio.to_thread(entered.wait)
        others = [files.synced(descriptor) for _ in range(20)]
        goes_on.set()
        await first
        await asyncio.gather(*others)
        assert syncs == [descriptor, descriptor]
        files.retire(descriptor)
        await asyncio.to_thread(files.close)
        try:
            os.fstat(descriptor)
        except OSError:
            return
        raise AssertionError("it is still open")

    asyncio.run(check())


def test_a_disk_that_fails_is_told_and_holds_nobody_up(tmp_path: Path) -> None:
    told: list[OSError] = []

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    async def check() -> None:
        files = JournalSync(told.append, fail)
        descriptor = opened(tmp_path / "a")
        left = files.synced(descriptor)
        left.cancel()
        await files.synced(descriptor)
        files.retire(descriptor)
        await asyncio.to_thread(files.close)

    asyncio.run(check())
    assert {error.errno for error in told} == {5}


def test_it_syncs_a_real_file(tmp_path: Path) -> None:
    async def check() -> None:
        files = JournalSync(lambda error: None)
        descriptor = opened(tmp_path / "a")
        os.write(descriptor, b"line\n")
        await files.synced(descriptor)
        files.retire(descriptor)
        await asyncio.to_thread(files.close)

    asyncio.run(check())
    assert (tmp_path / "a").read_bytes() == b"line\n"
