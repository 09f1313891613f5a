"""A client inside the process takes its reply in itself."""

from __future__ import annotations

from dragoman.gateway.forwarding.client import Client
from dragoman.gateway.stored_responses.detached_client import DetachedClient


def test_a_whole_reply_is_taken_in() -> None:
    detached = DetachedClient()
    client: Client = detached
    client.respond(404, [(b"a", b"b")], b"no")
    assert (detached.status, detached.body, detached.headers) == (404, b"no", [(b"a", b"b")])
    assert detached.started and detached.ended and not detached.broken


def test_the_pieces_of_a_stream_go_to_whoever_wants_them() -> None:
    pieces: list[bytes] = []
    client = DetachedClient()
    client.start(200, [])
    client.write(b"nobody listens yet")
    client.on_data = pieces.append
    client.write(b"")
    client.write(b"one")
    client.write(b"two")
    client.end()
    assert (client.status, client.ended, client.broken) == (200, True, False)
    assert pieces == [b"one", b"two"]


def test_a_whole_reply_is_a_piece_for_whoever_wants_them_unless_it_is_an_error() -> None:
    pieces: list[bytes] = []
    DetachedClient(pieces.append).respond(200, [], b"all of it")
    DetachedClient(pieces.append).respond(500, [], b"none of it")
    assert pieces == [b"all of it"]


def test_it_is_gone_when_it_is_cancelled_or_the_client_that_waits_for_it_is_gone() -> None:
    waiting = DetachedClient()
    client = DetachedClient(behalf=waiting)
    assert not client.gone
    waiting.cancelled = True
    assert waiting.gone and client.gone


def test_a_reply_that_breaks_off_says_so() -> None:
    client = DetachedClient()
    client.start(200, [])
    client.abort()
    assert client.ended and client.broken
