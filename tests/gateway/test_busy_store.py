"""A store that another process held for a while: what ran meanwhile is neither lost nor told twice (decision 21)."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from dragoman.config.settings import Timeouts
from dragoman.gateway.stored_responses import background
from dragoman.store import Tables
from dragoman.store import async_store as patience_module
from tests.gateway.gate import Gate
from tests.gateway.harness import PATIENCE, RESPONSES, Received, Reply, stay_silent, stream
from tests.gateway.keeping_house import ended, in_store, told, waited_for
from tests.gateway.says import speaking
from tests.gateway.test_kept_first import asking, held, kept_in, script
from tests.waiting import wait_until

KEYS = ("sk-alice-0123456789abcdef", "sk-bob-0123456789abcdef")


def flooding(received: Received) -> Reply:
    """A provider that says more than a client that does not read can be sent, or does not come to its end."""
    if "flooding" not in received.body.decode():
        return script(received, held_back=stay_silent)
    return stream(speaking(RESPONSES), *[b": tick %b\n\n" % (b"x" * 65536)] * 500, stay_silent)


def request_of(body: Mapping[str, object], key: str) -> bytes:
    """A request for a response."""
    said = json.dumps(body)
    head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
    return f"{head}content-length: {len(said)}\r\n\r\n{said}".encode()


@pytest.mark.parametrize("way", ["a listener", "somebody who asks"])
def test_what_runs_here_is_never_given_up_by_those_who_look_at_it(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The store took no promise for a while: every one is broken.
    monkeypatch.setattr(background, "_ALIVE", -1)
    body = {"model": "chat/served", "input": "ticking", "background": True, "stream": way == "a listener"}
    gate = Gate()
    with kept_in(tmp_path, script=partial(script, held_back=gate.step)) as house:
        if way == "a listener":
            frames = gate.post(house, "/v1/responses", body, b"response.output_text.delta").body
            assert frames.count(b"event: response.completed") == 1 and b"response.failed" not in frames
        else:
            made = str(house.post("/v1/responses", body).json()["id"])
            assert str(told(house, f"/v1/responses/{made}")["status"]) in ("queued", "in_progress")
            gate.open(house)
            assert ended(house, made)["status"] == "completed"
        assert house.provider.hung_up == 0


@pytest.mark.parametrize("how", ["hangs up", "does not read"])
def test_an_id_that_was_told_is_noted_though_its_client_is_gone(tmp_path: Path, how: str) -> None:
    timeouts = Timeouts(idle=0.5) if how == "does not read" else None
    body = {"model": "responses/served", "input": "ticking" if how == "hangs up" else "flooding", "stream": True}
    with kept_in(tmp_path, timeouts, keys=KEYS, script=flooding) as house, held(tmp_path) as holder:
        with house.connect() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(request_of(body, KEYS[0]))
            heard = b""
            while b"response.created" not in heard or b"tick" not in heard:
                heard += connection.recv(4096)
            if how == "does not read":
                wait_until(lambda: house.server.busy == 0, "the gateway has ended every exchange")
        wait_until(lambda: house.server.busy == 0, "the gateway has ended every exchange")
        holder.let_go()
        named = re.search(rb'"id": ?"(resp_\w+)"', heard)
        assert named is not None
        owner = house.app.runtime.settings.keys[0].owner

        def noted(tables: Tables) -> bool:
            return tables.responses.find(owner, named[1].decode()) is not None

        wait_until(lambda: in_store(house, noted), "the id is stored")
        assert "cannot" not in house.log.getvalue()


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("model", ["chat/served", "responses/served"])
def test_what_only_refers_back_stands_in_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, streaming: bool
) -> None:
    # The store is waited for, however busy this machine is.
    monkeypatch.setattr(patience_module, "BUSY_TIMEOUT", PATIENCE)
    body = {"model": model, "input": "Hello.", "stream": streaming}
    with kept_in(tmp_path) as house:
        first = house.post("/v1/responses", {**body, "stream": False}).json()["id"]
        with held(tmp_path) as holder, asking(lambda: house.post("/v1/responses", body)) as waits:
            wait_until(lambda: waited_for(house), "a write waits for the busy store")
            answer = house.post("/v1/responses", {**body, "previous_response_id": first, "store": False})
            assert answer.status == 200 and b'"completed"' in answer.body
            assert waited_for(house) and not waits.done()
            holder.let_go()
            assert waits.result(PATIENCE).status == 200


def test_a_deletion_that_fails_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience_module, "BUSY_TIMEOUT", 0.2)
    body = {"model": "chat/served", "input": "ticking", "background": True}
    gate = Gate()
    with kept_in(tmp_path, script=partial(script, held_back=gate.step)) as house:
        made = house.post("/v1/responses", body).json()["id"]
        with held(tmp_path) as holder:
            assert house.ask("DELETE", f"/v1/responses/{made!s}", b"").status == 500
            holder.let_go()
        gate.open(house)
        assert ended(house, made)["status"] == "completed"
        assert house.provider.hung_up == 0
