"""Bounded work: no callback of the loop takes long, whatever bytes a client or a provider sends."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zstandard
from msgspec.structs import replace

from dragoman.errors import UpstreamError
from dragoman.http.client import Client
from dragoman.http.flight import Call
from dragoman.http.server import ServerLimits
from tests.http.raw import House, echo, serving
from tests.http.scripted import closing, provider, run
from tests.waiting import wait_until_async

# Far above what any of these takes here, far below what others would notice; several readings' worth of bytes.
MOST_SECONDS = 0.1
SIZE = 1024 * 1024
LIMITS = ServerLimits(
    header_bytes=64 * 1024, header_count=128, header_timeout=20.0, body_timeout=20.0, unread_timeout=20.0
)


class Longest:
    """The longest time of its own that a callback took, and which one it was."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.name = ""


@contextmanager
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Longest]:
    """Time every callback of asyncio's own loop."""
    longest = Longest()
    inner = asyncio.events.Handle._run

    def timing(handle: asyncio.Handle) -> None:
        before = time.thread_time()
        inner(handle)
        taken = time.thread_time() - before
        if taken > longest.seconds:
            longest.seconds, longest.name = taken, repr(handle)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.events.Handle, "_run", timing)
        yield longest


def repeated(piece: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    return before + piece * (SIZE // len(piece)) + after


HEAD = b"POST / HTTP/1.1\r\nHost: h\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SAID: dict[str, bytes] = {
    "tiny messages": repeated(b"GET / HTTP/1.1\r\nHost:h\r\n\r\n"),
    "tiny messages with tiny bodies": repeated(HEAD + b"Content-Length: 1\r\n\r\nx"),
    "messages of a slice each": repeated(b"GET /" + b"x" * 4060 + b" HTTP/1.1\r\nHost: h\r\n\r\n"),
    "empty lines": repeated(b"\r\n"),
    "tiny chunks": repeated(b"1\r\nx\r\n", CHUNKED, b"0\r\n\r\n"),
    "tiny chunks with extensions": repeated(b"1;a=b\r\nx\r\n", CHUNKED, b"0\r\n\r\n"),
    "an extension without end": CHUNKED + b"1;" + b"a" * SIZE,
    "trailers without end": repeated(b"a: b\r\n", CHUNKED + b"0\r\n"),
    "headers without end": repeated(b"a: b\r\n", HEAD),
    "the shortest headers without end": repeated(b"a:\r\n", HEAD),
    "one header without end": HEAD + b"a: " + b"b" * SIZE,
    "a target without end": b"GET /" + b"x" * SIZE,
    "a method without end": b"G" * SIZE,
    "no HTTP": repeated(b"\0\xff"),
    "many small messages of full headers": repeated(HEAD + b"a: b\r\n" * 120 + b"Content-Length: 0\r\n\r\n"),
    "offers to upgrade": repeated(HEAD + b"Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\nx"),
    "a length of many digits": HEAD + b"Content-Length: " + b"9" * SIZE,
}


async def say(house: House, said: bytes) -> None:
    """Send all of it, reading on, until the server has served it or closes."""
    loop = asyncio.get_running_loop()
    end = socket.create_connection(("127.0.0.1", house.port))
    end.setblocking(False)

    async def listen() -> None:
        try:
            while await loop.sock_recv(end, 1 << 20):
                pass
        except ConnectionError:
            return

    listening = asyncio.create_task(listen())
    try:
        await loop.sock_sendall(end, said)
        end.shutdown(socket.SHUT_WR)
    except OSError:
        # The server may hang up on what it refuses; what it has said is still read.
        pass
    await listening
    end.close()


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_no_bytes_of_a_client_hold_the_loop(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(echo, replace(LIMITS)) as house:
            await say(house, said)
            await wait_until_async(lambda: not house.server._connections, "no connection is open")

    with timed(monkeypatch) as longest:
        asyncio.run(main())
    assert longest.seconds < MOST_SECONDS, longest.name


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKS = OK + b"transfer-encoding: chunked\r\n\r\n"
BLOCK = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"


def coded(coding: bytes, raw: bytes) -> bytes:
    return OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n%b" % (coding, len(raw), raw)


ANSWERS: dict[str, bytes] = {
    "tiny chunks": repeated(b"1\r\nx\r\n", CHUNKS, b"0\r\n\r\n"),
    "tiny chunks with extensions": repeated(b"1;a=b\r\nx\r\n", CHUNKS, b"0\r\n\r\n"),
    "an extension without end": CHUNKS + b"1;" + b"a" * SIZE,
    "trailers without end": repeated(b"a: b\r\n", CHUNKS + b"0\r\n"),
    "headers without end": repeated(b"a: b\r\n", OK),
    "one header without end": OK + b"a: " + b"b" * SIZE,
    "informational heads without end": repeated(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "the shortest informational heads without end": repeated(b"HTTP/1.1 100\r\n\r\n"),
    "answers without end": repeated(OK + b"content-length: 0\r\n\r\n"),
    "empty lines": repeated(b"\r\n"),
    "a status line without end": b"HTTP/1.1 200 " + b"x" * SIZE,
    "zeros in gzip": coded(b"gzip", gzip.compress(bytes(256 * SIZE), 9)),
    "zeros in gzip in gzip": coded(b"gzip, gzip", gzip.compress(gzip.compress(bytes(256 * SIZE), 9))),
    "nothing in gzip": coded(b"gzip", repeated(b"\0\0\0\xff\xff", b"\x1f\x8b\x08\0\0\0\0\0\0\xff")),
    "zeros in zstd": coded(b"zstd", b"\x28\xb5\x2f\xfd\x00\x58" + BLOCK * 2000),
    "empty frames of zstd": coded(b"zstd", repeated(zstandard.compress(b""))),
    "empty metadata of br": coded(b"br", repeated(b"\x06", b"\x0c")),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_no_bytes_of_a_provider_hold_the_loop(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with provider(closing(answer)) as server:
            client = Client(connect_timeout=10, proxies={})
            for _ in range(2):
                flight = client.open(Call(method="POST", url=server.url(), headers=[], body=b"{}"))
                try:
                    await flight.head()
                    await flight.read(32 * SIZE)
                except UpstreamError:
                    # Refused or not, only how long the loop was held counts.
                    pass
                finally:
                    flight.close()
            await client.close()

    with timed(monkeypatch) as longest:
        run(main, "asyncio")
    assert longest.seconds < MOST_SECONDS, longest.name
