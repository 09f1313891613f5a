"""While the database of several machines is away: what is served, what is refused at once, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import pytest

from dragoman.database_location import PostgresDatabase
from dragoman.store.contents_database import open_contents
from dragoman.store.migrations.postgres import migrate
from dragoman.store.postgres_database import administer
from dragoman.store.postgres_privileges import grant_to
from tests.gateway.harness import CHAT, Answer, Received, Reply, whole
from tests.gateway.says import tells
from tests.postgres import PostgresServer, postgres_server
from tests.sdk.digging import dig, dig_objects, dig_text
from tests.server.process import Constants, Gate, Script, Served, serving
from tests.server.shared_database import (
    BEARER,
    FILE_KEY,
    KEYS,
    MODEL,
    PATIENT,
    RECORDS,
    add_key,
    count_of,
    create,
    read,
    respond,
    served_on,
    storage,
)
from tests.waiting import LIMIT, wait_until

# A server whose processes are stopped is found out by these.
IMPATIENT: Constants = {
    "dragoman.store.postgres_database.STORE_TIMEOUT": 1.5,
    "dragoman.store.heartbeat.TIMEOUT": 2.0,
}
GONE, BACK = "the database is away", "the database answers again"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of a test's own, which it stops."""
    with postgres_server() as running:
        yield running


@contextmanager
def away(server: PostgresServer, gateway: Served) -> Iterator[None]:
    """The server is stopped meanwhile, and the gateway knows."""
    server.stop()
    try:
        wait_until(lambda: GONE in ready(gateway), "the gateway knows that the database is away")
        yield
    finally:
        server.start()
    wait_until(lambda: GONE not in ready(gateway), "the gateway knows that the database is back")


def ready(gateway: Served) -> str:
    """The page for balancers, which take the gateway for ready."""
    answer = gateway.get("/readyz", authorization=BEARER)
    assert answer.status == 200, answer.body
    return answer.body.decode()


def _problem(gateway: Served) -> str:
    """Why the database is away, by the status."""
    return str(dig(gateway.get("/status", authorization=BEARER).json(), "database", "problem"))


