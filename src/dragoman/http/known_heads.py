"""Known heads: heads of requests that the strict parser accepted. Clients send the same one with each request, but for
the length of the body. A read that begins with a known head, and holds no more than its message, is not parsed."""

from __future__ import annotations

from dragoman.http.header_lines import EMPTY_LINE, LINE_END
from dragoman.http.request import RequestHead

# As most clients write it.
_LENGTHS = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
_MAX_DIGITS = 9
_MAX_HEADS, _MAX_HEAD_BYTES = 512, 4096


class KnownHeads(dict[tuple[str, bytes, bytes], RequestHead]):
    """Heads by the client's address, and by their bytes before and after the digits of the length."""

    __slots__ = ()

    def remember(self, head: RequestHead) -> None:
        """Have the next message with this head found."""
        if (
            head.before
            and len(head.before) + len(head.after) <= min(_MAX_HEAD_BYTES, head.limits.header_bytes) - _MAX_DIGITS
        ):
            if len(self) >= _MAX_HEADS:
                self.clear()
            self[head.peer, head.before, head.after] = head

    def find(self, peer: str, data: bytes) -> RequestHead | None:
        """The known head at the beginning of data."""
        return self.get((peer, *divided(data)))


def divided(data: bytes) -> tuple[bytes, bytes]:
    """The head at the beginning of data, before and after the digits of its length; empty if it states none, or not in
    the usual way."""
    end = data.find(EMPTY_LINE) + len(EMPTY_LINE)
    for name in _LENGTHS:
        start = data.find(name, 0, end) + len(name)
        if start >= len(name):
            stop = data.find(LINE_END, start, end)
            if stop - start <= _MAX_DIGITS and data[start:stop].isdigit():
                return data[:start], data[stop:end]
    return b"", b""


def digits_in(head: RequestHead, data: bytes) -> slice | None:
    """Where data that begins with this head has the digits of the length; None if it begins otherwise."""
    start = len(head.before)
    stop = data.find(b"\r", start, start + _MAX_DIGITS + 1)
    begins = stop > start and data.startswith(head.before) and data.startswith(head.after, stop)
    return slice(start, stop) if begins and data[start:stop].isdigit() else None
