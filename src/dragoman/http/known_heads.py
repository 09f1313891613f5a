"""Known heads: heads of requests that the strict parser accepted. Clients send the same one with each request, but for
the length of the body. A read that begins with a known head, and holds no more than its message, is not parsed."""

from __future__ import annotations

from dragoman.http.header_lines import EMPTY_LINE, LINE_END
from dragoman.http.request import RequestHead

# As most clients write it.
_LENGTHS = (b"\r\ncontent-length: ", b"\r\nContent-Length: ")
_MAX_DIGITS = 9
_MAX_HEADS, _MAX_HEAD_BYTES = 512, 4096


class KnownHeads(dict[tuple[str, bytes], RequestHead]):
    """Heads without the digits of their lengths, by the client's address."""

    __slots__ = ()

    def remember(self, head: RequestHead, data: bytes) -> None:
        """Have the next message with this head found; `data` is the head as it was written."""
        found = divided(data)
        if found is not None and len(data) <= min(_MAX_HEAD_BYTES, head.limits.header_bytes - _MAX_DIGITS):
            if len(self) >= _MAX_HEADS:
                self.clear()
            self[head.peer, found[0]] = head


def divided(data: bytes) -> tuple[bytes, int, int] | None:
    """The head at the beginning of data without the digits of its length, this length, and where the head ends; None if
    it states none, or not in the usual way."""
    end = data.find(EMPTY_LINE) + len(EMPTY_LINE)
    for name in _LENGTHS:
        start = data.find(name, 0, end) + len(name)
        if start >= len(name):
            stop = data.find(LINE_END, start, end)
            digits = data[start:stop]
            if digits.isdigit() and len(digits) <= _MAX_DIGITS:
                return data[:start] + data[stop:end], int(digits), end
            break
    return None
