"""Replies: whole and streamed, for every kind of client."""

from __future__ import annotations

import asyncio
import socket

import pytest
from msgspec.structs import replace

from dragoman.errors import ClientError
from dragoman.http.request import RequestTarget, ServerRequest
from tests import virtual_time
from tests.http.raw import LIMITS, Run, loop_turns, on_both_loops, serving, serving_virtually
from tests.waiting import wait_until_async

GET = b"GET /g HTTP/1.1\r\nHost: h\r\n\r\n"
KIB = 1024


async def whole(request: ServerRequest) -> None:
    request.respond(200, [(b"x-a", b"b")], b"hello")


async def streamed(request: ServerRequest) -> None:
    request.start(200, [(b"x-a", b"b")])
    assert request.started
    request.write(b"hel")
    request.write(b"")
    await asyncio.sleep(0)
    request.write(b"lo")
    assert not request.ended
    request.end()
    assert request.ended
    request.end()


@on_both_loops
def test_a_whole_reply_has_its_length(run: Run) -> None:
    async def main() -> None:
        async with serving(whole) as house:
            reply = await house.ask(GET)
            assert reply.body == b"hello"
            assert reply.value(b"content-length") == b"5"
            assert reply.value(b"x-a") == b"b"
            assert reply.value(b"date")
            assert reply.value(b"connection") is None

    run(main())


@on_both_loops
def test_a_streamed_reply_is_chunked_and_keeps_the_connection(run: Run) -> None:
    async def main() -> None:
        async with serving(streamed) as house:
            client = await house.client()
            for _ in range(3):
                client.send(GET)
                reply = await client.reply()
                assert reply.body == b"hello"
                assert reply.value(b"transfer-encoding") == b"chunked"
                assert reply.value(b"content-length") is None

    run(main())


@on_both_loops
def test_the_bytes_of_a_streamed_reply_are_one_chunk_per_write(run: Run) -> None:
    async def main() -> None:
        async with serving(streamed) as house:
            client = await house.client()
            client.send(GET)
            data = await client.reader.readuntil(b"0\r\n\r\n")
            assert data.partition(b"\r\n\r\n")[2] == b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"

    run(main())


@pytest.mark.parametrize("flush", [False, True], ids=["held", "flushed"])
def test_the_head_of_a_stream_is_held_until_the_first_piece_or_a_flush(flush: bool) -> None:
    gate = asyncio.Event()

    async def handler(request: ServerRequest) -> None:
        request.start(200, [])
        if flush:
            request.write(b"")
            request.write(b"")
        await gate.wait()
        request.end()

    async def main() -> None:
        async with serving_virtually(handler) as house:
            client = await house.client()
            client.send(GET)
            reading = asyncio.ensure_future(client.reader.readuntil(b"\r\n\r\n"))
            await virtual_time.virtual_loop().quiet()
            assert house.server.busy == 1
            assert reading.done() is flush
            gate.set()
            assert (await reading).startswith(b"HTTP/1.1 200")
            assert await client.reader.readexactly(5) == b"0\r\n\r\n"

    virtual_time.run(main())


@on_both_loops
@pytest.mark.parametrize("handler", [whole, streamed], ids=["whole", "streamed"])
def test_a_head_request_gets_the_head_alone(handler: object, run: Run) -> None:
    async def main() -> None:
        async with serving(whole if handler is whole else streamed) as house:
            client = await house.client()
            for _ in range(2):
                client.send(b"HEAD /g HTTP/1.1\r\nHost: h\r\n\r\n")
                reply = await client.reply(bodiless=True)
                assert reply.value(b"content-length") == (b"5" if handler is whole else None)

    run(main())


@on_both_loops
@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body(status: int, run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        if request.path == "/whole":
            request.respond(status, [], b"hello")
        else:
            request.start(status, [])
            request.write(b"hello")
            request.end()

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            for path in (b"/whole", b"/streamed", b"/whole"):
                client.send(b"GET " + path + b" HTTP/1.1\r\nHost: h\r\n\r\n")
                reply = await client.reply()
                assert reply.status == status
                assert reply.value(b"content-length") is reply.value(b"transfer-encoding") is None

    run(main())


@on_both_loops
def test_an_old_client_gets_an_unframed_stream_that_ends_with_the_connection(run: Run) -> None:
    async def main() -> None:
        async with serving(streamed) as house:
            client = await house.client()
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            reply = await client.reply()
            assert reply.body == b"hello"
            assert reply.value(b"transfer-encoding") is None
            assert reply.value(b"connection") == b"close"

    run(main())


@on_both_loops
def test_an_old_client_keeps_its_connection_only_if_it_asks(run: Run) -> None:
    async def main() -> None:
        async with serving(whole) as house:
            client = await house.client()
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await client.reply()).value(b"connection") == b"keep-alive"
            client.send(b"GET / HTTP/1.0\r\n\r\n")
            assert (await client.reply()).value(b"connection") == b"close"
            assert await client.ended()

    run(main())


