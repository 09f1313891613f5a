"""The pool: connections are used again while they can be, in the right order, and never beyond their number."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dragoman.errors import TimedOut, UpstreamError
from dragoman.http.address import locate
from dragoman.http.client import HttpClient
from dragoman.http.pool import Pool
from dragoman.http.reuse import Reuse
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.http.upstream_connection import UpstreamConnection
from tests import virtual_time
from tests.http.scripted import Provider, answering, hear, provider, run
from tests.waiting import wait_until_async

HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def make_client(connections: int = 1024, idle: float = 20.0) -> HttpClient:
    return HttpClient(connect_timeout=10, connections=connections, idle=idle, proxies={})


def post(server: Provider, body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest(method="POST", url=server.url(), headers=[], body=body)


async def fetch(client: HttpClient, server: Provider, body: bytes = b"{}") -> bytes:
    flight = client.open(post(server, body))
    try:
        await flight.head()
        return await flight.read(1000)
    finally:
        flight.close()


async def numbered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the client's port."""
    while True:
        await hear(reader)
        name = b"%d" % writer.get_extra_info("peername")[1]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(name), name))


@both_loops
def test_the_connection_used_last_is_used_next(loop: str) -> None:
    async def test() -> None:
        async with provider(numbered) as server:
            client = make_client()
            first = client.open(post(server))
            second = client.open(post(server))
            await asyncio.gather(first.head(), second.head())
            one = await first.read(100)
            two = await second.read(100)
            assert one != two
            names = [await fetch(client, server) for _ in range(3)]
            # The first to be given back lies below the other, whichever it was.
            assert len(set(names)) == 1
            assert names[0] in (one, two)
            assert server.seen == 2
            await client.close()

    run(test, loop)


@both_loops
def test_a_connection_at_rest_for_too_long_is_closed(loop: str) -> None:
    async def test() -> None:
        async with provider(numbered) as server:
            client = make_client(idle=0.05)
            await fetch(client, server)
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
            await fetch(client, server)
            assert server.seen == 2
            await client.close()

    run(test, loop)


def test_the_timer_closes_those_at_rest_and_spares_those_in_use() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        far_ends: list[socket.socket] = []

        async def connect(pool: Pool) -> UpstreamConnection:
            near, far = socket.socketpair()
            far_ends.append(far)
            near.setblocking(False)
            _, connection = await loop.create_connection(lambda: UpstreamConnection(pool, near), sock=near)
            return connection

        pool = Pool(connect, max_connections=9, idle=10.0, origin=locate("http://one.test/")[0], reuse=Reuse())
        one, two = await pool.obtain(), await pool.obtain()
        pool.release(one)
        pool.release(two)
        await asyncio.sleep(6)
        assert pool.take() is two
        pool.release(two)
        await asyncio.sleep(3.9)
        assert not one.closing()
        await asyncio.sleep(0.2)
        assert (one.closing(), two.closing()) == (True, False)
        await asyncio.sleep(5.8)
        assert not two.closing()
        await asyncio.sleep(0.2)
        assert two.closing()
        assert pool.take() is None
        for far in far_ends:
            far.close()

    virtual_time.run(test())


