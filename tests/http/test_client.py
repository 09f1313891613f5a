"""The client against scripted providers: requests on the wire, answers of every form, ends of every kind."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import zlib
from collections.abc import Callable

import pytest
import zstandard

from dragoman.errors import BadResponse, Oversized, TimedOut, Truncated, Unanswered, UpstreamError
from dragoman.http.client import HttpClient
from dragoman.http.http_call import HttpCall
from dragoman.http.upstream_call import HeaderList, UpstreamCall, UpstreamRequest, header
from dragoman.http.upstream_connection import BROKE_OFF, NO_RESPONSE, NOT_HTTP, UpstreamConnection
from tests.http.raw import loop_turns
from tests.http.scripted import Heard, Provider, answering, closing, hear, provider, run
from tests.waiting import wait_until_async

MEBIBYTE = 1024 * 1024
OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"
both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def make_client(**settings: float) -> HttpClient:
    connections = int(settings.get("connections", 1024))
    return HttpClient(connect_timeout=10, connections=connections, idle=settings.get("idle", 20.0), proxies={})


def post(url: str, body: bytes = b"{}", headers: HeaderList | None = None) -> UpstreamRequest:
    return UpstreamRequest(method="POST", url=url, headers=headers or [], body=body)


async def fetch(client: HttpClient, call: UpstreamRequest, limit: int = 64 * MEBIBYTE) -> tuple[HttpCall, bytes]:
    flight = client.open(call)
    try:
        await flight.head()
        return flight, await flight.read(limit)
    finally:
        flight.close()


def answers(answer: bytes, expected: bytes, loop: str, *, reused: bool) -> None:
    """Say that an answer is read as a body, twice, on one connection or on two."""

    async def test() -> None:
        script = answering(answer) if reused else closing(answer)
        async with provider(script) as server:
            client = make_client()
            for _ in range(2):
                _, body = await fetch(client, post(server.url()))
                assert body == expected
            assert server.seen == (1 if reused else 2)
            await client.close()

    run(test, loop)


def fails(answer: bytes, error: type[UpstreamError], words: str, loop: str) -> None:
    """Say that an answer ends in an error."""

    async def test() -> None:
        async with provider(closing(answer)) as server:
            client = make_client()
            with pytest.raises(error) as caught:
                await fetch(client, post(server.url()))
            assert str(caught.value) == words
            await client.close()

    run(test, loop)


# Requests


@both_loops
@pytest.mark.parametrize("size", [0, 2000, 256 * 1024, 256 * 1024 + 1, 5 * MEBIBYTE])
def test_a_request_stands_on_the_wire_as_it_was_said(size: int, loop: str) -> None:
    heard: list[Heard] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await hear(reader))
        writer.write(HELLO)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            call = post(server.url("/v1/a%20b?beta=true#not-this"), b"x" * size, [(b"authorization", b"Bearer k\xff")])
            await fetch(client, call)
            assert heard[0].line == b"POST /v1/a%20b?beta=true HTTP/1.1"
            assert heard[0].headers == {
                b"host": b"127.0.0.1:%d" % server.port,
                b"authorization": b"Bearer k\xff",
                b"content-length": b"%d" % size,
            }
            assert heard[0].body == b"x" * size
            await client.close()

    run(test, loop)


def test_a_head_that_recurs_is_the_same_as_one_that_is_written_anew_but_for_the_length() -> None:
    heard: list[Heard] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heard.append(await hear(reader))
            writer.write(HELLO)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            headers: HeaderList = [(b"authorization", b"Bearer k")]
            for body in (b"", b"a", b"b" * 2000):
                for recurs in (True, False):
                    await fetch(client, UpstreamRequest("POST", server.url("/v1"), headers, body, recurs))
            for size, first, second in zip((0, 1, 2000), heard[::2], heard[1::2], strict=True):
                assert (first.line, first.headers, first.body) == (second.line, second.headers, second.body)
                assert first.headers[b"content-length"] == b"%d" % size
            assert server.seen == 1
            await client.close()

    run(test, "uvloop")


def test_heads_that_recur_do_not_fill_the_memory() -> None:
    async def test() -> None:
        client = make_client()
        for number in range(1000):
            client.open(UpstreamRequest("POST", "http://127.0.0.1:1/", [(b"a", b"%d" % number)], b"", True))
        assert len(client._written) <= 256
        await client.close()

    run(test, "uvloop")


def test_a_request_that_has_no_body_has_no_length() -> None:
    heard: list[Heard] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await hear(reader))
        writer.write(HELLO)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            await fetch(client, UpstreamRequest(method="GET", url=server.url("?a"), headers=[]))
            assert heard[0].line == b"GET /?a HTTP/1.1"
            assert list(heard[0].headers) == [b"host"]
            await client.close()

    run(test, "asyncio")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (b"x", b"a\r\nevil: 1"),
        (b"x", b"a\nb"),
        (b"x", b"a\rb"),
        (b"x", b"\0"),
        (b"x y", b"a"),
        (b"x:", b"a"),
        (b"", b"a"),
        (b"x\r\ny", b"a"),
        (b"content-length", b"3"),
        (b"Transfer-Encoding", b"chunked"),
        (b"host", b"elsewhere"),
    ],
)
def test_a_header_that_cannot_stand_on_the_wire_is_refused(name: bytes, value: bytes) -> None:
    async def test() -> None:
        with pytest.raises(ValueError, match=r"header|Host"):
            make_client().open(post("http://127.0.0.1:1/", headers=[(b"a", b"b"), (name, value)]))

    run(test, "asyncio")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/a b", "http://127.0.0.1:1/a\r\nb", "ftp://127.0.0.1/", "/v1"])
def test_a_url_that_cannot_be_called_is_refused(url: str) -> None:
    async def test() -> None:
        with pytest.raises(ValueError, match="URL"):
            make_client().open(post(url))

    run(test, "asyncio")


def test_opening_starts_nothing() -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            client = make_client()
            flight: UpstreamCall = client.open(post(server.url()))
            await loop_turns()
            assert server.seen == 0
            flight.close()
            with pytest.raises(UpstreamError):
                await flight.head()
            assert server.seen == 0

    run(test, "asyncio")


# Answers

REUSED = {
    "a length": HELLO,
    "chunks": OK + b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n4\r\nello\r\n0\r\n\r\n",
    "chunks in capitals": OK + b"Transfer-Encoding: Chunked\r\n\r\n0005\r\nhello\r\n000\r\n\r\n",
    "chunks with extensions": OK + b'transfer-encoding: chunked\r\n\r\n5;a=1;b="2"\r\nhello\r\n0;last\r\n\r\n',
    "chunks and trailers": OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
    "a 100 before": b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO,
    "a 103 with headers before": b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 9\r\n\r\n" + HELLO,
    "several 1xx before": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\nx: y\r\n\r\n" + HELLO,
    "no reason phrase": b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello",
    "keep-alive in 1.0": b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello",
}
ONCE = {
    "an end of the connection": OK + b"\r\nhello",
    "an end of the connection in 1.0": b"HTTP/1.0 200 OK\r\n\r\nhello",
    "a length and connection: close": OK + b"connection: close\r\ncontent-length: 5\r\n\r\nhello",
    "a length in 1.0": b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    "garbage after the end": HELLO + b"garbage",
    "another answer after the end": HELLO + HELLO,
    "half an answer after the end": HELLO + b"HTTP/1.1 200",
}


@both_loops
@pytest.mark.parametrize("answer", REUSED.values(), ids=REUSED)
def test_an_answer_is_read_and_its_connection_kept(answer: bytes, loop: str) -> None:
    answers(answer, b"hello", loop, reused=True)


@both_loops
@pytest.mark.parametrize("answer", ONCE.values(), ids=ONCE)
def test_an_answer_is_read_and_its_connection_is_not_used_again(answer: bytes, loop: str) -> None:
    answers(answer, b"hello", loop, reused=False)


@pytest.mark.parametrize("excess", [b"garbage", HELLO, b"HTTP/1.1 200", b"x"])
def test_a_connection_with_bytes_after_the_end_is_not_used_again_though_it_stays_open(excess: bytes) -> None:
    async def test() -> None:
        async with provider(answering(HELLO + excess)) as server:
            client = make_client()
            for _ in range(3):
                assert (await fetch(client, post(server.url())))[1] == b"hello"
            assert server.seen == 3
            await client.close()

    run(test, "asyncio")


@both_loops
@pytest.mark.parametrize(
    ("method", "head"),
    [
        ("HEAD", OK + b"content-length: 500\r\ncontent-encoding: gzip\r\n\r\n"),
        ("HEAD", OK + b"transfer-encoding: chunked\r\n\r\n"),
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("POST", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n"),
        ("POST", OK + b"content-length: 0\r\ncontent-encoding: br\r\n\r\n"),
    ],
)
def test_an_answer_without_a_body_is_read_and_its_connection_kept(method: str, head: bytes, loop: str) -> None:
    async def test() -> None:
        async with provider(answering(head, HELLO)) as server:
            client = make_client()
            assert (await fetch(client, UpstreamRequest(method=method, url=server.url(), headers=[])))[1] == b""
            assert (await fetch(client, post(server.url())))[1] == b"hello"
            assert server.seen == 1
            await client.close()

    run(test, loop)


@pytest.mark.parametrize("status", [301, 302, 307, 308, 404, 429, 500, 529])
def test_any_status_is_handed_over_and_no_redirect_followed(status: int) -> None:
    answer = (
        b"HTTP/1.1 %d X\r\nLocation: http://127.0.0.1:1/\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 1\r\n\r\n!" % status
    )

    async def test() -> None:
        async with provider(answering(answer)) as server:
            client = make_client()
            flight, body = await fetch(client, post(server.url()))
            assert (flight.status, body) == (status, b"!")
            assert flight.headers == [
                (b"location", b"http://127.0.0.1:1/"),
                (b"x-a", b"1"),
                (b"x-a", b"2"),
                (b"content-length", b"1"),
            ]
            await client.close()

    run(test, "asyncio")


BAD = {
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an HTML page without a head": b"<html>hello</html>",
    "a status that is none": b"HTTP/1.1 abc OK\r\n\r\n",
    "a header without a colon": OK + b"nothing\r\n\r\n",
    "a length that is none": OK + b"content-length: five\r\n\r\nhello",
    "two lengths": OK + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
    "a length beside chunks": OK + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk size that is none": OK + b"transfer-encoding: chunked\r\n\r\nxyz\r\nhello\r\n",
    "a chunk longer than it says": OK + b"transfer-encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
    "a compressed transfer": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a tab after the coding": OK + b"transfer-encoding: chunked\t\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a status below all others": b"HTTP/1.1 099 Odd\r\ncontent-length: 5\r\n\r\nhello",
    "another protocol after an upgrade": b"HTTP/1.1 101 Switch\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\nxx",
    "trailers without end": OK + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 100_000,
    "a chunk extension without end": OK + b"transfer-encoding: chunked\r\n\r\n1;" + b"x" * 600_000,
}


@both_loops
@pytest.mark.parametrize("answer", BAD.values(), ids=BAD)
def test_what_is_no_http_is_a_bad_answer(answer: bytes, loop: str) -> None:
    fails(answer, BadResponse, NOT_HTTP, loop)


@both_loops
@pytest.mark.parametrize(
    "head", [b"x: " + b"y" * 300_000 + b"\r\n\r\n", b"x: yy\r\n" * 40_000 + b"\r\n", b"x: " + b"y" * 600_000]
)
def test_a_head_that_is_too_large_is_a_bad_answer(head: bytes, loop: str) -> None:
    fails(
        OK + b"content-length: 5\r\n" + head + b"hello",
        BadResponse,
        "the headers of the provider's response are too large",
        loop,
    )


WHOLE = {
    "a length": OK + b"x-request-id: 1\r\ncontent-length: 5\r\n\r\nhello",
    "chunks": OK + b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n4;x\r\nello\r\n0\r\nx: y\r\n\r\n",
    "a 1xx before": b"HTTP/1.1 100 Continue\r\n\r\n" + HELLO,
}


@both_loops
@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
def test_an_answer_cut_at_any_byte_is_told_from_a_whole_one(answer: bytes, loop: str) -> None:
    ends = iter(range(len(answer)))

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await closing(answer[: next(ends)])(reader, writer)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            for end in range(len(answer)):
                with pytest.raises(Truncated if end else Unanswered) as caught:
                    await fetch(client, post(server.url()))
                assert str(caught.value) == (BROKE_OFF if end else NO_RESPONSE)
            assert server.seen == len(answer)
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("answer", WHOLE.values(), ids=WHOLE)
def test_an_answer_may_arrive_in_two_pieces_cut_anywhere(
    answer: bytes, loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = asyncio.Event()
    receive = UpstreamConnection.data_received

    def announce(connection: UpstreamConnection, data: bytes) -> None:
        receive(connection, data)
        arrived.set()

    monkeypatch.setattr(UpstreamConnection, "data_received", announce)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for end in range(1, len(answer)):
            await hear(reader)
            arrived.clear()
            writer.write(answer[:end])
            await arrived.wait()
            writer.write(answer[end:])

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            for _ in range(1, len(answer)):
                flight, body = await fetch(client, post(server.url()))
                assert (flight.status, body, flight.received) == (200, b"hello", len(answer))
                assert all(name != b"x" for name, _ in flight.headers)
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
def test_what_arrived_before_a_break_is_handed_over_first(loop: str) -> None:
    async def test() -> None:
        async with provider(closing(OK + b"content-length: 50\r\n\r\ndata: half")) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            await wait_until_async(lambda: flight._ended, "the answer has broken off")
            pieces: list[bytes] = []
            with pytest.raises(Truncated):
                await flight.pump(pieces.append)
            assert b"".join(pieces) == b"data: half"
            flight.close()
            await client.close()

    run(test, loop)


# Codings


def flushed_gzip(data: bytes) -> bytes:
    """Compress with a flush after every line, as a server of events does."""
    compressor = zlib.compressobj(wbits=31)
    lines = (compressor.compress(line) + compressor.flush(zlib.Z_SYNC_FLUSH) for line in data.splitlines(keepends=True))
    return b"".join(lines) + compressor.flush()


EVENTS = b"".join(b'data: {"number": %d}\n' % number for number in range(500))
CODINGS: dict[bytes, Callable[[bytes], bytes]] = {
    b"gzip": gzip.compress,
    b"x-gzip": flushed_gzip,
    b"deflate": zlib.compress,
    b"zstd": zstandard.compress,
    b"gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


@both_loops
@pytest.mark.parametrize("coding", CODINGS)
def test_a_coded_answer_is_decoded_in_both_ways_of_reading(coding: bytes, loop: str) -> None:
    raw = CODINGS[coding](EVENTS)
    answer = OK + b"Content-Encoding: %b\r\ncontent-length: %d\r\nx: y\r\n\r\n%b" % (coding, len(raw), raw)

    async def test() -> None:
        async with provider(answering(answer)) as server:
            client = make_client()
            flight, body = await fetch(client, post(server.url()))
            assert body == EVENTS
            assert flight.headers == [(b"x", b"y")]
            assert flight.received == len(answer)
            flight = client.open(post(server.url()))
            await flight.head()
            pieces: list[bytes] = []
            await flight.pump(pieces.append)
            assert b"".join(pieces) == EVENTS
            assert b"" not in pieces
            flight.close()
            assert server.seen == 1
            await client.close()

    run(test, loop)


def test_two_headers_of_codings_are_one_list() -> None:
    raw = zlib.compress(gzip.compress(b"hello"))
    head = b"content-encoding: gzip\r\ncontent-encoding: deflate\r\ncontent-length: %d\r\n\r\n" % len(raw)
    answers(OK + head + raw, b"hello", "asyncio", reused=True)


def test_identity_is_no_coding() -> None:
    answers(OK + b"content-encoding: identity\r\ncontent-length: 5\r\n\r\nhello", b"hello", "asyncio", reused=True)


BROKEN = "the provider's response does not match its content-encoding"


@pytest.mark.parametrize(
    "raw",
    [b"hello", gzip.compress(EVENTS)[:-3], gzip.compress(EVENTS) + b"garbage"],
    ids=["plain", "cut", "garbage after"],
)
def test_a_broken_coding_is_a_bad_answer(raw: bytes) -> None:
    fails(
        OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(raw), raw), BadResponse, BROKEN, "asyncio"
    )


def test_an_unknown_coding_is_a_bad_answer() -> None:
    words = "the provider's response has an unsupported content-encoding"
    fails(OK + b"content-encoding: rot13\r\ncontent-length: 1\r\n\r\nx", BadResponse, words, "asyncio")


def test_a_pause_holds_back_what_a_small_piece_stands_for() -> None:
    raw = gzip.compress(bytes(8 * MEBIBYTE))
    answer = OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(raw), raw)

    async def test() -> None:
        async with provider(answering(answer)) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            sizes: list[int] = []

            def take(piece: bytes) -> None:
                sizes.append(len(piece))
                flight.pause()

            pumping = asyncio.create_task(flight.pump(take))
            while not pumping.done():
                before = len(sizes)
                await loop_turns(5)
                assert len(sizes) <= before + 1
                flight.resume()
            await pumping
            assert sum(sizes) == 8 * MEBIBYTE
            assert max(sizes) <= 256 * 1024
            flight.close()
            await client.close()

    run(test, "asyncio")


# Reading


@both_loops
def test_a_body_above_the_limit_is_refused_and_its_connection_closed(loop: str) -> None:
    async def test() -> None:
        async with provider(answering(OK + b"content-length: 1000\r\n\r\n" + b"x" * 1000)) as server:
            client = make_client()
            assert len((await fetch(client, post(server.url()), 1000))[1]) == 1000
            with pytest.raises(Oversized, match="the provider's response exceeds the limit"):
                await fetch(client, post(server.url()), 999)
            await client.close()

    run(test, loop)


def test_a_bomb_is_refused_at_the_limit() -> None:
    raw = gzip.compress(gzip.compress(bytes(16 * MEBIBYTE)))
    answer = OK + b"content-encoding: gzip, gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(raw), raw)

    async def test() -> None:
        async with provider(answering(answer)) as server:
            client = make_client()
            with pytest.raises(Oversized, match="exceeds the limit"):
                await fetch(client, post(server.url()), MEBIBYTE)
            await client.close()

    run(test, "asyncio")


FAILING = {
    "an answer above the limit": OK + b"content-length: 1000\r\n\r\n" + b"x" * 1000,
    "an answer that broke off": OK + b"content-length: 9\r\n\r\nx",
    "no answer": b"",
}


@both_loops
@pytest.mark.parametrize("answer", FAILING.values(), ids=FAILING)
def test_a_call_that_failed_is_freed_without_a_collection(answer: bytes, loop: str) -> None:
    # It holds a question and most of an answer, and collections are rare.
    async def failed(client: HttpClient, call: UpstreamRequest) -> bool:
        try:
            await fetch(client, call, 999)
        except UpstreamError:
            return True
        return False

    async def test() -> None:
        async with provider(closing(answer)) as server:
            client = make_client()
            assert await failed(client, post(server.url()))
            await client.close()
            assert not [found for found in gc.get_objects() if isinstance(found, HttpCall)]

    gc.disable()
    # What was there before is not looked at.
    gc.freeze()
    try:
        run(test, loop)
    finally:
        gc.unfreeze()
        gc.enable()


@both_loops
def test_pieces_of_one_reading_are_one_piece_and_each_comes_at_once(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n")
        for _ in range(3):
            await reader.readexactly(1)
            writer.write(b"1\r\na\r\n1\r\nb\r\n2\r\ncd\r\n")
        await reader.readexactly(1)
        writer.write(b"1\r\n!\r\n0\r\n\r\n")
        await hear(reader)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            pieces: list[bytes] = []
            connection = flight._connection
            assert connection is not None

            def take(piece: bytes) -> None:
                pieces.append(piece)
                # The provider sends its next piece only after it has seen that this one came through.
                if not piece.endswith(b"!"):
                    connection._transport.write(b".")

            await flight.pump(take)
            assert pieces == [b"onetwo", b"abcd", b"abcd", b"abcd", b"!"]
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("early", [True, False], ids=["before pump is called", "while it waits"])
def test_an_error_of_the_taker_ends_the_call_and_is_raised(early: bool, loop: str) -> None:
    gone, pumping = asyncio.Event(), asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(OK + b"content-length: 50\r\n\r\n" + (b"one" if early else b""))
        await pumping.wait()
        writer.write(b"two")
        try:
            await reader.read()
        finally:
            gone.set()

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            problem = LookupError("the taker's own")

            def take(piece: bytes) -> None:
                raise problem

            if early:
                await wait_until_async(lambda: flight._waiting.size > 0, "a piece has come")
            asyncio.get_running_loop().call_soon(pumping.set)
            with pytest.raises(LookupError) as caught:
                await flight.pump(take)
            assert caught.value is problem
            await gone.wait()
            flight.close()
            await client.close()

    run(test, loop)


def is_paused(flight: HttpCall) -> bool:
    """Whether nothing is read from a flight's connection."""
    return flight._connection is not None and not flight._connection._transport.is_reading()


