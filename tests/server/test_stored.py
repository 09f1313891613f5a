"""Stored responses over real processes: restarts, kills at the worst moment, several workers on one file."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.gateway.harness import CHAT, Received, Reply, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.says import speaking, streams, tells, turn
from tests.sdk.digging import Object, dig_objects
from tests.sdk.providers import stream as stream_of
from tests.sdk.samples import events_of
from tests.server.process import PATIENCE, Gate, Served, read_until, serving
from tests.waiting import wait_until

MODEL = "chat/served"
DAY = 86400
WAITING = "stopping when background responses have ended"


class Holding:
    """A provider that holds what is asked with the word `wait` at a gate, and answers everything else."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        """Answer in Chat; nothing is kept here."""
        if received.method == "GET":
            return whole({"error": {"message": "not here"}}, 404)
        body = received.json()
        last = dig_objects({**body}, "messages")[-1]
        if "wait" not in json.dumps(last):
            return streams(CHAT) if body.get("stream") else tells(CHAT)
        if not body.get("stream"):
            told = tells(CHAT)
            said = told.steps[0]
            assert isinstance(said, bytes)
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(said)
            return Reply(raw=True, steps=(self.gate, head + said))
        begun = speaking(CHAT)
        return streamed(begun, self.gate, stream_of(CHAT, turn(CHAT)).removeprefix(begun))


# Leases and promises of a process that was killed do not run out while a test runs, however slow the machine is: tests
# let them run out. Leases are renewed often.
CONSTANTS = {
    "dragoman.store.conversations.LEASE": 3600,
    "dragoman.gateway.stored_responses.leases._RENEW": 0.1,
    "dragoman.gateway.stored_responses.background._ALIVE": 3600,
}


@pytest.fixture
def holding() -> Holding:
    return Holding()


@pytest.fixture
def house(holding: Holding) -> Iterator[Served]:
    with serving(holding, "[storage]\nresponse_days = 1\n", constants=CONSTANTS) as served:
        yield served


@pytest.fixture
def pair(holding: Holding) -> Iterator[Served]:
    # The worker that runs a response looks often whether another one has cancelled it.
    often = {"dragoman.gateway.stored_responses.background._BEAT": 0.1}
    with serving(holding, arguments=("--workers", "2"), constants=often) as served:
        yield served


def _create(house: Served, said: str = "Hello.", **more: object) -> Object:
    told = house.post("/v1/responses", {"model": MODEL, "input": said, **more})
    assert told.status == 200, told.body
    return {**told.json()}


def _started_anew(house: Served, *, kill: bool) -> None:
    """End the process and start another one on the same files."""
    if kill:
        house.process.send(signal.SIGKILL)
        house.process.wait()
    else:
        assert house.stop() == 0
    house.restart(constants=CONSTANTS)


def _state(house: Served) -> Path:
    return house.directory / ".local" / "state" / "dragoman"


@contextmanager
def _tables(house: Served) -> Iterator[sqlite3.Connection]:
    """The file, to be looked at or to be changed as time would."""
    with closing(sqlite3.connect(_state(house) / "state.db", timeout=PATIENCE, isolation_level=None)) as db:
        yield db


def _until(house: Served, response_id: object, status: str) -> Object:
    def in_status() -> Object | None:
        found: Object = {**house.get(f"/v1/responses/{response_id}").json()}
        return found if found["status"] == status else None

    return wait_until(in_status, f"the response {response_id} is {status}") or {}


def _heard_id(connection: socket.socket) -> str:
    """The id of the response that is told on a connection."""
    heard = read_until(connection, b'"id":"resp_')
    while b'"' not in heard.split(b'"id":"resp_')[1]:
        heard += connection.recv(65536)
    return _id_in(heard)


def _id_in(heard: bytes) -> str:
    return "resp_" + heard.split(b'"id":"resp_')[1].split(b'"')[0].decode()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_what_was_told_is_there_after_a_restart(house: Served, kill: bool) -> None:
    first = _create(house)
    conversation = house.post("/v1/conversations", {"metadata": {"a": "b"}}).json()
    _create(house, conversation=conversation["id"])
    _started_anew(house, kill=kill)
    assert house.get(f"/v1/responses/{first['id']}").json() == first
    _create(house, "And now?", previous_response_id=first["id"])
    assert len(dig_objects({**house.provider.received[-1].json()}, "messages")) == 3
    assert house.get(f"/v1/conversations/{conversation['id']!s}").json() == conversation
    items = {**house.get(f"/v1/conversations/{conversation['id']!s}/items").json()}
    assert len(dig_objects(items, "data")) == 2


def test_a_process_that_is_killed_with_the_last_event_on_its_way_has_kept_the_response(house: Served) -> None:
    with house.send("/v1/responses", {"model": MODEL, "input": "Hello.", "stream": True}) as connection:
        heard = read_until(connection, b"event: response.completed")
        _started_anew(house, kill=True)
    found = house.get(f"/v1/responses/{_id_in(heard)}").json()
    assert found["status"] == "completed"
    _create(house, previous_response_id=found["id"])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_response_whose_process_was_killed_has_failed(house: Served, holding: Holding, stream: bool) -> None:
    conversation = house.post("/v1/conversations", {}).json()["id"]
    body = {"model": MODEL, "input": "wait", "background": True, "stream": stream, "conversation": conversation}
    with house.send("/v1/responses", body) as connection:
        response_id = _heard_id(connection)
        holding.gate.reached()
        _started_anew(house, kill=True)
    assert house.get(f"/v1/responses/{response_id}").json()["status"] in ("queued", "in_progress")
    with _tables(house) as db:
        db.execute("UPDATE promises SET until = 1")
    found = house.get(f"/v1/responses/{response_id}").json()
    assert found["status"] == "failed" and found["error"]
    _create(house, conversation=conversation)
    if stream:
        again = events_of(house.get(f"/v1/responses/{response_id}?stream=true").body)
        assert again[-1]["type"] == "response.failed"


def test_a_conversation_whose_worker_was_killed_is_free_when_its_lease_ends(house: Served, holding: Holding) -> None:
    conversation = house.post("/v1/conversations", {}).json()["id"]
    body = {"model": MODEL, "input": "wait", "conversation": conversation}

    def leased_until(db: sqlite3.Connection) -> int:
        (until,) = db.execute("SELECT busy_until FROM conversations WHERE id = ?", (conversation,)).fetchone()
        return int(until)

    with house.send("/v1/responses", body):
        holding.gate.reached()
        assert house.post("/v1/responses", {**body, "input": "Hello."}).status == 409
        # As long as its worker lives it stays reserved, also beyond the time of one lease.
        with _tables(house) as db:
            first = leased_until(db)
            wait_until(lambda: leased_until(db) > first, "the lease is renewed")
        _started_anew(house, kill=True)
    assert house.post("/v1/responses", {**body, "input": "Hello."}).status == 409
    with _tables(house) as db:
        db.execute("UPDATE conversations SET busy_until = 1 WHERE id = ?", (conversation,))
        assert house.post("/v1/responses", {**body, "input": "Hello."}).status == 200
        wait_until(lambda: leased_until(db) == 0, "the lease is released")
    items = {**house.get(f"/v1/conversations/{conversation!s}/items").json()}
    assert len(dig_objects(items, "data")) == 2


def test_every_worker_knows_what_the_other_one_made(pair: Served) -> None:
    before: object = None
    for count in range(1, 9):
        made = _create(pair, previous_response_id=before)
        assert len(dig_objects({**pair.provider.received[-1].json()}, "messages")) == 2 * count - 1
        before = made["id"]
        for _ in range(3):
            assert pair.get(f"/v1/responses/{before}").json() == made
    assert pair.ask("DELETE", f"/v1/responses/{before}", b"").status == 200
    for _ in range(6):
        assert pair.get(f"/v1/responses/{before}").status == 404


def test_every_worker_can_cancel_and_listen_to_what_the_other_one_runs(pair: Served, holding: Holding) -> None:
    for count in range(1, 5):
        made = _create(pair, "wait", background=True)
        holding.gate.reached()
        assert pair.post(f"/v1/responses/{made['id']}/cancel", b"").json()["status"] == "cancelled"
        # Whoever runs it hangs up on the provider, at once or when it looks next.
        holding.gate.deserted(count)
        assert pair.get(f"/v1/responses/{made['id']}").json()["status"] == "cancelled"
    with pair.send("/v1/responses", {"model": MODEL, "input": "wait", "background": True, "stream": True}) as first:
        response_id = _heard_id(first)
        holding.gate.reached()
        holding.gate.open()
        for _ in range(4):
            events = events_of(pair.get(f"/v1/responses/{response_id}?stream=true").body)
            assert events[-1]["type"] == "response.completed"
            assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_a_gateway_that_stops_waits_for_what_runs_in_the_background(house: Served, holding: Holding) -> None:
    made = _create(house, "wait", background=True)
    holding.gate.reached()
    house.process.send(signal.SIGTERM)
    house.process.log.wait(WAITING)
    holding.gate.open()
    assert house.process.wait() == 0
    house.restart(constants=CONSTANTS)
    assert house.get(f"/v1/responses/{made['id']}").json()["status"] == "completed"


def test_what_does_not_end_in_time_has_failed(holding: Holding) -> None:
    with serving(holding, "[timeouts]\ndrain = 0") as house:
        made = _create(house, "wait", background=True)
        holding.gate.reached()
        _started_anew(house, kill=False)
        found = _until(house, made["id"], "failed")
        assert "stop" in json.dumps(found["error"]) or "shutting" in json.dumps(found["error"])


def test_the_configuration_may_change_under_a_response(house: Served, holding: Holding) -> None:
    made = _create(house, "wait", background=True)
    holding.gate.reached()
    house.process.send(signal.SIGHUP)
    house.process.log.wait("configuration reloaded")
    holding.gate.open()
    _until(house, made["id"], "completed")
    _create(house, previous_response_id=made["id"])


def test_a_response_ends_at_its_time(house: Served) -> None:
    before, made, after = _now(house), _create(house), _now(house)
    with _tables(house) as db:
        (expires,) = db.execute("SELECT expires FROM responses WHERE id = ?", (made["id"],)).fetchone()
        assert before + DAY <= expires <= after + DAY
        db.execute("UPDATE responses SET expires = 1 WHERE id = ?", (made["id"],))
    assert house.get(f"/v1/responses/{made['id']}").status == 404
    later = house.post("/v1/responses", {"model": MODEL, "input": "x", "previous_response_id": made["id"]})
    assert later.status == 400
    # The next sweep comes a minute after the last one, or when the gateway is started, whether anybody asks or not.
    _started_anew(house, kill=False)
    with _tables(house) as db:
        kept = "SELECT count(*) FROM responses WHERE id = ?"
        wait_until(lambda: db.execute(kept, (made["id"],)).fetchone() == (0,), "the sweep removes the response")


def _now(house: Served) -> int:
    """The gateway's clock, by what it creates."""
    return int(str(house.post("/v1/conversations", {}).json()["created_at"]))


def test_the_file_is_where_it_is_said_to_be_and_its_users_alone(house: Served, holding: Holding) -> None:
    assert stat.S_IMODE((_state(house) / "state.db").stat().st_mode) == 0o600
    with serving(holding, "[storage]\nstore_responses = false") as other:
        # What is written down of exchanges is another matter.
        assert [found.name for found in _state(other).iterdir()] == ["state.db.records"]
        assert other.get("/v1/responses/resp_1").status == 404
    with serving(holding, "[storage]\nstore_responses = false\nrecord_requests = false") as other:
        assert not _state(other).exists()
        assert other.get("/v1/responses/resp_1").status == 404
