"""A mock on a real socket, and requests of each protocol to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dragoman.mint import system_mint
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.mock.app import MockApp, serve_until
from dragoman.mock.recorder import Recorder
from dragoman.model.request import Request
from dragoman.protocols.registry import codec_of
from dragoman.wire.json import decode_object
from tests.sdk.digging import Object

PATHS = {MESSAGES: "/v1/messages", CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses"}
MODELS = {MESSAGES: "claude-opus-5", CHAT: "gpt-5.1", RESPONSES: "gpt-5.1"}
HEADERS = {
    "content-type": "application/json",
    "authorization": "Bearer sk-very-secret",
    "anthropic-version": "2023-06-01",
}
TIMEOUT = 60.0


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], raw: bytes, *, broken: bool) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw
        # Whether it broke off before its end.
        self.broken = broken

    def json(self) -> Object:
        """The body as an object."""
        value = json.loads(self.raw)
        assert isinstance(value, dict)
        return value

    def events(self) -> list[Object]:
        """The events of a stream, but for the mark at its end."""
        lines = [line.removeprefix("data: ") for line in self.raw.decode().splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]


class Client:
    """Asks a mock; the connection is closed after each answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.address = f"127.0.0.1:{port}"

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request."""
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT)
        try:
            connection.request(method, path, raw, dict(HEADERS if headers is None else headers))
            reply = connection.getresponse()
            told = {name.lower(): value for name, value in reply.getheaders()}
            try:
                return Answer(reply.status, told, reply.read(), broken=False)
            except http.client.IncompleteRead as error:
                return Answer(reply.status, told, error.partial, broken=True)
        finally:
            connection.close()

    def say(self, protocol: str, prompt: str, /, **more: object) -> Answer:
        """A first prompt in a protocol."""
        return self.ask(PATHS[protocol], said(protocol, prompt, **more))


def said(protocol: str, prompt: str, /, **more: object) -> Object:
    """A request with one prompt."""
    body: Object = {"model": MODELS[protocol], **more}
    if protocol == RESPONSES:
        return {"input": prompt, **body}
    if protocol == MESSAGES:
        body = {"max_tokens": 2000, **body}
    return {"messages": [{"role": "user", "content": prompt}], **body}


def request(protocol: str, prompt: str, /, **more: object) -> Request:
    """The same request as the mock reads it."""
    return read(protocol, said(protocol, prompt, **more))


def read(protocol: str, body: Object) -> Request:
    """A body as the mock reads it."""
    return codec_of(protocol).decode_request(decode_object(json.dumps(body)))


@contextmanager
def mock_running(*, lenient: bool = False, record: Path | None = None) -> Iterator[Client]:
    """A mock in a thread, and nothing of it left afterwards."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    port: int = listener.getsockname()[1]
    recorder = Recorder(record) if record is not None else None
    app = MockApp(system_mint(), lenient=lenient, recorder=recorder)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    ready = threading.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve_until(stop, app, listener, ready.set)))
    thread.start()
    try:
        assert ready.wait(TIMEOUT)
        yield Client(port)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT)
        loop.close()
        listener.close()
        if recorder is not None:
            recorder.close()
