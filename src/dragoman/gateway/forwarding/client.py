"""Client: the receiver of a response, and its request: an HTTP request, a background response or a compaction. A client
that disconnects cancels the task that serves it, as a gateway that stops does; `gone` distinguishes the two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from dragoman.gateway.access.grant import AccessGrant
from dragoman.gateway.access.key_concurrency import KeySlot
from dragoman.gateway.paths import ApiPath
from dragoman.http.body import ByteCharge
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import Identity
from dragoman.routing.target import Target


class ClientRequest(Struct, frozen=True):
    """The request of a client without its body."""

    api_path: ApiPath
    headers: HeaderList
    # The same by their names: of several the first.
    table: dict[bytes, bytes]
    query: str = ""
    key: Identity | None = None
    # With which it was let in, if that was remembered.
    grant: AccessGrant | None = None
    # The target, if it was decided before.
    target: Target | None = None
    # Its place among the exchanges of its key, where those are counted.
    key_slot: KeySlot | None = None

    def header(self, name: bytes) -> bytes | None:
        """The first value under a lower-case name."""
        return self.table.get(name)


class Client(Protocol):
    """Verbs: either `respond`, or `start`, `write` … and `end`; `abort` breaks a reply off."""

    started: bool
    ended: bool
    # Whether it reads slowly, and the callbacks for its start and end.
    paused: bool
    on_pause: Callable[[], None] | None
    on_resume: Callable[[], None] | None

    @property
    def gone(self) -> bool:
        """Whether it disconnected or cancelled its request, and not the gateway ends it."""
        ...

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send a whole reply."""
        ...

    def start(self, status: int, headers: HeaderList) -> None:
        """Begin a streamed reply; its head goes out with the first piece."""
        ...

    def write(self, data: bytes) -> None:
        """Send a piece of a streamed reply at once; an empty one sends the head alone, if it is still to be sent."""
        ...

    def end(self) -> None:
        """Finish a streamed reply."""
        ...

    def abort(self) -> None:
        """Break the reply off so that the client sees it."""
        ...

    def take_charge(self) -> ByteCharge | None:
        """The byte charge of the request, for a holder that outlives the exchange."""
        ...

    def after_sending(self, call: Callable[[], None]) -> None:
        """Call this when the client has read most of the data, or is gone."""
        ...
