"""A store that takes its time, or takes nothing: what is told meanwhile, how often it is asked, and what fails."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from dragoman.config.settings import Timeouts
from dragoman.gateway.exchange import timeouts
from dragoman.store import async_store
from tests.gateway.harness import (
    CHAT,
    PATIENCE,
    RESPONSES,
    House,
    Received,
    Reply,
    Step,
    stay_silent,
    stream,
    take_turns,
)
from tests.gateway.keeping_house import ALICE, BOB, ended, on_loop, store_of, tell_sqlite
from tests.gateway.says import speaking, turn
from tests.gateway.test_kept_first import MODELS, held, kept_in
from tests.sdk.digging import dig_object, dig_text
from tests.sdk.providers import stream as stream_of
from tests.sdk.samples import events_of
from tests.server.process import Gate as ProviderGate
from tests.store.asked import Gate
from tests.waiting import wait_until


def _protocol(received: Received) -> str:
    return CHAT if received.target.endswith("/chat/completions") else RESPONSES


def lingering(received: Received, then: Step = stay_silent) -> Reply:
    """A provider that says everything, then something that is of no use, and does not end."""
    protocol = _protocol(received)
    ticks: list[Step] = [take_turns, b": tick\n\n"]
    return stream(stream_of(protocol, turn(protocol)), *ticks * 5, then)


def breaking(received: Received) -> Reply:
    """A provider that ends in the middle of its words, or falls silent there."""
    begun = speaking(_protocol(received))
    return stream(begun, stay_silent) if b"silent" in received.body else stream(begun)


@contextmanager
def slow(house: House) -> Iterator[Gate]:
    """A store that is at work on something else until its gate is opened."""
    gate = Gate()
    waiting = on_loop(house, lambda: store_of(house).read(gate))
    assert gate.begun.wait(PATIENCE)
    try:
        yield gate
    finally:
        gate.open()
    wait_until(waiting.done, "the waiting call has ended")


@contextmanager
def asked(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """What the store is asked to write meanwhile."""
    store, seen = store_of(house), list[object]()
    write = store.write

    def watched(work: Callable[..., object], *more: object, **said: object) -> object:
        seen.append(work)
        return write(work, *more, **said)  # type: ignore[arg-type]  # as it was called

    with monkeypatch.context() as patched:
        patched.setattr(store, "write", watched)
        yield seen


def _ask(connection: socket.socket, body: Mapping[str, object], key: str = "") -> None:
    said = json.dumps({"stream": True, **body})
    head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(said)}\r\n"
    head += f"authorization: Bearer {key}\r\n" if key else ""
    connection.sendall(f"{head}\r\n{said}".encode())


def _heard(connection: socket.socket, until: Callable[[bytes], bool], heard: bytes = b"") -> bytes:
    connection.settimeout(PATIENCE)
    while not until(heard):
        piece = connection.recv(65536)
        assert piece, heard
        heard += piece
    return heard


@pytest.mark.parametrize("way", [*MODELS])
def test_a_provider_that_lingers_holds_up_nothing_and_a_slow_store_is_asked_once(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The gateway does not end it either.
    monkeypatch.setattr(timeouts, "_LINGER", 60.0)
    ticks = ProviderGate()
    with kept_in(tmp_path, script=lambda received: lingering(received, ticks)) as house, house.connect() as connection:
        with slow(house) as gate, asked(house, monkeypatch) as writes:
            _ask(connection, {"model": MODELS[way], "input": "Hello."})
            heard = _heard(connection, lambda heard: b"response.output_text.delta" in heard)
            wait_until(lambda: bool(writes), "the store is written to")
            # Whatever still comes of the provider is no reason to ask again.
            ticks.reached()
            assert b"response.completed" not in heard
            gate.open()
            last = (b"event: response.completed", *[b": tick"] * (way == "relayed"))
            _heard(connection, lambda heard: all(said in heard for said in last), heard)
            assert (len(writes), house.server.busy, house.provider.hung_up) == (1, 1, 0)
            ticks.open()
        with closing(sqlite3.connect(tmp_path / "state.db")) as db:
            assert db.execute("SELECT status FROM responses").fetchall() == [("completed",)]


def test_an_id_is_told_when_it_is_noted_whose_it_is_and_signs_of_life_before(tmp_path: Path) -> None:
    timeouts = Timeouts(heartbeat=0.02)
    with (
        kept_in(tmp_path, timeouts, keys=(ALICE, BOB), script=lingering) as house,
        closing(sqlite3.connect(tmp_path / "state.db")) as db,
        house.connect() as connection,
    ):
        with slow(house) as gate:
            _ask(connection, {"model": "responses/served", "input": "Hello."}, ALICE)
            heard = _heard(connection, lambda heard: heard.count(b"\n:") >= 3)
            assert b"resp_" not in heard and b"event:" not in heard
            gate.open()
            heard = _heard(connection, lambda heard: b"response.created" in heard, heard)
        named = re.search(rb'"id": ?"(resp_\w+)"', heard)
        assert named is not None
        # As another process finds it, in the moment in which the client has heard of it.
        assert db.execute("SELECT id FROM responses WHERE id != ''").fetchall() == [(named[1].decode(),)]


@pytest.mark.parametrize("way", [*MODELS, "background"])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_conversation_is_free_for_other_processes_when_its_answer_is_told(
    tmp_path: Path, way: str, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept_in(tmp_path) as house, closing(sqlite3.connect(tmp_path / "state.db")) as db:
        conversation = house.post("/v1/conversations", {}).json()["id"]
        # What is left to be done later is done too late.
        monkeypatch.setattr(store_of(house), "post", lambda work, size=0: None)
        body = {"model": MODELS.get(way, "chat/served"), "input": "Hello.", "conversation": conversation}
        answer = house.post("/v1/responses", {**body, "stream": streaming, "background": way == "background"})
        assert answer.status == 200
        if way == "background" and not streaming:
            assert ended(house, answer.json()["id"])["status"] == "completed"
        # The name of its last holder stays: a repeated write recognises its own release by it.
        assert db.execute("SELECT busy_until FROM conversations").fetchall() == [(0,)]
        assert db.execute("SELECT count(*) FROM items WHERE holder = ?", (conversation,)).fetchone() == (2,)


STORES = ("busy", "failing", "closed")


@contextmanager
def unwilling(house: House, path: Path, how: str) -> Iterator[None]:
    """A store that does not take an answer."""
    with ExitStack() as stack:
        if how == "busy":
            stack.enter_context(held(path))
        elif how == "failing":
            tell_sqlite(house, "CREATE TRIGGER t BEFORE INSERT ON responses BEGIN SELECT raise(FAIL, 'no'); END")
        else:
            house.run(store_of(house).close())
        yield


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("way", [*MODELS])
@pytest.mark.parametrize("how", ["silent", "ended early"])
def test_what_failed_is_told_whatever_the_store_says(
    tmp_path: Path, how: str, way: str, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_store, "BUSY_TIMEOUT", 0.1)
    body = {"model": MODELS[way], "input": how, "stream": True}
    with kept_in(tmp_path, Timeouts(idle=0.1), script=breaking) as house, unwilling(house, tmp_path, store):
        answer = house.post("/v1/responses", body)
        assert answer.status == 200 and answer.complete
        kinds = [event["type"] for event in events_of(answer.body)]
        assert kinds[0] == "response.created" and kinds[-1] == "response.failed"
        assert kinds.count("response.failed") == 1 and "response.completed" not in kinds
        wait_until(lambda: house.server.busy == 0, "the gateway has ended every exchange")
        assert "cannot store response" in house.log.getvalue()


@pytest.mark.parametrize("way", [*MODELS])
@pytest.mark.parametrize("how", ["silent", "ended early"])
def test_what_failed_is_told_and_kept_under_the_id_that_it_began_with(tmp_path: Path, how: str, way: str) -> None:
    with kept_in(tmp_path, Timeouts(idle=0.1), script=breaking) as house:
        answer = house.post("/v1/responses", {"model": MODELS[way], "input": how, "stream": True})
        responses = [dig_object(event, "response") for event in events_of(answer.body) if "response" in event]
        (name,) = {dig_text(response, "id") for response in responses}
        assert house.get(f"/v1/responses/{name}").json()["status"] == "failed"


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", [*MODELS])
def test_an_answer_that_a_closed_store_does_not_take_is_not_told(tmp_path: Path, way: str, streaming: bool) -> None:
    with kept_in(tmp_path) as house, unwilling(house, tmp_path, "closed"):
        answer = house.post("/v1/responses", {"model": MODELS[way], "input": "Hello.", "stream": streaming})
        assert answer.status == (200 if streaming else 500) and answer.complete
        assert b"could not be stored" in answer.body and b"event: response.completed" not in answer.body