@both_loops
def test_nobody_asking_stops_the_reading_and_pump_starts_it_again(loop: str) -> None:
    sent = 0
    size = 32 * MEBIBYTE

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await hear(reader)
        writer.write(OK + b"content-length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(bytes(65536))
            await writer.drain()
            sent += 65536
        await hear(reader)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            await wait_until_async(lambda: is_paused(flight), "reading has stopped")
            await loop_turns()
            # What lies in the kernel's buffers is not ours to bound, what was read is.
            assert flight.received < 2 * MEBIBYTE
            assert sent < size
            total = 0

            def take(piece: bytes) -> None:
                nonlocal total
                total += len(piece)

            await flight.pump(take)
            assert total == size
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_a_pause_is_felt_by_the_provider(loop: str) -> None:
    sent = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await hear(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(512):
            writer.write(b"10000\r\n%b\r\n" % bytes(65536))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")
        await hear(reader)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            total = 0

            def take(piece: bytes) -> None:
                nonlocal total
                if total < MEBIBYTE <= total + len(piece):
                    flight.pause()
                total += len(piece)

            pumping = asyncio.create_task(flight.pump(take))
            await wait_until_async(lambda: total >= MEBIBYTE, "a mebibyte has come")
            await loop_turns()
            assert is_paused(flight)
            assert total < 4 * MEBIBYTE
            assert sent < 512
            flight.resume()
            await pumping
            assert total == 32 * MEBIBYTE
            # The pause of one call is not the next one's.
            flight.pause()
            flight.close()
            await client.close()

    run(test, loop)


def test_a_connection_given_back_while_paused_reads_on() -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            client = make_client()
            for _ in range(3):
                flight = client.open(post(server.url()))
                await flight.head()
                await flight.pump(lambda piece, flight=flight: flight.pause())  # type: ignore[misc]  # the default binds it
                flight.close()
            assert server.seen == 1
            await client.close()

    run(test, "asyncio")


def test_a_call_counts_what_it_receives() -> None:
    headed = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        writer.write(OK + b"content-length: 5\r\n\r\n")
        await headed.wait()
        writer.write(b"hello")
        await hear(reader)

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            assert flight.received == 0
            await flight.head()
            assert flight.received == len(HELLO) - 5
            headed.set()
            await flight.read(100)
            assert flight.received == len(HELLO)
            flight.close()
            await client.close()

    run(test, "asyncio")


# Ends


class Stalled:
    """A provider that says a part of an answer, and notes that the other side went away."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heard = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hear(reader)
        self.heard.set()
        writer.write(self.answer)
        try:
            await reader.read()
        finally:
            self.gone.set()


PARTS = {"before the head": b"", "within the head": OK, "within the body": HELLO[:-1]}


@both_loops
@pytest.mark.parametrize("how", ["abort", "cancel", "close"])
@pytest.mark.parametrize("answer", PARTS.values(), ids=PARTS)
def test_a_call_can_be_ended_while_it_waits_and_the_provider_sees_it(answer: bytes, how: str, loop: str) -> None:
    async def test() -> None:
        stalled = Stalled(answer)
        async with provider(stalled) as server:
            client = make_client()
            flight = client.open(post(server.url()))

            async def work() -> None:
                await flight.head()
                await flight.read(100)

            working = asyncio.create_task(work())
            await stalled.heard.wait()
            await wait_until_async(lambda: flight.received == len(answer), "what the provider says has come")
            await wait_until_async(lambda: flight._waiter is not None, "the call waits")
            problem = TimedOut("no answer within the limit")
            if how == "abort":
                flight.abort(problem)
                with pytest.raises(TimedOut) as caught:
                    await working
                assert caught.value is problem
            elif how == "cancel":
                working.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await working
                flight.close()
            else:
                flight.close()
                with pytest.raises(UpstreamError):
                    await working
            await stalled.gone.wait()
            flight.close()
            await client.close()

    run(test, loop)


@both_loops
def test_ending_a_call_that_has_ended_touches_nobody_else(loop: str) -> None:
    async def test() -> None:
        async with provider(answering(HELLO)) as server:
            client = make_client()
            first = client.open(post(server.url()))
            await first.head()
            await first.read(100)
            second = client.open(post(server.url()))
            heading = asyncio.create_task(second.head())
            await asyncio.sleep(0)
            first.pause()
            first.abort(TimedOut("late"))
            first.close()
            first.close()
            await heading
            assert await second.read(100) == b"hello"
            assert server.seen == 1
            second.close()
            await client.close()

    run(test, loop)


@both_loops
@pytest.mark.parametrize("reset", [False, True], ids=["an end", "a reset"])
def test_a_request_without_any_answer_is_not_sent_again(reset: bool, loop: str) -> None:
    heard: list[Heard] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await hear(reader))
        if reset:
            writer.transport.abort()

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            with pytest.raises(Unanswered) as caught:
                await fetch(client, post(server.url()))
            assert str(caught.value) == NO_RESPONSE
            assert len(heard) == 1
            assert server.seen == 1
            await client.close()

    run(test, loop)


@both_loops
def test_an_answer_before_the_request_is_through_is_read_and_its_connection_closed(loop: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.Event().wait()

    async def test() -> None:
        async with provider(script) as server:
            client = make_client()
            flight, body = await fetch(client, post(server.url(), bytes(16 * MEBIBYTE)))
            assert (flight.status, body) == (413, b"no")
            await client.close()

    run(test, loop)


# Many at once


async def token(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request with its own body, in pieces."""
    while True:
        heard = await hear(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        for at in range(0, len(heard.body), 7):
            await asyncio.sleep(0)
            part = heard.body[at : at + 7]
            writer.write(b"%x\r\n%b\r\n" % (len(part), part))
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def ask(client: HttpClient, server: Provider, number: int) -> None:
    body = b"the token of call %d" % number
    assert (await fetch(client, post(server.url(), body)))[1] == body


@both_loops
@pytest.mark.parametrize("connections", [1024, 20, 1])
def test_five_hundred_calls_at_once_each_get_their_own_answer(connections: int, loop: str) -> None:
    async def test() -> None:
        async with provider(token) as server:
            client = make_client(connections=connections)
            await asyncio.gather(*(ask(client, server, number) for number in range(500)))
            assert server.seen <= connections
            await client.close()

    run(test, loop)


@both_loops
def test_calls_given_up_at_random_leave_the_others_alone(loop: str) -> None:
    async def test() -> None:
        async with provider(token) as server:
            client = make_client(connections=8)
            tasks = [asyncio.create_task(ask(client, server, number)) for number in range(200)]
            for number, task in enumerate(tasks):
                if number % 3 == 0:
                    asyncio.get_running_loop().call_later(number * 0.0005, task.cancel)
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
            assert all(result is None for number, result in enumerate(results) if number % 3)
            # Every place in the pool is free again.
            await asyncio.gather(*(ask(client, server, number) for number in range(50)))
            await client.close()

    run(test, loop)


@both_loops
def test_closing_lets_calls_end_but_keeps_nothing(loop: str) -> None:
    async def test() -> None:
        gone, closed = asyncio.Event(), asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await hear(reader)
            writer.write(HELLO[:-2])
            await closed.wait()
            writer.write(HELLO[-2:])
            await reader.read()
            gone.set()

        async with provider(script) as server:
            client = make_client()
            flight = client.open(post(server.url()))
            await flight.head()
            await client.close()
            closed.set()
            assert await flight.read(100) == b"hello"
            await gone.wait()
            flight.close()

    run(test, loop)


def test_the_header_function_finds_the_first_value() -> None:
    headers = [(b"a", b"1"), (b"b", b"2"), (b"b", b"3")]
    assert (header(headers, b"b"), header(headers, b"c")) == (b"2", None)


@both_loops
def test_a_connection_handed_to_the_next_in_the_queue_is_looked_into_first(loop: str) -> None:
    async def test() -> None:
        reading = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            client = make_client(connections=1)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            first = client.open(post(url))
            one = asyncio.ensure_future(first.head())
            peer, _ = await reading.sock_accept(listener)
            two = asyncio.ensure_future(fetch(client, post(url)))
            await wait_until_async(lambda: len(first._pool._waiting) == 1, "the second call stands in the queue")
            peer.send(OK + b"content-length: 5\r\n\r\nhel")
            await one
            # What nobody asked for arrives with the last byte, before the connection goes to whoever waits for it.
            more = asyncio.ensure_future(first.pump(lambda piece: None if piece == b"hel" else unasked(peer)))
            await asyncio.sleep(0)
            peer.send(b"lo")
            await more
            other, _ = await reading.sock_accept(listener)
            other.setblocking(False)
            await reading.sock_recv(other, 4096)
            other.send(HELLO)
            assert (await two)[1] == b"hello"
            peer.close()
            other.close()
            await client.close()

    def unasked(peer: socket.socket) -> None:
        peer.send(OK + b"content-length: 6\r\n\r\nstolen")

    run(test, loop)
