"""The client: calls over HTTP/1.1 on connections that are kept, each call a flight.

A flight starts nothing before `head`, follows no redirect, and sends nothing twice: a request that may have been read
is the caller's to repeat. On a pooled connection a call costs two futures and no task.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Coroutine, Mapping

from dragoman.errors import BadAnswer, Unreachable, UpstreamError
from dragoman.http.address import Origin, check_name, locate, request_line
from dragoman.http.coding import BrokenCoding, Decoder, decoder
from dragoman.http.connection import NO_ANSWER, NOT_HTTP, Connection
from dragoman.http.dial import Route, dial
from dragoman.http.flight import Call, HeaderList
from dragoman.http.pool import Pool
from dragoman.http.proxy import Proxies, Proxy

# How much of a body waits for somebody to ask for it before reading stops.
MOST_WAITING = 256 * 1024
# Methods whose requests have a body, be it empty.
WITH_BODY = frozenset(("POST", "PUT", "PATCH"))

BROKEN_CODING = "the provider's answer is not what its content-encoding says"
TOO_LARGE = "the provider's answer is larger than the limit"
ENDED = "the call was ended before its answer was"


class Client:
    """Calls to any number of origins, with a pool of connections for each; it belongs to one event loop."""

    def __init__(
        self,
        *,
        connect_timeout: float,
        connections: int = 1024,
        idle: float = 20.0,
        context: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._connect_timeout = connect_timeout
        self._connections = connections
        self._idle = idle
        self._context = context
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])
        self._proxies = Proxies(os.environ if proxies is None else proxies)
        self._pools: dict[Origin, tuple[Pool, Proxy | None]] = {}
        self._closed = False

    def open(self, call: Call) -> HttpFlight:
        """A flight for a call; `ValueError` if it cannot be written as HTTP, `Unreachable` if its proxy is unusable."""
        origin, _ = locate(call.url)
        known = self._pools.get(origin)
        pool, proxy = self._add(origin) if known is None else known
        return HttpFlight(pool, call, write_head(call, proxy if origin.scheme == "http" else None))

    async def close(self) -> None:
        """Close the connections at rest; flights under way are left to end."""
        self._closed = True
        for pool, _ in self._pools.values():
            pool.close()
        # The transports close their sockets in the next round of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _add(self, origin: Origin) -> tuple[Pool, Proxy | None]:
        proxy = self._proxies.of(origin)

        def connect(pool: Pool) -> Coroutine[None, None, Connection]:
            context = self._tls() if origin.scheme == "https" else None
            return dial(Route(origin, proxy, context), self._connect_timeout, lambda end: Connection(pool, end))

        pool = Pool(connect, most=self._connections, idle=self._idle)
        if self._closed:
            pool.close()
        self._pools[origin] = (pool, proxy)
        return pool, proxy

    def _tls(self) -> ssl.SSLContext:
        # Reading the system's certificates takes longer than anything else at the start: it waits for the first need.
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context


def write_head(call: Call, proxy: Proxy | None) -> bytes:
    """A request's line and headers; the proxy is one that reads them itself."""
    lines = []
    for name, value in call.headers:
        check_name(name)
        lines.append(b"%b: %b\r\n" % (name, value))
    if call.body or call.method in WITH_BODY:
        lines.append(b"content-length: %d\r\n" % len(call.body))
    if proxy is not None and proxy.authorization:
        lines.append(b"proxy-authorization: %b\r\n" % proxy.authorization)
    block = b"".join(lines)
    # Three searches of the whole instead of three of each value.
    if block.count(b"\n") != len(lines) or block.count(b"\r") != len(lines) or b"\0" in block:
        raise ValueError("a header value holds a line break or a null byte")
    return b"%b%b\r\n" % (request_line(call.method, call.url, proxy is not None), block)


