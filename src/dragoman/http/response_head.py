"""Writing: the head of a reply as bytes. Whatever a handler says, it cannot end a line or frame a body by itself."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from time import time

from dragoman.http.upstream_call import HeaderList

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
CLOSE = b"connection: close\r\n"
KEEP_ALIVE = b"connection: keep-alive\r\n"

# Statuses whose replies have no body, whatever the handler gives.
BODILESS = frozenset({204, 304})

PHRASES = {status.value: status.phrase for status in HTTPStatus}
STATUS_LINES = {status: f"HTTP/1.1 {status} {PHRASES.get(status, '')}\r\n".encode() for status in range(200, 1000)}

# What only the server may say: a handler's own lines of these names are left out.
RESERVED = frozenset(
    {b"connection", b"content-length", b"date", b"keep-alive", b"trailer", b"transfer-encoding", b"upgrade"}
)
UNSAFE = bytes.maketrans(b"\r\n\0", b"   ")


class Clock:
    """The `date` line, made once per second."""

    __slots__ = ("line", "second")

    def __init__(self) -> None:
        self.second = 0
        self.line = b""

    def now(self) -> bytes:
        """The line for the present second, with its line ending."""
        second = int(time())
        if second != self.second:
            self.second = second
            self.line = f"date: {formatdate(second, usegmt=True)}\r\n".encode()
        return self.line


CLOCK = Clock()


def compose(status: int, headers: HeaderList, framing: bytes) -> bytes:
    """The whole head: status line, the handler's headers, the date, and the server's own lines about framing."""
    if not RESERVED.isdisjoint(map(bytes.lower, dict(headers))):
        headers = [header for header in headers if header[0].lower() not in RESERVED]
    block = header_lines(headers)
    if block is None:
        return compose(status, cleaned(headers), framing)
    return b"".join((STATUS_LINES[status], block, CLOCK.now(), framing, b"\r\n"))


def header_lines(headers: HeaderList) -> bytes | None:
    """Headers as the lines that they are on the wire; None if a name or a value ends a line by itself."""
    if not headers:
        return b""
    block = b"\r\n".join(map(b": ".join, headers)) + b"\r\n"
    # Three searches of the whole instead of three of each value.
    lines = len(headers)
    return block if block.count(b"\n") == lines == block.count(b"\r") and b"\0" not in block else None


def cleaned(headers: HeaderList) -> HeaderList:
    """The same headers without bytes that end a line: blanks in values, and no header under such a name."""
    return [(name, value.translate(UNSAFE)) for name, value in headers if name == name.translate(UNSAFE)]


def length_line(length: int) -> bytes:
    """The line that frames a body of known length."""
    return b"content-length: %d\r\n" % length
