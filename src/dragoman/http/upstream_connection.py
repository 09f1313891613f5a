"""Connection: one socket to a provider, read by the parser of `httptools`, serving one call after the other.

| now | a head | a body's bytes | the message's end | bytes that are no HTTP | the socket's end |
| --- | --- | --- | --- | --- | --- |
| idle | mistrust | mistrust | mistrust | mistrust | leave the pool |
| asked | tell it, go on reading | | | `BadResponse` | `Unanswered` before the first byte, else `Truncated` |
| reading | | tell them | tell it, idle again | `BadResponse` | end if it ends the body, else `Truncated` |
| ended, in the same reading | mistrust | mistrust | mistrust | mistrust | leave the pool |

Mistrust: nothing of this origin is reused for a while, see `reuse.py`. On a reused connection, it also follows bytes
that are no HTTP, and a success before the whole request had arrived at the other side. The call decides what
`Unanswered` means on such a connection: it may retry on a new one.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from dragoman.errors import BadResponse, Truncated, Unanswered, UpstreamError
from dragoman.http.header_lines import EMPTY_LINE, LINE_END, HeaderLines
from dragoman.http.sockets import (
    LARGE_READ,
    Readiness,
    read_ahead,
    readiness,
    stop_reading,
    unarrived,
    unknown_readiness,
)
from dragoman.http.upstream_call import HeaderList, header

# Heads, and whatever else of an answer is no body: trailers, extensions of chunks.
MAX_HEAD_BYTES = 256 * 1024
MAX_HEADERS = 2000
# Up to here one write of a copy is cheaper than two writes.
ONE_WRITE = 256 * 1024

# Seconds for a TLS connection to deliver the data in its socket.
TLS_CLOSE_DELAY = 1.0
# Until here a status is none of an early refusal.
FIRST_ERROR = 400

NOT_HTTP = "the provider did not respond in HTTP"
BROKE_OFF = "the provider's response broke off"
NO_RESPONSE = "the provider closed the connection before its response"
UNSOLICITED = "the provider's response does not match the request"
LARGE_HEAD = "the headers of the provider's response are too large"


class Receiver(Protocol):
    """The owner of the call, called from within the read callback."""

    received: int

    def on_head(self, status: int, headers: HeaderList) -> None:
        """The final status and headers are there."""
        ...

    def on_data(self, data: bytes) -> None:
        """A piece of the body has arrived."""
        ...

    def on_end(self) -> None:
        """The response is complete. The connection returns to the pool."""
        ...

    def on_break(self, error: UpstreamError) -> None:
        """The answer will not be completed; the connection is gone."""
        ...


class ConnectionOwner(Protocol):
    """Where a connection rests between two calls."""

    def release(self, connection: UpstreamConnection) -> None:
        """Take back a connection that can serve another call."""
        ...

    def forget(self, connection: UpstreamConnection) -> None:
        """Take note that a connection is gone."""
        ...

    def mistrust(self) -> None:
        """Record that the other side sent unexpected data."""
        ...


class GoneTransport(asyncio.Transport):
    """The transport of a connection that is not there: not yet, or no longer."""

    def is_closing(self) -> bool:
        """Yes."""
        return True

    def abort(self) -> None:
        """Nothing is left to do."""


GONE = GoneTransport()


class UpstreamConnection(asyncio.Protocol):
    """A connection; it has a receiver exactly while a call is under way."""

    __slots__ = (
        "_barren",
        "_bodiless",
        "_crowded",
        "_early",
        "_ended",
        "_excess",
        "_fed",
        "_has_new_head",
        "_head_start",
        "_headed",
        "_header_of",
        "_headers",
        "_keep_alive",
        "_loop",
        "_owner",
        "_parser",
        "_partial_head",
        "_paused",
        "_pieces",
        "_poll",
        "_receiver",
        "_socket",
        "_status",
        "_transport",
        "_waiting",
        "counted",
        "idle_since",
        "on_body",
        "reused",
        "was_pooled",
    )

    # Knows this connection in turn, and so lives from the socket's beginning to its end.
    _parser: HttpResponseParser

    def __init__(self, owner: ConnectionOwner, end: socket.socket) -> None:
        self._owner = owner
        self._socket = end
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport = GONE
        self._receiver: Receiver | None = None
        # Whether its home counts it among its own: not before it is whole, and not after it is gone.
        self.counted = False
        self._paused = False
        # Whether it reads on only in the loop's next turn.
        self._waiting = False
        self.reused = False
        # Whether it has served or rested before, so that the other side may have tired of it; and since when it rests.
        self.was_pooled = False
        self.idle_since = 0.0
        # Body data since the last delivery. The parser calls `append` itself.
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        # A head of which a part has come.
        self._partial_head = bytearray()
        # Most lines of a head come again with the next one.
        self._header_of = HeaderLines().__getitem__
        self._poll: Readiness = unknown_readiness
        self._begin(False)

    def _begin(self, bodiless: bool) -> None:
        self._bodiless = bodiless
        self._status = 0
        self._headers: HeaderList = []
        self._pieces.clear()
        # The part of a head so far, and where the final head can begin after informational ones.
        self._fed = b""
        self._partial_head.clear()
        self._head_start = 0
        self._crowded = False
        # Bytes since the last that belonged to a body.
        self._barren = 0
        self._headed = False
        self._has_new_head = False
        self._ended = False
        self._keep_alive = False
        self._excess = False
        self._early = False

    # The caller's side.

    def send(self, receiver: Receiver, head: bytes, body: bytes, bodiless: bool) -> bool:
        """Write a request and report its answer to the receiver; False if the connection died before it took a byte."""
        transport = self._transport
        if transport.is_closing():
            self.drop()
            return False
        self._begin(bodiless)
        self._receiver = receiver
        if len(body) <= ONE_WRITE:
            transport.write(head + body)
            lost = transport.is_closing()
        else:
            transport.write(head)
            lost = transport.is_closing()
            transport.write(body)
        if lost:
            self.drop()
        return not lost

    def alive(self) -> bool:
        """Whether an idle connection can be used; looks into the socket for an end that the loop has not yet seen."""
        if self._transport.is_closing():
            return False
        if not self._poll(0):
            return True
        try:
            data = self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        # Bytes or an end: both unexpected. Under TLS bytes may well be an end.
        if data and not self._encrypted():
            self._owner.mistrust()
        return False

    def closing(self) -> bool:
        """Whether the connection is known to be at its end."""
        return self._transport.is_closing()

    def pause(self) -> None:
        """Stop reading."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            stop_reading(self._transport)

    def resume(self) -> None:
        """Read on."""
        if self._paused and not self._transport.is_closing():
            self._paused = False
            if not self._waiting:
                self._read_on()

    def drop(self) -> None:
        """Close at once and without a word to the receiver; a polite end of TLS would wait for the other side."""
        self._receiver = None
        self._transport.abort()
        if self.counted:
            self.counted = False
            self._owner.forget(self)

    def dismiss(self) -> None:
        """Close a connection that cannot be used; one under TLS only after the loop has read what lies in it."""
        if self._encrypted() and not self._transport.is_closing():
            self._loop.call_later(TLS_CLOSE_DELAY, self.drop)
        else:
            self.drop()

    def _encrypted(self) -> bool:
        return self._transport.get_extra_info("ssl_object") is not None

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._parser = HttpResponseParser(self)
        self._poll = readiness(self._socket.fileno())
        # uvloop's transports are none of asyncio's classes, so there is nothing to narrow with.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Read what arrived, and hand it over as one head, one piece and one end at most."""
        receiver = self._receiver
        if receiver is None:
            if not self._transport.is_closing():
                self._owner.mistrust()
            self.drop()
            return
        size = len(data)
        receiver.received += size
        was_headed = self._headed
        if not was_headed:
            self._fed = data
            # Whether a part of the request has not arrived at the other side, as far as the system reports it.
            self._early = self.reused and (
                self._transport.get_write_buffer_size() > 0 or unarrived(self._socket.fileno()) > 0
            )
        broken = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            broken = True
        if was_headed and len(self._pieces) == 1 and size <= LARGE_READ and not (broken or self._ended):
            # A part of the body and nothing else, as nearly all reads of a stream are.
            self._barren = 0
            receiver.on_data(self._pieces.pop())
            return
        self._barren += size
        if self._has_new_head:
            self._report_head(receiver)
        elif not self._headed:
            self._keep_head()
            # An informational message has no body: what looks like one is none of the answer's.
            broken = broken or bool(self._pieces)
            self._pieces.clear()
        pieces = self._pieces
        if pieces and self._bodiless:
            self._excess = True
        elif pieces and self._receiver is receiver:
            if len(pieces) == 1:
                body = pieces.pop()
            else:
                body = b"".join(pieces)
                pieces.clear()
            self._barren = 0
            receiver.on_data(body)
        # The receiver may have closed the connection meanwhile.
        if self._receiver is not receiver:
            return
        if self._ended:
            self._end(receiver, broken or self._excess)
        elif broken:
            if self.reused and not self._headed:
                self._owner.mistrust()
            self._break(BadResponse(LARGE_HEAD if self._crowded else NOT_HTTP))
        elif self._barren > MAX_HEAD_BYTES:
            self._break(BadResponse(LARGE_HEAD if not self._headed else NOT_HTTP))
        elif size > LARGE_READ and not self._paused:
            self._waiting = True
            stop_reading(self._transport)
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        """Continue after a large read, unless the reader paused."""
        self._waiting = False
        if self._reads():
            self._read_on()

    def _read_on(self) -> None:
        self._transport.resume_reading()
        if self._encrypted():
            # Only after what the transport has already read: it is handed over by a call that was put before this one.
            self._loop.call_soon(self._read_ahead)

    def _read_ahead(self) -> None:
        if self._reads():
            read_ahead(self._transport)

    def _reads(self) -> bool:
        return not self._paused and not self._waiting and not self._transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        """Report the end of the socket to the receiver."""
        if self._transport is GONE:
            return
        receiver = self._receiver
        if receiver is None:
            self.drop()
        elif self._headed and error is None and until_close(self._headers):
            self._end(receiver, False)
        else:
            self._break(Truncated(BROKE_OFF) if receiver.received else Unanswered(NO_RESPONSE))
        # Both hold this connection's methods: without them, nothing is left for the garbage collector.
        del self._parser
        self._transport = GONE

    def _keep_head(self) -> None:
        """Keep what has come of a head, without informational ones before it."""
        self._partial_head += self._fed
        del self._partial_head[: self._head_start]
        self._head_start = 0

    def _report_head(self, receiver: Receiver) -> None:
        """Hand over a head, unless it cannot be an answer."""
        self._has_new_head = False
        if self._barren > MAX_HEAD_BYTES and head_size(self._headers) > MAX_HEAD_BYTES:
            self._break(BadResponse(LARGE_HEAD))
        elif self._early and self._status < FIRST_ERROR:
            # The permission came too early: it belongs to an earlier call. Refusals come early.
            self._owner.mistrust()
            self._break(BadResponse(UNSOLICITED))
        else:
            receiver.on_head(self._status, self._headers)

    def _end(self, receiver: Receiver, excess: bool) -> None:
        if excess:
            self._owner.mistrust()
        # If the request is not completely written, the response came early: the rest would be parsed as the next
        # request.
        if not self._keep_alive or excess or self._early or self._transport.get_write_buffer_size():
            self.drop()
        else:
            self._receiver = None
            if self._bodiless:
                # The parser still waits for the body that a HEAD request does not get.
                self._parser = HttpResponseParser(self)
            if self._paused:
                self.resume()
            self.reused = self.was_pooled = True
            self._owner.release(self)
        receiver.on_end()

    def _break(self, error: UpstreamError) -> None:
        receiver = self._receiver
        self.drop()
        if receiver is not None:
            receiver.on_break(error)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Detect a response without a request."""
        if self._ended:
            self._excess = True
            # The parser stops at an error.
            raise ValueError(UNSOLICITED)

    def on_headers_complete(self) -> None:
        """Read a final head, and forget an informational one."""
        status = self._parser.get_status_code()
        if status < 100 or self._pieces:
            # No status at all, or an informational message before this one had a body. The parser stops at an error.
            raise ValueError(NOT_HTTP)
        if self._partial_head:
            self._fed = bytes(self._partial_head) + self._fed
            self._partial_head.clear()
        head = self._fed
        start = self._head_start
        while head[start] in LINE_END:
            start += 1
        end = head.index(EMPTY_LINE, start)
        if status < 200:
            self._head_start = end + len(EMPTY_LINE)
            return
        lines = head[start:end].split(LINE_END)
        if len(lines) > MAX_HEADERS + 1:
            self._crowded = True
            raise ValueError(LARGE_HEAD)
        del lines[0]
        self._headers = list(map(self._header_of, lines))
        self._fed = b""
        self._status = status
        self._headed = self._has_new_head = True
        if self._bodiless:
            self._keep_alive = self._parser.should_keep_alive()
            self._ended = True

    def on_message_complete(self) -> None:
        """Note the end, unless it is an informational message's."""
        if self._headed and not self._ended:
            self._ended = True
            self._keep_alive = self._parser.should_keep_alive()


def head_size(headers: HeaderList) -> int:
    """The bytes that headers took on the wire."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def until_close(headers: HeaderList) -> bool:
    """Whether an answer's body lasts until the connection ends: RFC 9112, section 6.3."""
    coding = header(headers, b"transfer-encoding")
    if coding is not None:
        return not coding.lower().endswith(b"chunked")
    return header(headers, b"content-length") is None
