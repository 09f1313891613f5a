"""Fair turns: in one turn of the loop no connection is read from again and again while others wait."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import trustme

from dragoman.http.client import HttpClient
from dragoman.http.http_call import HttpCall
from dragoman.http.request import ServerRequest
from dragoman.http.upstream_call import UpstreamRequest
from tests.http.raw import loop_turns, serving
from tests.http.scripted import run
from tests.waiting import wait_until_async

SIZE = 8 * 1024 * 1024
# What the loops read at once, and that with what was left from before.
ONE_READ = 256 * 1024
MOST = 2 * ONE_READ
AUTHORITY = trustme.CA()


class Turns:
    """Counts the turns of the loop as a neighbour sees them, and the most bytes that another was given in one."""

    def __init__(self, received: Callable[[], int]) -> None:
        self.count = 0
        self.most = 0
        self.running = True
        self._received = received
        self._before = received()
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        received = self._received()
        self.most = max(self.most, received - self._before)
        self._before = received
        self.count += 1
        if self.running:
            self._loop.call_soon(self._turn)


def upload(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as end:
        end.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % SIZE + bytes(SIZE))
        return end.recv(1000)


class Answering:
    """A provider that gives one answer, as fast as it is taken, and hangs up."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.hung_up = threading.Event()


@contextmanager
def answering(answer: bytes, context: ssl.SSLContext | None) -> Iterator[Answering]:
    """Run such a provider in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    answering = Answering(listener.getsockname()[1])

    def serve() -> None:
        raw, _ = listener.accept()
        # Room for all of a small answer, though nobody reads it.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1024 * 1024)
        with context.wrap_socket(raw, server_side=True) if context else raw as end:
            end.recv(65536)
            end.sendall(answer)
        answering.hung_up.set()

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield answering
        thread.join()


@contextmanager
def calling(port: int, context: ssl.SSLContext | None) -> Iterator[HttpCall]:
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    client = HttpClient(connect_timeout=10, context=trusting, proxies={})
    scheme = "https" if context else "http"
    flight = client.open(UpstreamRequest(method="POST", url=f"{scheme}://127.0.0.1:{port}/", headers=[], body=b"{}"))
    assert isinstance(flight, HttpCall)
    try:
        yield flight
    finally:
        flight.close()


def encrypted() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_client_that_floods_is_read_once_in_a_turn(loop: str) -> None:
    async def main() -> None:
        seen: list[Turns] = []

        async def take(request: ServerRequest) -> None:
            turns = Turns(lambda: request.content.size)
            seen.append(turns)
            body = await request.body(SIZE)
            turns.running = False
            request.respond(200, [], str(len(body)).encode())

        async with serving(take) as house:
            told = await asyncio.to_thread(upload, house.port)
        assert told.endswith(str(SIZE).encode())
        assert seen[0].most < MOST
        assert seen[0].count >= SIZE // ONE_READ

    run(main, loop)


@pytest.mark.parametrize("context", [None, encrypted()], ids=["plain", "TLS"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_provider_that_floods_is_read_once_in_a_turn(loop: str, context: ssl.SSLContext | None) -> None:
    async def main() -> None:
        answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + bytes(SIZE)
        with answering(answer, context) as server, calling(server.port, context) as flight:
            await flight.head()
            turns = Turns(lambda: flight.received)
            body = await flight.read(SIZE)
            turns.running = False
        assert len(body) == SIZE
        assert turns.most < MOST
        assert turns.count >= SIZE // ONE_READ

    run(main, loop)


@pytest.mark.parametrize("context", [None, encrypted()], ids=["plain", "TLS"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("size", [40_000, 300_000])
def test_what_lies_in_a_paused_connection_outlives_its_end(
    loop: str, context: ssl.SSLContext | None, size: int
) -> None:
    async def main() -> None:
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % size + bytes(size)
        with answering(answer, context) as server, calling(server.port, context) as flight:
            await flight.head()
            taken: list[int] = []
            resuming: list[asyncio.Task[None]] = []

            def take(piece: bytes) -> None:
                taken.append(len(piece))
                flight.pause()
                resuming.append(asyncio.create_task(resume()))

            async def resume() -> None:
                # The end comes meanwhile, with whatever is before it.
                await wait_until_async(server.hung_up.is_set, "the provider has hung up")
                await loop_turns()
                flight.resume()

            await flight.pump(take)
            await asyncio.gather(*resuming)
        assert sum(taken) == size

    run(main, loop)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_pause_in_the_turn_of_a_large_read_lasts(loop: str) -> None:
    async def main() -> None:
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % SIZE + bytes(SIZE)
        with answering(answer, None) as server, calling(server.port, None) as flight:
            await flight.head()
            taken: list[int] = []
            pumping = asyncio.ensure_future(flight.pump(lambda piece: taken.append(len(piece))))
            while sum(taken) < ONE_READ:
                await asyncio.sleep(0)
            # Reading waits for the next turn, and the pause comes before it.
            flight.pause()
            before = sum(taken)
            await loop_turns()
            assert sum(taken) == before
            flight.resume()
            await pumping
            assert sum(taken) == SIZE

    run(main, loop)