def plain(gateway: Served, bearer: str = BEARER) -> Answer:
    """The answer to a request that stores nothing."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi."}]}
    return gateway.post("/v1/chat/completions", body, authorization=bearer)


@pytest.mark.parametrize(("grace", "later"), [("1 h", 200), ("1 s", 503)], ids=["at once", "after the grace"])
def test_keys_of_the_file_are_served_those_of_the_database_for_the_grace_and_others_never(
    server: PostgresServer, grace: str, later: int
) -> None:
    with served_on(server.address(), f'key_grace = "{grace}"\n') as gateway:
        known = f"Bearer {add_key(gateway, 'known')}"
        wait_until(lambda: plain(gateway, known).status == 200, "the key is known")
        with away(server, gateway):
            wait_until(lambda: plain(gateway, known).status == later, f"a key of the database gets {later}")
            assert plain(gateway).status == 200
            # Its keys are known to be unreadable a moment after the database is known to be away.
            wait_until(lambda: plain(gateway, f"Bearer {FILE_KEY[::-1]}").status == 503, "another key gets 503")
            unseen = plain(gateway, f"Bearer {FILE_KEY[::-1]}")
            refused = [unseen] if later == 200 else [unseen, plain(gateway, known)]
            assert [(each.status, each.header("retry-after")) for each in refused] == [(503, "5")] * len(refused)
            words = "accepted" if later == 200 else "refused with 503"
            assert f"gateway keys of the database are {words}" in ready(gateway)
        wait_until(lambda: plain(gateway, known).status == 200, "the key is known again")
        wait_until(lambda: plain(gateway, f"Bearer {FILE_KEY[::-1]}").status == 401, "another key is unknown again")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_what_is_stored_is_refused_and_the_rest_is_served_and_recorded(server: PostgresServer, workers: str) -> None:
    with served_on(server.address(), arguments=("--workers", workers)) as gateway:
        first = create(gateway, "Hello.")
        conversation = gateway.post("/v1/conversations", {}, authorization=BEARER).json()["id"]
        with away(server, gateway):
            refused = {
                "stored": respond(gateway, "Hello."),
                "background": respond(gateway, "Hello.", background=True),
                "continued": respond(gateway, "Hello.", previous_response_id=first["id"], store=False),
                "in a conversation": respond(gateway, "Hello.", conversation=conversation),
                "read": read(gateway, first["id"]),
                "conversation": gateway.post("/v1/conversations", {}, authorization=BEARER),
            }
            assert {name: answer.status for name, answer in refused.items()} == dict.fromkeys(refused, 503)
            assert respond(gateway, "Hello.", store=False).status == 200
            assert plain(gateway).status == 200
            # At first a server that stops says so.
            wait_until(lambda: "does not answer" in _problem(gateway), "the status has the reason")
            assert b"\ndragoman_database_up 0\n" in gateway.get("/metrics", authorization=BEARER).body
        wait_until(lambda: read(gateway, first["id"]).status == 200, "stored responses are there again")
        again = partial(respond, gateway, "And now?", previous_response_id=first["id"])
        wait_until(lambda: again().status == 200, "it continues")
        wait_until(lambda: count_of(server.address(), RECORDS) >= 7, "the records of the outage are in the database")
        assert gateway.stop() == 0
        events = [str(each["event"]) for each in map(json.loads, gateway.process.log.all())]
    assert (events.count(GONE), events.count(BACK)) == (1, 1)
    assert not [each for each in events if each.startswith("cannot")]


def test_a_server_whose_processes_are_stopped_is_found_out_and_not_waited_for_again(server: PostgresServer) -> None:
    with served_on(server.address(), constants=IMPATIENT) as gateway:
        first = create(gateway, "Hello.")
        with server.stopped():
            assert respond(gateway, "Hello.").status == 503
            wait_until(lambda: GONE in ready(gateway), "the gateway knows that the database is away")
            assert [respond(gateway, "Hello.").status for _ in range(20)] == [503] * 20
            assert plain(gateway).status == 200
        wait_until(lambda: read(gateway, first["id"]).status == 200, "stored responses are there again")


class Held:
    """A provider that holds its answers at a gate."""

    def __init__(self) -> None:
        self.gate = Gate()

    def __call__(self, received: Received) -> Reply:
        if received.method == "GET":
            return whole({"error": {"message": "not here"}}, 404)
        assert dig_objects({**received.json()}, "messages")
        said = tells(CHAT).steps[0]
        assert isinstance(said, bytes)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(said)
        return Reply(raw=True, steps=(self.gate, head + said))


def test_a_background_response_that_ends_meanwhile_is_written_when_the_database_is_back(server: PostgresServer) -> None:
    held = Held()
    with served_on(server.address(), script=held) as gateway:
        body = {"model": "chat/served", "input": "Hello.", "background": True}
        begun = gateway.post("/v1/responses", body, authorization=BEARER).json()
        held.gate.reached()
        with away(server, gateway):
            held.gate.open()
            gateway.process.log.wait(str(begun["model"]))
        wait_until(lambda: read(gateway, begun["id"]).json().get("status") == "completed", "its end is stored")


def test_a_response_in_flight_that_cannot_be_stored_ends_as_a_failure(server: PostgresServer) -> None:
    held = Held()
    with served_on(server.address(), script=held) as gateway:
        body = {"model": "chat/served", "input": "Hello."}
        with gateway.begin_post("/v1/responses", body, authorization=BEARER) as connection:
            held.gate.reached()
            with away(server, gateway):
                held.gate.open()
                data = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"could not be stored" in data and b" 503 " in data.split(b"\r\n")[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_start_without_the_database_serves_keys_of_the_file(server: PostgresServer, host: str) -> None:
    address = server.address()
    with served_on(address) as gateway:
        known = f"Bearer {add_key(gateway, 'known')}"
        assert gateway.stop() == 0
        server.execute("DELETE FROM dragoman.key_names")
        server.stop()
        with served_on(address, arguments=("--host", host)) as later:
            assert plain(later).status == 200
            assert (plain(later, known).status, plain(later, "Bearer x").status) == (503, 503)
            assert respond(later, "Hello.").status == 503
            server.start()
            wait_until(lambda: plain(later, known).status == 200, "the key of the database is known")
            wait_until(lambda: respond(later, "Hello.").status == 200, "responses are stored")
            names = "SELECT count(*) FROM key_names WHERE name = 'operator'"
            wait_until(lambda: count_of(address, names) == 1, "the name of the configured key is bound")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_empty_database_that_was_away_at_the_start_is_set_up_when_it_returns(
    server: PostgresServer, workers: str
) -> None:
    server.stop()
    with served_on(server.address(), arguments=("--workers", workers)) as gateway:
        assert respond(gateway, "Hello.").status == 503
        server.start()
        wait_until(lambda: respond(gateway, "Hello.").status == 200, "responses are stored")
        # A worker may read keys a moment later than it stores responses, and than the other one does.
        made: list[Answer] = []

        def make() -> bool:
            made.append(gateway.post("/admin/v1/keys", {"name": "known"}, authorization=BEARER))
            return made[-1].status == 201

        wait_until(make, "a key is added")
        known = f"Bearer {dig_text(made[-1].json(), 'key')}"
        wait_until(lambda: plain(gateway, known).status == 200, "the key is known")
        wait_until(lambda: count_of(server.address(), RECORDS) >= 2, "the records are in the database")


def test_an_empty_database_that_returns_to_a_role_that_may_not_set_it_up_needs_its_owner(
    server: PostgresServer,
) -> None:
    server.execute("CREATE ROLE reader LOGIN")
    server.stop()
    with served_on(server.address(user="reader")) as gateway:
        server.start()
        wait_until(lambda: "run dragoman db migrate" in ready(gateway), "the remedy is named")
        assert plain(gateway).status == 200
        location = PostgresDatabase(address=server.address(), name="", path="")
        open_contents(location, timeout=LIMIT).close()
        with closing(administer(location)) as owner:
            migrate(owner)
            grant_to(owner, "reader")
        wait_until(lambda: respond(gateway, "Hello.").status == 200, "responses are stored")


def test_a_public_gateway_without_keys_of_the_file_accepts_those_of_the_database_when_it_returns(
    server: PostgresServer,
) -> None:
    address = server.address()
    with served_on(address) as gateway:
        known = f"Bearer {add_key(gateway, 'known')}"
        assert gateway.stop() == 0
    server.stop()
    more = storage().removeprefix(KEYS)
    environment = {"DATABASE_URL": address}
    with serving(Script(), more, arguments=("--host", "0.0.0.0"), environment=environment, constants=PATIENT) as closed:
        assert (plain(closed, known).status, plain(closed, "Bearer x").status) == (503, 503)
        server.start()
        wait_until(lambda: plain(closed, known).status == 200, "the key of the database is known")
        wait_until(lambda: respond(closed, "Hello.", known).status == 200, "responses are stored")
        assert plain(closed, "Bearer x").status == 401


def test_every_fault_is_reported_without_user_and_password(server: PostgresServer) -> None:
    canary = "canary%40%2F%3A%3F%23%5B%5D%25%27%22%20%5C%3B%26%3D%2B%24"
    address = f"postgresql://postgres:{canary}@/postgres?host={server.directory}&connect_timeout=10"
    with served_on(address) as gateway:
        create(gateway, "Hello.")
        answers = []
        with away(server, gateway):
            answers += [respond(gateway, "Hello."), gateway.get("/status", authorization=BEARER)]
            answers += [
                gateway.get("/readyz?verbose"),
                gateway.post("/admin/v1/keys", {"name": "a"}, authorization=BEARER),
            ]
            answers += [gateway.get("/admin/v1/usage", authorization=BEARER)]
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        answers.append(respond(gateway, "Hello."))
        assert gateway.stop() == 0
        lines = [*gateway.process.log.all(), *gateway.process.out.all()]
    texts = [*lines, *(answer.body.decode() for answer in answers)]
    assert not [text for text in texts if "canary" in text]
    assert [text for text in texts if f"{server.directory}/postgres does not answer" in text]
