"""HttpCall: one call to a provider over a socket. It starts nothing before `head` and follows no redirect. The peer may
close a pooled connection while it is reused: if it dies without a byte of a response, the request is sent again on a
new one; any other retry is the caller's. On a pooled connection a call costs two futures and no task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.errors import BadResponse, Oversized, Unreachable, UpstreamError
from dragoman.http.byte_buffer import EMPTY, ByteBuffer
from dragoman.http.coding import BrokenCoding, Decoder, OversizeCoding, decoder
from dragoman.http.pool import Pool
from dragoman.http.response_head import CLOSE
from dragoman.http.upstream_call import HeaderList, UpstreamRequest, name_of
from dragoman.http.upstream_connection import NO_RESPONSE, NOT_HTTP, UpstreamConnection

# Unread bytes of a body after which reading pauses.
MAX_WAITING_BYTES = 256 * 1024
# Maximum output of an inner coding. No use needs larger bodies.
MAX_BETWEEN_BYTES = 256 * 1024 * 1024
# A dead connection shows within a round trip. After that a peer may have processed, and billed, the request.
STALE_SECONDS = 10.0

# Headers that name codings, and the transfer's own framings.
_CODED = frozenset({b"content-encoding", b"transfer-encoding"})
_FRAMINGS = (b"chunked", b"identity")

BROKEN_CODING = "the provider's response does not match its content-encoding"
TOO_LARGE = "the provider's response exceeds the limit"
ENDED = "the call was ended before its answer was"


class CallEnded(UpstreamError):
    """The caller ended the call."""

    def __init__(self) -> None:
        super().__init__(ENDED)


class HttpCall:
    """A call over a socket; see `dragoman.http.upstream_call.UpstreamCall`. Not a struct, whose members are slow to
    set."""

    def __init__(self, pool: Pool, request: UpstreamRequest, head: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self._pool = pool
        self._request = request
        self._head = head
        self._loop = loop
        self.status = 0
        self.headers: HeaderList = []
        # Raw bytes so far; and when the request was sent.
        self.received = 0
        self.sent_at = 0.0
        # How often the request was sent again, because a pooled connection was dead.
        self.renewed = 0
        self._connection: UpstreamConnection | None = None
        # Whether the connection served or rested before this call, and whether it died of that.
        self._was_pooled = self._lost = False
        # The future that is waited for: a connection, or a head or an end.
        self._connecting: asyncio.Future[UpstreamConnection] | None = None
        self._waiter: asyncio.Future[None] | None = None
        # The class suffices for a closed call. An instance is created on access.
        self._error: Exception | type[CallEnded] | None = None
        # Nothing more comes; and if that is not as it should be, why.
        self._ended = False
        self._broken: UpstreamError | None = None
        self._take: Callable[[bytes], None] | None = None
        # Raw bytes that arrived before a reader, or while a decoder was paused.
        self._waiting = EMPTY
        self._paused = False
        self._decoder: Decoder | None = None
        # Whether the next step of undoing a coding waits for the loop's next turn.
        self._turning = False
        # Answers without a body may have a content-encoding all the same.
        self._fed = False

    def __repr__(self) -> str:
        # Neither credentials nor contents may reach a log.
        return f"HttpCall(status={self.status}, bytes={self.received})"

    async def head(self) -> None:
        """Connect, send, and wait until `status` and `headers` are there."""
        if self._error is not None:
            raise self._error
        request = self._request
        while True:
            pooled = None if self.renewed else self._pool.take()
            connection = pooled or await self._connect()
            self._connection = connection
            self._was_pooled = connection.was_pooled
            self.sent_at = self._loop.time()
            head = self._head if self._pool.reusable() else b"%b%b\r\n" % (self._head[:-2], CLOSE)
            if connection.send(self, head, request.body, request.method == "HEAD"):
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                finally:
                    self._waiter = None
                if not self._lost:
                    return
                self._renew()
                continue
            # It accepted nothing of the request, so another connection may get it; a new one that fails is the
            # provider's fault.
            self._connection = None
            if not self._was_pooled:
                raise Unreachable(NO_RESPONSE)

    async def read(self, limit: int) -> bytes:
        """The whole body without its codings; more than `limit` bytes raise `Oversized`."""
        pieces = ByteBuffer()

        def take(piece: bytes) -> None:
            if pieces.size + len(piece) > limit:
                raise Oversized(TOO_LARGE)
            pieces.append(piece)

        await self.pump(take)
        return pieces.take()

    def take_complete(self) -> bytes | None:
        """The whole body if it has already arrived and is not coded, handed over once; None if it must be pumped."""
        if not self._ended or self._error is not None or self._broken is not None or self._decoder is not None:
            return None
        return self._waiting.take()

    async def pump(self, take: Callable[[bytes], None]) -> None:
        """Deliver every piece of the body to `take` from the read callback, first the pieces already received."""
        if self._error is not None:
            raise self._error
        self._take = take
        self._flush_waiting()
        # Not in the least obvious to a type checker: draining may have met an error.
        if self._error is not None:
            raise self._error
        if not self._ended or self._held():
            await self._wait()

    def pause(self) -> None:
        """Stop reading, and stop undoing a coding."""
        self._paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Read on."""
        self._paused = False
        if self._decoder is not None and self._take is not None and self._held():
            # Not from here: the caller may be in the middle of what `take` calls.
            self._next_turn()
        elif self._connection is not None:
            self._connection.resume()

    def abort(self, error: Exception) -> None:
        """End the call: its waiter gets this error, and the connection is closed."""
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
        """Cancel the response; a complete response's connection is already in the pool."""
        if self._connection is None and self._connecting is None and self._waiter is None:
            # No reader waits, and no data is pending.
            self._take = None
            if self._waiting.size:
                self._waiting.clear()
        else:
            self.abort(CallEnded())
        # A raised error references its frames, and those this call and its bodies: only a rare full garbage collection
        # would free them.
        self._error, self._broken = CallEnded, None

    # Callbacks of the connection.

    def on_head(self, status: int, headers: HeaderList) -> None:
        """Keep status and headers, and get ready to undo the body's codings."""
        self.status = status
        self.headers = headers
        if not _CODED.isdisjoint(map(name_of, headers)):
            self._prepare(headers)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def on_data(self, data: bytes) -> None:
        """Deliver a piece, or buffer it until it is requested."""
        take = self._take
        if take is not None and self._decoder is None:
            try:
                take(data)
            except Exception as error:
                # Whatever it is, it belongs to the caller of `pump`.
                self.abort(error)
            return
        self._fed = True
        if self._waiting.size:
            self._waiting.append(data)
        else:
            self._waiting = ByteBuffer(len(data), [data])
        if take is not None:
            self._flush_waiting()
        elif self._waiting.size > MAX_WAITING_BYTES and self._connection is not None:
            self._connection.pause()

    def on_end(self) -> None:
        """Wake the waiter as soon as all data was handed over."""
        self._connection = None
        self._ended = True
        if self._take is not None:
            self._flush_waiting()

    def on_break(self, error: UpstreamError) -> None:
        """Deliver buffered data, then the error; or retry on a new connection, if this one was stale."""
        stale = self._was_pooled and not self.renewed and self._loop.time() - self.sent_at < STALE_SECONDS
        if stale and not self.received:
            self._connection = None
            self._lost = True
            self._wake()
            return
        self._broken = error
        if self.status:
            self.on_end()
        else:
            self._connection = None
            self._ended = True
            self.abort(error)

    # Steps of the above.

    def _renew(self) -> None:
        self._lost = False
        self.renewed += 1
        # The call may have been ended before it went on.
        if self._error is not None:
            raise self._error

    async def _connect(self) -> UpstreamConnection:
        waiter = self._pool.renew() if self.renewed else self._pool.obtain()
        self._connecting = waiter
        try:
            connection = await waiter
        except BaseException:
            # Cancelled at the moment of success.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._pool.release(waiter.result())
            raise
        finally:
            self._connecting = None
            # Breaks the cycle between the error and this frame.
            del waiter
        if self._error is not None:
            self._pool.release(connection)
            raise self._error
        if connection.reused and not self._pool.fits(connection):
            # The connection was handed over directly, and has unexpected data.
            connection.dismiss()
            return await self._connect()
        return connection

    async def _wait(self) -> None:
        # No variable: it holds the error whose frames would hold it.
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _prepare(self, headers: HeaderList) -> None:
        """Get ready to undo the body's codings."""
        codings = [value for name, value in headers if name == b"content-encoding"]
        if codings:
            try:
                self._decoder = decoder(b",".join(codings), MAX_BETWEEN_BYTES)
            except BrokenCoding:
                self.abort(BadResponse("the provider's response has an unsupported content-encoding"))
        if self._decoder is not None:
            outer = (b"content-encoding", b"content-length")
            self.headers = [(name, value) for name, value in headers if name not in outer]
        if any(value.lower() not in _FRAMINGS for name, value in headers if name == b"transfer-encoding"):
            # The gateway never sends TE, so no transfer coding other than chunked is valid.
            self.abort(BadResponse(NOT_HTTP))

    def _held(self) -> bool:
        """Whether received data was not delivered yet."""
        return self._waiting.size > 0 or (self._decoder is not None and self._decoder.pending)

    def _give(self, data: bytes) -> None:
        if self._take is None:
            return
        try:
            self._take(data)
        except Exception as error:
            # Whatever it is, it belongs to the caller of `pump`.
            self.abort(error)

    def _flush_waiting(self) -> None:
        """Hand over what waits, of a coded body a step, unless a pause is wanted; then see if it ends."""
        if self._turning:
            return
        if self._decoder is None:
            if self._waiting.size:
                self._give(self._waiting.take())
        elif self._held() and not self._paused:
            self._step(self._decoder)
        if self._error is not None or self._take is None:
            return
        if self._held():
            if not self._paused:
                self._next_turn()
        elif self._ended:
            self._conclude()
        elif self._connection is not None and not self._paused:
            self._connection.resume()

    def _step(self, undo: Decoder) -> None:
        try:
            piece = undo.feed(b"" if undo.pending else self._waiting.take())
        except OversizeCoding:
            self.abort(Oversized(TOO_LARGE))
        except BrokenCoding:
            self.abort(BadResponse(BROKEN_CODING))
        else:
            if piece:
                self._give(piece)

    def _next_turn(self) -> None:
        """Continue in the loop's next turn: a small piece may decompress to gigabytes, and others wait. Nothing is
        read."""
        if self._connection is not None:
            self._connection.pause()
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._turning = False
        self._flush_waiting()

    def _conclude(self) -> None:
        if self._broken is not None:
            self.abort(self._broken)
            return
        try:
            if self._decoder is not None and self._fed:
                self._decoder.finish()
        except BrokenCoding:
            self.abort(BadResponse(BROKEN_CODING))
        else:
            self._wake()
