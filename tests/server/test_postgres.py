"""`dragoman serve` on a database of PostgreSQL: keys, stored responses and records of processes that share it."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from tests.gateway.harness import CHAT, Answer, Received, Reply, whole
from tests.gateway.harness import stream as streamed
from tests.gateway.says import speaking, turn
from tests.postgres import PostgresServer
from tests.sdk.digging import dig_objects
from tests.sdk.providers import stream as stream_of
from tests.server.process import Constants, Gate, Process, Script, Served, provided, read_until
from tests.server.shared_database import BEARER, RECORDS, add_key, count_of, create, read, respond, served_on, storage
from tests.waiting import wait_until

FOLLOWING: Constants = {"dragoman.gateway.cooldown_persistence.FOLLOW_INTERVAL": 0.05}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_responses_and_records_are_in_the_database(database: str, workers: str) -> None:
    with served_on(database, arguments=("--workers", workers)) as gateway:
        first = create(gateway, "The word is blue.")
        second = create(gateway, "Which word?", previous_response_id=first["id"])
        assert read(gateway, second["id"]).json() == second
        wait_until(lambda: count_of(database, RECORDS) == 2, "both records are in the database")
        assert gateway.stop() == 0
    assert count_of(database, "SELECT count(*) FROM responses") == 2
    assert count_of(database, "SELECT sum(requests) FROM quarter_sums") == 2


def test_a_response_continues_on_another_machine(database: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(served_on(database)) for _ in range(2))
        begun = create(first, "The word is blue.")
        continued = create(second, "Which word?", previous_response_id=begun["id"])
        assert read(first, continued["id"]).json() == continued
        wait_until(lambda: count_of(database, RECORDS) == 2, "both records are in the database")


def test_a_key_is_known_to_all_machines_until_it_is_revoked_on_any(database: str) -> None:
    with ExitStack() as stack:
        first, second = (stack.enter_context(served_on(database)) for _ in range(2))
        for number in range(20):
            _make_and_revoke(first, second, f"key-{number}")


def test_a_cooldown_of_a_key_is_known_to_a_machine_that_runs(database: str) -> None:
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(served_on(database, script=_limited, constants=FOLLOWING)) for _ in range(2)
        )
        assert (_cooled(first), _cooled(second)) == ([], [])
        assert _asked_chat(first).status == 429
        wait_until(lambda: _cooled(second) == [0], "the other machine knows the cooldown")
        # It is the first machine's row, and stays so.
        assert count_of(database, "SELECT count(*) FROM rests WHERE subject LIKE 'key chat %'") == 1
        assert second.provider.received == []


def _asked_chat(gateway: Served) -> Answer:
    body = {"model": "chat/served", "input": "Hi.", "store": False}
    return gateway.post("/v1/responses", body, authorization=BEARER)


def _limited(received: Received) -> Reply:
    return whole({"error": {"message": "slow down"}}, 429, retry_after="600")


def _cooled(gateway: Served) -> list[object]:
    """Positions of the keys of the provider that are in cooldown."""
    providers = dig_objects({**gateway.get("/status", authorization=BEARER).json()}, "providers")
    return [key["key"] for each in providers if each["name"] == "chat" for key in dig_objects(each, "keys_in_cooldown")]


def _make_and_revoke(first: Served, second: Served, name: str) -> None:
    bearer, path = f"Bearer {add_key(first, name)}", f"/admin/v1/keys/{name}"
    wait_until(lambda: respond(second, "Hi.", bearer, store=False).status == 200, f"{name} is known")
    tag = first.get(path, authorization=BEARER).header("etag") or ""
    revoked = first.ask("DELETE", path, b"", authorization=BEARER, if_match=tag)
    assert revoked.status == 200, revoked.body
    wait_until(lambda: respond(second, "Hi.", bearer, store=False).status == 401, f"{name} is refused")


def test_an_empty_database_is_not_set_up_by_a_role_that_may_not(postgres: PostgresServer, database: str) -> None:
    postgres.execute("CREATE ROLE reader LOGIN")
    try:
        environment = {"DATABASE_URL": database.replace("user=postgres", "user=reader")}
        with provided(Script(), storage()) as house:
            process = Process(["--config", str(house.file), "--port", "0"], house.directory, environment)
            assert process.wait() != 0
    finally:
        postgres.execute("DROP ROLE reader")
    assert "the owner of the tables runs dragoman db migrate" in "".join(process.log.all())


@pytest.mark.parametrize(
    ("change", "remedy"), [("version = 0", "run dragoman db migrate"), ("oldest = 99", "update this release")]
)
def test_tables_of_another_version_are_refused(database: str, change: str, remedy: str) -> None:
    with served_on(database) as gateway:
        assert gateway.stop() == 0
    before = count_of(database, f"UPDATE schema_version SET {change} RETURNING version")
    with provided(Script(), storage()) as house:
        process = Process(["--config", str(house.file), "--port", "0"], house.directory, {"DATABASE_URL": database})
        assert process.wait() != 0
    assert remedy in "".join(process.log.all())
    assert count_of(database, "SELECT version FROM schema_version") == before


class _Held:
    """A provider that begins a stream, and goes on once its gate is open."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        if received.method == "GET":
            return whole({"error": {"message": "not here"}}, 404)
        begun = speaking(CHAT)
        return streamed(begun, self.gate, stream_of(CHAT, turn(CHAT)).removeprefix(begun))


