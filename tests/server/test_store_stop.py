"""A gateway that is told to stop while its store is busy: nothing is left half done, and it ends in its time."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from tests.gateway.harness import read_answer
from tests.server.process import SAME_SIGNAL, Served, read_until, serving
from tests.server.test_stored import MODEL, WAITING, Holding
from tests.waiting import wait_until

STORE, BACKGROUND = "dragoman.store.async_store", "dragoman.gateway.stored_responses.background"
# A busy store is waited for longer than any test takes, unless a test says otherwise.
PATIENT = {
    f"{STORE}.BUSY_TIMEOUT": 3600.0,
    f"{BACKGROUND}._WRITE_TIMEOUT": 3600.0,
    f"{BACKGROUND}._LAST_MOMENTS": 3600.0,
}
# At its end a gateway waits for it for a moment. No supervisor kills a worker that takes longer.
SHORT_END = {
    f"{BACKGROUND}._LAST_MOMENTS": 0.1,
    f"{STORE}.Store.close.timeout": 0.1,
    "dragoman.gateway.processes.worker._LAST_INGEST_SECONDS": 0.1,
    "dragoman.gateway.processes.worker._SHORT_INGEST_SECONDS": 0.1,
    "dragoman.gateway.processes.supervisor.serve.last_moments": 3600.0,
}
STOPPING = "stopping when running requests have ended"


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
    more, arguments = "[timeouts]\ndrain = 0\n", ("--workers", workers)
    with serving(holding, more, arguments=arguments, constants=PATIENT) as house:
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
        assert not [line for line in house.process.log.all() if "cannot" in line]


def test_an_answer_that_is_stuck_while_the_gateway_stops_is_told_when_it_is_kept() -> None:
    holding = Holding()
    with serving(holding, constants=PATIENT) as house, _held(house) as db:
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
    more, arguments = "[timeouts]\ndrain = 0.1\n", ("--workers", workers)
    with serving(holding, more, arguments=arguments, constants={**PATIENT, **SHORT_END}) as house:
        made = house.post("/v1/responses", {"model": MODEL, "input": "wait", "background": True}).json()["id"]
        holding.gate.reached()
        with _held(house) as db:
            with house.send("/v1/responses", {"model": MODEL, "input": "Hello.", "stream": True}) as connection:
                read_until(connection, b"response.output_text.delta")
                house.process.send(signal.SIGTERM)
                read_until(connection, b"event: response.failed")
            assert house.process.wait() == 0
            # Its promise is broken soon, which tells it as failed.
            assert _status(db, made) in ("queued", "in_progress")
        assert [line for line in house.process.log.all() if "cannot store" in line]
        assert not [line for line in house.process.log.all() if "SIGKILL" in line or "killed" in line]


def test_whoever_is_in_a_hurry_does_not_wait_for_a_beginning_that_is_stuck() -> None:
    """Both the store and the drain would be waited for."""
    constants = {**PATIENT, **SHORT_END, SAME_SIGNAL: 0.0}
    with serving(Holding(), "[timeouts]\ndrain = 3600\n", constants=constants) as house, _held(house) as db:
        with house.send("/v1/responses", {"model": MODEL, "input": "wait", "background": True}) as connection:
            wait_until(lambda: house.metric("dragoman_requests_in_flight") == 1, "the request was read")
            house.process.send(signal.SIGTERM)
            house.process.log.wait(STOPPING)
            house.process.send(signal.SIGTERM)
            told = read_answer(connection)
        assert house.process.wait() == 0
        assert told.complete and told.status == 503
        db.execute("ROLLBACK")
        assert db.execute("SELECT count(*) FROM responses").fetchone() == (0,)
