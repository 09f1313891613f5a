"""The end of a gateway: log lines of the last 100 ms are written by a stop and lost by a kill; records never are."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonValue
from dragoman.records.journal_ingest import ingest_all
from tests.gateway.harness import CHAT, PATHS, Received, Reply
from tests.gateway.says import question, tells
from tests.server.process import Gate, Served, serving


def answers(received: Received) -> Reply:
    return tells(CHAT)


def asked(house: Served, count: int) -> list[JsonValue]:
    """The ids of exchanges that clients saw complete, in their order."""
    answered = [house.post(PATHS[CHAT], question(CHAT, CHAT)) for _ in range(count)]
    assert {each.status for each in answered} == {200}
    return [each.header("x-request-id") for each in answered]


def test_a_stop_writes_all_lines(tmp_path: Path) -> None:
    with serving(answers, more=f'[storage]\npath = "{tmp_path / "state.db"}"\n') as house:
        ids = asked(house, 20)
        assert house.stop() == 0
        assert [each["id"] for each in house.process.events("exchange")] == ids


def test_after_a_kill_no_record_is_missing_and_only_the_last_lines_are(tmp_path: Path) -> None:
    """Every exchange whose provider was called is in the records once, whether it was answered or not."""
    gate, path = Gate(), tmp_path / "state.db"

    def script(received: Received) -> Reply:
        reply = tells(CHAT)
        return replace(reply, steps=(gate, *reply.steps)) if b'"wait"' in received.body else reply

    with serving(script, more=f'[storage]\npath = "{path}"\n') as house, ExitStack() as clients:
        ids = asked(house, 10)
        # Lines that were written before it was killed.
        house.exchanges(10)
        for _ in range(3):
            body = {**question(CHAT, CHAT), "user": "wait"}
            clients.enter_context(house.send(PATHS[CHAT], body))
        gate.reached(3)
        ids += asked(house, 10)
        os.killpg(house.process.pid, signal.SIGKILL)
        house.process.wait()
        logged = [each["id"] for each in house.process.events("exchange")]
        assert len(logged) >= 10 and logged == ids[: len(logged)]
        calls = len(house.provider.received)
        gate.open()
    ingest_all(str(path), now=0)
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT id, outcome FROM records").fetchall()
    assert sorted(name for name, outcome in rows if outcome == "answered") == sorted(map(str, ids))
    assert [outcome for _, outcome in rows if outcome != "answered"] == ["crashed"] * 3
    assert len({name for name, _ in rows}) == len(rows) == calls == 23
