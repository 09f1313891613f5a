"""Transcripts: bytes as lines that can be read, and read back; and names for what a gateway makes up at random.

A line that does not end in a line feed ends in `¬`; control characters are shown by their pictures (␍). Framing is
taken off only where it is what it should be: one chunk of so many bytes is said to be one.
"""

from __future__ import annotations

import re

_OPEN = "¬"
# U+2400 and following are pictures of the control characters.
_PICTURES = {code: 0x2400 + code for code in range(32) if code != ord("\n")}
_OURS = re.compile(rf"[{_OPEN}{''.join(map(chr, _PICTURES.values()))}]")
_CHUNK = re.compile(rb"([0-9a-f]+)\r\n")
# What `Names.token` gives.
_MINTED = re.compile(r"Mint[0-9]{4,}")


def lines_of(data: bytes) -> list[str]:
    """Bytes as lines."""
    if not data:
        return []
    text = data.decode("utf-8", "surrogateescape")
    assert not _OURS.search(text), "what a transcript uses for itself stands in what was said"
    *lines, last = text.translate(_PICTURES).split("\n")
    return [f"| {line}".rstrip(" ") if not line else f"| {line}" for line in lines] + (
        [f"| {last}{_OPEN}"] if last else []
    )


def message_lines(data: bytes) -> list[str]:
    """A head in HTTP and what follows it: its lines without their endings, then the body."""
    head, end, body = data.partition(b"\r\n\r\n")
    assert end, "a head has an end"
    return [f"| {line}" for line in head.decode("latin-1").split("\r\n")] + ["|"] + lines_of(body)


class Reply:
    """What a client is sent, one write after another."""

    def __init__(self) -> None:
        self._chunked = False

    def lines(self, data: bytes) -> list[str]:
        """One write."""
        shown: list[str] = []
        if data.startswith(b"HTTP/1.1 "):
            head, _, data = data.partition(b"\r\n\r\n")
            shown += [f"| {line}" for line in head.decode("latin-1").split("\r\n")] + ["|"]
            self._chunked = b"\r\ntransfer-encoding: chunked" in head
        while data and self._chunked:
            found = _CHUNK.match(data)
            size = int(found[1], 16) if found else -1
            start = found.end() if found else 0
            if found is None or found[1] != b"%x" % size or data[start + size : start + size + 2] != b"\r\n":
                break
            shown += [f"+ a chunk of {size}" if size else "+ the last chunk", *lines_of(data[start : start + size])]
            data = data[start + size + 2 :]
            self._chunked = size > 0
        return shown + lines_of(data)


class Names:
    """Random tokens of one dialogue, which its transcript counts in the order in which they are seen.

    When a token was made is nobody's business; that it is the same everywhere is.
    """

    def __init__(self) -> None:
        self._made = 0
        self._seen: dict[str, str] = {}

    def token(self, length: int) -> str:
        """A token that is not random."""
        self._made += 1
        return "Mint" + str(self._made).rjust(length - 4, "0")

    def named(self, line: str) -> str:
        """A line of a transcript with each token by its number, as long as it was."""
        return _MINTED.sub(self._name, line)

    def _name(self, found: re.Match[str]) -> str:
        number = str(len(self._seen) + 1).rjust(len(found[0]), "0")
        return self._seen.setdefault(found[0], number)
