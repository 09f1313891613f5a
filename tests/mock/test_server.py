"""The mock serves until it is told to stop, and ends what then still runs."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import pytest

from dragoman.http.server import ServerRequest
from dragoman.mint import system_mint
from dragoman.mock.app import MockApp
from dragoman.mock.server import serve, serve_until
from tests.mock.asking import TIMEOUT, mock_running


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def test_a_signal_ends_it() -> None:
    with listening() as listener:

        def ready() -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        async def run() -> None:
            await asyncio.wait_for(serve(MockApp(system_mint()), listener, ready), TIMEOUT)

        asyncio.run(run())


class AnnouncingApp(MockApp):
    """A mock that says when a request is there."""

    def __init__(self) -> None:
        super().__init__(system_mint())
        self.called = asyncio.Event()

    async def __call__(self, request: ServerRequest) -> None:
        """Answer."""
        self.called.set()
        await super().__call__(request)


def test_an_answer_that_rests_for_long_does_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.mock.server._GRACE", 0.05)
    body = b'{"model":"gpt-5","input":"<mock>\\npause 500\\nsay late\\n</mock>"}'
    head = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nauthorization: Bearer x\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )

    async def run() -> bytes:
        stop = asyncio.Event()
        started = asyncio.Event()
        app = AnnouncingApp()
        with listening() as listener:
            port = listener.getsockname()[1]
            serving = asyncio.create_task(serve_until(stop, app, listener, started.set))
            await started.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + body)
            await writer.drain()
            await asyncio.wait_for(app.called.wait(), TIMEOUT)
            stop.set()
            await asyncio.wait_for(serving, TIMEOUT)
            told = await reader.read()
            writer.close()
            await writer.wait_closed()
            return told

    assert asyncio.run(run()).startswith(b"HTTP/1.1 503")


def test_what_is_no_message_is_refused_in_an_envelope() -> None:
    with mock_running() as client:
        assert client.ask("/v1/messages", {}, headers={"x": "y" * 100_000}).status == 431
