"""Writing: the head of a reply as bytes. No header of a handler can end a line or frame a body."""

from __future__ import annotations

from http import HTTPStatus
from time import gmtime, strftime, time

from dragoman.http.header_lines import WrittenLines
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

# Headers that only the server may write: a handler's own ones are dropped.
RESERVED = frozenset(
    {b"connection", b"content-length", b"date", b"keep-alive", b"trailer", b"transfer-encoding", b"upgrade"}
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Names that were found allowed: of most headers the value alone is new.
_ALLOWED: set[bytes] = set()
_MAX_ALLOWED = 64
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
            now = gmtime(second)
            # Names of days and months are those of English in every locale.
            day, month = _DAYS[now.tm_wday], _MONTHS[now.tm_mon - 1]
            self.line = strftime(f"date: {day}, %d {month} %Y %H:%M:%S GMT\r\n", now).encode()
        return self.line


CLOCK = Clock()


def compose(status: int, headers: HeaderList, framing: bytes) -> bytes:
    """The whole head: status line, the handler's headers, the date, and the server's own lines about framing."""
    return b"".join((STATUS_LINES[status], *map(_line_of, headers), CLOCK.now(), framing, b"\r\n"))


def _written(header: tuple[bytes, bytes]) -> bytes:
    """A header as its line: without bytes that end a line in its value, and nothing of a name that is not allowed."""
    name, value = header
    if name not in _ALLOWED:
        if name.lower() in RESERVED or name != name.translate(UNSAFE):
            return b""
        if len(_ALLOWED) < _MAX_ALLOWED:
            _ALLOWED.add(name)
    return b"%b: %b\r\n" % (name, value.translate(UNSAFE))


_line_of = WrittenLines(_written).__getitem__


def length_line(length: int) -> bytes:
    """The line that frames a body of known length."""
    return b"content-length: %d\r\n" % length
