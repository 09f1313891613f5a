"""A gateway that is told to stop has moved its records into the tables when it is gone, also of what ran until then."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from dragoman.records.journal_directory import directory_of, journals_in
from tests.gateway.harness import CHAT, MESSAGES, PATHS, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import question, speaking, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import Gate, serving
from tests.server.workers import running_workers


def test_nothing_is_opened_before_the_workers_are_forked(tmp_path: Path) -> None:
    """Each journal is that of a worker, by its lock and by its name; whoever watches over them has none."""
    path = tmp_path / "state.db"
    with serving(_unasked, more=f'[storage]\npath = "{path}"\n', arguments=("--workers", "2")) as house:
        workers = running_workers(house.process.pid, 2)
        journals = journals_in(directory_of(str(path)))
        assert {int(journal.name.split("-")[1]) for journal in journals} == workers
        for place in Path(f"/proc/{house.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                assert place.readlink().suffix not in (".log", ".db", ".db-wal", ".db-shm")
        assert house.stop() == 0
    assert journals_in(directory_of(str(path))) == []


def _unasked(received: Received) -> Reply:
    raise AssertionError("nobody asks")


def test_pitfall_437_what_runs_ends_then_the_journal_is_moved(tmp_path: Path) -> None:
    gate = Gate()

    def script(received: Received) -> Reply:
        begun = speaking(CHAT)
        return streamed(begun, gate, stream_of(CHAT, turn(CHAT)).removeprefix(begun))

    path = tmp_path / "state.db"
    with serving(script, more=f'[storage]\npath = "{path}"\n') as house:
        with house.send(PATHS[MESSAGES], question(MESSAGES, CHAT, stream=True), "connection: close") as running:
            gate.reached()
            house.process.send(signal.SIGTERM)
            house.process.log.wait("stopping when running requests have ended")
            gate.open()
            assert b"message_stop" in read_answer(running).body
        assert house.stop() == 0
    assert journals_in(directory_of(str(path))) == []
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT outcome, path, stream FROM records").fetchall() == [("answered", "/messages", 1)]
