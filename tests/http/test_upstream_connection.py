"""The connection by itself, over a transport that only notes what is done to it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from dragoman.errors import BadResponse, Truncated, Unanswered, UpstreamError
from dragoman.http.upstream_call import HeaderList
from dragoman.http.upstream_connection import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    ONE_WRITE,
    UpstreamConnection,
    head_size,
    until_close,
)
from tests.http.scripted import run

OK = b"HTTP/1.1 200 OK\r\n"
HELLO = OK + b"content-length: 5\r\n\r\nhello"


class Wire(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self, extra: dict[str, object] | None = None) -> None:
        super().__init__(extra)
        self.writes: list[bytes] = []
        self.unsent = 0
        self.closed = False
        self.dies_at_write = False
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.dies_at_write:
            self.closed = True
        self.writes.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Shelf:
    """A home that notes what comes and goes."""

    def __init__(self) -> None:
        self.released: list[UpstreamConnection] = []
        self.forgotten: list[UpstreamConnection] = []
        self.mistrusted = 0

    def release(self, connection: UpstreamConnection) -> None:
        self.released.append(connection)

    def forget(self, connection: UpstreamConnection) -> None:
        self.forgotten.append(connection)

    def mistrust(self) -> None:
        self.mistrusted += 1


class Ear:
    """A receiver that writes down what it hears."""

    def __init__(self) -> None:
        self.received = 0
        self.heard: list[object] = []

    def on_head(self, status: int, headers: HeaderList) -> None:
        self.heard.append((status, headers))

    def on_data(self, data: bytes) -> None:
        self.heard.append(data)

    def on_end(self) -> None:
        self.heard.append("end")

    def on_break(self, error: UpstreamError) -> None:
        self.heard.append(type(error))


class Scene:
    """A connection with everything around it."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.wire, self.shelf, self.ear = Wire(), Shelf(), Ear()
        self.connection = UpstreamConnection(self.shelf, self.socket)
        self.connection.connection_made(self.wire)
        self.connection.counted = True

    def ask(self, *, bodiless: bool = False) -> None:
        assert self.connection.send(self.ear, b"head", b"body", bodiless)

    def hear(self, *pieces: bytes) -> list[object]:
        for piece in pieces:
            self.connection.data_received(piece)
        return self.ear.heard

    def close(self) -> None:
        self.socket.close()


def scene(play: object) -> None:
    """Play a scene within a loop."""
    assert callable(play)

    async def test() -> None:
        made = Scene()
        try:
            play(made)
        finally:
            made.close()

    run(test, "asyncio")


