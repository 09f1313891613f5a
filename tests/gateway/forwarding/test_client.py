"""What a client asked is a value, and an HTTP request is a client."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.gateway.forwarding.client import Client, ClientRequest
from dragoman.gateway.paths import api_path_of
from dragoman.http.body import Body
from dragoman.http.request import ServerRequest


class Wire:
    """A connection that only writes down what it is sent."""

    gone = False
    retiring = False

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def sever(self, reset: bool) -> None:
        self.sent.append(b"severed")

    def after_sending(self, call: Callable[[], None]) -> None:
        call()

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def await_body(self, proceed: bool) -> None: ...

    def body_waited(self) -> None: ...

    def too_much(self) -> None: ...


def test_a_header_is_found_by_its_name() -> None:
    asked = ClientRequest(api_path_of("/v1/messages"), [(b"a", b"1"), (b"a", b"2")], {b"a": b"1"})
    assert (asked.header(b"a"), asked.header(b"b")) == (b"1", None)


def test_an_http_request_is_a_client() -> None:
    wire = Wire()
    body = Body(wire, 0, False)
    body.feed(b"", True)
    client: Client = ServerRequest(
        wire,
        method="POST",
        path="/v1/messages",
        query="",
        headers=[],
        table={},
        content=body,
        peer="127.0.0.1",
        modern=True,
        closes=False,
    )
    assert not client.gone
    client.start(200, [(b"content-type", b"text/event-stream")])
    assert wire.sent == []
    client.write(b"")
    client.write(b"")
    assert len(wire.sent) == 1 and wire.sent[0].startswith(b"HTTP/1.1 200") and wire.sent[0].endswith(b"\r\n\r\n")
    client.write(b"piece")
    client.end()
    assert b"".join(wire.sent[1:]) == b"5\r\npiece\r\n0\r\n\r\n"
    assert client.started and client.ended
    wire.gone = True
    assert client.gone
