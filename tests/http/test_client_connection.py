"""One client's connection: order, time, and what happens when either side goes away."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.http.client_connection import BACKLOG, SLICE, ClientConnection
from dragoman.http.phases import ConnectionPhase
from dragoman.http.request import ServerRequest
from dragoman.http.server import MAX_SWEEP_SECONDS, HttpServer
from tests import virtual_time
from tests.http.raw import LIMITS, Run, echo, loop_turns, on_both_loops, refuse, serving, serving_virtually
from tests.waiting import wait_until_async


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@on_both_loops
def test_a_connection_serves_many_messages(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            for number in range(20):
                client.send(post(f"/{number}", b"x" * number))
                assert (await client.reply()).body == f"POST /{number} |".encode() + b"x" * number
            assert len(house.server._connections) == 1

    run(main())


@on_both_loops
def test_pipelined_messages_are_answered_in_order_one_at_a_time(run: Run) -> None:
    running: list[int] = []

    async def handler(request: ServerRequest) -> None:
        running.append(1)
        assert len(running) == 1
        await loop_turns(10 if request.path.endswith("0") else 1)
        await echo(request)
        running.pop()

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(b"".join(post(f"/{number}", b"ab") + get(f"/{number}g") for number in range(30)))
            for number in range(30):
                assert (await client.reply()).body == f"POST /{number} |ab".encode()
                assert (await client.reply()).body == f"GET /{number}g |".encode()

    run(main())


@on_both_loops
def test_a_bad_message_in_a_pipeline_is_refused_after_the_good_ones(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            client.send(get("/1") + get("/2") + b"nonsense\r\n\r\n" + get("/3"))
            assert (await client.reply()).body == b"GET /1 |"
            assert (await client.reply()).body == b"GET /2 |"
            assert (await client.reply()).status == 400
            assert await client.ended()

    run(main())


@on_both_loops
def test_what_comes_while_an_exchange_is_under_way_is_taken_in_only_up_to_a_mark(run: Run) -> None:
    gate = asyncio.Event()

    async def handler(request: ServerRequest) -> None:
        await gate.wait()
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(get("/first"))
            await wait_until_async(lambda: house.server.busy == 1, "an exchange is under way")
            (inbound,) = house.server._connections
            body = b"b" * 100_000
            client.send(b"".join(post(f"/{number}", body) for number in range(80)))
            await wait_until_async(lambda: len(inbound.backlog) > BACKLOG, "more waits than the mark")
            await loop_turns()
            assert len(inbound.backlog) < BACKLOG + 1024 * 1024
            assert not inbound.transport.is_reading()
            gate.set()
            assert (await client.reply()).body == b"GET /first |"
            for number in range(80):
                assert (await client.reply()).body == f"POST /{number} |".encode() + body

    run(main())


@on_both_loops
def test_of_many_small_messages_sent_ahead_only_a_few_are_parsed(run: Run) -> None:
    gate = asyncio.Event()

    async def handler(request: ServerRequest) -> None:
        await gate.wait()
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(b"".join(get(f"/{number}") for number in range(1000)))
            await wait_until_async(lambda: house.server.busy == 1, "an exchange is under way")
            (inbound,) = house.server._connections
            await loop_turns()
            assert len(inbound.parser.queue) <= SLICE // len(get("/0"))
            gate.set()
            for number in range(1000):
                assert (await client.reply()).body == f"GET /{number} |".encode()

    run(main())


@on_both_loops
def test_what_waits_does_not_grow_while_messages_sent_ahead_are_served(run: Run) -> None:
    # In all far more than the mark and one read.
    paths = [f"/{number}-" + "x" * 1000 for number in range(3000)]

    async def main() -> None:
        most = 0
        async with serving() as house:
            client = await house.client()
            client.send(b"".join(map(get, paths)))
            for path in paths:
                assert (await client.reply()).body == f"GET {path} |".encode()
                (inbound,) = house.server._connections
                most = max(most, len(inbound.backlog))
        assert most < BACKLOG + 1024 * 1024

    run(main())


@on_both_loops
def test_a_client_that_pipelines_without_reading_does_not_fill_the_memory(run: Run) -> None:
    served: list[str] = []

    async def handler(request: ServerRequest) -> None:
        served.append(request.path)
        request.respond(200, [], b"a" * 1_000_000)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # declared too narrowly
            client.send(b"".join(get(f"/{number}") for number in range(40)))
            await wait_until_async(lambda: bool(house.server._connections), "a connection is open")
            (inbound,) = house.server._connections
            await wait_until_async(
                lambda: inbound.paused and inbound.current is None, "the client takes no more replies"
            )
            await loop_turns()
            assert len(served) < 40
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]  # declared too narrowly
            for _ in range(40):
                assert len((await client.reply()).body) == 1_000_000

    run(main())


@on_both_loops
def test_bytes_after_the_last_message_are_ignored(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            client.send(b"GET /1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" + get("/2"))
            reply = await client.reply()
            assert (reply.body, reply.value(b"connection")) == (b"GET /1 |", b"close")
            assert await client.ended()

    run(main())


def passed(limit: float) -> bool:
    """Whether a limit has just passed: connections are looked at in steps."""
    return limit <= asyncio.get_running_loop().time() <= limit + MAX_SWEEP_SECONDS


@pytest.mark.parametrize("data", [b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: h\r\nA: b"])
def test_headers_that_do_not_come_in_time_are_408(data: bytes) -> None:
    async def main() -> None:
        async with serving_virtually(limits=replace(LIMITS, header_timeout=10.0)) as house:
            client = await house.client()
            client.send(data)
            assert (await client.reply()).status == 408
            assert passed(10.0)
            assert await client.ended()

    virtual_time.run(main())


def test_headers_that_come_byte_by_byte_are_timed_from_the_first() -> None:
    async def main() -> None:
        async with serving_virtually(limits=replace(LIMITS, header_timeout=10.0)) as house:
            client = await house.client()
            reply = asyncio.create_task(client.reply())
            client.send(b"GET / HTTP/1.1\r\nHost: h\r\nA: ")
            while not reply.done():
                client.send(b"a")
                await asyncio.sleep(0.5)
            assert (await reply).status == 408
            assert passed(10.0)

    virtual_time.run(main())


def test_a_client_that_says_nothing_is_left_without_a_word() -> None:
    async def main() -> None:
        async with serving_virtually(limits=replace(LIMITS, header_timeout=10.0)) as house:
            assert await (await house.client()).ended()
            assert passed(10.0)
            client = await house.client()
            client.send(b"\r\n")
            assert await client.ended()

    virtual_time.run(main())


def test_an_idle_connection_is_closed_without_a_word() -> None:
    async def main() -> None:
        async with serving_virtually(limits=replace(LIMITS, idle_timeout=10.0)) as house:
            client = await house.client()
            client.send(get("/"))
            assert (await client.reply()).status == 200
            assert await client.ended()
            assert passed(10.0)

    virtual_time.run(main())


def test_an_exchange_may_take_longer_than_every_limit() -> None:
    async def handler(request: ServerRequest) -> None:
        await asyncio.sleep(50)
        await echo(request)

    async def main() -> None:
        limits = replace(LIMITS, header_timeout=10.0, body_timeout=10.0, idle_timeout=10.0)
        async with serving_virtually(handler, limits) as house:
            assert (await house.ask(get("/"))).status == 200

    virtual_time.run(main())


@on_both_loops
@pytest.mark.parametrize("farewell", ["close", "half-close", "reset"])
@pytest.mark.parametrize("moment", ["before the reply", "within the reply", "within the body"])
def test_a_client_that_goes_away_cancels_the_handler(moment: str, farewell: str, run: Run) -> None:
    seen: list[str] = []

    async def handler(request: ServerRequest) -> None:
        seen.append("began")
        try:
            if moment == "within the body":
                await request.body(1000)
            if moment == "within the reply":
                request.start(200, [])
                request.write(b"hello")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            # Too late, and harmless.
            request.write(b"more")
            raise

    async def main() -> None:
        async with serving(handler) as house:
            raw = socket.create_connection(("127.0.0.1", house.port))
            raw.sendall(post("/", b"abc")[: -1 if moment == "within the body" else None])
            await wait_until_async(lambda: bool(seen), "the handler has begun")
            if moment == "within the reply":
                raw.settimeout(20)
                await asyncio.get_running_loop().run_in_executor(None, raw.recv, 1000)
            if farewell == "half-close":
                raw.shutdown(socket.SHUT_WR)
            if farewell == "reset":
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            if farewell != "half-close":
                raw.close()
            await wait_until_async(lambda: house.server.busy == 0, "no exchange is under way")
            raw.close()

    run(main())
    assert seen == ["began", "cancelled"]


class Wire(asyncio.Transport):
    """A transport that goes nowhere, so that two events come without a step of the loop between them."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.sent = b""
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += data

    def close(self) -> None:
        self.closed = True


