"""Header lines: the lines of a head as names and values, each read or written once as long as it is cached."""

from __future__ import annotations

from collections.abc import Callable

LINE_END = b"\r\n"
EMPTY_LINE = b"\r\n\r\n"
# Maximum header lines per connection's cache, and their sizes: some lines differ in every message.
MAX_LINES = 64
MAX_WRITTEN_LINES = 256
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


class WrittenLines(dict[tuple[bytes, bytes], bytes]):
    """Lines as they are on the wire, by name and value, cached since most come again in the next head."""

    __slots__ = ("_write",)

    def __init__(self, write: Callable[[tuple[bytes, bytes]], bytes]) -> None:
        super().__init__()
        self._write = write

    def __missing__(self, header: tuple[bytes, bytes]) -> bytes:
        line = self._write(header)
        if len(line) <= MAX_LINE_BYTES:
            if len(self) >= MAX_WRITTEN_LINES:
                self.clear()
            self[header] = line
        return line
