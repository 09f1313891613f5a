"""Detached client: an exchange without a client at its other end: what would be sent is taken in here."""

from __future__ import annotations

from collections.abc import Callable

from dragoman.http.body import Body
from dragoman.http.flight import HeaderList
from dragoman.http.request import Request, RequestTarget


class _Nowhere:
    """The connection of a request that has none."""

    gone = False
    retiring = False

    def send(self, data: bytes) -> None:
        raise AssertionError("a detached request has no connection")

    def sever(self, reset: bool) -> None:
        raise AssertionError("a detached request has no connection")

    def hold(self) -> None:
        raise AssertionError("a detached request has no body")

    def await_body(self, proceed: bool) -> None:
        raise AssertionError("a detached request has no body")

    def body_waited(self) -> None:
        raise AssertionError("a detached request has no body")

    def too_much(self) -> None:
        raise AssertionError("a detached request has no body")


class DetachedClient(Request):
    """A request made here, in the name of a client's; `status` and `answer` are the reply, once there is one."""

    __slots__ = ("answer", "answer_headers", "broken", "status", "told")

    def __init__(self, client: Request, path: str, told: Callable[[bytes], None] | None = None) -> None:
        nowhere = _Nowhere()
        content = Body(nowhere, 0, False)
        content.finish()
        super().__init__(
            nowhere,
            method="POST",
            target=RequestTarget(path.encode()),
            headers=client.headers,
            content=content,
            peer=client.peer,
            modern=True,
            closes=False,
        )
        self.status = 0
        self.answer = b""
        self.answer_headers: HeaderList = []
        self.broken = False
        # Takes the pieces of a stream.
        self.told = told

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Take a whole reply, be it a stream that is known as a whole."""
        self.start(status, headers)
        self.answer = body
        if status < 400:
            self.write(body)
        self.ended = True

    def start(self, status: int, headers: HeaderList) -> None:
        """Take the beginning of a streamed reply."""
        self.started = True
        self.status, self.answer_headers = status, headers

    def write(self, data: bytes) -> None:
        """Take a piece of a streamed reply."""
        if self.told is not None:
            self.told(data)

    def flush(self) -> None:
        """Nobody waits for the head alone."""

    def end(self) -> None:
        """Take the end of a streamed reply."""
        self.ended = True

    def abort(self) -> None:
        """Take the end of a reply that broke off."""
        self.ended = self.broken = True