# The worker that runs a response looks often whether another machine has cancelled it.
OFTEN = {"dragoman.gateway.stored_responses.background._BEAT": 0.1}
BACKGROUND = {"model": "chat/served", "input": "Hello.", "background": True}


def test_a_background_response_is_read_and_followed_from_any_machine(database: str) -> None:
    held = _Held()
    with served_on(database, script=held, constants=OFTEN) as first, served_on(database) as second:
        body = {**BACKGROUND, "stream": True}
        with first.begin_post("/v1/responses", body, authorization=BEARER) as connection:
            response_id = _id_in(connection)
            held.gate.reached()
        wait_until(lambda: read(second, response_id).json().get("status") == "in_progress", "it runs")
        path = f"/v1/responses/{response_id}?stream=true"
        with second._send("GET", path, b"", {"authorization": BEARER}) as follower:
            read_until(follower, b"response.output_text.delta")
            held.gate.open()
            read_until(follower, b"event: response.completed")
        assert read(second, response_id).json() == read(first, response_id).json()
        assert read(second, response_id).json()["status"] == "completed"


def test_a_background_response_is_cancelled_from_any_machine(database: str) -> None:
    held = _Held()
    with served_on(database, script=held, constants=OFTEN) as first, served_on(database) as second:
        response_id = str(first.post("/v1/responses", BACKGROUND, authorization=BEARER).json()["id"])
        held.gate.reached()
        cancelled = second.post(f"/v1/responses/{response_id}/cancel", {}, authorization=BEARER)
        assert cancelled.json()["status"] == "cancelled"
        # The machine that runs it hangs up.
        held.gate.deserted()
        assert read(first, response_id).json()["status"] == "cancelled"


def test_a_conversation_is_leased_once_by_all_machines(database: str) -> None:
    held = _Held()
    with served_on(database, script=held) as first, served_on(database) as second:
        conversation = first.post("/v1/conversations", {}, authorization=BEARER).json()["id"]
        body = {"model": "chat/served", "input": "Hello.", "stream": True, "conversation": conversation}
        with first.begin_post("/v1/responses", body, authorization=BEARER) as connection:
            held.gate.reached()
            refused = respond(second, "Hello.", conversation=conversation)
            assert (refused.status, "conversation_locked" in refused.body.decode()) == (409, True)
            held.gate.open()
            read_until(connection, b"event: response.completed")
        wait_until(lambda: respond(second, "And?", conversation=conversation).status == 200, "the lease is released")


def _id_in(connection: socket.socket) -> str:
    """The id of the response that a stream begins with."""
    data = read_until(connection, b'"id":"resp_')
    while b'"' not in data.split(b'"id":"resp_')[1]:
        data += connection.recv(65536)
    return "resp_" + data.split(b'"id":"resp_')[1].split(b'"')[0].decode()
