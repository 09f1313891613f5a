"""A gateway that is told to stop while its store is busy: nothing is left half done, and it ends in its time."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from dragoman.gateway.processes.worker import SAME_SIGNAL
from tests.gateway.harness import read_answer
from tests.server.process import Served, read_until, serving
from tests.server.test_stored import MODEL, WAITING, Holding

# How long a supervisor waits for its workers beyond `timeouts.drain` before it kills them.
LIMIT = 10.0
STOPPING = "stopping when running exchanges have ended"


@contextmanager
def _held(house: Served) -> Iterator[sqlite3.Connection]:
    """The file, while another process writes to it."""
    path = house.directory / ".local" / "state" / "dragoman" / "state.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield db


def _status(db: sqlite3.Connection, response_id: object) -> object:
    row = db.execute("SELECT status FROM responses WHERE id = ?", (response_id,)).fetchone()
    return None if row is None else row[0]


def _id_in(heard: bytes) -> str:
    return "resp_" + heard.split(b'"id":"resp_')[1].split(b'"')[0].decode()


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_a_process_does_not_end_before_what_is_stuck_is_written(workers: str) -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\ndrain = 0\n", arguments=("--workers", workers)) as house:
        made = house.post("/v1/responses", {"model": MODEL, "input": "wait", "background": True}).json()["id"]
        holding.gate.reached()
        with _held(house) as db:
            holding.gate.open()
            # The one that asked for it, and the one that ran it: its end is on its way.
            house.process.log.wait('"event":"exchange"', 2)
            house.process.send(signal.SIGTERM)
            house.process.log.wait(WAITING)
            assert house.process.running
            db.execute("ROLLBACK")
            assert house.process.wait() == 0
            assert _status(db, made) == "completed"
        assert not [line for line in house.process.log.all() if "could not be" in line]


def test_an_answer_that_is_stuck_while_the_gateway_stops_is_told_when_it_is_kept() -> None:
    holding = Holding()
    with serving(holding) as house, _held(house) as db:
        with house.send("/v1/responses", {"model": MODEL, "input": "wait", "stream": True}) as connection:
            heard = read_until(connection, b"response.output_text.delta")
            holding.gate.reached()
            holding.gate.open()
            house.process.send(signal.SIGTERM)
            house.process.log.wait(STOPPING)
            db.execute("ROLLBACK")
            read_until(connection, b"event: response.completed")
        assert house.process.wait() == 0
        assert _status(db, _id_in(heard)) == "completed"


@pytest.mark.parametrize("workers", ["1", "2"], ids=["one worker", "two workers"])
def test_a_store_that_stays_busy_keeps_no_gateway_from_ending_in_time(workers: str) -> None:
    holding = Holding()
    with serving(holding, "[timeouts]\ndrain = 0.3\n", arguments=("--workers", workers)) as house:
        made = house.post("/v1/responses", {"model": MODEL, "input": "wait", "background": True}).json()["id"]
        holding.gate.reached()
        with _held(house) as db:
            with house.send("/v1/responses", {"model": MODEL, "input": "Hello.", "stream": True}) as connection:
                read_until(connection, b"response.output_text.delta")
                stopped = time.monotonic()
                house.process.send(signal.SIGTERM)
                read_until(connection, b"event: response.failed")
            assert house.process.wait() == 0
            assert time.monotonic() - stopped < 0.3 + LIMIT
            # Its promise is broken soon, which tells it as failed.
            assert _status(db, made) in ("queued", "in_progress")
        assert [line for line in house.process.log.all() if "could not be kept" in line]
        assert not [line for line in house.process.log.all() if "SIGKILL" in line or "killed" in line]


def test_whoever_is_in_a_hurry_does_not_wait_for_a_beginning_that_is_stuck() -> None:
    with serving(Holding()) as house, _held(house) as db:
        with house.send("/v1/responses", {"model": MODEL, "input": "wait", "background": True}) as connection:
            # Who came later was served: it has been read.
            assert house.get("/healthz").status == 200
            house.process.send(signal.SIGTERM)
            house.process.log.wait(STOPPING)
            # What comes at once counts once.
            time.sleep(SAME_SIGNAL)
            stopped = time.monotonic()
            house.process.send(signal.SIGTERM)
            told = read_answer(connection)
        assert house.process.wait() == 0
        # Two seconds are for what is stuck; ten would be, if nobody were in a hurry.
        assert time.monotonic() - stopped < 7
        assert told.complete and told.status == 503
        db.execute("ROLLBACK")
        assert db.execute("SELECT count(*) FROM responses").fetchone() == (0,)
