"""The server as a whole: draining, stopping, and many clients at once."""

from __future__ import annotations

import asyncio

from dragoman.http.phases import ConnectionPhase
from dragoman.http.request import ServerRequest
from dragoman.http.server import HttpServer
from tests.http.raw import LIMITS, PATIENCE, Run, echo, on_both_loops, refuse, serving
from tests.waiting import wait_until_async

GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


class Gated:
    """A handler that waits to be let through."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.began = 0

    async def __call__(self, request: ServerRequest) -> None:
        self.began += 1
        if request.path == "/stream":
            request.start(200, [])
            request.write(b"begun ")
        await self.gate.wait()
        if request.started:
            request.write(b"ended")
            request.end()
        else:
            await echo(request)


@on_both_loops
def test_a_retired_server_closes_idle_connections_and_lets_the_others_finish(run: Run) -> None:
    async def main() -> None:
        gated = Gated()
        async with serving(gated) as house:
            fresh, idle, whole, late = [await house.client() for _ in range(4)]
            gated.gate.set()
            idle.send(GET)
            assert (await idle.reply()).value(b"connection") is None
            gated.gate.clear()
            whole.send(GET)
            late.send(b"GET / HTTP/1.1\r\n")
            await wait_until_async(
                lambda: gated.began == 2 and len(house.server._connections) == 4,
                "four connections are open and two handlers have begun",
            )
            await wait_until_async(
                lambda: any(found.phase is ConnectionPhase.HEAD for found in house.server._connections),
                "half a head is here",
            )
            house.server.retire()
            assert await idle.ended()
            assert await fresh.ended()
            assert not await house.server.wait_idle(0)
            assert house.server.busy == 1
            late.send(b"Host: h\r\n\r\n")
            await wait_until_async(lambda: house.server.busy == 2, "two exchanges are under way")
            gated.gate.set()
            assert (await whole.reply()).value(b"connection") == b"close"
            assert await whole.ended()
            assert (await late.reply()).value(b"connection") == b"close"
            assert await house.server.wait_idle(PATIENCE)

    run(main())


@on_both_loops
def test_a_stream_under_way_ends_well_and_then_its_connection(run: Run) -> None:
    async def main() -> None:
        gated = Gated()
        async with serving(gated) as house:
            client = await house.client()
            client.send(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
            await wait_until_async(lambda: gated.began == 1, "the handler has begun")
            house.server.retire()
            gated.gate.set()
            reply = await client.reply()
            assert (reply.body, reply.broken) == (b"begun ended", False)
            assert await client.ended()

    run(main())


@on_both_loops
def test_a_retired_server_takes_no_new_connections(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            house.server.retire()
            assert await (await house.client()).ended()

    run(main())


@on_both_loops
def test_connections_may_end_with_the_reply_that_is_under_way_and_others_go_on(run: Run) -> None:
    async def main() -> None:
        gated = Gated()
        async with serving(gated) as house:
            busy, idle = [await house.client() for _ in range(2)]
            busy.send(GET)
            await wait_until_async(
                lambda: gated.began == 1 and len(house.server._connections) == 2,
                "two connections are open and a handler has begun",
            )
            house.server.close_after_responses()
            gated.gate.set()
            assert (await busy.reply()).value(b"connection") == b"close"
            assert await busy.ended()
            for client in (idle, await house.client()):
                client.send(GET)
                assert (await client.reply()).value(b"connection") is None

    run(main())


@on_both_loops
def test_cancelling_ends_every_exchange(run: Run) -> None:
    async def main() -> None:
        gated = Gated()
        async with serving(gated) as house:
            whole, stream, idle = [await house.client() for _ in range(3)]
            whole.send(GET)
            stream.send(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n")
            await wait_until_async(
                lambda: gated.began == 2 and len(house.server._connections) == 3,
                "three connections are open and two handlers have begun",
            )
            house.server.cancel_all()
            reply = await whole.reply()
            assert (reply.status, reply.value(b"connection")) == (503, b"close")
            assert (await stream.reply()).broken
            assert await idle.ended()
            assert await house.server.wait_idle(PATIENCE)
            assert house.server.busy == 0

    run(main())


@on_both_loops
def test_two_hundred_clients_get_their_own_answers(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        body = await request.body(100)
        request.start(200, [])
        for _ in range(5):
            request.write(body)
            await asyncio.sleep(0)
        request.end()

    async def main() -> None:
        async with serving(handler) as house:

            async def one(number: int) -> None:
                token = b"%05d" % number
                client = await house.client()
                for _ in range(3):
                    client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n" + token)
                    assert (await client.reply()).body == token * 5
                await client.close()

            await asyncio.gather(*[one(number) for number in range(200)])
            await wait_until_async(lambda: not house.server._connections, "no connection is open")
            assert house.server.busy == 0
            # No timer is left behind.
            assert house.server._sweeper is None

    run(main())


def test_a_server_without_clients_is_idle() -> None:
    async def main() -> None:
        server = HttpServer(echo, refuse, LIMITS)
        assert await server.wait_idle(0)
        server.retire()
        assert await server.wait_idle(0)

    asyncio.run(main())
