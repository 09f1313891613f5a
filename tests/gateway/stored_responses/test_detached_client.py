"""A request without a client at its other end takes its reply in itself."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.http.body import Body
from dragoman.http.request import Request, RequestTarget


class Silence:
    """A connection that nobody may use."""

    gone = False
    retiring = False

    def send(self, data: bytes) -> None:
        raise AssertionError

    def sever(self, reset: bool) -> None:
        raise AssertionError

    def hold(self) -> None:
        raise AssertionError

    def await_body(self, proceed: bool) -> None:
        raise AssertionError

    def body_waited(self) -> None:
        raise AssertionError

    def too_much(self) -> None:
        raise AssertionError


def _detached() -> DetachedClient:
    channel = Silence()
    client = Request(
        channel,
        method="POST",
        target=RequestTarget(b"/v1/responses?x=1"),
        headers=[(b"x-dragoman-strict", b"1")],
        content=Body(channel, 0, False),
        peer="192.0.2.1",
        modern=True,
        closes=False,
    )
    return DetachedClient(client, "/v1/responses")


def test_a_whole_reply_is_taken_in() -> None:
    request = _detached()
    assert (request.method, request.path, request.query, request.peer) == ("POST", "/v1/responses", "", "192.0.2.1")
    assert request.header(b"x-dragoman-strict") == b"1"
    request.respond(404, [(b"a", b"b")], b"no")
    assert (request.status, request.answer, request.answer_headers) == (404, b"no", [(b"a", b"b")])
    assert request.started and request.ended and not request.broken


def test_the_pieces_of_a_stream_go_to_whoever_wants_them() -> None:
    pieces: list[bytes] = []
    request = _detached()
    request.start(200, [])
    request.flush()
    request.write(b"nobody listens yet")
    request.told = pieces.append
    request.write(b"one")
    request.write(b"two")
    request.end()
    assert (request.status, request.ended, request.broken) == (200, True, False)
    assert pieces == [b"one", b"two"]


def test_a_reply_that_breaks_off_says_so() -> None:
    request = _detached()
    request.start(200, [])
    request.abort()
    assert request.ended and request.broken


def test_there_is_no_body_and_nothing_to_wait_for() -> None:
    assert asyncio.run(_detached().body(10)) == b""
    asyncio.run(_detached().drained())


def test_the_connection_it_does_not_have_is_never_used() -> None:
    channel = _detached()._channel
    with pytest.raises(AssertionError):
        channel.send(b"x")
    with pytest.raises(AssertionError):
        channel.sever(True)
