"""Intake: bytes of one connection into requests, and into refusals of what is no request or none that may be served.

The parser is strict by itself: bare line feeds, folded lines, blanks before a colon, control characters, several
lengths, a length beside a transfer coding and bad chunks are errors there. What it lets through is checked here.
"""

from __future__ import annotations

from collections import deque
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
from dragoman.http.body import Body, BodySource
from dragoman.http.request import RequestTarget, ResponseOutput, ServerRequest
from dragoman.http.upstream_call import HeaderList

if TYPE_CHECKING:
    from dragoman.http.server import HttpServer

# Longer targets are refused even where longer headers are not.
URL_BYTES = 16 * 1024
# Headers that decide how a message is read.
DECISIVE = frozenset({b"content-length", b"expect", b"host", b"transfer-encoding", b"upgrade"})
NO_VALUES: list[bytes] = []


class Owner(ResponseOutput, BodySource, Protocol):
    """The connection that requests answer to and bodies come from."""


class RefusedMessage(Struct, frozen=True, kw_only=True):
    """A message that the handler never sees; `mute` if its reply must have no body."""

    status: int
    message: str
    path: str = ""
    mute: bool = False


class RequestParser:
    """The reading half of a connection. `queue` holds what was read and not yet taken up, in order."""

    def __init__(self, owner: Owner, server: HttpServer, peer: str) -> None:
        self.owner = owner
        self.server = server
        self.peer = peer
        self.queue: deque[ServerRequest | RefusedMessage] = deque()
        # The message whose body is being read, and whether a head has begun and is not complete.
        self.incoming: ServerRequest | None = None
        self.in_head = False
        # Nothing further is understood: the client said that this is its last message, or broke the protocol.
        self.final = False
        # Bytes came after the final message.
        self.stray = False
        # Pieces of a body since it was last handed on, and how many there were in all. The parser calls `append` itself
        # for each: a body may come in chunks of one byte, and a function in Python takes ten times as long.
        self._pieces: list[bytes] = []
        self.piece_count = 0
        self.on_body = self._pieces.append
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        # Why a callback stopped the parser: status and words. The error itself would know the frames it went through.
        self._failure: tuple[int, str] | None = None
        self._upgrading = False
        self._replaying = False
        # Bytes that have come since the parser last told something other than a piece of a head.
        self._unreported = 0
        self._url = b""
        self._path = ""
        self._headers: HeaderList = []
        self._head_size = 0

    def feed(self, data: bytes) -> None:
        """Read on."""
        if self.final and self.incoming is None:
            self.stray = True
            return
        self._unreported += len(data)
        self._parse(data)
        self._hand_on()
        limits = self.server.limits
        if self._unreported > limits.header_bytes and (self.in_head or self.incoming is not None):
            self._break(ClientError(431, "the headers are too large"))
        elif self.in_head and len(self._headers) > limits.header_count:
            self._break(ClientError(431, "too many headers"))

    def _hand_on(self) -> None:
        """Hand on what has come of a body, as one piece."""
        pieces = self._pieces
        if not pieces:
            return
        self._unreported = 0
        self.piece_count += len(pieces)
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self.incoming is not None:
            self.incoming.content.feed(data)

    def owed(self) -> int:
        """How many bytes of the body at hand are known to be still to come."""
        body = self.incoming.content if self.incoming is not None else None
        return body.length - body.size if body is not None and body.length is not None else 0

    def forget(self) -> None:
        """Let go of what knows this object in turn, and of bytes that nobody will read."""
        self._parser = None
        self._pieces.clear()
        self.queue.clear()
        if self.incoming is not None:
            self.incoming.content.discard()
            self.incoming = None
        del self.owner

    def _parse(self, data: bytes) -> None:
        if self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._replay(data[upgrade.args[0] :])
        except HttpParserCallbackError:
            if self._failure is None:
                raise
            self._break(ClientError(*self._failure))
        except HttpParserError as error:
            if isinstance(error, HttpParserInvalidURLError):
                # How much of it was told depends on how the bytes were cut.
                self._url = b""
            if self.final and self.incoming is None:
                self.stray = True
            elif self._parser.get_method() == b"PRI":
                self._break(ClientError(505, "only HTTP/1.1 is spoken here"))
            else:
                self._break(ClientError(400, f"malformed HTTP message: {error}"))

    def _replay(self, rest: bytes) -> None:
        """Go on after an upgrade that is not made: the parser left the body out, so a fresh one is told of it."""
        request = self.incoming
        if request is None:
            return
        length = request.content.length
        framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
        self._parser = HttpRequestParser(self)
        self._upgrading = False
        self._replaying = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
        self._replaying = False
        self._parse(rest)

    def _break(self, error: ClientError) -> None:
        """Stop reading for good: the message at hand is refused, or its handler told if it is already at work."""
        self.final = True
        self.stray = True
        mute = self._parser is not None and self._parser.get_method() == b"HEAD"
        self._parser = None
        if self.incoming is not None:
            request, self.incoming = self.incoming, None
            request.closes = True
            request.content.fail(error)
        else:
            # A head that is too large or malformed further down still says where it was to go.
            path = self._path or self._url.decode("latin-1").partition("?")[0]
            self.queue.append(RefusedMessage(status=error.status, message=error.message, path=path, mute=mute))
        self.in_head = False

    def _refused(self, status: int, message: str) -> ClientError:
        """The error to raise from a callback, its words kept where they can be found again."""
        self._failure = (status, message)
        return ClientError(status, message)

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a head."""
        if self._replaying:
            return
        self.in_head = True
        self._url = b""
        self._path = ""
        self._headers = []
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        if self._replaying:
            return
        self._url += url
        self._head_size += len(url)
        if len(self._url) > min(URL_BYTES, self.server.limits.header_bytes):
            raise self._refused(414, "the request target is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those after a body are counted and left out."""
        if self.in_head:
            self._head_size += len(name) + len(value) + 4
            self._headers.append((name.lower(), value.strip(b" \t")))
        elif not self._replaying:
            self._head_size += len(name) + len(value) + 4
            if self._head_size > self.server.limits.header_bytes:
                raise self._refused(431, "the headers are too large")

    def on_headers_complete(self) -> None:
        """Make a request of a complete head."""
        self._unreported = 0
        if self._replaying or self._parser is None:
            return
        parser, headers, limits = self._parser, self._headers, self.server.limits
        if self._head_size > limits.header_bytes:
            raise self._refused(431, "the headers are too large")
        if len(headers) > limits.header_count:
            raise self._refused(431, "too many headers")
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise self._refused(505, "only HTTP/1.1 is spoken here")
        request = self._request(parser, version == "1.1")
        self._upgrading = parser.should_upgrade()
        self.in_head = False
        self.incoming = request
        self.queue.append(request)

    def on_message_complete(self) -> None:
        """Note the end of a message."""
        self._hand_on()
        self._unreported = 0
        request = self.incoming
        if request is None or self._upgrading:
            return
        self.incoming = None
        self.final = request.closes
        request.content.finish()

    # Checks of a head.

    def _request(self, parser: HttpRequestParser, modern: bool) -> ServerRequest:
        """The request that a head makes, without its offer to upgrade."""
        headers = self._headers
        method = parser.get_method().decode("ascii")
        target = self._target(method)
        decisive = decisive_in(headers)
        self._check_host(decisive.get(b"host", NO_VALUES), modern)
        if target.authority:
            # The target's own host wins over the header's.
            headers = [header for header in headers if header[0] != b"host"]
            headers.append((b"host", target.authority.encode("latin-1")))
        if b"upgrade" in decisive:
            headers = [header for header in headers if header[0] != b"upgrade"]
        expects = modern and any(value.lower() == b"100-continue" for value in decisive.get(b"expect", NO_VALUES))
        return ServerRequest(
            self.owner,
            method=method,
            target=target,
            headers=headers,
            content=Body(self.owner, self._length(decisive, modern), expects),
            peer=self.peer,
            modern=modern,
            closes=not parser.should_keep_alive(),
        )

    def _target(self, method: str) -> RequestTarget:
        if method == "CONNECT":
            raise self._refused(405, "this is no proxy")
        try:
            target = RequestTarget(self._url)
        except ClientError as error:
            self._failure = (error.status, error.message)
            raise
        if target.path == "*" and method != "OPTIONS":
            raise self._refused(400, "the request target is neither a path nor an http URL")
        self._path = target.path
        return target

    def _check_host(self, hosts: list[bytes], modern: bool) -> None:
        if len(hosts) > 1 or (modern and not hosts):
            raise self._refused(400, "exactly one Host header is needed")

    def _length(self, decisive: dict[bytes, list[bytes]], modern: bool) -> int | None:
        """The length the head declares, None for a chunked body."""
        codings = decisive.get(b"transfer-encoding")
        lengths = decisive.get(b"content-length")
        if codings is None:
            return int(lengths[0]) if lengths else 0
        if lengths:
            raise self._refused(400, "Content-Length and Transfer-Encoding exclude each other")
        if not modern:
            raise self._refused(400, "HTTP/1.0 has no transfer codings")
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            raise self._refused(501, "the only transfer coding known here is chunked")
        return None


def decisive_in(headers: HeaderList) -> dict[bytes, list[bytes]]:
    """All values of the headers that decide how a message is read."""
    table = dict(headers)
    values = {name: [table[name]] for name in DECISIVE.intersection(table)}
    if len(table) < len(headers):
        # Some stand there more than once.
        values = {name: [value for key, value in headers if key == name] for name in values}
    return values
