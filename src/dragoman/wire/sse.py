"""Server-sent events: bytes to frames and back. The reader follows mapping.md S14 and
https://html.spec.whatwg.org/multipage/server-sent-events.html: lines end at LF, CR or CRLF, and cutting the bytes
elsewhere gives the same frames. One difference: an event that the end of the stream cuts short is delivered, because
several servers leave out the last blank line. `data` stays bytes, valid UTF-8 or not."""

import re
from collections.abc import Iterator

import msgspec

from dragoman.errors import WireError

DONE = b"data: [DONE]\n\n"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Numbers, because searching for a byte by its number is several times faster than by `bytes` of length one.
_LINE_FEED = 0x0A
_RETURN = 0x0D
# Bytes of an event that are split into lines at a time, estimated.
_SPLIT_AT_ONCE = 64 * 1024


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event: its name, never empty, and its data lines joined by newlines."""

    event: str | None
    data: bytes


class SseReader:
    """Reads frames from bytes as they arrive. An event longer than `limit` bytes raises WireError after all frames
    before it, and each later call raises it again. `chunk` from `position` on is the unread input. Between two frames,
    callers may read it and move the position."""

    __slots__ = ("_after_return", "_broken", "_end", "_guarded", "_opening", "chunk", "limit", "pending", "position")

    def __init__(self, *, limit: int = 64 * 1024 * 1024) -> None:
        self.limit = limit
        self.chunk = b""
        self.position = self._end = 0
        # The unfinished event, with line feeds as line ends and without blank lines.
        self.pending = bytearray()
        # The first bytes while they may still become a byte order mark, then None.
        self._opening: bytes | None = b""
        self._after_return = False
        self._broken = False
        # Whether one of the three above matters for the next chunk: one test on the hot path.
        self._guarded = True

    @property
    def is_idle(self) -> bool:
        """Whether no part of an event is buffered, so that full events may be forwarded unread."""
        return not self.pending and not self._guarded

    def feed(self, chunk: bytes) -> list[Frame]:
        self.take(chunk)
        frames: list[Frame] = []
        while (frame := self.next()) is not None:
            frames.append(frame)
        return frames

    def take(self, chunk: bytes) -> None:
        """Take the next bytes. Call `next` for the frames that they complete, until it returns None."""
        if self._guarded or _RETURN in chunk:
            chunk = self._normalize(chunk)
        self.position = 0
        held = self.pending
        if held:
            if b"\n\n" not in chunk and not (chunk.startswith(b"\n") and held.endswith(b"\n")):
                self.chunk, self._end = b"", 0
                self._hold(chunk)
                return
            held += chunk
            chunk = bytes(held)
            held.clear()
        self.chunk = chunk
        # After the last blank line; -1 + 2 means that there is none.
        end = chunk.rfind(b"\n\n") + 2
        self._end = end if end > 1 else 0

    def next(self) -> Frame | None:
        """Return the next frame, or None if the remaining bytes are incomplete."""
        chunk, position, stop, limit = self.chunk, self.position, self._end, self.limit
        while position < stop:
            if (usual := _find_usual(chunk, position)) is not None:
                name, data = usual.groups()
                event = name.decode("utf-8", "replace") if name else None
                end = usual.end() - 2
            elif (blank := _find_blank(chunk, position)) is not None:
                position = blank.end()
                continue
            else:
                end = chunk.find(b"\n\n", position)
                event, data = _read_lines(chunk[position:end])
            if end - position > limit:
                self._break()
                return None
            position = end + 2
            if data is not None:
                self.position = position
                return Frame(event, data)
            if dataless := _find_dataless(chunk, position, position + limit):
                # Skip all events without data at once: there may be very many, of three bytes each.
                position = dataless.end()
        if stop < len(chunk):
            self._hold(chunk[stop:])
        self.chunk, self.position, self._end = b"", 0, 0
        return None

    def close(self) -> list[Frame]:
        """End the stream. Return the event that the end cut short, if any."""
        if self._broken:
            raise self._too_long()
        event, data = _read_lines(bytes(self.pending))
        self.pending.clear()
        return [] if data is None else [Frame(event, data)]

    def _normalize(self, chunk: bytes) -> bytes:
        """Remove the byte order mark and make every line end a line feed, so that one parser serves all streams."""
        if self._broken:
            raise self._too_long()
        if self._opening is not None:
            chunk = self._opening + chunk
            if len(chunk) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(chunk):
                self._opening = chunk
                return b""
            self._opening = None
            chunk = chunk.removeprefix(_BYTE_ORDER_MARK)
        if chunk:
            if self._after_return:
                # The carriage return at the end of the last chunk ended its line. The line feed belongs to it.
                chunk = chunk.removeprefix(b"\n")
            self._after_return = chunk.endswith(b"\r")
            if _RETURN in chunk:
                chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._guarded = self._after_return
        return chunk

    def _hold(self, chunk: bytes) -> None:
        held = self.pending
        # Blank lines before an event are not part of it and must not count against its limit.
        held += chunk if held else chunk.lstrip(b"\n")
        if len(held) > self.limit and len(held) - held.endswith(b"\n") > self.limit:
            self._break()

    def _break(self) -> None:
        """Fail the stream: at once, or at the next call if frames of this chunk were returned."""
        self._broken = self._guarded = True
        self.pending.clear()
        was_read, self.chunk, self.position, self._end = self.position, b"", 0, 0
        if not was_read:
            raise self._too_long()

    def _too_long(self) -> WireError:
        return WireError("event stream", f"events of at most {self.limit} bytes", "a longer one")


# The two shapes of nearly every event; most reads bring one such event. `_read_lines` reads the others.
_find_usual = re.compile(rb"(?:event: ([^\n]*+)\n)?+data: ([^\n]*+)\n\n").match
_find_blank = re.compile(rb"\n++").match
# A line without data. A line that begins with `data` may be another field, which `_read_lines` decides.
_OTHER_LINES = rb"(?:(?!data)[^\n]++\n)*+"
_find_dataless = re.compile(rb"(?:" + _OTHER_LINES + rb"\n++)++").match
_find_silent = re.compile(rb"(?:" + _OTHER_LINES + rb"(?:data(?:: ?+)?+\n" + _OTHER_LINES + rb")?+\n++)++").match


def silent_end(chunk: bytes, start: int, limit: int) -> int:
    """Return the end of the events without data that begin at `start`: comments, and events with no or empty data. At
    most `limit` bytes are searched. Line ends are line feeds."""
    run = _find_silent(chunk, start, start + limit)
    return start if run is None else run.end()


def _lines(block: bytes) -> Iterator[bytes]:
    """Yield the lines of an event in pieces. One list of millions of lines would take many times their size and block
    other requests."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + _SPLIT_AT_ONCE)
        end = len(block) if end < 0 else end
        yield from block[start:end].split(b"\n")
        start = end + 1


def _read_lines(block: bytes) -> tuple[str | None, bytes | None]:
    """Parse the lines of one event. The data is None without a data line."""
    event = b""
    data: list[bytes] = []
    for line in _lines(block):
        # A comment has an empty field name, so it is ignored like `id`, `retry` and unknown fields.
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            event = value.removeprefix(b" ")
    return event.decode("utf-8", "replace") or None, b"\n".join(data) if data else None


def frame(data: bytes, event: str | None = None) -> bytes:
    if _LINE_FEED in data or _RETURN in data:
        data = b"\ndata: ".join(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    if not event:
        return b"data: %b\n\n" % data
    # A line end in a name would allow its author to inject events.
    name = event.encode() if event.isprintable() else _one_line(event)
    return b"event: %b\ndata: %b\n\n" % (name, data)


def comment(text: str) -> bytes:
    """Write a comment, which readers skip: a heartbeat, or a note for people."""
    return b": %b\n\n" % _one_line(text)


def _one_line(text: str) -> bytes:
    return text.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace")
