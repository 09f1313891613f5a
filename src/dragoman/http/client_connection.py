"""One client's connection, which serves messages one after another; `phases.py` has its states. Bytes after the current
message stay unparsed in `backlog`; messages of the same read as its end are queued."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from socket import SO_LINGER, SOL_SOCKET
from typing import TYPE_CHECKING

from dragoman.errors import ClientError
from dragoman.http.phases import CUT, LIMITS, MINIMUM_PACE, PACE_TIME, READING, ConnectionPhase
from dragoman.http.request import ServerRequest
from dragoman.http.request_parser import RefusedMessage, RequestParser
from dragoman.http.response_head import CLOSE, CONTINUE, compose, length_line
from dragoman.http.sockets import LARGE_READ, unarrived

if TYPE_CHECKING:
    from dragoman.http.server import HttpServer

logger = logging.getLogger("dragoman.http")

BACKLOG = 64 * 1024
# Bytes that are parsed at once if they may hold many messages.
SLICE = 4 * 1024
# Pieces of a body in one read from which on the connection waits for its turn: chunks of less than 256 bytes.
MANY_PIECES = 1024
RESET = struct.pack("ii", 1, 0)
# Members of an enumeration are slow to find, and these are looked for with every message.
FRESH, IDLE, HEAD = ConnectionPhase.FRESH, ConnectionPhase.IDLE, ConnectionPhase.HEAD
BODY, BUSY = ConnectionPhase.BODY, ConnectionPhase.BUSY


class ClientConnection(asyncio.Protocol):
    """The protocol of one socket: it moves bytes, starts the next message and enforces time limits."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.loop = asyncio.get_running_loop()
        self.phase = FRESH
        self.since = self.loop.time()
        self.transport: asyncio.Transport
        self.parser: RequestParser
        self.current: ServerRequest | None = None
        # It serves one message after the other; between two of them it waits for `awaited`.
        self.task: asyncio.Task[None] | None = None
        self.awaited: asyncio.Future[None] | None = None
        # Whether the handler of the current message has begun.
        self.serving = False
        self.backlog = bytearray()
        # Nothing written can arrive; nothing read counts any more; the present exchange is the last.
        self.gone = False
        self.closing = False
        self.retiring = server.retired
        # The reader pauses. Reading continues in the loop's next turn.
        self.holding = False
        self.waiting = False
        # Whether the transport buffers more than the client has read, and how much at the last check.
        self.paused = False
        self.unsent = 0
        # Called when the client has read the data, or never will.
        self.when_sent: list[Callable[[], None]] = []
        # Since when the pace of a body is measured, and its size then.
        self.paced = (0.0, 0)

    # Callbacks of the loop.

    # Both loops give a transport for both directions, which the protocol's own signature does not promise.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        self.transport = transport
        transport.set_write_buffer_limits(high=self.server.limits.write_buffer)
        address = transport.get_extra_info("peername")
        self.parser = RequestParser(self, self.server, str(address[0]) if isinstance(address, tuple) else "")
        self.server.add(self)
        if address is None:
            # The client has reset the connection already. Nothing can be sent, and no record could name it.
            self._lose()
            transport.abort()
        elif self.retiring:
            self._close()

    def data_received(self, data: bytes) -> None:
        """Read on, or put aside what must wait."""
        if self.closing:
            return
        parser, phase = self.parser, self.phase
        if (phase is IDLE or phase is FRESH) and not self.paused and len(data) <= LARGE_READ:
            message = parser.known_message(data)
            if message is not None:
                self._begin(message)
                return
        if parser.incoming is None and (self.current is not None or self.paused) and not parser.final:
            self.backlog += data
            if len(self.backlog) > BACKLOG:
                self.hold()
            return
        if phase is BODY:
            self.since = self.loop.time()
        before = parser.piece_count
        at, end = 0, len(data)
        while at < end:
            step = max(SLICE, parser.owed()) if end - at > SLICE else SLICE
            parser.feed(data[at : at + step])
            at += step
            if at < end and parser.queue and parser.incoming is None and not parser.final:
                # Only a few pipelined messages are parsed: a request of thirty bytes takes a kilobyte once parsed.
                self.backlog += data[at:]
                break
        self._turn()
        pieces = parser.piece_count - before
        if (len(data) > LARGE_READ or pieces > MANY_PIECES) and not self.waiting and not self.closing:
            self.waiting = True
            if not self.holding:
                self.transport.pause_reading()
            if pieces > MANY_PIECES:
                self.loop.call_at(self.server.turn_after(pieces), self._next_turn)
            else:
                self.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Continue after a large read, unless the reader paused."""
        self.waiting = False
        if not self.holding and not self.gone and not self.transport.is_closing():
            self.transport.resume_reading()

    def eof_received(self) -> None:
        """Take the client's end as its going away; the transport closes by itself."""
        self._lose()

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and let go of whatever knows this connection: its bytes are not to wait for the collector."""
        self._lose()
        self._wake()
        self._notify_sent()
        self.backlog.clear()
        self.parser.forget()
        self.server.remove(self)

    def pause_writing(self) -> None:
        """Inform the handler that the client does not read."""
        self.paused = True
        if self.current is not None:
            self.current.pause()

    def resume_writing(self) -> None:
        """Inform the handler that the client reads again, or continue with deferred work."""
        self.paused = False
        self._notify_sent()
        if self.current is not None:
            self.current.resume()
        else:
            self._turn()

    def _is_behind(self) -> bool:
        """Whether the transport holds much. uvloop pauses the protocol only in its next turn."""
        return self.paused or self.transport.get_write_buffer_size() > self.server.limits.write_buffer

    def _notify_sent(self) -> None:
        waiting, self.when_sent = self.when_sent, []
        for call in waiting:
            call()

    # Called by requests and bodies.

    def send(self, data: bytes) -> None:
        """Write to the client if it is there."""
        if not self.gone:
            self.transport.write(data)

    def after_sending(self, call: Callable[[], None]) -> None:
        """Call this when the client has read most of the data, or is gone."""
        if not self.gone and self._is_behind():
            self.when_sent.append(call)
        else:
            call()

    def sever(self, reset: bool) -> None:
        """Close at once. Written data is still sent, unless the client does not read, or the end must look like a
        break."""
        if self.gone:
            return
        self.gone = self.closing = True
        if self.current is not None:
            self.current.lost()
        if reset:
            self.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, RESET)
            self.transport.abort()
        elif self.paused:
            self.transport.abort()
        else:
            self._enter(ConnectionPhase.CLOSING)
            self.transport.close()

    def hold(self) -> None:
        """Stop reading."""
        if not self.holding and not self.gone:
            self.holding = True
            self.transport.pause_reading()

    def release(self) -> None:
        """Read again."""
        if self.holding and not self.gone:
            self.holding = False
            if not self.waiting:
                self.transport.resume_reading()

    def await_body(self, proceed: bool) -> None:
        """Wait for the client's body."""
        if proceed:
            self.send(CONTINUE)
        self._enter(BODY)
        if self.current is not None:
            self.paced = (self.since, self.current.content.size)
        self.release()

    def body_waited(self) -> None:
        """Wait for the handler again."""
        if self.phase is BODY:
            self._enter(BUSY)

    def too_much(self) -> None:
        """Close rather than read an endless rest, at the latest after the reply."""
        if self.current is None:
            self._close()
        else:
            self.hold()

    # Called by the server.

    def retire(self) -> None:
        """Close if nothing is under way, else after the reply."""
        self.retiring = True
        if self.phase in (FRESH, IDLE, ConnectionPhase.DISCARD) and not self.closing:
            self._close()

    def stop(self) -> None:
        """Cancel the running handler, and close."""
        if self.current is not None:
            self._cancel(self.current)
        elif not self.closing:
            self._close()

    def check_limits(self, now: float) -> None:
        """See whether a limit has passed."""
        if self.when_sent and not self._is_behind():
            self._notify_sent()
        if self.phase is BUSY:
            return
        limit = LIMITS[self.phase](self.server.limits)
        if self.phase is BODY:
            self._check_pace(now)
        elif self.phase in READING:
            unsent = self.transport.get_write_buffer_size()
            if unsent:
                limit = self.server.limits.unread_timeout
                # The system takes more from here only in large steps, however steadily a slow client reads.
                unsent += unarrived(self.transport.get_extra_info("socket").fileno())
            if unsent != self.unsent:
                self.unsent = unsent
                self.since = now
        if now - self.since >= limit:
            self._expire()

    # The rest is its own business.

    def _enter(self, phase: ConnectionPhase) -> None:
        self.phase = phase
        self.since = self.loop.time()

    def _check_pace(self, now: float) -> None:
        """See whether a body comes too slowly while others wait for the room that it has."""
        body = self.current.content if self.current is not None else None
        if body is None:
            return
        if self.holding or self.waiting:
            # The client is not silent: the gateway lacks room for its data, or it waits for its turn.
            self.since = now
        since, size = self.paced
        if self.holding or self.waiting or body.charge is None or not body.charge.is_contended:
            self.paced = (now, body.size)
        elif now - since >= PACE_TIME:
            self.paced = (now, body.size)
            if body.size - size < MINIMUM_PACE * PACE_TIME:
                self._fail_body("the request body comes too slowly while others wait for room")

    def _fail_body(self, message: str) -> None:
        if self.current is not None:
            self.current.closes = True
            self.current.content.fail(ClientError(408, message))

    def _expire(self) -> None:
        """Act as the table states for a passed limit."""
        if self.phase is HEAD:
            self._refuse(RefusedMessage(status=408, message="the headers did not come in time"))
        elif self.phase is BODY:
            self._fail_body("the request body did not come in time")
        elif self.phase in CUT or self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._close()

    def _catch_up(self) -> None:
        """Parse one message of the backlog; the rest is neither copied nor read."""
        parser, backlog = self.parser, self.backlog
        while backlog and not (parser.queue and parser.incoming is None and not parser.final):
            step = max(SLICE, parser.owed())
            data = bytes(memoryview(backlog)[:step])
            del backlog[:step]
            parser.feed(data)
        self._turn()

    def _turn(self) -> None:
        """Continue reading if there is room; start the next message if the last exchange is over and its reply is
        read."""
        parser = self.parser
        if self.holding and parser.incoming is None and len(self.backlog) <= BACKLOG:
            # Else the client's going away would not be seen.
            self.release()
        if self.current is not None or self.closing or (parser.incoming is not None and not parser.queue):
            return
        if self.paused:
            self._wait_in(IDLE)
        elif parser.queue:
            message = parser.queue.popleft()
            if isinstance(message, ServerRequest):
                self._begin(message)
            else:
                self._refuse(message)
        elif parser.final:
            self._close()
        elif self.backlog:
            self._catch_up()
        elif self.retiring and not parser.in_head:
            self._close()
        else:
            self._wait_in(HEAD if parser.in_head else IDLE)
            if self.holding:
                self.release()

    def _begin(self, message: ServerRequest) -> None:
        """Have a message handled."""
        self.phase = BUSY
        self.current = message
        self.serving = False
        self.server.busy += 1
        if self.task is None:
            self.task = self.loop.create_task(self._serve())
        else:
            self._wake()

    def _wait_in(self, phase: ConnectionPhase) -> None:
        """Enter a phase, or stay in it without a new start; a client without any data stays fresh."""
        if self.phase is not phase and not (phase is IDLE and self.phase is FRESH):
            self.phase = phase
            self.since = self.loop.time()

    async def _serve(self) -> None:
        """Run the handler of one message after the other, and see to it that there is a reply."""
        try:
            while (request := self.current) is not None:
                self.serving = True
                try:
                    await self.server.handler(request)
                    if not request.ended and not self.gone:
                        logger.error("handler returned without a full response")
                        self._fail(request, 500, "internal error")
                except ClientError as error:
                    self._fail(request, error.status, error.message)
                except asyncio.CancelledError:
                    self._give_up(request)
                    raise
                except Exception:
                    # The outermost edge of an exchange: the client gets an answer whatever broke.
                    logger.exception("handler failed")
                    self._fail(request, 500, "internal error")
                finally:
                    self._over(request)
                # Nothing of an exchange outlives it.
                del request
                if self.current is not None:
                    # It came with the message before, and others have their turn first.
                    await asyncio.sleep(0)
                elif not self.closing:
                    self.awaited = self.loop.create_future()
                    await self.awaited
        finally:
            # They know each other. A handler that was cancelled from within leaves the next message to another task.
            self.task = None if self.current is None else self.loop.create_task(self._serve())

    def _wake(self) -> None:
        """Have the task go on: with the next message, or to its end."""
        awaited, self.awaited = self.awaited, None
        if awaited is not None and not awaited.done():
            awaited.set_result(None)

    def _cancel(self, request: ServerRequest) -> None:
        """Cancel the handler; one that has not begun never will, and cannot clear up after itself."""
        if self.task is not None:
            self.task.cancel()
            if not self.serving:
                self.task = None
                self._give_up(request)
                self._over(request)

    def _give_up(self, request: ServerRequest) -> None:
        """Reply for a handler that was cancelled."""
        if self.server.stopping:
            self._fail(request, 503, "the server is shutting down")
        else:
            self._fail(request, 500, "internal error")

    def _fail(self, request: ServerRequest, status: int, message: str) -> None:
        """Reply in the handler's place if it is not too late, else break off."""
        if request.started or self.gone:
            request.abort()
            return
        headers, body = self.server.refuse(status, message, request.path, request.peer)
        request.closes = request.closes or self.server.stopping
        request.respond(status, headers, body)

    def _over(self, request: ServerRequest) -> None:
        """Continue after a finished exchange."""
        self.current = None
        if request.on_pause is not None or request.on_resume is not None:
            # They know the exchange, which knows its request.
            request.on_pause = request.on_resume = None
        content, server = request.content, self.server
        if content.charge is not None:
            content.discharge()
        server.busy -= 1
        if server.waiting:
            server.changed()
        if self.closing or self.gone:
            return
        if request.closes or self.retiring or server.stopping:
            self._close()
        elif not content.complete:
            content.discard()
            self._enter(ConnectionPhase.DISCARD)
            self.release()
        else:
            self._turn()

    def _refuse(self, refusal: RefusedMessage) -> None:
        """Reply to a message that the handler never sees, and close."""
        headers, body = self.server.refuse(refusal.status, refusal.message, refusal.path, self.parser.peer)
        head = compose(refusal.status, headers, CLOSE + length_line(len(body)))
        self.parser.stray = True
        self.send(head if refusal.mute else head + body)
        self._close()

    def _close(self) -> None:
        """Close after the written data; if input may be unread, so that the client can read the reply."""
        self.closing = True
        self.backlog.clear()
        if (self.parser.incoming is None and not self.parser.stray) or not self.transport.can_write_eof():
            self._enter(ConnectionPhase.CLOSING)
            self.transport.close()
        else:
            self._enter(ConnectionPhase.LINGER)
            self.release()
            try:
                self.transport.write_eof()
            except OSError:
                # The client's reset has arrived, and asyncio has not seen it.
                self.transport.abort()

    def _lose(self) -> None:
        """Note that the client is gone, and stop working for it."""
        if self.gone:
            return
        self.gone = True
        self.closing = True
        self._enter(ConnectionPhase.CLOSING)
        request = self.current
        if request is not None:
            if not request.ended:
                self._cancel(request)
            request.lost()
