"""A client that a public generator makes of `/admin/v1/openapi.json` makes every call and reads every response."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dragoman.identities.key_text import hash_text, is_mistyped, new_key
from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import MESSAGES, Received, Reply
from tests.gateway.says import question, tells
from tests.server.generated_client import GeneratedClient, Parsed, generated_client
from tests.server.process import Served, serving
from tests.waiting import LIMIT

ADA, BOB = new_key(), new_key()
KEYS = (
    f'[keys.ada]\nhash = "{hash_text(ADA)}"\nrole = "admin"\ntags = {{ team = "ops" }}\n'
    f'[keys.bob]\nhash = "{hash_text(BOB)}"\n'
)

# Operations whose responses do not end by themselves.
STREAMS = {"send_events"}


def _script(received: Received) -> Reply:
    return tells(MESSAGES)


@pytest.fixture(scope="module")
def house() -> Iterator[Served]:
    with serving(_script, KEYS) as house:
        for key in (ADA, BOB):
            assert house.post("/v1/messages", question(MESSAGES, MESSAGES), x_api_key=key).status == 200
        yield house


@pytest.fixture(scope="module")
def client(house: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeneratedClient]:
    document = house.get("/admin/v1/openapi.json", x_api_key=ADA)
    assert document.status == 200
    with generated_client(house.url, document.body, tmp_path_factory.mktemp("generated")) as client:
        yield client


def read(client: GeneratedClient, operation: str, body: JsonObject | None = None, /, **arguments: object) -> JsonObject:
    """The members of a response without error, all of which the document has."""
    answer = client.call(operation, ADA, body, **arguments)
    assert answer.status in (200, 201), answer
    assert answer.unknown == []
    return answer.members


def refused(answer: Parsed, status: int, kind: str) -> None:
    assert (answer.status, answer.kind) == (status, "ErrorBody")
    error = answer.members["error"]
    assert isinstance(error, dict)
    assert error["type"] == kind


def issued(members: JsonObject) -> tuple[str, JsonObject]:
    """A new key text, and the key that it belongs to."""
    text, identity = members["key"], members["identity"]
    assert isinstance(text, str)
    assert not is_mistyped(text.encode())
    assert isinstance(identity, dict)
    return text, identity


def first_of(members: JsonObject, name: str) -> JsonObject:
    """The first entry of a list."""
    listed = members[name]
    assert isinstance(listed, list)
    assert isinstance(listed[0], dict)
    return listed[0]


def test_the_generated_client_makes_every_call(client: GeneratedClient) -> None:
    _read_state(client)
    _read_records(client)
    _change_keys(client)
    assert client.called | STREAMS == set(client.operations)


def _read_state(client: GeneratedClient) -> None:
    assert client.call("openapi", BOB).members["openapi"] == "3.1.0"
    assert read(client, "me")["name"] == "ada"
    assert read(client, "models", match="routed")["names"]
    assert read(client, "status")["workers"] == 1


def _read_records(client: GeneratedClient) -> None:
    assert first_of(read(client, "show_usage", by="key,tag:team", since="all", n=5), "rows")["requests"] == 1
    exchange = first_of(read(client, "list_exchanges", since="1d", key="ada", errors=False, n=5), "exchanges")
    assert read(client, "show_exchange", id=exchange["id"]) == exchange
    session = first_of(read(client, "list_sessions", since="1d", key="ada", all_=True, n=5), "sessions")
    tree = read(client, "show_session", id=session["id"], key="ada")
    assert tree["number"] == session["number"]
    thread = first_of(tree, "threads")
    assert read(client, "show_thread", id=thread["number"])["name"] == thread["name"]
    assert read(client, "show_live")["open"] == 0
    assert first_of(read(client, "show_own_usage", by="key"), "rows")["key"] == "ada"
    assert first_of(read(client, "list_own_exchanges"), "exchanges")["id"] == exchange["id"]
    assert first_of(read(client, "list_own_sessions"), "sessions")["id"] == session["id"]


def _change_keys(client: GeneratedClient) -> None:
    members: JsonObject = {
        "models": ["claude-*", "routed"],
        "tags": {"team": "ops"},
        "expires": "2099-01-01T00:00:00+00:00",
        "strict": "all",
        "concurrency": 3,
    }
    text, made = issued(read(client, "create_key", {"name": "ann", **members}))
    assert read(client, "show_key", name="ann") == made
    listed = read(client, "list_keys", after="ada", n=1)
    assert (listed["keys"], listed["next"]) == ([made], "ann")
    changed = read(client, "change_key", {"models": None, "concurrency": 2}, name="ann", if_match='"1"')
    assert changed == {**made, "models": None, "concurrency": 2, "generation": 2}
    second, rotated = issued(read(client, "rotate_key", {"grace": 60}, name="ann", if_match='"2"'))
    assert (rotated["state"], second == text) == ("rotated", False)
    assert read(client, "revoke_key", name="ann", if_match='"3"')["state"] == "revoked"
    page = read(client, "show_audit", before=4, n=2)
    assert isinstance(page["changes"], list)
    assert [each["action"] for each in page["changes"] if isinstance(each, dict)] == ["rotate", "change"]
    assert page["next"] == 2


def test_the_generated_client_reads_errors(client: GeneratedClient) -> None:
    refused(client.call("list_keys", BOB), 403, "forbidden")
    refused(client.call("list_keys", new_key()), 401, "unauthenticated")
    refused(client.call("show_key", ADA, name="nobody"), 404, "not_found")
    refused(client.call("show_usage", ADA, by="colour"), 400, "invalid_request")
    issued(read(client, "create_key", {"name": "cid", "tags": {"team": "ops"}}))
    refused(client.call("create_key", ADA, {"name": "cid", "tags": {"team": "ops"}}), 409, "conflict")
    refused(client.call("create_key", ADA, {"name": "dan"}), 403, "forbidden")
    refused(client.call("change_key", ADA, {}, name="cid", if_match='"99"'), 412, "precondition_failed")


def test_the_generated_client_reads_a_stream_of_events(client: GeneratedClient) -> None:
    with serving(_script, KEYS) as house:
        other, begun = GeneratedClient(house.url, client.operations), threading.Event()
        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(other.stream, "send_events", ADA, begun.set, last_event_id="unknown-7")
            assert begun.wait(LIMIT)
            # A gateway that shuts down ends its streams.
            assert house.stop() == 0
            status, text = reading.result(LIMIT)
        assert status == 200
        assert "event: resync" in text
        assert other.called == STREAMS