class HttpFlight:
    """A call over a socket; see `dragoman.http.flight.Flight`."""

    __slots__ = (
        "_broken",
        "_call",
        "_connecting",
        "_connection",
        "_decoder",
        "_ended",
        "_error",
        "_fed",
        "_head",
        "_loop",
        "_paused",
        "_pool",
        "_take",
        "_waiter",
        "_waiting",
        "_waiting_size",
        "headers",
        "last",
        "received",
        "status",
    )

    def __init__(self, pool: Pool, call: Call, head: bytes) -> None:
        self.status = 0
        self.headers: HeaderList = []
        # For whoever watches over time: raw bytes so far, and when the last of them came.
        self.received = 0
        self.last = 0.0
        self._pool = pool
        self._call = call
        self._head = head
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        # What is being waited for: a connection; a head or an end.
        self._connecting: asyncio.Future[Connection] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        # Nothing more comes; and if that is not as it should be, why.
        self._ended = False
        self._broken: UpstreamError | None = None
        self._take: Callable[[bytes], None] | None = None
        # Raw pieces that came before anybody asked, or while a decoder was held up.
        self._waiting: list[bytes] = []
        self._waiting_size = 0
        self._paused = False
        self._decoder: Decoder | None = None
        # Answers without a body may have a content-encoding all the same.
        self._fed = False

    async def head(self) -> None:
        """Connect, send, and wait until `status` and `headers` are there."""
        if self._error is not None:
            raise self._error
        call = self._call
        while True:
            connection = self._pool.take() or await self._connect()
            self._connection = connection
            self.last = self._loop.time()
            if connection.send(self, self._head, call.body, call.method == "HEAD"):
                break
            # It took nothing of the request, so another may have it; a new one that fails is the provider's doing.
            self._connection = None
            if not connection.reused:
                raise Unreachable(NO_ANSWER)
        await self._wait()

    async def read(self, limit: int) -> bytes:
        """The whole body without its codings; more than `limit` bytes raise `BadAnswer`."""
        pieces: list[bytes] = []
        size = 0

        def take(piece: bytes) -> None:
            nonlocal size
            size += len(piece)
            if size > limit:
                raise BadAnswer(TOO_LARGE)
            pieces.append(piece)

        await self.pump(take)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def pump(self, take: Callable[[bytes], None]) -> None:
        """Hand every piece of the body to `take` from the reading callback, first what has already arrived."""
        if self._error is not None:
            raise self._error
        self._take = take
        self._drain()
        # Not in the least obvious to a type checker: draining may have met an error.
        if self._error is not None:
            raise self._error
        if self._through():
            return
        if self._connection is not None and not self._paused:
            self._connection.resume()
        await self._wait()

    def pause(self) -> None:
        """Stop reading, and stop undoing a coding."""
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if self._connection is not None:
            self._connection.resume()
        if self._decoder is not None and self._take is not None:
            # Not from here: the caller may be in the middle of what `take` calls.
            self._loop.call_soon(self._drain)

    def abort(self, error: Exception) -> None:
        """End the call: whoever waits on it gets this error, and the connection is closed."""
        if self._error is None:
            self._error = error
        self._take = None
        self._waiting.clear()
        connection = self._connection
        if connection is not None:
            self._connection = None
            connection.drop()
        for waiter in (self._connecting, self._waiter):
            if waiter is not None and not waiter.done():
                waiter.set_exception(error)

    def close(self) -> None:
        """Say that the answer is no longer wanted; a complete answer's connection is long back in the pool."""
        self.abort(UpstreamError(ENDED))
        # An error that was raised knows the frames it went through, and those know this flight and its bodies: nothing
        # but a collection of all garbage, which is rare, would free them.
        self._error, self._broken = UpstreamError(ENDED), None

    # What the connection calls.

    def on_head(self, status: int, headers: HeaderList) -> None:
        """Keep status and headers, and get ready to undo the body's codings."""
        self.status = status
        self.headers = headers
        for name, value in headers:
            if name == b"content-encoding":
                self._prepare(headers)
            elif name == b"transfer-encoding" and value.lower() not in (b"chunked", b"identity"):
                # Codings of the transfer are not asked for, so nobody may apply them.
                self.abort(BadAnswer(NOT_HTTP))
        self._wake()

    def on_data(self, data: bytes) -> None:
        """Pass a piece on, or keep it until it is asked for."""
        if self._take is not None and self._decoder is None:
            self._give(data)
            return
        self._fed = True
        self._waiting.append(data)
        self._waiting_size += len(data)
        if self._take is not None:
            self._drain()
        elif self._waiting_size > MOST_WAITING and self._connection is not None:
            self._connection.pause()

    def on_end(self) -> None:
        """Let whoever waits go on as soon as everything is handed over."""
        self._over(None)

    def on_break(self, error: UpstreamError) -> None:
        """Hand over what came before, then the error."""
        self._over(error)

    def _over(self, error: UpstreamError | None) -> None:
        self._connection = None
        self._ended = True
        self._broken = error
        if not self.status and error is not None:
            self.abort(error)
        elif self._take is not None:
            self._drain()

    # Steps of the above.

    async def _connect(self) -> Connection:
        waiter = self._pool.obtain()
        self._connecting = waiter
        try:
            connection = await waiter
        except BaseException:
            # Given up at the very moment that it came through.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pool.release(waiter.result())
            raise
        finally:
            self._connecting = None
            # It holds the error whose frames would hold it.
            del waiter
        if self._error is not None:
            self._pool.release(connection)
            raise self._error
        if connection.reused and not connection.alive():
            # It came straight from another call, and brings what nobody asked for.
            connection.drop()
            return await self._connect()
        return connection

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiter = waiter
        try:
            await waiter
        finally:
            self._waiter = None
            # It holds the error whose frames would hold it.
            del waiter

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _prepare(self, headers: HeaderList) -> None:
        codings = b",".join(value for name, value in headers if name == b"content-encoding")
        try:
            self._decoder = decoder(codings)
        except BrokenCoding:
            self.abort(BadAnswer("the provider's answer has a content-encoding that is not supported"))
        if self._decoder is not None:
            coded = (b"content-encoding", b"content-length")
            self.headers = [(name, value) for name, value in headers if name not in coded]

    def _through(self) -> bool:
        held = self._waiting or (self._decoder is not None and self._decoder.pending)
        return self._ended and not held

    def _give(self, data: bytes) -> None:
        if self._take is None:
            return
        try:
            self._take(data)
        except Exception as error:
            # Whatever it is, it belongs to whoever pumps.
            self.abort(error)

    def _drain(self) -> None:
        """Hand over what waits, its codings undone, until no more is left or a pause is wanted; then see if it ends."""
        undo = self._decoder
        while self._error is None and (self._waiting or (undo is not None and undo.pending)):
            if undo is None:
                self._give(self._collect())
                continue
            if self._paused:
                return
            try:
                piece = undo.feed(b"" if undo.pending else self._collect())
            except BrokenCoding:
                self.abort(BadAnswer(BROKEN_CODING))
                return
            if piece:
                self._give(piece)
        if self._ended and self._error is None:
            self._conclude()

    def _collect(self) -> bytes:
        waiting = self._waiting
        data = waiting[0] if len(waiting) == 1 else b"".join(waiting)
        waiting.clear()
        self._waiting_size = 0
        return data

    def _conclude(self) -> None:
        if self._broken is not None:
            self.abort(self._broken)
            return
        try:
            if self._decoder is not None and self._fed:
                self._decoder.finish()
        except BrokenCoding:
            self.abort(BadAnswer(BROKEN_CODING))
        else:
            self._wake()
