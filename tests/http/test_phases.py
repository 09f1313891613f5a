"""What a connection waits for, and that a client which does not read holds nothing open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.http.phases import LIMITS as PHASES
from dragoman.http.phases import ConnectionPhase
from dragoman.http.request import Request
from tests.http.raw import LIMITS, Run, on_both_loops, serving, until

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def test_only_a_handler_may_take_as_long_as_it_likes() -> None:
    assert set(ConnectionPhase) - set(PHASES) == {ConnectionPhase.BUSY}
    assert PHASES[ConnectionPhase.CLOSING](LIMITS) == LIMITS.unread_timeout < LIMITS.idle_timeout


class Flood:
    """Streams until the client does not take it, then does the last thing."""

    def __init__(self, last: Callable[[Request], None]) -> None:
        self.last = last
        self.full = False

    async def __call__(self, request: Request) -> None:
        request.start(200, [])
        while not request.paused:
            request.write(b"x" * 100_000)
            await asyncio.sleep(0)
        self.full = True
        self.last(request)


def fail(request: Request) -> None:
    raise RuntimeError("broken")


def deaf(port: int) -> socket.socket:
    """A client that does not read."""
    return small(port, GET)


def small(port: int, said: bytes) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    client.sendall(said)
    return client


@on_both_loops
@pytest.mark.parametrize("retiring", [False, True])
def test_item_9_a_client_that_stalls_in_a_finished_stream_is_cut_long_before_it_is_idle(
    retiring: bool, run: Run
) -> None:
    async def main() -> None:
        handler = Flood(Request.end)
        async with serving(handler, replace(LIMITS, unread_timeout=0.2)) as house:
            with deaf(house.port):
                await until(lambda: handler.full)
                if retiring:
                    house.server.retire()
                await until(lambda: not house.server._connections)

    run(main())


@on_both_loops
@pytest.mark.parametrize("last", [Request.abort, fail])
def test_item_9_breaking_off_a_stream_that_nobody_reads_cuts_it_at_once(
    last: Callable[[Request], None], run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "dragoman.http")

    async def main() -> None:
        handler = Flood(last)
        async with serving(handler, replace(LIMITS, unread_timeout=60.0, idle_timeout=60.0)) as house:
            with deaf(house.port):
                await until(lambda: handler.full)
                await until(lambda: not house.server._connections)

    run(main())


@on_both_loops
def test_a_client_that_reads_slowly_and_steadily_gets_all(run: Run) -> None:
    size = 3_000_000

    async def handler(request: Request) -> None:
        request.respond(200, [(b"connection", b"close")], b"x" * size)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(handler, replace(LIMITS, unread_timeout=0.4)) as house:
            with small(house.port, GET) as client:
                client.setblocking(False)
                got = 0
                # For several times the limit, in steps far smaller than what the system buffers.
                for _ in range(40):
                    got += len(await loop.sock_recv(client, 20_000))
                    await asyncio.sleep(0.04)
                assert house.server._connections
                while piece := await loop.sock_recv(client, 1_000_000):
                    got += len(piece)
                assert got > size

    run(main())


@on_both_loops
def test_a_client_that_trickles_what_nobody_wants_keeps_nothing_open(run: Run) -> None:
    async def handler(request: Request) -> None:
        request.respond(200, [], b"no")

    async def main() -> None:
        async with serving(handler, replace(LIMITS, body_timeout=0.3)) as house:
            client = await house.client()
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
            assert (await client.reply()).status == 200
            while house.server._connections:
                client.send(b"x")
                await asyncio.sleep(0.02)

    run(main())


@on_both_loops
def test_connections_are_looked_at_as_often_as_the_shortest_limit_needs(run: Run) -> None:
    async def main() -> None:
        async with serving(limits=replace(LIMITS, unread_timeout=0.2)) as house:
            assert house.server._pace() == pytest.approx(0.05)
            house.server.limits = replace(LIMITS, idle_timeout=650.0)
            assert house.server._pace() == 1.0

    run(main())
