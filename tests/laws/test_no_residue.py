"""Law: after any mix of exchanges, finished, cancelled or broken, nothing of ours is left for the collector.

Each lane is run many times over real sockets with the collector off; then it may find nothing that is ours. The
collector runs seldom by design, so that whatever it finds would have stayed for long, with the request it belongs to.
"""

from __future__ import annotations

import gc
import json
import re
import socket
import struct
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.config.settings import Limits, Settings, Timeouts
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
    comes_true,
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

# What may leave nothing behind.
OURS = "dragoman"
HOME = Path(dragoman.__file__).parent
TIMES = 12
LARGE = "x" * 300_000
FLOOD = "0123456789abcdef" * 4096


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
def nothing_left() -> Iterator[None]:
    """Fail if the collector finds anything of ours in what was done meanwhile."""
    gc.collect()
    gc.disable()
    debug = gc.get_debug()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(_named(found) for found in gc.garbage if _home(found).startswith(OURS))
    finally:
        gc.set_debug(debug)
        gc.garbage.clear()
        gc.enable()
        gc.collect()
    assert not left, left


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
    timeouts = Timeouts(first_byte=0.6, idle=0.6, keep_alive=0.2, total=5.0)
    made = settings_for(port, timeouts=timeouts, limits=Limits(answer=2 * 1024 * 1024))
    providers = {
        name: replace(provider, counts_tokens=provider.name != "chat") for name, provider in made.providers.items()
    }
    return replace(made, providers=providers)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with running(script, settings) as house:
        yield house


def _ask(house: House, client: str, provider: str, text: str, **more: object) -> int:
    body = question(client, provider, **{"stream": True, **more})  # type: ignore[arg-type]  # as in a request
    said = json.dumps(body).replace('"Hello."', json.dumps(text))
    assert json.dumps(text) in said, said
    return house.post(PATHS[client], said.encode()).status


def _settled(house: House) -> bool:
    state = house.app.service.state
    return house.server.busy == 0 and state.background.running == 0 and not house.server._connections


def _lane(house: House, run: Callable[[], object]) -> None:
    # Whatever is made once and stays is made first.
    run()
    assert comes_true(lambda: _settled(house), 20)
    with nothing_left():
        for _ in range(TIMES):
            run()
        assert comes_true(lambda: _settled(house), 20)
        # What was closed just now is let go of in the next steps of the loop.
        time.sleep(0.05)
        house.provider.received.clear()


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_an_answer_leaves_nothing(house: House, client: str, provider: str, streaming: bool) -> None:
    _lane(house, lambda: _ask(house, client, provider, "[plain]", stream=streaming))


@pytest.mark.parametrize("word", [word for word in WORDS if word not in ("look", "[flood]", "[silent]", "[never]")])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_goes_otherwise_leaves_nothing(house: House, word: str, streaming: bool) -> None:
    def run() -> None:
        for client in (MESSAGES, RESPONSES):
            for provider in (CHAT, RESPONSES):
                _ask(house, client, provider, word, stream=streaming)

    _lane(house, run)


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
def test_a_turn_that_paused_leaves_nothing(house: House, client: str, streaming: bool) -> None:
    _lane(house, lambda: house.post(PATHS[client], {**ASKED[client], "stream": streaming}))


