"""No residue: whatever became of a connection or a call, its end frees it, and nothing is left for the collector.

The collector runs seldom by design, so a cycle would keep bodies of any size for a long time.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import types
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

import dragoman
from dragoman.errors import TimedOut, UpstreamError
from dragoman.http import dial
from dragoman.http.body import Body
from dragoman.http.client import HttpClient
from dragoman.http.dial import SocketAddress
from dragoman.http.http_call import HttpCall
from dragoman.http.request import ServerRequest
from dragoman.http.server import HttpServer
from dragoman.http.upstream_call import UpstreamRequest
from tests.http.raw import LIMITS, PATIENCE, House, Run, echo, on_both_loops, refuse, serving
from tests.http.scripted import Provider, hear, provider_apart
from tests.waiting import wait_until_async

# A clone may be called as the package is.
HOME = f"{Path(dragoman.__file__).parent}/"
MEBIBYTE = 1024 * 1024
RESET = struct.pack("ii", 1, 0)
# Each round leaves what it leaves. More of them meet more orders of events.
in_rounds = pytest.mark.parametrize("rounds", [4, pytest.param(60, marks=pytest.mark.nightly)])


def code_of(found: object) -> types.CodeType | None:
    match found:
        case types.FrameType():
            return found.f_code
        case types.FunctionType():
            return found.__code__
        case types.CoroutineType():
            return found.cr_code
        case types.MethodType() if isinstance(found.__func__, types.FunctionType):
            return found.__func__.__code__
    return None


def name_of(found: object) -> str:
    """What a thing is, if it is ours; "" for all others."""
    kind = type(found)
    if kind.__module__.startswith(("dragoman", "httptools")):
        return f"{kind.__module__}.{kind.__qualname__}"
    code = code_of(found)
    if code is not None and code.co_filename.startswith(HOME):
        return f"{kind.__name__} of {code.co_qualname}"
    return ""


@contextmanager
def nothing_left() -> Iterator[None]:
    """Say that what happens leaves nothing of ours to the collector."""
    gc.disable()
    # The collector looks only at what is new: a look at everything takes longer than most of what happens here.
    gc.freeze()
    flags = gc.get_debug()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = Counter(name for found in gc.garbage if (name := name_of(found)))
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.collect()
        gc.unfreeze()
        gc.enable()
    assert not left, dict(left)


# Connections of clients. Each plays one of them to its end.


async def hang_up(end: socket.socket, *, reset: bool = False) -> None:
    if reset:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    end.close()


async def read_all(end: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    pieces = []
    try:
        while piece := await loop.sock_recv(end, 65536):
            pieces.append(piece)
    except ConnectionError:
        # The server may cut off whom it refuses; what came before counts.
        pass
    return b"".join(pieces)


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


CLOSE = "Connection: close"
ENDLESS = b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
# What a client says before it goes away, and whether it waits for the end of the connection first.
TALKS: dict[str, tuple[bytes, bool]] = {
    "nothing": (b"", False),
    "half a head": (b"POST /echo HTTP/1.1\r\nHost: h\r\n", False),
    "a head and no body": (b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n", False),
    "half a body": (post("/echo", b"x" * 90_000)[:-1], False),
    "half a body that nobody wants": (post("/respond", b"x" * 90_000)[:-1], False),
    "half a chunked body": (ENDLESS + b"5\r\nhello\r\n5\r\nhe", False),
    "a whole message, finished": (post("/echo", b"hello", CLOSE), True),
    "a stream, finished": (post("/stream", b"hello", CLOSE), True),
    "a message, hung up at once": (post("/echo", b"hello"), False),
    "a stream, hung up at once": (post("/stream", b"hello"), False),
    "a handler that sleeps": (post("/sleep", b"hello"), False),
    "a handler that fails": (post("/fail", b"hello", CLOSE), True),
    "a handler that breaks off": (post("/abort", b"hello"), True),
    "a reply that nobody reads": (post("/flood", b""), False),
    "messages sent ahead": (post("/echo", b"hello") * 50 + post("/echo", b"hello", CLOSE), True),
    "messages sent ahead, hung up": (post("/sleep", b"hello") + post("/echo", b"hello") * 50, False),
    "no HTTP": (b"nonsense\r\n\r\n", True),
    "a bad message behind a good one": (post("/echo", b"hello") + b"nonsense\r\n\r\n", True),
    "too long a target": (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n", True),
    "too many headers": (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"a: b\r\n" * 100 + b"\r\n", True),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", True),
    "no path": (b"GET nothing HTTP/1.1\r\nHost: h\r\n\r\n", True),
    "both lengths": (ENDLESS.replace(b"Host: h", b"Host: h\r\nContent-Length: 5"), True),
    "a broken chunk": (ENDLESS + b"5\r\nhello\r\nno\r\n", True),
    "a body above the limit": (post("/small", b"x" * 200_000, CLOSE), True),
    "an upgrade": (post("/echo", b"hello", "Upgrade: websocket", "Connection: Upgrade, close"), True),
    "an expectation": (post("/respond", b"", "Expect: 100-continue", CLOSE), True),
    "headers that never end": (b"POST /echo HTTP/1.1\r\nHost: h\r\n", True),
    "a body that never ends": (post("/echo", b"x" * 1000)[:-1], True),
    "a rest that never ends": (post("/respond", b"x" * 1000)[:-1], True),
}


async def handler(request: ServerRequest) -> None:
    match request.path:
        case "/respond":
            request.respond(200, [], b"no")
        case "/small":
            await request.body(1000)
        case "/stream":
            await request.body(MEBIBYTE)
            request.on_pause = lambda: request.write(b"")
            request.start(200, [])
            for _ in range(5):
                request.write(b"hello")
                await asyncio.sleep(0)
            request.end()
        case "/flood":
            request.start(200, [])
            while True:
                request.write(b"x" * 100_000)
                await request.drained()
                await asyncio.sleep(0)
        case "/sleep":
            await request.body(MEBIBYTE)
            await asyncio.Event().wait()
        case "/fail":
            raise RuntimeError("broken")
        case "/abort":
            request.start(200, [])
            request.write(b"hello")
            request.abort()
        case _:
            await echo(request)


async def talk(house: House, said: bytes, waits: bool, reset: bool) -> None:
    loop = asyncio.get_running_loop()
    end = socket.socket()
    end.setblocking(False)
    await loop.sock_connect(end, ("127.0.0.1", house.port))
    await loop.sock_sendall(end, said)
    if waits:
        await read_all(end)
    else:
        await asyncio.sleep(0)
    await hang_up(end, reset=reset)


@on_both_loops
@in_rounds
@pytest.mark.filterwarnings("ignore")
def test_connections_of_clients_leave_nothing(rounds: int, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "dragoman.http")
    limits = replace(LIMITS, header_timeout=0.3, body_timeout=0.3, idle_timeout=0.3)

    async def main() -> None:
        async with serving(handler, limits) as house:
            for number in range(rounds):
                waiting = not number % 20
                talks = [
                    talk(house, said, waits, reset)
                    for name, (said, waits) in TALKS.items()
                    for reset in (False, True)
                    # These take as long as the limits in time.
                    if waiting or "never" not in name
                ]
                await asyncio.gather(*talks)
            await wait_until_async(
                lambda: not house.server._connections and not house.server.busy,
                "nothing is under way and no connection is open",
            )

    with nothing_left():
        run(main())


@on_both_loops
def test_stopping_in_the_middle_leaves_nothing(run: Run) -> None:
    async def main() -> None:
        server = HttpServer(handler, refuse, LIMITS)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        house = House(server, listener.sockets[0].getsockname()[1])
        talks = [
            asyncio.ensure_future(talk(house, post(path, b"hello"), True, False))
            for path in ("/sleep", "/flood", "/echo", "/stream")
            for _ in range(20)
        ]
        await wait_until_async(lambda: server.busy >= 40, "forty exchanges are under way")
        listener.close()
        server.retire()
        server.cancel_all()
        assert await server.wait_idle(PATIENCE)
        await asyncio.gather(*talks)

    with nothing_left():
        run(main())


def has_size(content: Body, size: int) -> bool:
    """Whether so much of a body is here."""
    return content.size == size


@on_both_loops
def test_item_5_aborted_uploads_do_not_keep_their_bytes(run: Run) -> None:
    # Ten of twenty megabytes once kept 190 until a rare collection.
    async def handler(request: ServerRequest) -> None:
        await request.body(32 * MEBIBYTE)

    async def main() -> None:
        async with serving(handler) as house:
            part = b"x" * (4 * MEBIBYTE)
            for _ in range(5):
                client = await house.client()
                client.send(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n\r\n" + part)
                await wait_until_async(
                    lambda: any(found.current for found in house.server._connections), "an exchange is under way"
                )
                (inbound,) = house.server._connections
                request = inbound.current
                assert request is not None
                content = request.content
                del inbound, request
                await wait_until_async(partial(has_size, content, len(part)), "what was sent is here")
                client.writer.transport.abort()
                await wait_until_async(lambda: not house.server._connections, "no connection is open")
                # Even for somebody who still knows the body.
                assert content.pieces.size == 0

    with nothing_left():
        run(main())


# Calls to providers.

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"


async def plays(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Do what the body of the request says."""
    while True:
        match (await hear(reader)).body:
            case b"answer":
                writer.write(OK + b"content-length: 5\r\n\r\nhello")
            case b"close":
                writer.write(OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello")
                return
            case b"break off":
                writer.write(OK + b"content-length: 50\r\n\r\nhello")
                return
            case b"silence":
                await reader.read()
                return
            case b"hang up":
                return
            case b"half":
                writer.write(OK + b"content-length: 50\r\n\r\nhello")
                await reader.read()
                return
            case b"garbage":
                writer.write(b"nonsense\r\n\r\n")
            case b"coded garbage":
                writer.write(OK + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello")
            case b"flood":
                writer.write(OK + b"content-length: 50000000\r\n\r\n")
                for _ in range(50):
                    writer.write(b"x" * 1_000_000)
                    await writer.drain()
            case b"excess":
                writer.write(OK + b"content-length: 5\r\n\r\nhello" + b"more")
        await writer.drain()


async def read(flight: HttpCall) -> None:
    await flight.head()
    await flight.read(1_000_000)


async def give_up(flight: HttpCall) -> None:
    async with asyncio.timeout(0.01):
        await read(flight)


async def time_out(flight: HttpCall) -> None:
    asyncio.get_running_loop().call_later(0.01, flight.abort, TimedOut("late"))
    await read(flight)


async def leave_unread(flight: HttpCall) -> None:
    await flight.head()


async def pause(flight: HttpCall) -> None:
    await flight.head()
    asyncio.get_running_loop().call_later(0.005, flight.resume)

    def take(piece: bytes) -> None:
        flight.pause()

    async with asyncio.timeout(0.02):
        await flight.pump(take)


async def take_badly(flight: HttpCall) -> None:
    await flight.head()

    def take(piece: bytes) -> None:
        raise ValueError("not this")

    await flight.pump(take)


WAYS: tuple[Callable[[HttpCall], Awaitable[None]], ...] = (read, give_up, time_out, leave_unread, pause, take_badly)
ASKED = (
    b"answer",
    b"close",
    b"break off",
    b"silence",
    b"hang up",
    b"half",
    b"garbage",
    b"coded garbage",
    b"flood",
    b"excess",
)


async def one(client: HttpClient, url: str, asked: bytes, way: Callable[[HttpCall], Awaitable[None]]) -> None:
    flight = client.open(UpstreamRequest(method="POST", url=url, headers=[], body=asked))
    try:
        # Whoever reads without a limit in time would wait for ever.
        async with asyncio.timeout(0.05):
            await way(flight)
    except (UpstreamError, TimeoutError, ValueError):
        # However it went, nothing of it may stay: that is what is looked at afterwards.
        pass
    finally:
        flight.close()


@on_both_loops
@in_rounds
@pytest.mark.parametrize("connections", [1024, 3])
def test_calls_to_providers_leave_nothing(run: Run, connections: int, rounds: int) -> None:
    async def main() -> None:
        for _ in range(max(rounds // 6, 2)):
            client = HttpClient(connect_timeout=PATIENCE, connections=connections, proxies={})
            await asyncio.gather(*(one(client, server.url(), asked, way) for asked in ASKED for way in WAYS))
            await client.close()
        await wait_until_async(lambda: not server.tasks, "the provider has no open connection")

    with provider_apart(plays) as server, nothing_left():
        run(main())


async def cancelled(client: HttpClient, server: Provider, rounds: int) -> None:
    for number in range(rounds):
        task = asyncio.create_task(one(client, server.url(), b"answer", read))
        for _ in range(number % 8):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])


@on_both_loops
def test_a_name_whose_addresses_all_refuse_leaves_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]

        async def two(host: str, number: int) -> list[SocketAddress]:
            return [(socket.AF_INET, (address, port)) for address in ("127.0.0.1", "127.0.0.2")]

        monkeypatch.setattr(dial, "resolve", two)

        async def main() -> None:
            client = HttpClient(connect_timeout=PATIENCE, proxies={})
            await asyncio.gather(*(one(client, "http://two.test/", b"answer", way) for way in WAYS for _ in range(5)))
            await client.close()

        with nothing_left():
            run(main())


@on_both_loops
@in_rounds
def test_calls_that_fail_or_are_cancelled_while_connecting_leave_nothing(run: Run, rounds: int) -> None:
    async def main() -> None:
        client = HttpClient(connect_timeout=0.2, connections=2, proxies={})
        await asyncio.gather(*(cancelled(client, server, 4 * rounds) for _ in range(4)))
        with socket.socket() as deaf:
            # Nobody listens there.
            deaf.bind(("127.0.0.1", 0))
            port = deaf.getsockname()[1]
            for url in (f"http://127.0.0.1:{port}/", f"http://localhost:{port}/", f"http://{'x' * 70}.test/"):
                await asyncio.gather(*(one(client, url, b"answer", way) for way in WAYS for _ in range(5)))
        await client.close()
        await wait_until_async(lambda: not server.tasks, "the provider has no open connection")

    with provider_apart(plays) as server, nothing_left():
        run(main())