def test_a_handler_that_never_took_its_first_step_leaves_nothing_behind() -> None:
    async def main() -> None:
        server = HttpServer(echo, refuse, LIMITS)
        for farewell in ("client", "server"):
            wire, connection = Wire(), ClientConnection(server)
            connection.connection_made(wire)
            connection.data_received(get("/"))
            assert server.busy == 1
            if farewell == "client":
                connection.eof_received()
            else:
                server.cancel_all()
                assert wire.sent.startswith(b"HTTP/1.1 503 ")
                assert wire.closed
            await asyncio.sleep(0)
            assert server.busy == 0
            connection.connection_lost(None)
        assert await server.wait_idle(0)

    asyncio.run(main())


@pytest.mark.parametrize("farewell", ["client", "server"])
def test_a_later_handler_that_never_took_its_first_step_leaves_nothing_behind(farewell: str) -> None:
    async def main() -> None:
        server = HttpServer(echo, refuse, LIMITS)
        wire, connection = Wire(), ClientConnection(server)
        connection.connection_made(wire)
        connection.data_received(get("/1"))
        await wait_until_async(lambda: b"GET /1" in wire.sent, "the first message has its reply")
        connection.data_received(get("/2"))
        assert server.busy == 1
        if farewell == "client":
            connection.eof_received()
        else:
            server.cancel_all()
            assert b"HTTP/1.1 503 " in wire.sent
            assert wire.closed
        connection.connection_lost(None)
        await wait_until_async(lambda: len(asyncio.all_tasks()) == 1, "no task is left")
        assert server.busy == 0
        assert b"GET /2" not in wire.sent

    asyncio.run(main())