@on_both_loops
@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_aborted_stream_is_seen_as_broken(version: bytes, run: Run) -> None:
    begun = asyncio.Event()

    async def handler(request: ServerRequest) -> None:
        request.start(200, [])
        request.write(b"hel")
        await begun.wait()
        request.abort()
        assert request.ended
        request.write(b"more")
        request.abort()

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(b"GET / HTTP/" + version + b"\r\nHost: h\r\n\r\n")
            assert (await client.reader.readuntil(b"hel")).startswith(b"HTTP/1.1 200")
            begun.set()
            if version == b"1.1":
                # The chunk ends, and no last one follows.
                assert await client.reader.read() == b"\r\n"
            else:
                with pytest.raises(ConnectionResetError):
                    await client.reader.read()

    run(main())


@on_both_loops
def test_a_handler_may_end_the_connection(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        request.closes = True
        request.respond(200, [], b"bye")

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(GET)
            assert (await client.reply()).value(b"connection") == b"close"
            assert await client.ended()

    run(main())


@on_both_loops
def test_a_reply_cannot_be_split(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        request.respond(200, [(b"x-a", b"b\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx")], b"hello")

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            for _ in range(2):
                client.send(GET)
                assert (await client.reply()).body == b"hello"

    run(main())


@on_both_loops
def test_a_client_that_does_not_read_is_felt_by_the_handler_and_memory_is_bounded(run: Run) -> None:
    told: list[str] = []
    buffered: list[int] = []
    pieces = 1000

    async def handler(request: ServerRequest) -> None:
        request.on_pause = lambda: told.append("pause")
        request.on_resume = lambda: told.append("resume")
        request.start(200, [])
        for _ in range(pieces):
            request.write(b"a" * (16 * KIB))
            if request.paused:
                await request.drained()
                assert not request.paused
        request.end()

    async def main() -> None:
        async with serving(handler, replace(LIMITS, write_buffer=64 * KIB)) as house:
            client = await house.client()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # declared too narrowly
            client.send(GET)
            await wait_until_async(lambda: told == ["pause"], "the handler is told of the pause")
            await loop_turns()
            (inbound,) = house.server._connections
            buffered.append(inbound.transport.get_write_buffer_size())
            assert inbound.current is not None
            assert inbound.current.paused
            assert told == ["pause"]
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # declared too narrowly
            assert len((await client.reply()).body) == pieces * 16 * KIB

    run(main())
    assert buffered[0] <= 256 * KIB
    assert told[:2] == ["pause", "resume"]


@on_both_loops
def test_whoever_waits_for_a_client_that_goes_away_is_released(run: Run) -> None:
    over: list[str] = []

    async def handler(request: ServerRequest) -> None:
        async def elsewhere() -> None:
            await request.drained()
            over.append("elsewhere")

        request.start(200, [])
        while not request.paused:
            request.write(b"a" * (64 * KIB))
        other = asyncio.create_task(elsewhere())
        try:
            await request.drained()
        except asyncio.CancelledError:
            over.append("handler")
            raise
        finally:
            await other

    async def main() -> None:
        async with serving(handler) as house:
            raw = socket.create_connection(("127.0.0.1", house.port))
            raw.sendall(GET)
            await wait_until_async(lambda: bool(house.server._connections), "a connection is open")
            (inbound,) = house.server._connections
            await wait_until_async(
                lambda: inbound.current is not None and inbound.current.paused, "the client takes no more of its reply"
            )
            raw.close()
            await wait_until_async(lambda: house.server.busy == 0, "no exchange is under way")

    run(main())
    assert sorted(over) == ["elsewhere", "handler"]


def test_replying_out_of_order_is_a_mistake() -> None:
    async def handler(request: ServerRequest) -> None:
        with pytest.raises(RuntimeError):
            request.write(b"a")
        with pytest.raises(RuntimeError):
            request.end()
        request.respond(200, [], b"")
        with pytest.raises(RuntimeError):
            request.respond(200, [], b"")
        with pytest.raises(RuntimeError):
            request.start(200, [])
        with pytest.raises(RuntimeError):
            request.write(b"a")

    async def main() -> None:
        async with serving(handler) as house:
            assert (await house.ask(GET)).status == 200

    asyncio.run(main())


def test_a_target_that_is_no_http_url_is_refused() -> None:
    with pytest.raises(ClientError):
        RequestTarget(b"file:///etc")
