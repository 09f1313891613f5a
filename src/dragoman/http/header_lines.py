"""Header lines: the lines of a head as names and values, each line of a connection taken apart once."""

from __future__ import annotations

LINE_END = b"\r\n"
EMPTY_LINE = b"\r\n\r\n"
# How many lines a connection remembers, and how long they are at most: some differ in every message.
MAX_LINES = 64
MAX_LINE_BYTES = 512


class HeaderLines(dict[bytes, tuple[bytes, bytes]]):
    """A connection's header lines as a strict parser read them, cached since most come again with its next message."""

    __slots__ = ()

    def __missing__(self, line: bytes) -> tuple[bytes, bytes]:
        name, _, value = line.partition(b":")
        name = name.lower()
        # The parser takes a coding with a tab behind it for another coding, so readers of the value see it, too.
        header = (name, value.lstrip(b" \t").rstrip(b" " if name == b"transfer-encoding" else b" \t"))
        if len(line) <= MAX_LINE_BYTES:
            if len(self) >= MAX_LINES:
                self.clear()
            self[line] = header
        return header