@on_both_loops
def test_one_task_serves_a_connection_and_ends_with_it(run: Run) -> None:
    serving_tasks: list[asyncio.Task[None] | None] = []

    async def handler(request: ServerRequest) -> None:
        serving_tasks.append(asyncio.current_task())
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            for sent in (get("/1"), get("/2") + get("/3"), get("/4")):
                client.send(sent)
                for _ in range(sent.count(b"GET")):
                    assert (await client.reply()).status == 200
            task = serving_tasks[0]
            assert task is not None
            assert serving_tasks == [task] * 4
            assert not task.done()
            await client.close()
            await wait_until_async(task.done, "the task has ended")

    run(main())


@on_both_loops
def test_a_pipelined_message_waits_for_a_turn_of_the_loop(run: Run) -> None:
    turns, seen = [0], []

    async def handler(request: ServerRequest) -> None:
        seen.append(turns[0])
        await echo(request)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def turn() -> None:
            turns[0] += 1
            if len(seen) < 5:
                loop.call_soon(turn)

        async with serving(handler) as house:
            client = await house.client()
            loop.call_soon(turn)
            client.send(get("/") * 5)
            for _ in range(5):
                assert (await client.reply()).status == 200
        assert len(set(seen)) == 5

    run(main())


@on_both_loops
def test_a_client_that_leaves_at_once_leaves_nothing_behind(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            for _ in range(50):
                raw = socket.create_connection(("127.0.0.1", house.port))
                raw.sendall(get("/") * 3)
                raw.close()
            await wait_until_async(
                lambda: house.server.busy == 0 and not house.server._connections,
                "nothing is under way and no connection is open",
            )

    run(main())


@on_both_loops
def test_a_client_that_leaves_after_its_reply_does_not_disturb_the_handler(run: Run) -> None:
    seen: list[str] = []
    gate = asyncio.Event()

    async def handler(request: ServerRequest) -> None:
        request.respond(200, [], b"hello")
        await gate.wait()
        seen.append("finished")

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(get("/"))
            await client.reply()
            await client.close()
            await wait_until_async(lambda: not house.server._connections, "no connection is open")
            gate.set()
            await wait_until_async(lambda: house.server.busy == 0, "no exchange is under way")

    run(main())
    assert seen == ["finished"]


@on_both_loops
def test_a_handler_that_fails_before_its_reply_is_500_and_the_connection_lives(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler(request: ServerRequest) -> None:
        if request.path == "/bad":
            raise ValueError("a mistake")
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(get("/bad"))
            reply = await client.reply()
            assert (reply.status, reply.body) == (500, b"500 internal error")
            assert reply.value(b"x-refused") == b"/bad"
            client.send(get("/good"))
            assert (await client.reply()).status == 200

    with caplog.at_level(logging.ERROR, "dragoman.http"):
        run(main())
    assert [record.exc_info is not None for record in caplog.records] == [True]


@on_both_loops
def test_a_handler_that_fails_within_its_reply_breaks_it_off(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: ServerRequest) -> None:
        request.start(200, [])
        request.write(b"hello")
        raise ValueError("a mistake")

    async def main() -> None:
        async with serving(handler) as house:
            assert (await house.ask(get("/"))).broken

    run(main())
    assert len(caplog.records) == 1


@on_both_loops
@pytest.mark.parametrize("begun", [False, True])
def test_a_handler_that_forgets_to_reply_is_found_out(begun: bool, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(request: ServerRequest) -> None:
        if begun:
            request.start(200, [])
            request.write(b"hello")

    async def main() -> None:
        async with serving(handler) as house:
            reply = await house.ask(get("/"))
            assert reply.broken if begun else reply.status == 500

    run(main())
    assert "without a full response" in caplog.text


@on_both_loops
def test_a_handler_cancelled_from_inside_is_500(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        async with serving(handler) as house:
            assert (await house.ask(get("/"))).status == 500

    run(main())


@on_both_loops
def test_a_message_behind_a_cancelled_handler_is_served(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        if request.path == "/1":
            raise asyncio.CancelledError
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(get("/1") + get("/2"))
            assert (await client.reply()).status == 500
            assert (await client.reply()).body == b"GET /2 |"
            client.send(get("/1"))
            assert (await client.reply()).status == 500
            client.send(get("/3"))
            assert (await client.reply()).body == b"GET /3 |"

    run(main())


@on_both_loops
def test_a_client_that_never_reads_its_reply_is_cut_off(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        request.respond(200, [], b"a" * 20_000_000)

    async def main() -> None:
        async with serving(handler, replace(LIMITS, unread_timeout=0.1)) as house:
            for last in (b"", b"Connection: close\r\n"):
                raw = socket.create_connection(("127.0.0.1", house.port))
                raw.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n" + last + b"\r\n")
                await wait_until_async(lambda: bool(house.server._connections), "a connection is open")
                await wait_until_async(lambda: not house.server._connections, "no connection is open")
                raw.close()

    run(main())


@pytest.mark.parametrize("farewell", [HttpServer.retire, HttpServer.cancel_all])
@on_both_loops
def test_a_reset_that_the_loop_has_not_seen_does_not_keep_the_server_from_closing_others(
    run: Run, farewell: Callable[[HttpServer], None]
) -> None:
    async def handler(request: ServerRequest) -> None:
        request.respond(200, [], b"early")

    async def main() -> None:
        async with serving(handler) as house:
            raws = [socket.create_connection(("127.0.0.1", house.port)) for _ in range(3)]
            for raw in raws:
                raw.sendall(post("/", b"x" * 1000)[:-1])
            connections = house.server._connections
            await wait_until_async(
                lambda: [found.phase for found in connections] == [ConnectionPhase.DISCARD] * 3, "three have replies"
            )
            for raw in raws:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raw.close()
            farewell(house.server)
            await wait_until_async(lambda: not connections, "no connection is open")

    run(main())


@on_both_loops
def test_no_message_is_served_without_its_address(run: Run) -> None:
    peers: list[str] = []

    async def handler(request: ServerRequest) -> None:
        peers.append(request.peer)
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            for _ in range(5):
                raw = socket.create_connection(("127.0.0.1", house.port))
                raw.sendall(get("/"))
                # uvloop asks for the address behind the reset.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                raw.close()
            assert (await house.ask(get("/last"))).status == 200
            await wait_until_async(lambda: not house.server.busy, "all are served")
        assert set(peers) == {"127.0.0.1"}

    run(main())
