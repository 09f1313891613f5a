"""The file among several processes: those that hold it, are killed, come and go, or were forked."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.store import StoreBusy, open_tables
from dragoman.store.migrations import sqlite as migrations
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.record_tables import open_record_tables
from tests.store.asked import asking, put, sizes
from tests.store.opened import ALICE, item, kept, names, opened
from tests.waiting import LIMIT


def test_what_another_process_held_goes_on_when_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    held = (
        "import sqlite3; db = sqlite3.connect({!r}); db.execute('BEGIN IMMEDIATE'); print('held', flush=True); input()"
    )

    async def main() -> None:
        async with asking(open_tables(str(path), 30)) as store:
            with subprocess.Popen(
                [sys.executable, "-c", held.format(str(path))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == b"held\n"
                with pytest.raises(StoreBusy, match="too long"):
                    await store.write(put(1), 0.01)
                waits = store.write(put(2))
                assert await store.read(sizes) == []
                process.kill()
                await waits
            assert await store.read(sizes) == [2]

    asyncio.run(main())


def test_a_process_that_was_forked_has_no_store() -> None:
    script = """
        import asyncio, os, sys
        from dragoman.database_location import MEMORY
        from dragoman.store import StoreError, open_tables
        from dragoman.store.async_store import Store

        async def ask(store):
            await store.write(lambda tables: tables.sweep())

        async def close(store):
            await store.close()

        store = Store(open_tables(MEMORY, 30), print)
        asyncio.run(ask(store))
        child = os.fork()
        if not child:
            try:
                asyncio.run(ask(store))
            except StoreError as error:
                print(error, flush=True)
            asyncio.run(close(store))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        asyncio.run(ask(store))
        asyncio.run(close(store))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout == "the store was opened by another process\n"


_CHANGE = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("UPDATE rests SET body = x'6e6577'")
db.close()
"""


def test_it_gives_up_no_lock_of_another_connection_in_this_process(tmp_path: Path) -> None:
    """Whoever comes and goes meanwhile would take the log for its own, and remove it under those who use it."""
    file = tmp_path / "state.db"
    with opened(file) as store:
        store.cooldowns.persist("a", 4e9, b"kept")
        with closing(open_record_tables(str(file))), closing(open_record_tables(str(file), read_only=True)):
            pass
        subprocess.run([sys.executable, "-c", _CHANGE, str(file)], check=True, timeout=LIMIT)
        assert file.with_name("state.db-wal").exists()
        assert store.cooldowns.current() == [("a", b"new")]


def _open_in_child(file: Path, begun: int) -> int:
    child = os.fork()
    if not child:
        try:
            os.write(begun, b".")
            open_record_tables(str(file))
        finally:
            os._exit(0)
    return child


@pytest.mark.parametrize("before", [0, 4], ids=["an empty file", "a file of the release before"])
def test_pitfall_452_starts_at_once_that_are_killed_leave_a_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    """Four processes, killed while they open it: whoever comes later finds all steps, each done once."""
    chance = random.Random(before)
    for number in range(3):
        file = tmp_path / f"{number}.db"
        if before:
            with monkeypatch.context() as earlier:
                earlier.setattr(migrations, "STEPS", STEPS[:before])
                with opened(file) as store:
                    store.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])
        begun, begin = os.pipe()
        children = [_open_in_child(file, begin) for _ in range(4)]
        for _ in children:
            os.read(begun, 1)
        for child in children:
            # At any moment of what they do.
            threading.Event().wait(chance.uniform(0, 0.015))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        os.close(begun)
        os.close(begin)
        with closing(open_record_tables(str(file))) as tables:
            assert tables.connection.row("PRAGMA user_version") == (len(STEPS),)
            assert tables.connection.row("PRAGMA integrity_check") == ("ok",)
            assert tables.records.count() == 0
        if before:
            with opened(file) as store:
                assert names(store.responses.chain(ALICE, "r1")) == ["q1", "a1"]
