"""Bounded work: no callback of the loop does much, whatever bytes a client or a provider sends."""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
import zstandard
from msgspec.structs import replace

from dragoman.errors import UpstreamError
from dragoman.http.client import HttpClient
from dragoman.http.coding import SlicedDecoder
from dragoman.http.server import ServerLimits
from dragoman.http.upstream_call import UpstreamRequest
from tests.http.raw import House, echo, serving
from tests.http.scripted import closing, provider, run
from tests.waiting import wait_until_async

# Calls of functions in one callback. The chunks of one read of an answer are parsed at once: 1.4 calls for each byte of
# 256 KiB.
MOST_CALLS = 64 * 1024
MOST_CALLS_FOR_CHUNKS = 2 * 256 * 1024
# A step of each of two codings.
MOST_STEPS = 2
# More than one read.
SIZE = 384 * 1024
MEBIBYTE = 1024 * 1024
LIMITS = ServerLimits(
    header_bytes=64 * 1024, header_count=128, header_timeout=20.0, body_timeout=20.0, unread_timeout=20.0
)


class Busiest:
    """The most that one callback did, and which one it was: calls of functions, and steps of decoders."""

    def __init__(self) -> None:
        self.calls = 0
        self.steps = 0
        self.name = ""


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Busiest]:
    """Count what every callback of asyncio's own loop does.

    A function in C counts as one call, whatever it does. What the parser is given at once is bounded by what is read
    at once, and what a decoder is given by its steps (`test_coding.py`).
    """
    busiest = Busiest()
    calls = steps = 0
    run_callback, feed = asyncio.events.Handle._run, SlicedDecoder.feed

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        if event in ("call", "c_call"):
            calls += 1

    def counting(handle: asyncio.Handle) -> None:
        nonlocal calls, steps
        calls = steps = 0
        sys.setprofile(profile)
        try:
            run_callback(handle)
        finally:
            sys.setprofile(None)
        busiest.steps = max(busiest.steps, steps)
        if calls > busiest.calls:
            busiest.calls, busiest.name = calls, repr(handle)

    def counting_feed(decoder: SlicedDecoder, data: bytes) -> bytes:
        nonlocal steps
        steps += 1
        return feed(decoder, data)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.events.Handle, "_run", counting)
        patch.setattr(SlicedDecoder, "feed", counting_feed)
        yield busiest


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
    "a chunk of empty lines": CHUNKED + b"%x\r\n" % SIZE + b"\r\n" * (SIZE // 2) + b"\r\n0\r\n\r\n",
    "chunks of empty lines": repeated(b"4\r\n\r\n\r\n\r\n", CHUNKED, b"0\r\n\r\n"),
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


@pytest.mark.parametrize("case", SAID)
def test_no_bytes_of_a_client_hold_the_loop(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(echo, replace(LIMITS)) as house:
            await say(house, SAID[case])
            await wait_until_async(lambda: not house.server._connections, "no connection is open")

    with counted(monkeypatch) as busiest:
        asyncio.run(main())
    assert 0 < busiest.calls < MOST_CALLS, busiest.name


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
    "zeros in gzip": coded(b"gzip", gzip.compress(bytes(64 * MEBIBYTE), 9)),
    "zeros in gzip in gzip": coded(b"gzip, gzip", gzip.compress(gzip.compress(bytes(64 * MEBIBYTE), 9))),
    "nothing in gzip": coded(b"gzip", repeated(b"\0\0\0\xff\xff", b"\x1f\x8b\x08\0\0\0\0\0\0\xff")),
    "zeros in zstd": coded(b"zstd", b"\x28\xb5\x2f\xfd\x00\x58" + BLOCK * 2000),
    "empty frames of zstd": coded(b"zstd", repeated(zstandard.compress(b""))),
    "empty metadata of br": coded(b"br", repeated(b"\x06", b"\x0c")),
}


def most_calls(case: str) -> int:
    return MOST_CALLS_FOR_CHUNKS if case.startswith("tiny chunks") else MOST_CALLS


@pytest.mark.parametrize("case", ANSWERS)
def test_no_bytes_of_a_provider_hold_the_loop(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with provider(closing(ANSWERS[case])) as server:
            client = HttpClient(connect_timeout=10, proxies={})
            for _ in range(2):
                flight = client.open(UpstreamRequest(method="POST", url=server.url(), headers=[], body=b"{}"))
                try:
                    await flight.head()
                    await flight.read(32 * MEBIBYTE)
                except UpstreamError:
                    # Refused or not, only what the loop was held with counts.
                    pass
                finally:
                    flight.close()
            await client.close()

    with counted(monkeypatch) as busiest:
        run(main, "asyncio")
    assert 0 < busiest.calls < most_calls(case), busiest.name
    assert busiest.steps <= MOST_STEPS
    assert (busiest.steps > 0) is (b"content-encoding" in ANSWERS[case])
