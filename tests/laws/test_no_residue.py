"""Law: after any mix of exchanges, finished, cancelled or broken, nothing of ours is left for the collector.

Exchanges of all kinds run over real sockets with the collector off; then it may find nothing that is ours. The
collector runs seldom by design, so that whatever it finds would have stayed for long, with the request it belongs to.
One gateway serves all cases, and the cases of a test share one run of the collector. If it finds something, each case
runs alone, so that the failure names the case.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import socket
import struct
import types
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.config.settings import Limits, RouteConfig, Settings, Timeouts
from dragoman.model.jsonvalue import JsonObject
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    RESPONSES,
    House,
    Received,
    Reply,
    read_answer,
    running,
    settings_for,
    stream,
    whole,
)
from tests.gateway.says import (
    NAMES,
    PAIRS,
    error_frame,
    frames,
    opening,
    question,
    refusal,
    speaking,
    streams,
    tells,
)
from tests.gateway.test_pauses import ASKED, FIRST, LAST, events, message
from tests.waiting import wait_until

# What may leave nothing behind.
OURS = "dragoman"
HOME = Path(dragoman.__file__).parent
# How often each case runs with the collector off.
TIMES = 3
LARGE = "x" * 300_000
FLOOD = "0123456789abcdef" * 4096
# Exchanges by the name that a failure shows.
Cases: TypeAlias = dict[str, Callable[[], object]]


def _home(found: object) -> str:
    """The module that something belongs to: a value's by its class, a frame's by its code."""
    code: object = None
    if isinstance(found, types.FrameType):
        code = found.f_code
    elif isinstance(found, types.CoroutineType):
        code = found.cr_code
    elif isinstance(found, types.GeneratorType):
        code = found.gi_code
    elif isinstance(found, types.FunctionType):
        return found.__module__ or ""
    if isinstance(code, types.CodeType):
        return _module_of(code.co_filename)
    return type(found).__module__


def _module_of(file: str) -> str:
    """The module in a file of the package; "" for any other, also in a clone that is called as the package is."""
    path = Path(file)
    return ".".join(path.relative_to(HOME.parent).with_suffix("").parts) if path.is_relative_to(HOME) else ""


def _named(found: object) -> str:
    name = getattr(found, "__qualname__", None) or type(found).__qualname__
    if isinstance(found, types.FrameType):
        name = f"frame of {found.f_code.co_qualname}"
    return f"{_home(found)}: {name}"


@contextmanager
def collecting() -> Iterator[Counter[str]]:
    """Count what the collector finds of ours in what is done meanwhile; filled in at the end."""
    left: Counter[str] = Counter()
    gc.collect()
    # The collector looks at what is made from here on alone.
    gc.freeze()
    gc.disable()
    debug = gc.get_debug()
    try:
        yield left
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left.update(_named(found) for found in gc.garbage if _home(found).startswith(OURS))
    finally:
        gc.set_debug(debug)
        gc.garbage.clear()
        gc.enable()
        gc.collect()


def script(received: Received) -> Reply:
    """A provider that does whatever the question asks for."""
    if received.target.endswith("/embeddings"):
        return whole({"object": "list", "data": []})
    if received.target.endswith(("/count_tokens", "/input_tokens")):
        return whole({"input_tokens": 7})
    body = received.json()
    protocol = next(name for name, path in PATHS.items() if received.target.startswith(path))
    said = json.dumps(body)
    for word, answer in WORDS.items():
        if word in said:
            return answer(protocol, body)
    return streams(protocol) if body.get("stream") else tells(protocol)


def _pause(protocol: str, body: JsonObject) -> Reply:
    resumed = "Let me look" in json.dumps(body)
    said = (LAST, "end_turn") if resumed else (FIRST, "pause_turn")
    return stream(events(*said)) if body.get("stream") else whole(message(*said))


def _flood(protocol: str, body: JsonObject) -> Reply:
    told = frames(protocol)
    grown = next(frame for frame in told if b"Guten" in frame).replace(b"Guten", b"Guten" + FLOOD.encode())
    return stream(speaking(protocol), *[grown] * 400)


WORDS: dict[str, Callable[[str, JsonObject], Reply]] = {
    "[refuse]": lambda protocol, body: refusal(protocol, 400),
    "[busy]": lambda protocol, body: refusal(protocol, 429),
    "[fail]": lambda protocol, body: stream(
        speaking(protocol), error_frame(protocol, "overloaded_error", "busy now", "server_is_overloaded")
    ),
    "[fail first]": lambda protocol, body: stream(
        opening(protocol), error_frame(protocol, "overloaded_error", "busy now", "server_is_overloaded")
    ),
    "[break]": lambda protocol, body: stream(speaking(protocol), None),
    "[nothing]": lambda protocol, body: stream(None),
    "[garbage]": lambda protocol, body: stream(speaking(protocol), b"data: {]\n\n"),
    "[collect]": lambda protocol, body: streams(protocol),
    "[silent]": lambda protocol, body: stream(speaking(protocol), 30.0),
    "[never]": lambda protocol, body: Reply(raw=True, steps=(30.0,)),
    "[much]": lambda protocol, body: tells(protocol, "word " * 100_000),
    "[too much]": lambda protocol, body: stream(*[speaking(protocol)] + [b": " + b"x" * 60_000 + b"\n\n"] * 50),
    "[no json]": lambda protocol, body: whole(b"<html>"),
    "look": _pause,
    "[flood]": _flood,
}


def settings(port: int) -> Settings:
    timeouts = Timeouts(first_byte=0.6, idle=0.6, heartbeat=0.2, total=5.0)
    made = settings_for(port, timeouts=timeouts, limits=Limits(response_body=2 * 1024 * 1024))
    providers = {
        name: replace(provider, counts_tokens=provider.name != "chat") for name, provider in made.providers.items()
    }
    route = RouteConfig(pattern="several", targets=("chat/served", "messages/served"))
    return replace(made, providers=providers, routes=(*made.routes, route))


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with running(script, settings) as house:
        yield house


def _ask(house: House, client: str, provider: str, text: str, *, stream: bool = True) -> int:
    body = question(client, provider, stream=stream)
    said = json.dumps(body).replace('"Hello."', json.dumps(text))
    assert json.dumps(text) in said, said
    return house.post(PATHS[client], said.encode()).status


def _settled(house: House) -> bool:
    state = house.app.runtime.state
    return house.server.busy == 0 and state.background.running == 0 and not house.server._connections


def _settle(house: House) -> None:
    """Wait for the end of all exchanges, and for the turns of the loop in which closed transports are let go of."""
    wait_until(lambda: _settled(house), "no exchange runs and no connection is open")

    async def take_turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    house.run(take_turns())


def _left_by(house: House, cases: Cases) -> Counter[str]:
    with collecting() as left:
        for _ in range(TIMES):
            for run in cases.values():
                run()
        _settle(house)
        house.provider.received.clear()
    return left


def _check(house: House, cases: Cases) -> None:
    """Fail if one of these cases leaves something of ours to the collector."""
    # Objects that are made once and stay are made first.
    for run in cases.values():
        run()
    _settle(house)
    if _left_by(house, cases):
        alone = {name: left for name, run in cases.items() if (left := _left_by(house, {name: run}))}
        pytest.fail(f"left to the collector: {alone or 'something, by all cases together, and nothing by one alone'}")


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_answer_leaves_nothing(house: House, streaming: bool) -> None:
    cases: Cases = {
        f"{client} of {provider}": partial(_ask, house, client, provider, "[plain]", stream=streaming)
        for client, provider in PAIRS
    }
    _check(house, cases)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_answer_of_one_of_several_targets_leaves_nothing(house: House, streaming: bool) -> None:
    def ask(client: str, text: str) -> None:
        body = {**question(client, CHAT, stream=streaming), "model": "several"}
        house.post(PATHS[client], json.dumps(body).replace('"Hello."', json.dumps(text)).encode())

    # The leader of a route answers a request, or refuses it.
    _check(
        house,
        {f"{text} to {client}": partial(ask, client, text) for client in PROTOCOLS for text in ("[plain]", "[refuse]")},
    )


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_goes_otherwise_leaves_nothing(house: House, streaming: bool) -> None:
    cases: Cases = {
        f"{word}: {client} of {provider}": partial(_ask, house, client, provider, word, stream=streaming)
        for word in WORDS
        if word not in ("look", "[flood]", "[silent]", "[never]")
        for client in (MESSAGES, RESPONSES)
        for provider in (CHAT, RESPONSES)
    }
    _check(house, cases)


def test_a_turn_that_paused_leaves_nothing(house: House) -> None:
    cases: Cases = {
        f"{client}, stream {streaming}": partial(house.post, PATHS[client], {**ASKED[client], "stream": streaming})
        for client in (CHAT, RESPONSES)
        for streaming in (False, True)
    }
    _check(house, cases)


def test_an_answer_that_takes_too_long_leaves_nothing(house: House) -> None:
    slow = [(client, word) for client in (CHAT, RESPONSES) for word in ("[silent]", "[never]")]

    def all_at_once() -> None:
        # Each takes as long as the gateway waits for a provider.
        for _ in pool.map(lambda one: _ask(house, one[0], CHAT, one[1]), slow):
            pass

    with ThreadPoolExecutor(len(slow)) as pool:
        _check(house, {"all at once": all_at_once})


def test_a_request_that_cannot_be_served_leaves_nothing(house: House) -> None:
    bodies = [b"{", b'{"model":"nobody/nothing"}', b'{"model":5}', b"[" * 100_000]
    cases: Cases = {
        f"{body[:30]!r} to {client}": partial(house.post, PATHS[client], body)
        for body in bodies
        for client in PROTOCOLS
    }
    _check(house, cases)


def _hang_up(house: House, body: bytes, *, until: bytes, announce: int = 0) -> None:
    """Send a request, read as far as a mark, and reset the connection."""
    with house.connect() as connection:
        head = f"POST /v1/responses HTTP/1.1\r\nhost: x.localhost\r\ncontent-length: {announce or len(body)}\r\n\r\n"
        connection.sendall(head.replace("x.localhost", f"127.0.0.1:{house.port}").encode() + body)
        heard = b""
        while until not in heard:
            heard += connection.recv(65536)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_client_that_hangs_up_leaves_nothing(house: House) -> None:
    cases: Cases = {"in an upload": partial(_hang_up, house, b"x" * 200_000, until=b"", announce=1_000_000)}
    for provider in PROTOCOLS:
        body = {"model": f"{NAMES[provider]}/served", "input": "[silent]", "stream": True}
        cases[f"in a stream of {provider}"] = partial(_hang_up, house, json.dumps(body).encode(), until=b"delta")
    _check(house, cases)


def test_a_client_that_reads_late_or_not_at_all_leaves_nothing(house: House) -> None:
    said = [{"role": "user", "content": "[flood]"}]
    body = json.dumps({"model": "chat/served", "messages": said, "stream": True}).encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        f"host: 127.0.0.1:{house.port}",
        "connection: close",
        f"content-length: {len(body)}",
    )
    head = "\r\n".join((*lines, "\r\n")).encode()

    async def holds_back() -> bool:
        return any(connection.paused for connection in house.server._connections)

    def ask(*, reads: bool) -> None:
        with house.connect() as connection:
            connection.sendall(head + body)
            wait_until(lambda: house.run(holds_back()), "the gateway waits for the client to read")
            while reads and connection.recv(1_000_000):
                pass

    _check(house, {"late": partial(ask, reads=True), "not at all": partial(ask, reads=False)})


def test_a_stored_response_leaves_nothing(house: House) -> None:
    conversation = house.post("/v1/conversations", {}).json()["id"]

    def store(streaming: bool, background: bool) -> None:
        body = {"model": "chat/served", "input": "Hello.", "stream": streaming, "background": background}
        made = house.post("/v1/responses", {**body, "conversation": conversation})
        assert made.status == 200, made.body
        wait_until(lambda: house.app.runtime.state.background.running == 0, "no response runs in the background")
        named = re.search(rb'"id":"(resp_\w+)"', made.body)
        assert named is not None
        path = f"/v1/responses/{named[1].decode()}"
        assert house.get(path).status == 200
        house.get(path + "?stream=true")
        house.get(path + "/input_items")
        house.ask("DELETE", path, b"")

    cases: Cases = {
        f"stream {streaming}, background {background}": partial(store, streaming, background)
        for streaming in (False, True)
        for background in (False, True)
    }
    _check(house, cases)


def test_a_background_response_that_is_cancelled_leaves_nothing(house: House) -> None:
    def run() -> None:
        body = {"model": "chat/served", "input": "[silent]", "background": True, "stream": False}
        made = house.post("/v1/responses", body).json()
        assert house.post(f"/v1/responses/{made['id']!s}/cancel", b"").status == 200

    _check(house, {"cancelled": run})


def test_what_is_not_there_or_in_use_leaves_nothing(house: House) -> None:
    made = str(house.post("/v1/conversations", {}).json()["id"])
    store = house.app.runtime.state.store
    assert store is not None

    async def lock() -> None:
        assert await store.write(lambda tables: tables.conversations.lease(b"", made, "resp_another"))

    def run() -> None:
        house.run(lock())
        body = {"model": "echo/text", "input": LARGE, "conversation": made}
        assert house.post("/v1/responses", body).status == 409
        assert house.post("/v1/responses/resp_nobodys/cancel", {"x": LARGE}).status == 404
        assert house.get("/v1/responses/resp_nobodys").status == 404

    _check(house, {"refused": run})


def test_a_count_or_what_is_passed_on_or_listed_leaves_nothing(house: House) -> None:
    said = [{"role": "user", "content": "Hello."}]
    cases: Cases = {
        f"{path} of {model}": partial(house.post, path, {"model": model, "messages": said, "input": said})
        for path in ("/v1/messages/count_tokens", "/v1/responses/input_tokens")
        for model in ("messages/served", "chat/served", "echo/text")
    }

    def embed() -> None:
        assert house.post("/v1/embeddings", {"model": "chat/served", "input": "x"}).status == 200

    more: Cases = {
        "embeddings": embed,
        "models": partial(house.get, "/v1/models"),
        "no such page": partial(house.get, "/nowhere"),
    }
    _check(house, cases | more)


def test_large_work_leaves_nothing(house: House) -> None:
    body: dict[str, object] = {"model": "chat/served", "input": LARGE}
    cases: Cases = {
        "whole": partial(house.post, "/v1/responses", body),
        "streamed": partial(house.post, "/v1/responses", {**body, "stream": True}),
        "refused": partial(house.post, "/v1/responses", {**body, "tools": 5}),
        "given up": partial(_hang_up, house, json.dumps(body).encode(), until=b""),
    }
    _check(house, cases)


def test_a_house_that_answers_is_what_was_looked_at(house: House) -> None:
    # Else the law would hold of nothing.
    assert _ask(house, MESSAGES, CHAT, "[plain]") == 200
    with house.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        assert read_answer(connection).status == 200


def _leave_something() -> None:
    left = Fake()
    left.itself = left


def test_what_is_left_is_found_and_named(house: House) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"'the second': Counter.*dragoman\.gateway\.fake: Fake"):
        _check(house, {"the first": partial(house.get, "/nowhere"), "the second": _leave_something})


class Fake:
    """Something of ours that holds itself."""

    __module__ = "dragoman.gateway.fake"
    itself: object = None