@both_loops
def test_a_connection_that_speaks_unasked_is_not_used_again(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(HELLO)
        await answered.wait()
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    answered = asyncio.Event()

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            for count in range(1, 3):
                answered.clear()
                assert await fetch(client, server) == b"hello"
                answered.set()
                # Discarded at once, not only when it is wanted.
                await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
                assert server.seen == count
            await client.close()

    run(test, loop)


@both_loops
def test_a_connection_that_was_hung_up_is_not_used_again(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(HELLO)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            for count in range(1, 4):
                assert await fetch(client, server) == b"hello"
                await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
                assert server.seen == count
            await client.close()

    run(test, loop)


@both_loops
def test_an_end_that_the_loop_has_not_seen_is_found_in_the_socket(loop: str) -> None:
    async def test() -> None:
        running = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            client = make_client()
            call = UpstreamRequest(method="GET", url=f"http://127.0.0.1:{listening.getsockname()[1]}/", headers=[])

            async def serve() -> socket.socket:
                end, _ = await running.sock_accept(listening)
                await running.sock_recv(end, 1000)
                await running.sock_sendall(end, HELLO)
                return end

            for _ in range(3):
                serving = asyncio.create_task(serve())
                flight = client.open(call)
                await flight.head()
                assert await flight.read(100) == b"hello"
                # The next call is made before the loop runs again.
                (await serving).close()
            await client.close()

    run(test, loop)


@both_loops
def test_a_connection_that_closes_at_the_write_is_replaced(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if it closed between the pool's look and the write.
    monkeypatch.setattr(UpstreamConnection, "closing", lambda _: False)

    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            client = make_client()
            for count in range(1, 4):
                flight = client.open(post(server))
                await flight.head()
                assert await flight.read(100) == b"hello"
                assert server.seen == count
                flight._pool._idle_connections[0]._transport.abort()
            await client.close()

    run(test, loop)


@both_loops
def test_beyond_the_limit_calls_wait_in_order(loop: str) -> None:
    order: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            order.append((await hear(reader)).body)
            writer.write(HELLO)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client(connections=1)
            await asyncio.gather(*(fetch(client, server, b"%d" % number) for number in range(20)))
            assert order == [b"%d" % number for number in range(20)]
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
def test_a_place_freed_by_a_lost_connection_goes_to_the_next(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = await hear(reader)
        if heard.body != b"lost":
            writer.write(HELLO)
            await reader.read()

    async def test() -> None:
        async with provider(script) as server:
            client = make_client(connections=1)
            results = await asyncio.gather(
                *(fetch(client, server, body) for body in (b"lost", b"lost", b"kept")), return_exceptions=True
            )
            assert [isinstance(result, UpstreamError) for result in results] == [True, True, False]
            assert server.seen == 3
            await client.close()

    run(test, loop)


@both_loops
def test_a_place_freed_by_a_failed_connection_goes_to_the_next(loop: str) -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            gone = server.url()
        client = make_client(connections=1)
        flights = [client.open(UpstreamRequest(method="GET", url=gone, headers=[])) for _ in range(5)]
        results = await asyncio.gather(*(flight.head() for flight in flights), return_exceptions=True)
        assert all(isinstance(result, UpstreamError) for result in results)
        for flight in flights:
            flight.close()
        await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("how", ["abort", "cancel", "close"])
def test_a_call_can_be_ended_while_it_stands_in_the_queue(how: str, loop: str) -> None:
    async def test() -> None:
        async with provider(numbered) as server:
            client = make_client(connections=1)
            flights = [client.open(post(server)) for _ in range(3)]
            heads = [asyncio.create_task(flight.head()) for flight in flights]
            await asyncio.sleep(0)
            assert len(flights[0]._pool._waiting) == 2
            problem = TimedOut("no answer within the limit")
            if how == "abort":
                flights[1].abort(problem)
            elif how == "cancel":
                heads[1].cancel()
            else:
                flights[1].close()
            results = await asyncio.gather(*heads, return_exceptions=True)
            assert results[0] is None
            assert results[2] is None
            assert isinstance(results[1], asyncio.CancelledError if how == "cancel" else UpstreamError)
            if how == "abort":
                assert results[1] is problem
            for flight in (flights[0], flights[2]):
                await flight.read(100)
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("how", ["abort", "cancel"])
def test_a_connection_that_comes_as_its_call_is_ended_goes_to_the_next(how: str, loop: str) -> None:
    async def test() -> None:
        async with provider(numbered) as server:
            client = make_client(connections=1)
            await fetch(client, server)
            flight = client.open(post(server))
            pool = flight._pool
            taken = pool.take()
            assert taken is not None
            heading = asyncio.create_task(flight.head())
            await asyncio.sleep(0)
            # Both in one round of the loop: the future is done, the task has not gone on.
            pool.release(taken)
            if how == "abort":
                flight.abort(TimedOut("no answer within the limit"))
            else:
                heading.cancel()
            with pytest.raises((TimedOut, asyncio.CancelledError)):
                await heading
            flight.close()
            assert await fetch(client, server)
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
def test_closing_drops_what_rests_and_nothing_rests_after_it(loop: str) -> None:
    async def test() -> None:
        async with provider(numbered) as server:
            client = make_client()
            await asyncio.gather(*(fetch(client, server) for _ in range(5)))
            assert len(server.tasks) == 5
            await client.close()
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
            await fetch(client, server)
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
            await client.close()

    run(test, loop)


def test_origins_do_not_share_connections() -> None:
    async def test() -> None:
        async with provider(numbered) as one, provider(numbered) as two:
            client = make_client(connections=1)
            first, second = await asyncio.gather(fetch(client, one), fetch(client, two))
            assert first != second
            assert (one.seen, two.seen) == (1, 1)
            await client.close()

    run(test, "asyncio")