def test_one_reading_is_one_head_one_piece_and_one_end() -> None:
    def play(made: Scene) -> None:
        made.ask()
        chunks = b"1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"
        heard = made.hear(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert heard == [(200, [(b"transfer-encoding", b"chunked")]), b"abc", "end"]
        assert made.shelf.released == [made.connection]
        assert made.connection.reused
        assert made.ear.received > 0

    scene(play)


def test_a_connection_serves_one_call_after_the_other() -> None:
    def play(made: Scene) -> None:
        for _ in range(3):
            made.ask()
            made.hear(HELLO[:30], HELLO[30:-2], HELLO[-2:])
        once = [(200, [(b"content-length", b"5")]), b"hel", b"lo", "end"]
        assert made.ear.heard == once * 3

    scene(play)


@pytest.mark.parametrize(("size", "writes"), [(ONE_WRITE, 1), (ONE_WRITE + 1, 2)])
def test_a_small_request_is_one_write_and_a_large_one_is_not_copied(size: int, writes: int) -> None:
    def play(made: Scene) -> None:
        assert made.connection.send(made.ear, b"head", bytes(size), False)
        assert len(made.wire.writes) == writes
        assert b"".join(made.wire.writes) == b"head" + bytes(size)

    scene(play)


@pytest.mark.parametrize("size", [10, ONE_WRITE + 1])
@pytest.mark.parametrize("before", [True, False], ids=["closing before the write", "closing at the write"])
def test_a_connection_that_takes_nothing_says_so(before: bool, size: int) -> None:
    def play(made: Scene) -> None:
        made.wire.closed = before
        made.wire.dies_at_write = True
        assert not made.connection.send(made.ear, b"head", bytes(size), False)
        made.connection.connection_lost(None)
        assert made.ear.heard == []
        assert made.shelf.forgotten == [made.connection]

    scene(play)


def test_bytes_at_rest_are_the_end_of_a_connection() -> None:
    def play(made: Scene) -> None:
        made.hear(HELLO)
        assert made.wire.closed
        assert made.shelf.mistrusted == 1
        assert made.shelf.forgotten == [made.connection]
        made.connection.connection_lost(None)
        assert made.shelf.forgotten == [made.connection]
        assert made.shelf.mistrusted == 1

    scene(play)


def test_a_connection_that_nobody_counted_is_not_counted_out() -> None:
    def play(made: Scene) -> None:
        made.connection.counted = False
        made.connection.connection_lost(None)
        assert made.shelf.forgotten == []

    scene(play)


@pytest.mark.parametrize(
    ("pieces", "error", "last"),
    [
        ([], None, Unanswered),
        ([], ConnectionResetError(), Unanswered),
        ([OK], None, Truncated),
        ([HELLO[:-1]], None, Truncated),
        ([OK + b"\r\nhel", b"lo"], None, "end"),
        ([OK + b"\r\nhello"], ConnectionResetError(), Truncated),
        ([OK + b"\r\n"], None, "end"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], None, Truncated),
        ([OK + b"transfer-encoding: identity\r\n\r\nhello"], None, "end"),
        ([OK + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"], None, Truncated),
    ],
)
def test_the_end_of_the_socket_means_what_the_answer_says(
    pieces: list[bytes], error: Exception | None, last: object
) -> None:
    def play(made: Scene) -> None:
        made.ask()
        made.hear(*pieces)
        made.connection.connection_lost(error)
        assert made.ear.heard[-1] == last
        assert made.ear.heard.count(last) == 1
        assert made.shelf.forgotten == [made.connection]
        assert made.shelf.released == []

    scene(play)


def test_an_answer_before_the_request_is_through_ends_the_connection() -> None:
    def play(made: Scene) -> None:
        made.ask()
        made.wire.unsent = 10
        assert made.hear(HELLO)[-1] == "end"
        assert made.wire.closed
        assert made.shelf.released == []
        assert made.shelf.mistrusted == 0

    scene(play)


@pytest.mark.parametrize(("status", "last", "mistrusted"), [(b"200", BadResponse, 1), (b"429", "end", 0)])
def test_on_a_used_connection_only_a_refusal_may_come_before_the_request_is_through(
    status: bytes, last: object, mistrusted: int
) -> None:
    def play(made: Scene) -> None:
        made.ask()
        made.hear(HELLO)
        made.ask()
        made.wire.unsent = 10
        made.hear(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert made.hear(HELLO.replace(b"200", status))[-1] == last
        assert made.wire.closed
        assert made.shelf.mistrusted == mistrusted
        assert made.shelf.released == [made.connection]

    scene(play)


@pytest.mark.parametrize("excess", [b"garbage", HELLO, b"HTTP/1.1 103 Early\r\n\r\n", b"H"])
@pytest.mark.parametrize("bodiless", [True, False])
def test_bytes_after_the_end_end_the_connection_and_not_the_answer(excess: bytes, bodiless: bool) -> None:
    def play(made: Scene) -> None:
        made.ask(bodiless=bodiless)
        head = OK + b"content-length: 5\r\n\r\n"
        assert made.hear((head if bodiless else HELLO) + excess)[-1] == "end"
        assert made.wire.closed
        assert made.shelf.released == []
        assert made.shelf.mistrusted == 1

    scene(play)


def test_a_head_may_be_as_large_as_the_limit_and_no_larger() -> None:
    def play(made: Scene) -> None:
        room = MAX_HEAD_BYTES - head_size([(b"content-length", b"0"), (b"x", b"")])
        for size, status in ((room, True), (room + 1, False)):
            other = Scene()
            other.ask()
            heard = other.hear(OK + b"content-length: 0\r\nx: " + b"y" * size + b"\r\n\r\n")
            assert heard[-1] == ("end" if status else BadResponse)
            other.close()

    scene(play)


def test_a_head_of_too_many_headers_is_a_bad_answer() -> None:
    def play(made: Scene) -> None:
        made.ask()
        assert made.hear(OK + b"a: b\r\n" * MAX_HEADERS + b"\r\n")[-1] != BadResponse
        other = Scene()
        other.ask()
        assert other.hear(OK + b"a: b\r\n" * (MAX_HEADERS + 1) + b"\r\n") == [BadResponse]
        other.close()

    scene(play)


def test_informational_heads_without_end_are_a_bad_answer() -> None:
    def play(made: Scene) -> None:
        made.ask()
        made.hear(*[b"HTTP/1.1 100 Continue\r\n\r\n" * 1000] * 11)
        assert made.ear.heard == [BadResponse]

    scene(play)


@pytest.mark.parametrize(
    "framing", [b"content-length: 5\r\n\r\n0\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n"]
)
@pytest.mark.parametrize("size", [1, 1000], ids=["in bytes", "at once"])
@pytest.mark.parametrize("bodiless", [True, False])
def test_an_informational_message_with_a_body_is_a_bad_answer(framing: bytes, size: int, bodiless: bool) -> None:
    def play(made: Scene) -> None:
        made.ask(bodiless=bodiless)
        data = b"HTTP/1.1 104 Upload Resumption Supported\r\n" + framing + HELLO
        for start in range(0, len(data), size):
            if not made.wire.closed:
                made.hear(data[start : start + size])
        assert made.ear.heard == [BadResponse]
        assert made.wire.closed

    scene(play)


def test_a_receiver_that_drops_the_connection_hears_no_more() -> None:
    class Deaf(Ear):
        def on_head(self, status: int, headers: HeaderList) -> None:
            super().on_head(status, headers)
            made[0].connection.drop()

    made: list[Scene] = []

    def play(here: Scene) -> None:
        made.append(here)
        here.ear = Deaf()
        here.ask()
        assert len(here.hear(HELLO)) == 1
        here.connection.connection_lost(None)
        assert len(here.ear.heard) == 1

    scene(play)


def test_a_pause_does_not_outlive_its_answer() -> None:
    def play(made: Scene) -> None:
        made.ask()
        made.hear(HELLO[:-1])
        made.connection.pause()
        made.connection.pause()
        assert not made.wire.reading
        made.hear(HELLO[-1:])
        assert made.wire.reading
        made.wire.closed = True
        made.connection.pause()
        assert made.wire.reading

    scene(play)


def test_a_socket_is_alive_while_nothing_lies_in_it() -> None:
    async def test() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        shelf, wire = Shelf(), Wire()
        connection = UpstreamConnection(shelf, near)
        connection.connection_made(wire)
        assert connection.alive()
        assert shelf.mistrusted == 0
        far.send(b"more")
        assert not connection.alive()
        assert shelf.mistrusted == 1
        near.recv(100)
        assert connection.alive()
        far.close()
        assert not connection.alive()
        near.close()
        assert not connection.alive()
        wire.closed = True
        assert not connection.alive()

    run(test, "asyncio")


def test_bytes_under_tls_may_be_an_end_and_are_read_before_the_connection_is_closed() -> None:
    async def test() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        shelf, wire = Shelf(), Wire({"ssl_object": object()})
        connection = UpstreamConnection(shelf, near)
        connection.connection_made(wire)
        far.send(b"an alert, a ticket or an answer")
        assert not connection.alive()
        connection.dismiss()
        assert (shelf.mistrusted, wire.closed) == (0, False)
        connection.data_received(HELLO)
        assert (shelf.mistrusted, wire.closed) == (1, True)
        near.close()
        far.close()

    run(test, "asyncio")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], True),
        ([(b"content-length", b"0")], False),
        ([(b"transfer-encoding", b"Chunked")], False),
        ([(b"transfer-encoding", b"identity")], True),
    ],
)
def test_a_body_without_a_length_lasts_until_the_end(headers: HeaderList, expected: bool) -> None:
    assert until_close(headers) is expected
