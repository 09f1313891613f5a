"""Request parser: a connection's bytes to requests, and to refusals of invalid or unserved ones. The parser rejects
bare line feeds, folded lines, blanks before a colon, control characters, several lengths, a length beside a transfer
coding and bad chunks; the rest is checked here. It is fed a head, a sized body, or chunks up to an empty line, each by
itself, so a head begins where a feed begins, and its lines are read at once from its bytes."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Protocol

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
)
from msgspec import Struct

from dragoman.errors import ClientError
from dragoman.http.body import HELD, HIGH_WATER, Body, BodySource
from dragoman.http.byte_buffer import ByteBuffer
from dragoman.http.header_lines import EMPTY_LINE, LINE_END, HeaderLines
from dragoman.http.known_heads import digits_in, divided
from dragoman.http.request import RequestHead, RequestTarget, ResponseOutput, ServerRequest
from dragoman.http.upstream_call import HeaderList

if TYPE_CHECKING:
    from dragoman.http.server import HttpServer

# Maximum empty lines that are searched in the chunks of one read. Behind more of them no message may follow in the same
# piece.
MAX_EMPTY_LINES = 64
# Longer targets are refused even where longer headers are not.
URL_BYTES = 16 * 1024
BEHIND_CHUNKS = "nothing may follow at once on chunks with so many empty lines"


class Owner(ResponseOutput, BodySource, Protocol):
    """The connection that requests answer to and bodies come from."""


class RefusedMessage(Struct, frozen=True, kw_only=True):
    """A message that the handler never sees; `mute` if its reply must have no body."""

    status: int
    message: str
    path: str = ""
    mute: bool = False


class RequestLine(Struct, frozen=True):
    """The first line of a head, raw and parsed; `modern` is HTTP/1.1 rather than 1.0."""

    line: bytes
    method: str
    target: RequestTarget
    modern: bool


class RequestParser:
    """The reading half of a connection. `queue` holds complete messages, in order."""

    def __init__(self, owner: Owner, server: HttpServer, peer: str) -> None:
        self.owner = owner
        self.server = server
        self.peer = peer
        self.queue: deque[ServerRequest | RefusedMessage] = deque()
        # The message whose body is being read, and whether a head has begun and is not complete.
        self.incoming: ServerRequest | None = None
        self.in_head = False
        # Later data is ignored: the client announced its last message, or broke the protocol.
        self.final = False
        # Bytes arrived after the final message.
        self.stray = False
        # Pieces of a body since it was last handed on, and how many there were in all. The parser calls `append` itself
        # for each: a body may come in chunks of one byte, and a function in Python takes ten times as long.
        self._pieces: list[bytes] = []
        self.piece_count = 0
        self.on_body = self._pieces.append
        # The same for the target of a head.
        self._url: list[bytes] = []
        self.on_url = self._url.append
        # The same for the end of a message.
        self._ends: list[None] = []
        self.on_message_complete = partial(self._ends.append, None)
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        # Why a callback stopped the parser: status and message. The error itself would know the frames it went through.
        self._failure: tuple[int, str] | None = None
        self._replaying = False
        # Whether the parser has not seen the head of the message that is being read.
        self._is_known = False
        # Bytes since the last parser event other than a part of a head.
        self._unreported = 0
        # A head of which a part has come, and the line feeds in it.
        self._partial_head = bytearray()
        self._line_feeds = 0
        # The part of an incomplete head that was fed.
        self._fed = b""
        # The end of the chunks that were fed last: an empty line may begin in it.
        self._chunks_tail = b""
        self._path = ""
        # Earlier lines of this connection: most recur in its next message.
        self._request_line: RequestLine | None = None
        self._header_of = HeaderLines().__getitem__
        # The latest head that is known.
        self._last_head: RequestHead | None = None

    def known_message(self, data: bytes) -> ServerRequest | None:
        """The message that a read between two messages begins, if its head is known and nothing follows on it; None if
        the read is to be fed."""
        head = self._last_head
        digits = None if head is None else digits_in(head, data)
        if digits is None:
            head = self._last_head = self.server.heads.find(self.peer, data)
            digits = None if head is None else digits_in(head, data)
        if head is None or digits is None or head.limits is not self.server.limits:
            return None
        start, length = digits.stop + len(head.after), int(data[digits])
        size = len(data) - start
        if size > length:
            return None
        pieces = ByteBuffer(size, [data[start:]])
        body = Body(self.owner, length, False, size == length, False, size, HIGH_WATER, HELD, pieces)
        known = ServerRequest(
            self.owner, head.method, head.path, head.query, head.headers, head.table, body, self.peer, True, False, head
        )
        if size < length:
            self.incoming = known
            self._is_known = True
        return known

    def feed(self, data: bytes) -> None:
        """Read on."""
        at, end, empty_lines = 0, len(data), 0
        while at < end and (parser := self._parser) is not None:
            request = self.incoming
            if request is not None and (length := request.content.length) is not None:
                cut = at + length - request.content.size
                if self._is_known:
                    self._pieces.append(data[at:cut])
                    if cut <= end:
                        self._is_known = False
                        self._hand_on(True)
                    at = cut
                    continue
            elif request is not None:
                empty_lines += 1
                cut = after_empty_line(self._chunks_tail, data, at) if empty_lines <= MAX_EMPTY_LINES else end
                tail = (self._chunks_tail + data[max(at, cut - 3) : cut])[-3:]
                # The end of an empty line is not taken for the beginning of the next.
                self._chunks_tail = b"" if tail == EMPTY_LINE[1:] else tail
            elif self.final:
                self.stray = at == 0 or bool(data[at:].lstrip(LINE_END))
                break
            elif self.in_head:
                cut = after_empty_line(self._partial_head[-3:], data, at)
            elif data[at] in LINE_END:
                # Line ends before a message are none of it.
                data, at = data[at:].lstrip(LINE_END), 0
                end = len(data)
                continue
            else:
                cut = data.find(EMPTY_LINE, at) + len(EMPTY_LINE)
                if cut < len(EMPTY_LINE):
                    cut = end
            piece = data[at:cut]
            at = cut
            self._unreported += len(piece)
            if request is None:
                self._fed = piece
            try:
                parser.feed_data(piece)
            except HttpParserUpgrade:
                self._replay()
            except HttpParserError as error:
                self._stop(parser, error)
            if self._fed:
                self._keep_head(piece)
            elif self._ends:
                self._ends.clear()
                self._hand_on(True)
                if empty_lines > MAX_EMPTY_LINES and not self.final and not piece.endswith(EMPTY_LINE):
                    self._break(ClientError(400, BEHIND_CHUNKS))
                empty_lines = 0
        if self._pieces:
            self._hand_on(False)
        if self._unreported:
            self._check_unreported()

    def _keep_head(self, piece: bytes) -> None:
        """Note a part of a head."""
        self._fed = b""
        self.in_head = True
        self._partial_head += piece
        self._line_feeds += piece.count(b"\n")
        if len(self._url) > 1:
            self._url[:] = [b"".join(self._url)]

    def _check_unreported(self) -> None:
        """See whether more has come of a head, or around chunks, than is allowed."""
        limits = self.server.limits
        if self.in_head:
            if self._is_long_target():
                self._break(ClientError(414, "the request target is too long"))
            elif self._unreported > limits.header_bytes:
                self._break(ClientError(431, "the headers are too large"))
            elif self._line_feeds > limits.header_count + 1:
                self._break(ClientError(431, "too many headers"))
        elif self.incoming is not None and self._unreported > limits.header_bytes:
            self._break(ClientError(431, "the headers are too large"))

    def _is_long_target(self) -> bool:
        return sum(map(len, self._url)) > min(URL_BYTES, self.server.limits.header_bytes)

    def _hand_on(self, last: bool) -> None:
        """Hand on what has come of a body, as one piece, and the end of the message if it was the last."""
        pieces, request = self._pieces, self.incoming
        self._unreported = 0
        self.piece_count += len(pieces)
        data = b"".join(pieces)
        pieces.clear()
        if request is not None:
            if last:
                self.incoming = None
                self.final = request.closes
            request.content.feed(data, last)

    def owed(self) -> int:
        """The announced bytes of this body that have not arrived yet."""
        body = self.incoming.content if self.incoming is not None else None
        return body.length - body.size if body is not None and body.length is not None else 0

    def forget(self) -> None:
        """Break reference cycles, and drop bytes that will not be read."""
        self._parser = None
        self._pieces.clear()
        self.queue.clear()
        if self.incoming is not None:
            self.incoming.content.discard()
            self.incoming = None
        del self.owner

    def _stop(self, parser: HttpRequestParser, error: HttpParserError) -> None:
        """Break with what the parser, or a callback of it, did not accept."""
        if isinstance(error, HttpParserCallbackError):
            if self._failure is None:
                raise error
            self._break(ClientError(*self._failure))
            return
        if isinstance(error, HttpParserInvalidURLError):
            # The emitted part of it depends on the reads.
            self._url.clear()
        if self.incoming is None and self._is_long_target():
            self._break(ClientError(414, "the request target is too long"))
        elif parser.get_method() == b"PRI":
            self._break(ClientError(505, "only HTTP/1.1 is spoken here"))
        else:
            self._break(ClientError(400, f"malformed HTTP message: {error}"))

    def _replay(self) -> None:
        """Continue after a refused upgrade: the parser left the body out, so a new parser gets it."""
        request = self.incoming
        if request is None:
            return
        # The parser took the head for the whole message.
        self._ends.clear()
        length = request.content.length
        framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
        self._parser = HttpRequestParser(self)
        self._replaying = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
        self._replaying = False
        self._url.clear()

    def _break(self, error: ClientError) -> None:
        """Stop reading for good: the message is rejected, or its running handler informed."""
        self.final = True
        self.stray = True
        mute = self._parser is not None and self._parser.get_method() == b"HEAD"
        self._parser = None
        if self.incoming is not None:
            request, self.incoming = self.incoming, None
            request.closes = True
            request.content.fail(error)
        else:
            # A head that is too large or malformed further down still has its path.
            path = self._path or b"".join(self._url).decode("latin-1").partition("?")[0]
            self.queue.append(RefusedMessage(status=error.status, message=error.message, path=path, mute=mute))
        self._fed = b""
        self._partial_head.clear()
        self.in_head = False

    def _refused(self, status: int, message: str) -> ClientError:
        """The error to raise from a callback, with its message stored for later."""
        self._failure = (status, message)
        return ClientError(status, message)

    # Callbacks of the parser.

    def on_headers_complete(self) -> None:
        """Make a request of a complete head, without its offer to upgrade."""
        parser = self._parser
        if self._replaying or parser is None:
            return
        if not self._fed:
            raise self._refused(400, BEHIND_CHUNKS)
        head = bytes(self._partial_head) + self._fed if self.in_head else self._fed
        lines = head.split(LINE_END)
        line = lines.pop(0)
        # The ends of the last header and of the empty line.
        del lines[-2:]
        self._unreported = 0
        limits = self.server.limits
        first = self._request_line
        if first is not None and first.line != line:
            first = None
        if first is None and self._is_long_target():
            raise self._refused(414, "the request target is too long")
        if len(head) > limits.header_bytes:
            raise self._refused(431, "the headers are too large")
        if len(lines) > limits.header_count:
            raise self._refused(431, "too many headers")
        if first is None:
            first = self._request_line = self._read_request_line(parser, line)
        self._url.clear()
        self._path = first.target.path
        headers = list(map(self._header_of, lines))
        table = dict(reversed(headers))
        # Whether some occur more than once.
        repeated = len(table) < len(headers)
        if b"host" not in table:
            if first.modern:
                raise self._refused(400, "exactly one Host header is needed")
        elif repeated and len(values_of(b"host", headers)) > 1:
            raise self._refused(400, "exactly one Host header is needed")
        length: int | None = None
        if b"transfer-encoding" in table:
            self._check_codings(headers, table, first.modern)
        else:
            length = int(table.get(b"content-length", b"0"))
        expects = b"expect" in table and first.modern and expects_proceed(headers)
        closes = not parser.should_keep_alive()
        shared: RequestHead | None = None
        if first.target.authority or b"upgrade" in table:
            headers = own_headers(headers, first.target)
            table = dict(reversed(headers))
        elif length and first.modern and not (expects or closes or self.in_head):
            shared = self._known_head(first, headers, head)
        self.incoming = ServerRequest(
            self.owner,
            first.method,
            first.target.path,
            first.target.query,
            headers,
            table,
            Body(self.owner, length, expects),
            self.peer,
            first.modern,
            closes,
            shared,
        )
        self.queue.append(self.incoming)
        self._fed = b""
        self._path = ""
        if self.in_head:
            self.in_head = False
            self._partial_head.clear()
            self._line_feeds = 0

    def _known_head(self, first: RequestLine, headers: HeaderList, written: bytes) -> RequestHead:
        """A head from now on known."""
        headers = [header for header in headers if header[0] != b"content-length"]
        target = first.target
        head = RequestHead(
            first.method,
            target.path,
            target.query,
            headers,
            dict(reversed(headers)),
            self.peer,
            self.server.limits,
            *divided(written),
        )
        self.server.heads.remember(head)
        return head

    # Checks of a head.

    def _read_request_line(self, parser: HttpRequestParser, line: bytes) -> RequestLine:
        """The line of a message that may be served."""
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise self._refused(505, "only HTTP/1.1 is spoken here")
        method = parser.get_method().decode("ascii")
        if method == "CONNECT":
            raise self._refused(405, "this is no proxy")
        try:
            target = RequestTarget(b"".join(self._url))
        except ClientError as error:
            self._failure = (error.status, error.message)
            raise
        if target.path == "*" and method != "OPTIONS":
            raise self._refused(400, "the request target is neither a path nor an http URL")
        return RequestLine(line, method, target, version == "1.1")

    def _check_codings(self, headers: HeaderList, table: dict[bytes, bytes], modern: bool) -> None:
        """Refuse every transfer coding but chunked, whose length is known only at its end."""
        codings = values_of(b"transfer-encoding", headers)
        if b"content-length" in table:
            raise self._refused(400, "Content-Length and Transfer-Encoding exclude each other")
        if not modern:
            raise self._refused(400, "HTTP/1.0 has no transfer codings")
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            raise self._refused(501, "the only transfer coding known here is chunked")


def after_empty_line(before: bytes | bytearray, data: bytes, at: int) -> int:
    """Where the first empty line from `at` on ends, else the end of the data; it may begin in the bytes before."""
    found = (before + data[at : at + 3]).find(EMPTY_LINE)
    if found >= 0:
        return at + found + len(EMPTY_LINE) - len(before)
    found = data.find(EMPTY_LINE, at)
    return found + len(EMPTY_LINE) if found >= 0 else len(data)


def values_of(name: bytes, headers: HeaderList) -> list[bytes]:
    """All values under a lower-case name."""
    return [value for key, value in headers if key == name]


def expects_proceed(headers: HeaderList) -> bool:
    """Whether the client waits for 100 Continue."""
    return any(value.lower() == b"100-continue" for value in values_of(b"expect", headers))


def own_headers(headers: HeaderList, target: RequestTarget) -> HeaderList:
    """The headers without an offer to upgrade; a target's own host wins over the header's."""
    headers = [header for header in headers if header[0] != b"upgrade"]
    if target.authority:
        headers = [header for header in headers if header[0] != b"host"]
        headers.append((b"host", target.authority.encode("latin-1")))
    return headers
