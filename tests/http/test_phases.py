"""What a connection waits for, and that a client which does not read holds nothing open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.http.client_connection import ClientConnection
from dragoman.http.phases import LIMITS as PHASES
from dragoman.http.phases import LINGER_TIME, ConnectionPhase
from dragoman.http.request import ServerRequest
from dragoman.http.server import MAX_SWEEP_SECONDS, HttpServer
from dragoman.http.sockets import unarrived
from tests import virtual_time
from tests.http.raw import LIMITS, PATIENCE, Run, echo, on_both_loops, refuse, serving, serving_virtually
from tests.waiting import wait_until_async

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


def test_only_a_handler_may_take_as_long_as_it_likes() -> None:
    assert set(ConnectionPhase) - set(PHASES) == {ConnectionPhase.BUSY}
    assert PHASES[ConnectionPhase.CLOSING](LIMITS) == LIMITS.unread_timeout < LIMITS.idle_timeout


class Flood:
    """Streams until the client does not take it, then does the last thing."""

    def __init__(self, last: Callable[[ServerRequest], None]) -> None:
        self.last = last
        self.full = False

    async def __call__(self, request: ServerRequest) -> None:
        request.start(200, [])
        while not request.paused:
            request.write(b"x" * 100_000)
            await asyncio.sleep(0)
        self.full = True
        self.last(request)


def fail(request: ServerRequest) -> None:
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
        handler = Flood(ServerRequest.end)
        # The test waits for what `idle_timeout` would do later than any wait gives up.
        async with serving(handler, replace(LIMITS, unread_timeout=0.1, idle_timeout=10 * PATIENCE)) as house:
            with deaf(house.port):
                await wait_until_async(lambda: handler.full, "the client takes no more")
                if retiring:
                    house.server.retire()
                await wait_until_async(lambda: not house.server._connections, "no connection is open")

    run(main())


@on_both_loops
@pytest.mark.parametrize("last", [ServerRequest.abort, fail])
def test_item_9_breaking_off_a_stream_that_nobody_reads_cuts_it_at_once(
    last: Callable[[ServerRequest], None], run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", "dragoman.http")

    async def main() -> None:
        handler = Flood(last)
        async with serving(handler, replace(LIMITS, unread_timeout=10 * PATIENCE, idle_timeout=10 * PATIENCE)) as house:
            with deaf(house.port):
                await wait_until_async(lambda: handler.full, "the client takes no more")
                await wait_until_async(lambda: not house.server._connections, "no connection is open")

    run(main())


@on_both_loops
def test_a_client_that_reads_slowly_and_steadily_gets_all(run: Run) -> None:
    size = 3_000_000
    # Longer than the test takes: the test looks at the connection itself, at times of its own.
    limit = 10 * PATIENCE

    async def handler(request: ServerRequest) -> None:
        request.closes = True
        request.respond(200, [], b"x" * size)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving(handler, replace(LIMITS, unread_timeout=limit)) as house:
            with small(house.port, GET) as client:
                client.setblocking(False)
                await wait_until_async(lambda: bool(house.server._connections), "a connection is open")
                (inbound,) = house.server._connections
                await wait_until_async(lambda: inbound.closing, "the reply is written")
                got, now = 0, loop.time()
                # In steps far smaller than what the system buffers, each long after the other.
                for _ in range(40):
                    before = left_to_read(inbound)
                    got += len(await loop.sock_recv(client, 20_000))
                    await wait_until_async(lambda before=before: left_to_read(inbound) < before, "a step was read")  # type: ignore[misc]  # the default binds it
                    now += 0.9 * limit
                    inbound.check_limits(now)
                assert house.server._connections
                while piece := await loop.sock_recv(client, 1_000_000):
                    got += len(piece)
                assert got > size

    run(main())


def left_to_read(inbound: ClientConnection) -> int:
    """Bytes of a reply that the client's system has not taken, as the server sees them."""
    return inbound.transport.get_write_buffer_size() + unarrived(inbound.transport.get_extra_info("socket").fileno())


def test_a_client_that_trickles_what_nobody_wants_keeps_nothing_open() -> None:
    async def handler(request: ServerRequest) -> None:
        request.respond(200, [], b"no")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with serving_virtually(handler, replace(LIMITS, body_timeout=10.0)) as house:
            client = await house.client()
            client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n")
            assert (await client.reply()).status == 200
            while house.server._connections:
                client.send(b"x")
                await asyncio.sleep(1)
                assert loop.time() < 10 + LINGER_TIME + 2 * MAX_SWEEP_SECONDS

    virtual_time.run(main())


def test_connections_are_looked_at_as_often_as_the_shortest_limit_needs() -> None:
    server = HttpServer(echo, refuse, replace(LIMITS, unread_timeout=0.2))
    assert server._pace() == pytest.approx(0.05)
    server.limits = replace(LIMITS, idle_timeout=650.0)
    assert server._pace() == 1.0
