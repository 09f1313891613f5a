"""Bodies of requests: read once, within limits of size and time, and held back where nobody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.errors import ClientError
from dragoman.http.body import HIGH_WATER, MAX_DISCARD_BYTES
from dragoman.http.phases import PACE_TIME
from dragoman.http.request import ServerRequest
from dragoman.http.server import CHUNK_TIME, MAX_SWEEP_SECONDS
from tests import virtual_time
from tests.http.raw import LIMITS, Run, echo, loop_turns, on_both_loops, serving, serving_virtually
from tests.waiting import wait_until_async

POST = b"POST /p HTTP/1.1\r\nHost: h\r\n"
MIB = 1024 * 1024


async def answer_errors(request: ServerRequest, limit: int) -> None:
    try:
        body = await request.body(limit)
    except ClientError as error:
        request.respond(error.status, [(b"x-by", b"handler")], error.message.encode())
    else:
        request.respond(200, [], b"%d" % len(body))


async def small(request: ServerRequest) -> None:
    await answer_errors(request, 1000)


@on_both_loops
@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"Content-Length: 1000\r\n\r\n" + b"a" * 1000, 200),
        (b"Content-Length: 1001\r\n\r\n", 413),
        (b"Content-Length: 1001\r\n\r\n" + b"a" * 1001, 413),
        (b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + b"a" * 1000 + b"\r\n0\r\n\r\n", 200),
        (b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"a" * 1001, 413),
        (b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n", 413),
    ],
    ids=["at the limit", "declared", "declared and sent", "chunked at the limit", "chunked over it", "expecting"],
)
def test_a_body_over_the_limit_is_413_to_the_handler(message: bytes, status: int, run: Run) -> None:
    async def main() -> None:
        async with serving(small) as house:
            client = await house.client()
            client.send(POST + message)
            reply = await client.reply()
            assert reply.status == status
            assert (reply.value(b"x-by") == b"handler") is (status != 200)

    run(main())


@on_both_loops
def test_a_client_that_sends_far_too_much_can_still_read_the_reply(run: Run) -> None:
    async def main() -> None:
        async with serving(small) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: %d\r\n\r\n" % (8 * MIB) + b"a" * (8 * MIB))
            await client.writer.drain()
            reply = await client.reply()
            assert (reply.status, reply.value(b"connection")) == (413, b"close")
            assert await client.ended()

    run(main())


@on_both_loops
def test_large_bodies_arrive_whole(run: Run) -> None:
    data = bytes(range(256)) * 16 * 1024

    async def handler(request: ServerRequest) -> None:
        request.respond(200, [], await request.body(64 * MIB))

    async def main() -> None:
        async with serving(handler) as house:
            reply = await house.ask(POST + b"Content-Length: %d\r\n\r\n" % len(data) + data)
            assert reply.body == data

    run(main())


def test_the_client_is_told_to_go_on_only_when_the_body_is_asked_for() -> None:
    gate = asyncio.Event()

    async def handler(request: ServerRequest) -> None:
        await gate.wait()
        await echo(request)

    async def main() -> None:
        async with serving_virtually(handler) as house:
            client = await house.client()
            client.send(POST + b"Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n")
            reading = asyncio.ensure_future(client.reply())
            await virtual_time.virtual_loop().quiet()
            assert house.server.busy == 1
            assert not reading.done()
            gate.set()
            assert (await reading).status == 100
            client.send(b"abc")
            reply = await client.reply()
            assert reply.body == b"POST /p |abc"
            assert reply.value(b"connection") is None

    virtual_time.run(main())


@on_both_loops
def test_a_client_that_does_not_wait_is_not_told_to_go_on(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            assert (await house.ask(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc")).status == 200

    run(main())


@on_both_loops
def test_a_refused_expectation_ends_the_connection(run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        request.respond(401, [], b"no")

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            reply = await client.reply()
            assert (reply.status, reply.value(b"connection")) == (401, b"close")
            assert await client.ended()

    run(main())


def test_a_silent_client_is_408_to_the_handler() -> None:
    async def main() -> None:
        async with serving_virtually(small, replace(LIMITS, body_timeout=10.0)) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: 3\r\n\r\na")
            reply = await client.reply()
            assert 10 <= asyncio.get_running_loop().time() <= 10 + MAX_SWEEP_SECONDS
            assert (reply.status, reply.value(b"x-by"), reply.value(b"connection")) == (408, b"handler", b"close")
            assert await client.ended()

    virtual_time.run(main())


def test_a_slow_client_that_is_never_silent_is_served() -> None:
    async def main() -> None:
        async with serving_virtually(small, replace(LIMITS, body_timeout=10.0)) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: 25\r\n\r\n")
            for _ in range(25):
                client.send(b"a")
                await asyncio.sleep(8)
            assert (await client.reply()).body == b"25"

    virtual_time.run(main())


@on_both_loops
def test_bytes_that_nobody_asked_for_stay_with_the_client(run: Run) -> None:
    gate = asyncio.Event()
    requests: list[ServerRequest] = []

    async def handler(request: ServerRequest) -> None:
        requests.append(request)
        await gate.wait()
        await answer_errors(request, 64 * MIB)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: %d\r\n\r\n" % (16 * MIB) + b"a" * (16 * MIB))
            await wait_until_async(
                lambda: bool(requests) and requests[0].content.size > HIGH_WATER,
                "more of the body is here than the mark",
            )
            (inbound,) = house.server._connections
            await loop_turns()
            # One read more than the mark at most.
            assert requests[0].content.size < HIGH_WATER + MIB
            assert not inbound.transport.is_reading()
            gate.set()
            assert (await client.reply()).body == b"%d" % (16 * MIB)

    run(main())


class Till:
    """An account that has room for one body: the others are paused until that one is over."""

    def __init__(self) -> None:
        self.open_charges: list[TillCharge] = []
        self.size = 0
        self.completed = 0

    def open(self, pause: Callable[[], None], resume: Callable[[], None]) -> TillCharge:
        charge = TillCharge(self, pause, resume)
        self.open_charges.append(charge)
        return charge

    async def __call__(self, request: ServerRequest) -> None:
        """Answer a request with the size of its body."""
        try:
            body = await request.body(64 * MIB, self)
        except ClientError as error:
            request.respond(error.status, [], error.message.encode())
        else:
            request.respond(200, [], b"%d" % len(body))


class TillCharge:
    def __init__(self, till: Till, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self.till, self.pause, self.resume = till, pause, resume
        self.size = 0

    @property
    def is_contended(self) -> bool:
        return len(self.till.open_charges) > 1

    def add(self, size: int) -> None:
        self.size += size
        self.till.size += size
        if self.till.open_charges[0] is not self:
            self.pause()

    def complete(self) -> None:
        self.till.completed += 1

    def close(self) -> None:
        self.till.size -= self.size
        self.till.open_charges.remove(self)
        if self.till.open_charges:
            self.till.open_charges[0].resume()


@on_both_loops
def test_item_22_a4_bodies_for_which_there_is_no_room_stay_with_their_clients_and_arrive_whole(run: Run) -> None:
    async def main() -> None:
        till = Till()
        async with serving(till) as house:
            first = await house.client()
            first.send(POST + b"Content-Length: 10\r\n\r\n")
            await wait_until_async(lambda: len(till.open_charges) == 1, "the first body is waited for")
            others = [await house.client() for _ in range(5)]
            for client in others:
                client.send(POST + b"Content-Length: %d\r\n\r\n" % (8 * MIB) + b"a" * (8 * MIB))
            reading = [inbound.transport.is_reading for inbound in house.server._connections]
            await wait_until_async(
                lambda: len(till.open_charges) == 6 and sum(is_reading() for is_reading in reading) == 1,
                "all but the first are paused",
            )
            # The mark that every body may have before it is asked for, and one read.
            assert till.size < 5 * (HIGH_WATER + MIB)
            first.send(b"a" * 10)
            assert (await first.reply()).body == b"10"
            for client in others:
                assert (await client.reply()).body == b"%d" % (8 * MIB)
            assert (till.size, till.open_charges) == (0, [])

    run(main())


def test_item_22_a4_a_body_that_is_not_read_has_all_the_time_there_is() -> None:
    async def main() -> None:
        till = Till()
        async with serving_virtually(till, replace(LIMITS, body_timeout=10.0)) as house:
            first, second = await house.client(), await house.client()
            first.send(POST + b"Content-Length: 2000001\r\n\r\n")
            await virtual_time.virtual_loop().quiet()
            second.send(POST + b"Content-Length: 20\r\n\r\n" + b"a" * 10)
            # A mebibyte in a minute is above the minimum pace.
            for _ in range(100):
                first.send(b"a" * 20_000)
                await asyncio.sleep(1)
            first.send(b"a")
            assert (await first.reply()).status == 200
            second.send(b"a" * 10)
            assert (await second.reply()).body == b"20"

    virtual_time.run(main())


@pytest.mark.parametrize("contended", [True, False])
def test_item_22_a4_a_body_that_comes_too_slowly_is_408_while_others_wait_for_room(contended: bool) -> None:
    async def main() -> None:
        till = Till()
        async with serving_virtually(till) as house:
            slow, other = await house.client(), await house.client()
            slow.send(POST + b"Content-Length: 2000000\r\n\r\n")
            await virtual_time.virtual_loop().quiet()
            loop = asyncio.get_running_loop()
            if contended:
                await asyncio.sleep(5)
                other.send(POST + b"Content-Length: 600000\r\n\r\n" + b"a" * 600_000)
                await virtual_time.virtual_loop().quiet()
            since = loop.time()
            for _ in range(30):
                if contended and len(till.open_charges) < 2:
                    break
                slow.send(b"a" * 15_000)
                await asyncio.sleep(1)
            if not contended:
                assert len(till.open_charges) == 1
                return
            assert PACE_TIME <= loop.time() - since <= PACE_TIME + 2 * MAX_SWEEP_SECONDS
            reply = await slow.reply()
            assert (reply.status, reply.value(b"connection")) == (408, b"close")
            assert b"too slowly" in reply.body
            assert (await other.reply()).body == b"600000"

    virtual_time.run(main())


async def early(request: ServerRequest) -> None:
    request.respond(200, [], request.path.encode())


@on_both_loops
def test_a_small_unread_rest_is_thrown_away_and_the_connection_kept(run: Run) -> None:
    async def main() -> None:
        async with serving(early) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: 1000\r\n\r\nabc")
            reply = await client.reply()
            assert reply.value(b"connection") is None
            client.send(b"a" * 997 + b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n")
            assert (await client.reply()).body == b"/next"

    run(main())


@on_both_loops
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_large_unread_rest_ends_the_connection(declared: bool, run: Run) -> None:
    framing = (
        b"Content-Length: %d\r\n\r\n" % (4 * MAX_DISCARD_BYTES)
        if declared
        else b"Transfer-Encoding: chunked\r\n\r\n100000\r\n"
    )

    async def main() -> None:
        async with serving(early) as house:
            client = await house.client()
            client.send(POST + framing)
            reply = await client.reply()
            assert reply.status == 200
            assert (reply.value(b"connection") == b"close") is declared
            client.send(b"a" * (2 * MAX_DISCARD_BYTES))
            assert await client.ended()

    run(main())


def test_a_rest_that_never_comes_ends_the_connection() -> None:
    async def main() -> None:
        async with serving_virtually(early, replace(LIMITS, body_timeout=10.0)) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: 1000\r\n\r\nabc")
            assert (await client.reply()).status == 200
            assert await client.ended()
            assert 10 <= asyncio.get_running_loop().time() <= 10 + MAX_SWEEP_SECONDS

    virtual_time.run(main())


def test_a_body_is_handed_over_once() -> None:
    async def handler(request: ServerRequest) -> None:
        assert await request.body(10) == b"abc"
        with pytest.raises(RuntimeError, match="already read"):
            await request.body(10)
        request.respond(200, [], b"")

    async def main() -> None:
        async with serving(handler) as house:
            assert (await house.ask(POST + b"Content-Length: 3\r\n\r\nabc")).status == 200

    asyncio.run(main())


def test_a_complete_body_is_taken_at_once_within_the_limit_and_once() -> None:
    async def handler(request: ServerRequest) -> None:
        taken = [request.content.take_complete(limit) for limit in (2, 3, 3)]
        request.respond(200, [], repr(taken).encode())

    async def main() -> None:
        async with serving(handler) as house:
            reply = await house.ask(POST + b"Content-Length: 3\r\n\r\nabc")
            assert reply.body == b"[None, b'abc', None]"

    asyncio.run(main())


def test_an_incomplete_body_is_not_taken() -> None:
    async def handler(request: ServerRequest) -> None:
        assert request.content.take_complete(10) is None
        request.respond(200, [], await request.body(10))

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            client.send(POST + b"Content-Length: 3\r\n\r\nab")
            await loop_turns()
            client.send(b"c")
            assert (await client.reply()).body == b"abc"

    asyncio.run(main())


def test_an_error_that_the_handler_lets_through_is_refused_with_its_status() -> None:
    async def handler(request: ServerRequest) -> None:
        await request.body(1)

    async def main() -> None:
        async with serving(handler) as house:
            reply = await house.ask(POST + b"Content-Length: 3\r\n\r\nabc")
            assert (reply.status, reply.value(b"x-refused")) == (413, b"/p")

    asyncio.run(main())


def test_bodies_in_tiny_chunks_take_turns_that_leave_most_of_the_time_to_others() -> None:
    count, bodies = 50_000, 4

    async def main() -> float:
        async with serving_virtually() as house:
            loop = asyncio.get_running_loop()
            clients = [await house.client() for _ in range(bodies)]
            for client in clients:
                client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * count + b"0\r\n\r\n")
            for client in clients:
                assert (await client.reply()).body == b"POST /p |" + b"x" * count
            return loop.time()

    # What came with the last read of each body, which is followed by no other, has no turn to wait for.
    assert virtual_time.run(main()) >= bodies * count * CHUNK_TIME / 2