@pytest.mark.parametrize("word", ["[silent]", "[never]"])
def test_an_answer_that_takes_too_long_leaves_nothing(house: House, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.laws.test_no_residue.TIMES", 2)
    _lane(house, lambda: [_ask(house, client, CHAT, word) for client in (CHAT, RESPONSES)])


@pytest.mark.parametrize("body", [b"{", b'{"model":"nobody/nothing"}', b'{"model":5}', b"[" * 100_000], ids=repr)
@pytest.mark.parametrize("client", PROTOCOLS)
def test_a_request_that_cannot_be_served_leaves_nothing(house: House, client: str, body: bytes) -> None:
    _lane(house, lambda: house.post(PATHS[client], body))


def _hang_up(house: House, body: bytes, *, until: bytes, announce: int = 0) -> None:
    """Send a request, read as far as a mark, and reset the connection."""
    with house.connect() as connection:
        head = f"POST /v1/responses HTTP/1.1\r\nhost: x.localhost\r\ncontent-length: {announce or len(body)}\r\n\r\n"
        connection.sendall(head.replace("x.localhost", f"127.0.0.1:{house.port}").encode() + body)
        heard = b""
        while until not in heard:
            heard += connection.recv(65536)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("provider", PROTOCOLS)
def test_a_client_that_hangs_up_in_a_stream_leaves_nothing(house: House, provider: str) -> None:
    body = {"model": f"{NAMES[provider]}/served", "input": "[silent]", "stream": True}
    _lane(house, lambda: _hang_up(house, json.dumps(body).encode(), until=b"delta"))


def test_an_upload_that_is_given_up_leaves_nothing(house: House) -> None:
    _lane(house, lambda: _hang_up(house, b"x" * 200_000, until=b"", announce=1_000_000))


def test_a_client_that_reads_late_or_not_at_all_leaves_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.laws.test_no_residue.TIMES", 2)
    said = [{"role": "user", "content": "[flood]"}]
    body = json.dumps({"model": "chat/served", "messages": said, "stream": True}).encode()
    lines = (
        "POST /v1/chat/completions HTTP/1.1",
        f"host: 127.0.0.1:{house.port}",
        "connection: close",
        f"content-length: {len(body)}",
    )
    head = "\r\n".join((*lines, "\r\n")).encode()

    def late() -> None:
        with house.connect() as connection:
            connection.sendall(head + body)
            time.sleep(0.2)
            while connection.recv(1_000_000):
                pass

    def never() -> None:
        with house.connect() as connection:
            connection.sendall(head + body)
            time.sleep(1.0)

    for run in (late, never):
        _lane(house, run)


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("background", [False, True], ids=["waited for", "in the background"])
def test_a_stored_response_leaves_nothing(house: House, streaming: bool, background: bool) -> None:
    conversation = house.post("/v1/conversations", {}).json()["id"]
    body = {"model": "chat/served", "input": "Hello.", "stream": streaming, "background": background}

    def run() -> None:
        made = house.post("/v1/responses", {**body, "conversation": conversation})
        assert made.status == 200, made.body
        assert comes_true(lambda: house.app.service.state.background.running == 0)
        named = re.search(rb'"id":"(resp_\w+)"', made.body)
        assert named is not None
        path = f"/v1/responses/{named[1].decode()}"
        assert house.get(path).status == 200
        house.get(path + "?stream=true")
        house.get(path + "/input_items")
        house.ask("DELETE", path, b"")

    _lane(house, run)


def test_a_background_response_that_is_cancelled_leaves_nothing(house: House) -> None:
    def run() -> None:
        body = {"model": "chat/served", "input": "[silent]", "background": True, "stream": False}
        made = house.post("/v1/responses", body).json()
        assert house.post(f"/v1/responses/{made['id']!s}/cancel", b"").status == 200

    _lane(house, run)


def test_what_is_not_there_or_in_use_leaves_nothing(house: House) -> None:
    made = str(house.post("/v1/conversations", {}).json()["id"])
    store = house.app.service.state.store
    assert store is not None

    async def lock() -> None:
        assert await store.write(lambda tables: tables.conversations.lease(b"", made, "resp_another"))

    def run() -> None:
        house.run(lock())
        body = {"model": "echo/text", "input": LARGE, "conversation": made}
        assert house.post("/v1/responses", body).status == 409
        assert house.post("/v1/responses/resp_nobodys/cancel", {"x": LARGE}).status == 404
        assert house.get("/v1/responses/resp_nobodys").status == 404

    _lane(house, run)


@pytest.mark.parametrize("model", ["messages/served", "chat/served", "echo/text"])
@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/v1/responses/input_tokens"])
def test_a_count_leaves_nothing(house: House, path: str, model: str) -> None:
    said = [{"role": "user", "content": "Hello."}]
    _lane(house, lambda: house.post(path, {"model": model, "messages": said, "input": said}))


def test_what_is_passed_on_or_listed_leaves_nothing(house: House) -> None:
    def run() -> None:
        assert house.post("/v1/embeddings", {"model": "chat/served", "input": "x"}).status == 200
        house.get("/v1/models")
        house.get("/nowhere")

    _lane(house, run)


@pytest.mark.parametrize("way", ["whole", "streamed", "refused", "given up"])
def test_large_work_leaves_nothing(house: House, way: str) -> None:
    body: dict[str, object] = {"model": "chat/served", "input": LARGE, "stream": way == "streamed"}
    if way == "refused":
        body["tools"] = 5

    def run() -> None:
        if way == "given up":
            _hang_up(house, json.dumps(body).encode(), until=b"")
        else:
            house.post("/v1/responses", body)

    _lane(house, run)


def test_a_house_that_answers_is_what_was_looked_at(house: House) -> None:
    # Else the law would hold of nothing.
    assert _ask(house, MESSAGES, CHAT, "[plain]") == 200
    with house.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        assert read_answer(connection).status == 200
    cycle: list[object] = []
    cycle.append(cycle)
    cycle.append(Settings())
    with pytest.raises(AssertionError), nothing_left():
        kept = [Fake()]
        kept[0].itself = kept[0]
        del kept


class Fake:
    """Something of ours that holds itself."""

    __module__ = "dragoman.gateway.fake"
    itself: object = None
