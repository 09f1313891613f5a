"""A message with a known head is what the parser would have made of it, and nothing else is taken for one."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.http.known_heads import KnownHeads, divided
from dragoman.http.request import RequestHead, ServerRequest
from dragoman.http.request_parser import RequestParser
from dragoman.http.server import HttpServer
from tests.http.raw import LIMITS, echo, refuse, serving
from tests.http.test_request_parser import Nobody

POST = b"POST /p?q HTTP/1.1\r\n"
LINES = [
    b"Host: h\r\n",
    b"Host: other\r\n",
    b"content-length: ",
    b"Content-Length: ",
    b"CONTENT-LENGTH: 3\r\n",
    b"content-length:3\r\n",
    b"Content-Length : 3\r\n",
    b"X-A: content-length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"x-a: \x01\r\n",
    b"x-a: b\r\n",
    b"\r\n",
]
VALUES = [b"0", b"3", b"003", b"+3", b"-3", b"3, 3", b"3 ", b" 3", b"0x3", b"", b"\xb2", b"1_0", b"9" * 30]
BODIES = [b"", b"abc", b"abcd", b"abcGET / HTTP/1.1\r\nHost: h\r\n\r\n", b"0\r\n\r\n"]


def parser_of(server: HttpServer, peer: str = "1.2.3.4") -> RequestParser:
    return RequestParser(Nobody(), server, peer)


def meaning(request: ServerRequest) -> tuple[object, ...]:
    """All that a handler can see of a request but the length among its headers."""
    content = request.content
    lines = [header for header in request.headers if header[0] != b"content-length"]
    table = {name: value for name, value in request.table.items() if name != b"content-length"}
    line = request.method, request.path, request.query, request.modern, request.closes, request.peer
    return line, lines, table, content.length, content.size, content.complete, content.expects, content.pieces.take()


def parsed(data: bytes) -> list[tuple[object, ...] | None]:
    """What a parser that knows no heads makes of one read."""
    parser = parser_of(HttpServer(echo, refuse, LIMITS))
    parser.feed(data)
    return [meaning(message) if isinstance(message, ServerRequest) else None for message in parser.queue]


def known(server: HttpServer, cuts: list[bytes]) -> list[tuple[object, ...] | None] | None:
    """What a new connection makes of one read after the other, if the first one begins with a known head."""
    parser = parser_of(server)
    message = parser.known_message(cuts[0])
    if message is None:
        return None
    for cut in cuts[1:]:
        parser.feed(cut)
    messages = (message, *parser.queue)
    return [meaning(message) if isinstance(message, ServerRequest) else None for message in messages]


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    lines = [
        line + draw(st.sampled_from(VALUES)) + b"\r\n" if line.endswith(b": ") else line
        for line in draw(st.lists(st.sampled_from(LINES), max_size=4))
    ]
    return POST + b"Host: h\r\n" + b"".join(lines) + b"\r\n" + draw(st.sampled_from(BODIES))


@given(st.lists(messages(), min_size=1, max_size=4), messages())
def test_a_known_message_is_the_one_that_is_parsed(before: list[bytes], data: bytes) -> None:
    server = HttpServer(echo, refuse, LIMITS)
    for earlier in (*before, data):
        parser_of(server).feed(earlier)
    assert known(server, [data]) in (None, parsed(data))


@given(messages(), st.integers(1, 60), st.integers(0, 400))
def test_a_known_message_may_come_in_pieces(data: bytes, size: int, first: int) -> None:
    server = HttpServer(echo, refuse, LIMITS)
    parser_of(server).feed(data)
    end = data.find(b"\r\n\r\n") + 4 + first % size
    cuts = [data[:end], *(data[start : start + size] for start in range(end, len(data), size))]
    assert known(server, cuts) in (None, parsed(data))


@pytest.mark.parametrize("name", [b"content-length", b"Content-Length"])
def test_a_head_is_known_with_any_length(name: bytes) -> None:
    server = HttpServer(echo, refuse, LIMITS)
    head = POST + b"Host: h\r\n" + name + b": %d\r\nx-b: c\r\n\r\n"
    parser_of(server).feed(head % 3 + b"abc")
    data = head % 26 + b"abcdefghijklmnopqrstuvwxyz"
    assert known(server, [data]) == parsed(data)
    one, other = (parser_of(server).known_message(cut) for cut in (data, data[:-1]))
    assert one is not None
    assert other is not None
    assert one.shared_head is other.shared_head
    assert parser_of(server, "5.6.7.8").known_message(data) is None
    assert parser_of(server).known_message(data + b"G") is None
    server.limits = replace(LIMITS, header_bytes=64)
    assert parser_of(server).known_message(data) is None


@pytest.mark.parametrize("line", LINES[8:12])
def test_heads_that_say_more_than_a_length_are_parsed_each_time(line: bytes) -> None:
    server = HttpServer(echo, refuse, LIMITS)
    data = POST + b"Host: h\r\n" + line + b"content-length: 3\r\n\r\nabc"
    parser_of(server).feed(data)
    assert not server.heads


def test_few_heads_are_remembered_and_none_is_long() -> None:
    heads = KnownHeads()
    for number in range(2000):
        written = POST + b"host: h%d\r\ncontent-length: 3\r\n\r\n" % number
        heads.remember(RequestHead("POST", "/p", "q", [], {}, "", LIMITS, *divided(written)))
    assert 0 < len(heads) <= 512
    heads.clear()
    written = POST + b"host: h\r\nx: " + b"a" * 5000 + b"\r\ncontent-length: 3\r\n\r\n"
    assert all(divided(written))
    heads.remember(RequestHead("POST", "/p", "q", [], {}, "", LIMITS, *divided(written)))
    assert not heads


def test_a_head_shows_no_credentials() -> None:
    head = RequestHead(
        "POST", "/p", "q", [(b"authorization", b"secret")], {b"authorization": b"secret"}, "", LIMITS, b"secret", b""
    )
    assert "secret" not in repr(head)


def test_messages_with_known_heads_and_others_alternate_on_one_connection() -> None:
    async def main() -> None:
        async with serving() as house:
            client = await house.client()
            head = POST + b"Host: h\r\ncontent-length: %d\r\n\r\n"
            for body in (b"abc", b"abcd", b"", b"x" * 3000):
                data = head % len(body) + body
                client.send(data)
                assert (await client.reply()).body == b"POST /p q|" + body
                # Two messages in one read, and one in two reads.
                client.send(data + data)
                assert [(await client.reply()).body, (await client.reply()).body] == [b"POST /p q|" + body] * 2
                client.send(data[:20])
                await client.writer.drain()
                client.send(data[20:])
                assert (await client.reply()).body == b"POST /p q|" + body
            assert len(house.server.heads) == 1

    asyncio.run(main())
