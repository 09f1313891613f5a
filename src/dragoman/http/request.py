"""Request: one message of a client, and the reply to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Protocol

from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.http.body import Body, ByteAccount, ByteCharge
from dragoman.http.deferred_output import DeferredOutput
from dragoman.http.header_lines import LINE_END
from dragoman.http.response_head import BODILESS, CHUNKED, CLOSE, KEEP_ALIVE, LAST_CHUNK, compose
from dragoman.http.upstream_call import HeaderList


class ResponseOutput(Protocol):
    """Where replies go: a connection, as far as a request needs to know it."""

    @property
    def gone(self) -> bool:
        """Whether nothing that is written can arrive any more."""
        ...

    @property
    def retiring(self) -> bool:
        """Whether the connection ends with this exchange, whatever the client requested."""
        ...

    def send(self, data: bytes) -> None:
        """Write to the client."""
        ...

    def after_sending(self, call: Callable[[], None]) -> None:
        """Call this when the client has read most of the data, or is gone."""
        ...

    def sever(self, reset: bool) -> None:
        """Close the connection at once, with a reset if its mere end would look like a finished reply."""
        ...


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Limits for a client: bytes, and seconds of silence."""

    # A message's line and headers together, and how many headers.
    header_bytes: int
    header_count: int
    # From a message's first byte to the end of its headers, and from a new connection to its first byte.
    header_timeout: float
    # Silence within a body that the handler waits for.
    body_timeout: float
    # From a reply to the next message.
    idle_timeout: float = 75.0
    # No progress in what a client has left to read, once nothing more is written.
    unread_timeout: float = 10.0
    # Unsent bytes of a slow client after which the handler is informed.
    write_buffer: int = 64 * 1024


class RequestTarget:
    """A request's target taken apart: `authority` is that of an absolute form, "" for the usual form."""

    __slots__ = ("authority", "path", "query")

    def __init__(self, url: bytes) -> None:
        text = url.decode("latin-1").partition("#")[0]
        self.authority = ""
        if not text.startswith("/") and text != "*":
            scheme, separator, rest = text.partition("://")
            if not separator or scheme.lower() not in ("http", "https"):
                raise ClientError(400, "the request target is neither a path nor an http URL")
            cut = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
            self.authority = rest[:cut]
            text = rest[cut:] if rest[cut : cut + 1] == "/" else "/" + rest[cut:]
        self.path, _, self.query = text.partition("?")


class HeadDecision(Struct, frozen=True):
    """What a handler decided by a head alone, so that it holds for each message with this head. Handlers have their own
    classes of it."""


class RequestHead(Struct, eq=False):
    """A head that may come again, but for the length of the body, which is no part of it."""

    method: str
    path: str
    query: str
    headers: HeaderList
    table: dict[bytes, bytes]
    peer: str
    # With which limits it was accepted.
    limits: ServerLimits
    # Its bytes before and after the digits of the length.
    before: bytes
    after: bytes
    decision: HeadDecision | None = None

    def __repr__(self) -> str:
        # No credentials may reach a log.
        return f"RequestHead(method={self.method!r}, path={self.path!r})"


