"""A connection that was kept and dies without a byte of an answer: the request goes out once more, on a new one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from dragoman.errors import TimedOut, Truncated, Unreachable, UpstreamError
from dragoman.http import http_call
from dragoman.http.client import HttpClient
from dragoman.http.http_call import HttpCall
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.http.upstream_connection import BROKE_OFF, NO_RESPONSE, UpstreamConnection
from tests.http.scripted import Provider, Script, hear, provider, run
from tests.http.test_dial import served, trusting
from tests.waiting import wait_until_async

MEBIBYTE = 1024 * 1024
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])

Death = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def make_client(connections: int = 1024) -> HttpClient:
    return HttpClient(connect_timeout=10, connections=connections, proxies={})


def open_call(client: HttpClient, server: Provider, body: bytes = b"{}") -> HttpCall:
    return client.open(UpstreamRequest(method="POST", url=server.url(), headers=[], body=body))


async def fetch(client: HttpClient, server: Provider, body: bytes = b"{}") -> HttpCall:
    """A call whose answer must be the one that everybody gets."""
    flight = open_call(client, server, body)
    try:
        await flight.head()
        assert await flight.read(100) == b"hello"
        return flight
    finally:
        flight.close()


async def end_after_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await hear(reader)


async def reset_after_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await hear(reader)
    writer.transport.abort()


async def reset_at_the_first_byte(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(1)
    writer.transport.abort()


async def reset_after_the_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


DEATHS = (end_after_all, reset_after_all, reset_at_the_first_byte, reset_after_the_head)


def dying(death: Death, healthy: bool = True) -> Script:
    """A script that answers one call of a connection, and dies at the next; of the first connection, or of all."""
    seen = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        mortal = seen == 1 or not healthy
        if seen == 1 or healthy:
            await hear(reader)
            writer.write(HELLO)
        while not mortal:
            await hear(reader)
            writer.write(HELLO)
        await death(reader, writer)

    return script


@both_loops
@pytest.mark.parametrize("size", [2, 16 * MEBIBYTE], ids=["a small request", "a request that is half sent"])
@pytest.mark.parametrize("death", DEATHS)
def test_a_kept_connection_that_dies_is_replaced_once_and_unseen(death: Death, size: int, loop: str) -> None:
    async def test() -> None:
        async with provider(dying(death)) as server:
            client = make_client()
            assert (await fetch(client, server)).renewed == 0
            flight = await fetch(client, server, bytes(size))
            assert (flight.renewed, flight.status) == (1, 200)
            assert server.seen == 2
            assert (await fetch(client, server)).renewed == 0
            assert server.seen == 2
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("death", DEATHS)
def test_a_new_connection_that_dies_as_well_is_a_failure(death: Death, loop: str) -> None:
    async def test() -> None:
        async with provider(dying(death, healthy=False)) as server:
            client = make_client()
            await fetch(client, server)
            flight = open_call(client, server)
            with pytest.raises(Unreachable) as caught:
                await flight.head()
            assert str(caught.value) == NO_RESPONSE
            assert (flight.renewed, server.seen) == (1, 2)
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("death", DEATHS)
def test_pitfall_307_only_a_dead_connection_that_was_kept_is_free(death: Death, loop: str) -> None:
    async def test() -> None:
        async with provider(death) as server:
            client = make_client()
            flight = open_call(client, server, bytes(MEBIBYTE))
            with pytest.raises(Unreachable) as caught:
                await flight.head()
            assert str(caught.value) == NO_RESPONSE
            assert (flight.renewed, server.seen) == (0, 1)
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_pitfall_307_a_connection_that_dies_late_was_none_that_was_dead(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_call, "STALE_SECONDS", 0.0)

    async def test() -> None:
        async with provider(dying(end_after_all)) as server:
            client = make_client()
            await fetch(client, server)
            with pytest.raises(Unreachable):
                await fetch(client, server)
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("said", [b"H", HELLO[:-1], b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 413 Too Large\r\n"])
def test_after_a_byte_of_an_answer_nothing_is_sent_again(said: bytes, loop: str) -> None:
    async def speaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(said)
        await writer.drain()

    async def test() -> None:
        async with provider(dying(speaks)) as server:
            client = make_client()
            await fetch(client, server)
            with pytest.raises(Truncated) as caught:
                await fetch(client, server)
            assert str(caught.value) == BROKE_OFF
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
def test_an_end_at_the_moment_of_the_request_is_replaced(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the end arrived between the pool's look into the socket and the write.
    monkeypatch.setattr(UpstreamConnection, "alive", lambda _: True)

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

            renewed = []
            for _ in range(3):
                serving = asyncio.create_task(serve())
                flight = client.open(call)
                await flight.head()
                assert await flight.read(100) == b"hello"
                renewed.append(flight.renewed)
                flight.close()
                # The next call is made before the loop runs again.
                (await serving).close()
            assert renewed == [0, 1, 1]
            await client.close()

    run(test, loop)


@both_loops
def test_a_connection_under_tls_is_replaced_as_well(loop: str) -> None:
    async def test() -> None:
        async with provider(dying(end_after_all), served()) as server:
            client = HttpClient(connect_timeout=10, context=trusting(), proxies={})
            call = UpstreamRequest(
                method="POST", url=server.url(scheme="https", host="localhost"), headers=[], body=b"{}"
            )
            for renewed in (0, 1, 0):
                flight = client.open(call)
                await flight.head()
                assert await flight.read(100) == b"hello"
                assert flight.renewed == renewed
                flight.close()
            assert server.seen == 2
            await client.close()

    run(test, loop)


@both_loops
def test_a_connection_that_rested_before_its_first_call_may_be_dead_too(loop: str) -> None:
    async def test() -> None:
        seen = 0

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal seen
            seen += 1
            await hear(reader)
            if seen > 1:
                writer.write(HELLO)
                await writer.drain()

        async with provider(script) as server:
            client = make_client()
            flight = open_call(client, server)
            pool = flight._pool
            # Dialled for somebody who took it and gave it back unused.
            pool.release(await pool.obtain())
            await flight.head()
            assert await flight.read(100) == b"hello"
            assert (flight.renewed, server.seen) == (1, 2)
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("connections", [1024, 3])
def test_all_connections_may_die_at_once(connections: int, loop: str) -> None:
    async def test() -> None:
        dead = False
        met = asyncio.Barrier(3)

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            born = dead
            while True:
                await hear(reader)
                if dead and not born:
                    return
                if not dead:
                    # So that each of the first calls has a connection of its own.
                    await met.wait()
                writer.write(HELLO)

        async with provider(script) as server:
            client = make_client(connections)
            await asyncio.gather(*(fetch(client, server) for _ in range(3)))
            dead = True
            flights = await asyncio.gather(*(fetch(client, server) for _ in range(12)))
            assert sum(flight.renewed for flight in flights) == 3
            assert len(server.tasks) <= connections
            await client.close()

    run(test, loop)


@both_loops
def test_a_new_connection_takes_the_place_of_one_at_rest(loop: str) -> None:
    async def test() -> None:
        async with provider(dying(end_after_all, healthy=True)) as server:
            client = make_client(connections=1)
            await fetch(client, server)
            pool = open_call(client, server)._pool
            fresh = await pool.renew()
            assert not fresh.was_pooled
            assert server.seen == 2
            await wait_until_async(lambda: len(server.tasks) == 1, "the provider has one open connection")
            pool.release(fresh)
            await client.close()

    run(test, loop)


@both_loops
def test_a_new_connection_takes_the_place_of_one_that_is_given_back(loop: str) -> None:
    async def test() -> None:
        async with provider(dying(end_after_all, healthy=True)) as server:
            client = make_client(connections=1)
            await fetch(client, server)
            pool = open_call(client, server)._pool
            busy = pool.take()
            assert busy is not None
            given_up, wanted, other = pool.renew(), pool.renew(), pool.obtain()
            await asyncio.sleep(0)
            given_up.cancel()
            pool.release(busy)
            fresh = await wanted
            assert not fresh.was_pooled
            assert busy.closing()
            assert not other.done()
            pool.release(fresh)
            assert await other is fresh
            assert server.seen == 2
            pool.release(fresh)
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("how", ["abort", "cancel", "close"])
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_call_can_be_ended_while_it_is_renewed(
    how: str, turns: int, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with provider(dying(reset_after_all)) as server:
            client = make_client()
            await fetch(client, server)
            flight = open_call(client, server)
            broke = asyncio.Event()
            on_break = HttpCall.on_break

            def end() -> None:
                if how == "abort":
                    flight.abort(TimedOut("no answer within the limit"))
                elif how == "cancel":
                    heading.cancel()
                else:
                    flight.close()

            def broken(self: HttpCall, error: UpstreamError) -> None:
                on_break(self, error)
                broke.set()
                if not turns:
                    end()

            monkeypatch.setattr(HttpCall, "on_break", broken)
            heading = asyncio.create_task(flight.head())
            await broke.wait()
            for _ in range(turns - 1):
                await asyncio.sleep(0)
            if turns:
                end()
            (result,) = await asyncio.gather(heading, return_exceptions=True)
            assert isinstance(result, asyncio.CancelledError if how == "cancel" else UpstreamError)
            flight.close()
            # Nobody's place is lost.
            assert (await fetch(client, server)).status == 200
            await client.close()

    run(test, loop)
