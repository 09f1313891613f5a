"""Detached client: one inside the process: what would be sent is taken in here."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.gateway.forwarding.client import Client
from dragoman.http.body import ByteCharge
from dragoman.http.upstream_call import HeaderList


class DetachedClient(Struct, eq=False, weakref=True):
    """Takes a response (`forwarding/client.py`) on behalf of a waiting client, if there is one."""

    # Takes the pieces of a stream.
    on_data: Callable[[bytes], None] | None = None
    behalf: Client | None = None
    started: bool = False
    ended: bool = False
    paused: bool = False
    on_pause: Callable[[], None] | None = None
    on_resume: Callable[[], None] | None = None
    status: int = 0
    headers: HeaderList = []
    body: bytes = b""
    broken: bool = False
    # Whether a request of its owner cancelled what runs for it.
    cancelled: bool = False

    @property
    def gone(self) -> bool:
        """Whether the response was cancelled by its owner, or the client that waits for it has disconnected."""
        return self.cancelled or (self.behalf is not None and self.behalf.gone)

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Take a whole reply, be it a stream that is known as a whole."""
        self.start(status, headers)
        self.body = body
        if status < 400:
            self.write(body)
        self.ended = True

    def start(self, status: int, headers: HeaderList) -> None:
        """Take the beginning of a streamed reply."""
        self.started = True
        self.status, self.headers = status, headers

    def write(self, data: bytes) -> None:
        """Take a piece of a streamed reply."""
        if self.on_data is not None and data:
            self.on_data(data)

    def end(self) -> None:
        """Take the end of a streamed reply."""
        self.ended = True

    def abort(self) -> None:
        """Take the end of a reply that broke off."""
        self.ended = self.broken = True

    def take_charge(self) -> ByteCharge | None:
        """None: the creator of the request has the charge."""
        return None

    def after_sending(self, call: Callable[[], None]) -> None:
        """Call at once: nothing is on its way."""
        call()
