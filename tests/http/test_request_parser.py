"""What is a request, what is refused, and with which status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.http.request import ServerRequest
from dragoman.http.request_parser import MAX_EMPTY_LINES, RefusedMessage, RequestParser
from dragoman.http.server import HttpServer
from tests.http.raw import LIMITS, Run, echo, on_both_loops, refuse, serving

HOST = b"Host: h\r\n"
POST = b"POST /p HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

# name, bytes, status
REFUSED = [
    ("no host", b"GET / HTTP/1.1\r\n\r\n", 400),
    ("two hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("two hosts on 1.0", b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    ("length then coding", POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("coding then length", POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
    ("two lengths", POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
    ("the same length twice", POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
    ("a list of lengths", POST + b"Content-Length: 3, 3\r\n\r\nabc", 400),
    ("a signed length", POST + b"Content-Length: +3\r\n\r\nabc", 400),
    ("a negative length", POST + b"Content-Length: -3\r\n\r\nabc", 400),
    ("a hexadecimal length", POST + b"Content-Length: 0x3\r\n\r\nabc", 400),
    ("an empty length", POST + b"Content-Length: \r\n\r\nabc", 400),
    ("an endless length", POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc", 400),
    ("a folded line", b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n", 400),
    ("a folded empty line", b"GET / HTTP/1.1\r\n" + HOST + b"A:\r\n c\r\n\r\n", 400),
    ("a blank before the colon", b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length : 3\r\n\r\nabc", 400),
    ("a bare line feed after the line", b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400),
    ("a bare line feed after a header", b"GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400),
    ("a bare line feed at the end", b"GET / HTTP/1.1\r\n" + HOST + b"\n", 400),
    ("a bare carriage return", b"GET / HTTP/1.1\r\nHost: h\rA: b\r\n\r\n", 400),
    ("a zero byte in a value", b"GET / HTTP/1.1\r\n" + HOST + b"A: b\0c\r\n\r\n", 400),
    ("a zero byte in a name", b"GET / HTTP/1.1\r\n" + HOST + b"A\0: b\r\n\r\n", 400),
    ("an empty name", b"GET / HTTP/1.1\r\n" + HOST + b": b\r\n\r\n", 400),
    ("a header without a colon", b"GET / HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n", 400),
    ("a control character in the target", b"GET /a\x01b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a raw byte in the target", b"GET /a\xe9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a target that is no path", b"GET ftp://h/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a star for a GET", b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01", 400),
    ("an unknown method", b"FROB / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("a version that does not exist", b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 400),
    ("HTTP/2 in words", b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    ("HTTP/0.9", b"GET / HTTP/0.9\r\n\r\n", 505),
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("a tunnel", b"CONNECT h:1 HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    ("chunked, then identity", POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
    ("chunked twice", POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("identity", POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n", 501),
    ("an unknown coding", POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    ("a tab after the coding", POST + b"Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n", 501),
    ("gzip, then chunked", POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("gzip and chunked in two lines", POST + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n", 501),
    ("a disguised coding", POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("a coding on 1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("a long target", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    ("a large header", b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"a" * 9000 + b"\r\n\r\n", 431),
    ("a large header without an end", b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"a" * 300_000, 431),
    ("many headers", b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 20 + b"\r\n", 431),
]
# Bodies that break while the handler waits for them.
BROKEN = [
    ("a size that is no number", CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n"),
    ("a size with a blank", CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n"),
    ("a size with a sign", CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n"),
    ("an endless size", CHUNKED + b"fffffffffffffffff\r\nabc\r\n"),
    ("a line feed after the size", CHUNKED + b"3\nabc\r\n0\r\n\r\n"),
    ("a line feed after the chunk", CHUNKED + b"3\r\nabc\n0\r\n\r\n"),
    ("a chunk longer than its size", CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n"),
]


@on_both_loops
@pytest.mark.parametrize(("data", "status"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_request_is_refused_and_the_connection_closed(data: bytes, status: int, run: Run) -> None:
    async def handler(request: ServerRequest) -> None:
        raise AssertionError("the handler saw it")

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            # What would be smuggled stands behind it.
            client.send(data + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
            reply = await client.reply()
            assert reply.status == status
            assert reply.value(b"connection") == b"close"
            assert reply.value(b"content-type") == b"text/plain"
            assert reply.body.startswith(str(status).encode())
            assert await client.ended()

    run(main())


@on_both_loops
@pytest.mark.parametrize("data", [row[1] for row in BROKEN], ids=[row[0] for row in BROKEN])
@pytest.mark.parametrize("cut", [False, True], ids=["at once", "the body later"])
def test_a_badly_framed_body_is_an_error_where_it_is_read(data: bytes, cut: bool, run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            if cut:
                client.send(CHUNKED)
                await client.writer.drain()
                data_left = data[len(CHUNKED) :]
            else:
                data_left = data
            client.send(data_left + b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")
            reply = await client.reply()
            assert (reply.status, reply.value(b"connection")) == (400, b"close")
            assert reply.value(b"x-refused") == b"/p"
            assert await client.ended()

    run(main())


@on_both_loops
@pytest.mark.parametrize(
    "data",
    [CHUNKED + b"3;" + b"a" * 300_000, CHUNKED + b"0\r\nA: " + b"a" * 300_000, CHUNKED + b"0\r\n" + b"A: b\r\n" * 2000],
    ids=["an endless chunk extension", "an endless trailer", "endless trailers"],
)
def test_what_stands_around_chunks_is_limited_too(data: bytes, run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            assert (await house.ask(data)).status == 431

    run(main())


@on_both_loops
def test_targets_are_reduced_to_path_and_query(run: Run) -> None:
    expected = {
        b"/a%20b?c=d?e": b"GET /a%20b c=d?e|",
        b"/": b"GET / |",
        b"//x/../y": b"GET //x/../y |",
        b"/a?": b"GET /a |",
        b"/a?b#c": b"GET /a b|",
        b"http://other:80/a?b": b"GET /a b|",
        b"HTTPS://other": b"GET / |",
        b"http://other?b=/c": b"GET / b=/c|",
    }

    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            for target, said in expected.items():
                client.send(b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n\r\n")
                assert (await client.reply()).body == said

    run(main())


@on_both_loops
def test_headers_have_lower_case_names_and_bare_values_and_an_absolute_target_names_the_host(run: Run) -> None:
    seen: list[list[tuple[bytes, bytes]]] = []

    async def handler(request: ServerRequest) -> None:
        seen.append(request.headers)
        assert request.peer == "127.0.0.1"
        assert request.header(b"x-two") == b"1"
        assert request.header(b"x-none") is None
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            await house.ask(b"GET http://a.b:1/ HTTP/1.1\r\nHOST: c\r\nX-Two: \t 1 \t\r\nx-TWO: 2\r\nE:\r\n\r\n")

    run(main())
    assert sorted(seen[0]) == [(b"e", b""), (b"host", b"a.b:1"), (b"x-two", b"1"), (b"x-two", b"2")]


@on_both_loops
@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_a_message_cut_anywhere_is_the_same_message(size: int, run: Run) -> None:
    message = CHUNKED + b"3;x=y\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nTrailer: t\r\n\r\n"
    data = message + b"\r\n" + b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"

    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            for start in range(0, len(data), size):
                client.send(data[start : start + size])
                await client.writer.drain()
            assert (await client.reply()).body == b"POST /p |abc0123456789abcdef"
            assert (await client.reply()).body == b"GET /next |"

    run(main())


UPGRADES = [
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n",
]
BODIES = [(b"\r\n", b""), (b"Content-Length: 3\r\n\r\nabc", b"abc"), (b"Content-Length: 0\r\n\r\n", b"")]
BODIES.append((b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", b"abc"))


@on_both_loops
@pytest.mark.parametrize("upgrade", UPGRADES, ids=["websocket", "h2c"])
@pytest.mark.parametrize(("rest", "body"), BODIES, ids=["no body", "a length", "zero", "chunks"])
@pytest.mark.parametrize("size", [1, 1000], ids=["in bytes", "at once"])
def test_an_offer_to_upgrade_is_not_taken_up(rest: bytes, body: bytes, upgrade: bytes, size: int, run: Run) -> None:
    data = POST + upgrade + rest + b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"

    async def handler(request: ServerRequest) -> None:
        assert request.header(b"upgrade") is None
        await echo(request)

    async def main() -> None:
        async with serving(handler) as house:
            client = await house.client()
            for start in range(0, len(data), size):
                client.send(data[start : start + size])
                await client.writer.drain()
            assert (await client.reply()).body == b"POST /p |" + body
            assert (await client.reply()).body == b"GET /next |"

    run(main())


@on_both_loops
def test_too_many_headers_are_refused_before_their_end(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            assert (await house.ask(b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n" * 30)).status == 431

    run(main())


@pytest.mark.parametrize("header", [b"A: b\0c", b"A: \x1f", b"nonsense", b"Content-Length: x"])
def test_a_head_that_is_malformed_further_down_still_says_where_it_was_to_go(header: bytes) -> None:
    async def main() -> None:
        intake = RequestParser(Nobody(), HttpServer(echo, refuse, LIMITS), "")
        intake.feed(b"POST /v1/messages?beta=true HTTP/1.1\r\n" + HOST + header + b"\r\n\r\n")
        refusal = intake.queue.pop()
        assert isinstance(refusal, RefusedMessage)
        assert (refusal.status, refusal.path) == (400, "/v1/messages")

    asyncio.run(main())


class Nobody:
    """An owner that does nothing."""

    gone = False
    retiring = False

    def send(self, data: bytes) -> None: ...
    def sever(self, reset: bool) -> None: ...

    def after_sending(self, call: Callable[[], None]) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...
    def await_body(self, proceed: bool) -> None: ...
    def body_waited(self) -> None: ...
    def too_much(self) -> None: ...


WIDE = replace(LIMITS, header_bytes=1_000_000, header_count=1000)
PIECES = [
    b"GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
    POST + b"Content-Length: 5\r\n\r\nhello",
    POST + UPGRADES[0] + b"Content-Length: 5\r\n\r\nhello",
    POST + UPGRADES[1] + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    CHUNKED + b"5;e\r\nhello\r\n1\r\n!\r\n0\r\nT: u\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\n",
    b"\r\n",
    b"\n",
    b"\0",
    b" ",
    b"Transfer-Encoding: chunked\r\n",
]


def understood(cuts: list[bytes]) -> list[tuple[object, ...]]:
    """What an intake makes of bytes that come in these pieces."""
    intake = RequestParser(Nobody(), HttpServer(echo, refuse, WIDE), "")
    for cut in cuts:
        intake.feed(cut)
    found: list[tuple[object, ...]] = []
    for message in intake.queue:
        if isinstance(message, RefusedMessage):
            found.append((message.status, message.message, message.path))
        else:
            failure = message.content.failure
            body = message.content.pieces.take()
            found.append((message.path, message.headers, body, message.content.complete, failure and failure.status))
    return found


@given(st.lists(st.sampled_from(PIECES), max_size=5), st.binary(max_size=3), st.integers(0, 400), st.integers(1, 40))
def test_any_cut_of_any_bytes_is_understood_alike(pieces: list[bytes], noise: bytes, at: int, size: int) -> None:
    data = b"".join(pieces)
    data = data[:at] + noise + data[at:]
    assert understood([data[start : start + size] for start in range(0, len(data), size)]) == understood([data])


def test_what_follows_chunks_is_found_behind_so_many_empty_lines_and_refused_behind_more() -> None:
    follower = b"GET /next HTTP/1.1\r\nHost: h\r\n\r\n"

    def paths(lines: int, rest: bytes, cuts: int = 1) -> list[object]:
        body = b"\r\n\r\n" * lines
        data = CHUNKED + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
        found = understood([data + rest] if cuts == 1 else [data, rest])
        assert found[0][0] == "/p"
        assert found[0][2] == (body if found[0][4] is None else b"")
        return [found[0][4], *(message[0] for message in found[1:])]

    few, many = MAX_EMPTY_LINES - 2, MAX_EMPTY_LINES + 2
    assert paths(few, follower) == [None, "/next"]
    assert paths(many, b"") == paths(many, b"\r\n\r\n") == [None]
    assert paths(many, follower, cuts=2) == [None, "/next"]
    # Where its head begins is not known.
    assert paths(many, follower) == [400]
    assert paths(many, follower[:-3]) == [None, 400]


def test_empty_lines_in_the_chunks_of_one_message_are_not_those_of_the_next() -> None:
    message = CHUNKED + b"4\r\n\r\n\r\n\r\n0\r\n\r\n"
    found = understood([message * MAX_EMPTY_LINES])
    assert [(path, body) for path, _, body, *_ in found] == [("/p", b"\r\n\r\n")] * MAX_EMPTY_LINES


def test_a_refusal_of_a_head_request_has_no_body() -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            client.send(b"HEAD / HTTP/1.1\r\n\r\n")
            assert (await client.reply(bodiless=True)).status == 400
            assert await client.ended()

    asyncio.run(main())


@on_both_loops
def test_limits_may_be_replaced_while_the_server_runs(run: Run) -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            message = b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * 500 + b"\r\n\r\n"
            client.send(message)
            assert (await client.reply()).status == 200
            house.server.limits = replace(LIMITS, header_bytes=200)
            client.send(message)
            assert (await client.reply()).status == 431

    run(main())
