"""An origin that says more than it was asked: its next callers get their own answers, on connections of their own."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dragoman.errors import BadResponse
from dragoman.http.address import locate
from dragoman.http.client import HttpClient
from dragoman.http.reuse import SECONDS, Reuse
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.http.upstream_connection import UNSOLICITED
from tests.http.raw import loop_turns
from tests.http.scripted import Heard, Provider, Script, hear, provider, run
from tests.waiting import wait_until_async

MEBIBYTE = 1024 * 1024
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def answer(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d OK\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def make_client(reuse: Reuse | None = None, connections: int = 1024) -> HttpClient:
    return HttpClient(connect_timeout=10, connections=connections, proxies={}, reuse=reuse)


async def fetch(client: HttpClient, server: Provider, body: bytes) -> bytes:
    flight = client.open(UpstreamRequest(method="POST", url=server.url(), headers=[], body=body))
    try:
        await flight.head()
        return await flight.read(MEBIBYTE)
    finally:
        flight.close()


class House:
    """A provider that answers with what it was asked, and does something odd at the first call of all."""

    def __init__(self, odd: Script) -> None:
        self.heard: list[Heard] = []
        self.odd: Script | None = odd

    async def script(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.odd is not None:
            odd, self.odd = self.odd, None
            await odd(reader, writer)
        while True:
            heard = await hear(reader)
            self.heard.append(heard)
            writer.write(answer(heard.body))


def test_an_origin_is_reused_unless_forbidden_and_again_after_a_while() -> None:
    clock = Clock()
    reuse = Reuse(clock)
    one, other = locate("http://one.test/")[0], locate("http://other.test/")[0]
    assert reuse.allows(one)
    reuse.forbid(one)
    assert (reuse.allows(one), reuse.allows(other)) == (False, True)
    clock.now += SECONDS - 1
    assert not reuse.allows(one)
    reuse.forbid(one)
    clock.now += SECONDS - 1
    assert not reuse.allows(one)
    clock.now += 1
    assert reuse.allows(one)


async def in_turn(client: HttpClient, server: Provider, count: int, start: int = 0) -> None:
    """Calls one after another, each of which must get its own answer."""
    for number in range(start, start + count):
        assert await fetch(client, server, b"call %d" % number) == b"call %d" % number


@both_loops
def test_item_10_a_second_answer_that_comes_late_reaches_one_caller_at_most(loop: str) -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer((await hear(reader)).body))
        # The second caller is already there when the second answer to the first is sent, and then gets its own.
        second = await hear(reader)
        writer.write(answer(b"stray"))
        await stray_taken.wait()
        writer.write(answer(second.body))

    stray_taken = asyncio.Event()

    async def test() -> None:
        house = House(odd)
        async with provider(house.script) as server:
            client = make_client()
            assert await fetch(client, server, b"first") == b"first"
            assert await fetch(client, server, b"victim") == b"stray"
            stray_taken.set()
            # What the victim was to get comes while nobody waits.
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
            await in_turn(client, server, 20)
            assert server.seen == 21
            assert all(heard.headers[b"connection"] == b"close" for heard in house.heard)
            await asyncio.gather(*(in_turn(client, server, 5, start) for start in range(0, 100, 5)))
            await client.close()

    run(test, loop)


async def beside(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer((await hear(reader)).body) + answer(b"stray"))


async def after(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer((await hear(reader)).body))
    await loop_turns()
    writer.write(b"H")


async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer((await hear(reader)).body) + b"garbage")


async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer((await hear(reader)).body) + b"HTTP/1.1 103 Early Hints\r\n\r\n")


@both_loops
@pytest.mark.parametrize("odd", [beside, after, garbage, early])
def test_item_10_after_excess_bytes_every_call_has_its_own_connection_for_minutes(odd: Script, loop: str) -> None:
    async def test() -> None:
        clock = Clock()
        reuse = Reuse(clock)
        house = House(odd)
        async with provider(house.script) as server:
            client = make_client(reuse)
            assert await fetch(client, server, b"first") == b"first"
            await wait_until_async(lambda: not reuse.allows(locate(server.url())[0]), "the origin is not trusted")
            await in_turn(client, server, 3)
            assert server.seen == 4
            # A client that follows, as after a change of the configuration, has not forgotten.
            await client.close()
            client = make_client(reuse)
            await in_turn(client, server, 3)
            assert server.seen == 7
            assert [heard.headers.get(b"connection") for heard in house.heard] == [b"close"] * 6
            clock.now += SECONDS
            await in_turn(client, server, 3)
            assert server.seen == 8
            assert house.heard[-1].headers.get(b"connection") is None
            await client.close()

    run(test, loop)


@both_loops
def test_connections_at_rest_and_under_way_are_not_used_again_after_an_excess(loop: str) -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                heard = await hear(reader)
                if heard.body == b"slow":
                    await release.wait()
                writer.write(answer(heard.body) + (b"more" if heard.body == b"odd" else b""))

        async with provider(script) as server:
            client = make_client()
            slow = asyncio.ensure_future(fetch(client, server, b"slow"))
            resting = asyncio.ensure_future(fetch(client, server, b"resting"))
            await resting
            await asyncio.gather(fetch(client, server, b"resting"), fetch(client, server, b"odd"))
            await wait_until_async(lambda: len(server.tasks) == 1, "the provider has one open connection")
            release.set()
            assert await slow == b"slow"
            await wait_until_async(lambda: not server.tasks, "the provider has no open connection")
            await client.close()

    run(test, loop)


@both_loops
def test_those_who_wait_for_a_place_get_new_connections_after_an_excess(loop: str) -> None:
    async def test() -> None:
        house = House(garbage)
        async with provider(house.script) as server:
            client = make_client(connections=1)
            bodies = [b"call %d" % number for number in range(6)]
            assert await asyncio.gather(*(fetch(client, server, body) for body in bodies)) == bodies
            assert server.seen == 6
            await client.close()

    run(test, loop)


@both_loops
def test_bytes_that_the_loop_has_not_read_are_an_excess_and_an_end_is_none(loop: str) -> None:
    async def test() -> None:
        running = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            reuse = Reuse()
            client = make_client(reuse)
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/"

            async def serve() -> socket.socket:
                end, _ = await running.sock_accept(listening)
                await running.sock_recv(end, 1000)
                await running.sock_sendall(end, answer(b"hello"))
                return end

            for said in (b"", b"more"):
                serving = asyncio.create_task(serve())
                flight = client.open(UpstreamRequest(method="GET", url=url, headers=[]))
                await flight.head()
                await flight.read(100)
                end = await serving
                # The next call is made before the loop runs again.
                if said:
                    end.send(said)
                else:
                    end.close()
                assert flight._pool.take() is None
                assert reuse.allows(locate(url)[0]) is not bool(said)
                end.close()
            await client.close()

    run(test, loop)


async def shy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int) -> None:
    """Answer a call, and the next one before its body is read."""
    writer.write(answer((await hear(reader)).body))
    await reader.readuntil(b"\r\n\r\n")
    writer.write(answer(b"early", status))
    await asyncio.Event().wait()


@both_loops
@pytest.mark.parametrize("status", [200, 413])
@pytest.mark.parametrize("size", [16 * MEBIBYTE, 3 * MEBIBYTE], ids=["unwritten", "or on its way"])
def test_an_answer_before_its_request_has_arrived_is_refused_unless_it_refuses(
    size: int, status: int, loop: str
) -> None:
    async def test() -> None:
        house = House(lambda reader, writer: shy(reader, writer, status))
        reuse = Reuse()
        async with provider(house.script) as server:
            client = make_client(reuse)
            assert await fetch(client, server, b"first") == b"first"
            if status == 413:
                assert await fetch(client, server, bytes(size)) == b"early"
            else:
                with pytest.raises(BadResponse) as caught:
                    await fetch(client, server, bytes(size))
                assert str(caught.value) == UNSOLICITED
            assert reuse.allows(locate(server.url())[0]) is (status == 413)
            await in_turn(client, server, 3)
            assert server.seen == (2 if status == 413 else 4)
            await client.close()

    run(test, loop)


@both_loops
def test_what_is_no_http_on_a_used_connection_is_an_excess_too(loop: str) -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer((await hear(reader)).body))
        await hear(reader)
        writer.write(b"the rest of a body that was longer than it said\r\n\r\n")

    async def test() -> None:
        house = House(odd)
        async with provider(house.script) as server:
            client = make_client()
            assert await fetch(client, server, b"first") == b"first"
            with pytest.raises(BadResponse):
                await fetch(client, server, b"second")
            await in_turn(client, server, 3)
            assert server.seen == 4
            await client.close()

    run(test, loop)