class ServerRequest(Struct, eq=False):
    """A message whose head is complete, and the reply to it: either `respond`, or `start`, `write` … and `end`."""

    _channel: ResponseOutput
    method: str
    path: str
    query: str
    headers: HeaderList
    # The same by their lower-case names; the first of several values is the one that counts.
    table: dict[bytes, bytes]
    content: Body
    peer: str
    # HTTP/1.1 rather than 1.0.
    modern: bool
    # Whether the connection ends with the reply; a handler may wish it to.
    closes: bool
    # Its head, where that is shared with other messages.
    shared_head: RequestHead | None = None
    started: bool = False
    ended: bool = False
    # The head of a streamed reply until it is sent.
    head: bytes = b""
    chunked: bool = False
    # Whether the reply has no body, whatever is written.
    mute: bool = False
    # Whether a piece needs nothing but its length: the head is sent, and the reply has not ended.
    _is_flowing: bool = False
    paused: bool = False
    resumed: asyncio.Future[None] | None = None
    # The future that holds back further data.
    held: asyncio.Future[None] | None = None
    on_pause: Callable[[], None] | None = None
    on_resume: Callable[[], None] | None = None

    def __repr__(self) -> str:
        # Neither credentials nor contents may reach a log.
        return f"ServerRequest(method={self.method!r}, path={self.path!r})"

    @property
    def gone(self) -> bool:
        """Whether the client has disconnected."""
        return self._channel.gone

    def header(self, name: bytes) -> bytes | None:
        """The first value under a lower-case name."""
        return self.table.get(name)

    def body(self, limit: int, account: ByteAccount | None = None) -> Coroutine[None, None, bytes]:
        """The full body, still content-encoded, returned once; `ClientError` if it is too large or never comes. Its
        bytes are charged to the account until it is complete."""
        return self.content.read(limit, account)

    def respond(self, status: int, headers: HeaderList, body: bytes) -> None:
        """Send a whole reply."""
        head = self._begin(status, headers, len(body))
        self.ended = True
        self._channel.send(head if self.mute else head + body)

    def start(self, status: int, headers: HeaderList) -> None:
        """Begin a streamed reply; its head goes out with the first piece."""
        self.head = self._begin(status, headers, None)

    def write(self, data: bytes) -> None:
        """Send a piece of a streamed reply at once; an empty one sends the head alone, if it is still to be sent."""
        if self._is_flowing:
            if data:
                self._channel.send(b"%x\r\n%b\r\n" % (len(data), data))
            return
        if not self.started or self.ended:
            if self._channel.gone:
                return
            raise RuntimeError("a piece was written outside a streamed reply")
        if self.mute or not (data or self.head):
            return
        # Joined, because formatting copies large pieces twice.
        size, end = (b"%x\r\n" % len(data), LINE_END) if self.chunked and data else (b"", b"")
        piece = b"".join((self.head, size, data, end))
        self.head = b""
        self._is_flowing = self.chunked and not self.mute
        self._channel.send(piece)

    def end(self) -> None:
        """Finish a streamed reply."""
        if self.ended:
            return
        if not self.started:
            raise RuntimeError("a reply was ended before it began")
        self.ended = True
        self._is_flowing = False
        last = LAST_CHUNK if self.chunked and not self.mute else b""
        head, self.head = self.head, b""
        if head or last:
            self._channel.send(head + last)

    def abort(self) -> None:
        """Break the reply off so that the client sees it: the connection closes without the terminating chunk."""
        if not self.ended:
            self.ended = True
            self._is_flowing = False
            self.head = b""
            self._channel.sever(self.started and not self.chunked)

    def take_charge(self) -> ByteCharge | None:
        """The byte charge of the body, for a holder that outlives the exchange."""
        return self.content.take_charge()

    def after_sending(self, call: Callable[[], None]) -> None:
        """Call this when the client has read most of the data, or is gone."""
        self._channel.after_sending(call)

    def hold(self, until: asyncio.Future[None]) -> None:
        """Buffer all further data until a future is done."""
        self._channel = channel = DeferredOutput(self._channel)
        self.held = until
        until.add_done_callback(partial(self._release, channel))

    def _release(self, channel: DeferredOutput, _: asyncio.Future[None]) -> None:
        self._channel, self.held = channel.release(), None

    async def drained(self) -> None:
        """Wait until the client has read most of the data."""
        while self.paused and not self._channel.gone:
            if self.resumed is None:
                self.resumed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self.resumed)

    def pause(self) -> None:
        """Note that the client does not read."""
        self.paused = True
        if self.on_pause is not None:
            self.on_pause()

    def resume(self) -> None:
        """Note that the client reads again."""
        self.paused = False
        self._wake()
        if self.on_resume is not None:
            self.on_resume()

    def lost(self) -> None:
        """Note that the client is gone."""
        self._wake()

    def _wake(self) -> None:
        """Wake the waiter of `drained`."""
        if self.resumed is not None and not self.resumed.done():
            self.resumed.set_result(None)
        self.resumed = None

    def _begin(self, status: int, headers: HeaderList, length: int | None) -> bytes:
        """The head of the reply, which begins; `length` is that of its body, None if it is streamed."""
        if self.started:
            raise RuntimeError("a second reply was begun")
        self.started = True
        bodiless = status in BODILESS
        if bodiless or self.method == "HEAD":
            self.mute = True
        # Whether the connection can outlive the reply.
        content = self.content
        if self._channel.retiring or not (content.complete or content.worth_draining()):
            self.closes = True
        framing = b""
        if length is not None:
            framing = b"" if bodiless else b"content-length: %d\r\n" % length
        elif self.modern:
            self.chunked = not bodiless
            framing = b"" if bodiless else CHUNKED
        elif not self.mute:
            # An HTTP/1.0 client detects the end of such a reply only by the end of the connection.
            self.closes = True
        if self.closes:
            framing = CLOSE + framing
        elif not self.modern:
            framing = KEEP_ALIVE + framing
        return compose(status, headers, framing)
