"""A gateway that is told to stop has moved its records into the tables when it is gone, also of what ran until then."""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from pathlib import Path

from dragoman.accounts.folder import folder_of, journals_in
from tests.gateway.harness import CHAT, MESSAGES, PATHS, Received, Reply, read_answer
from tests.gateway.harness import stream as streamed
from tests.gateway.says import question, speaking, turn
from tests.sdk.providers import stream as stream_of
from tests.server.process import Gate, serving


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
            house.process.log.wait("stopping when running exchanges have ended")
            gate.open()
            assert b"message_stop" in read_answer(running).body
        assert house.stop() == 0
    assert journals_in(folder_of(str(path))) == []
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT outcome, path, stream FROM records").fetchall() == [("answered", "/messages", 1)]
