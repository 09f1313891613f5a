"""Server-sent events: bytes to frames and back. The reader follows mapping.md S14 and
https://html.spec.whatwg.org/multipage/server-sent-events.html: lines end at LF, CR or CRLF only, and the frames are the
same however the bytes were cut. One difference: an event cut short by the end of the stream is delivered, because
several servers leave out the last blank line. `data` stays bytes, valid UTF-8 or not."""

import re
from collections.abc import Iterator

import msgspec

from dragoman.errors import WireError

DONE = b"data: [DONE]\n\n"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# As numbers: looking for a byte by its number is several times faster than looking for bytes of length one.
_LINE_FEED = 0x0A
_RETURN = 0x0D
# Bytes of an event whose lines are split at a time, about.
_SPLIT_AT_ONCE = 64 * 1024


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One event as it stood on the wire: its name, never empty, and its data lines joined by newlines."""

    event: str | None
    data: bytes


class SseReader:
    """Reads frames from bytes as they arrive. An event longer than `limit` raises a WireError after all frames before
    it, and so does each later call. `chunk` from `position` on is the unread input: between two frames others may read
    it, and move the position."""

    __slots__ = ("_after_return", "_broken", "_end", "_guarded", "_opening", "chunk", "limit", "pending", "position")

    def __init__(self, *, limit: int = 64 * 1024 * 1024) -> None:
        self.limit = limit
        self.chunk = b""
        self.position = self._end = 0
        # The unfinished event: line ends are line feeds, and no blank line is in it.
        self.pending = bytearray()
        # The first bytes, while they may still become a byte order mark; None once that is settled.
        self._opening: bytes | None = b""
        self._after_return = False
        self._broken = False
        # True while any of the three above needs a look before the next chunk: one test on the hot path.
        self._guarded = True

    @property
    def is_idle(self) -> bool:
        """Whether no part of an event is held, so that whole events may pass unread."""
        return not self.pending and not self._guarded

    def feed(self, chunk: bytes) -> list[Frame]:
        """Takes the next bytes and returns the frames they complete."""
        self.take(chunk)
        frames: list[Frame] = []
        while (frame := self.next()) is not None:
            frames.append(frame)
        return frames

    def take(self, chunk: bytes) -> None:
        """Takes the next bytes; `next` returns the frames they complete, and must be called until there are no more."""
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
        # Behind the last blank line; -1 + 2 means that there is none.
        end = chunk.rfind(b"\n\n") + 2
        self._end = end if end > 1 else 0

    def next(self) -> Frame | None:
        """Reads the next frame; None if the rest of the bytes is not a whole one."""
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
                # Where one event had no data there may be very many, of three bytes each.
                position = dataless.end()
        if stop < len(chunk):
            self._hold(chunk[stop:])
        self.chunk, self.position, self._end = b"", 0, 0
        return None

    def close(self) -> list[Frame]:
        """Ends the data, and returns the event that the end of the stream cut short, if any."""
        if self._broken:
            raise self._too_long()
        event, data = _read_lines(bytes(self.pending))
        self.pending.clear()
        return [] if data is None else [Frame(event, data)]

    def _normalize(self, chunk: bytes) -> bytes:
        """Strips the byte order mark and makes every line end a line feed, so that one parser serves all streams."""
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
                # The carriage return ended its line; its line feed arrives only now.
                chunk = chunk.removeprefix(b"\n")
            self._after_return = chunk.endswith(b"\r")
            if _RETURN in chunk:
                chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._guarded = self._after_return
        return chunk

    def _hold(self, chunk: bytes) -> None:
        """Keeps the bytes of an unfinished event until the rest of it comes."""
        held = self.pending
        # Blank lines before an event are no part of it, and must not count against its limit.
        held += chunk if held else chunk.lstrip(b"\n")
        if len(held) > self.limit and len(held) - held.endswith(b"\n") > self.limit:
            self._break()

    def _break(self) -> None:
        """Gives up on the stream: at once, or at the next bytes if frames of these were delivered."""
        self._broken = self._guarded = True
        self.pending.clear()
        was_read, self.chunk, self.position, self._end = self.position, b"", 0, 0
        if not was_read:
            raise self._too_long()

    def _too_long(self) -> WireError:
        return WireError("event stream", f"events of at most {self.limit} bytes", "a longer one")


# The two shapes that nearly every event has; most reads bring one such event. `_read_lines` knows the rest.
_find_usual = re.compile(rb"(?:event: ([^\n]*+)\n)?+data: ([^\n]*+)\n\n").match
_find_blank = re.compile(rb"\n++").match
# A line that is no data; what begins with that word may still be another field, and is then read.
_OTHER_LINES = rb"(?:(?!data)[^\n]++\n)*+"
_find_dataless = re.compile(rb"(?:" + _OTHER_LINES + rb"\n++)++").match
_find_silent = re.compile(rb"(?:" + _OTHER_LINES + rb"(?:data(?:: ?+)?+\n" + _OTHER_LINES + rb")?+\n++)++").match


def silent_end(chunk: bytes, start: int, limit: int) -> int:
    """Where the events without data that begin here end: comments, and events with no or empty data. At most `limit`
    bytes are searched, so that none is longer; line ends are line feeds."""
    run = _find_silent(chunk, start, start + limit)
    return start if run is None else run.end()


def _lines(block: bytes) -> Iterator[bytes]:
    """The lines of an event, some at a time: a list of millions takes many times their size, and others wait for it."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + _SPLIT_AT_ONCE)
        end = len(block) if end < 0 else end
        yield from block[start:end].split(b"\n")
        start = end + 1


def _read_lines(block: bytes) -> tuple[str | None, bytes | None]:
    """Reads the lines of one event; the data is None if no line was data."""
    event = b""
    data: list[bytes] = []
    for line in _lines(block):
        # A comment has the empty field name, so it falls through with `id`, `retry` and unknown fields.
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            event = value.removeprefix(b" ")
    return event.decode("utf-8", "replace") or None, b"\n".join(data) if data else None


def frame(data: bytes, event: str | None = None) -> bytes:
    """Writes one event; data with line ends becomes several data lines."""
    if _LINE_FEED in data or _RETURN in data:
        data = b"\ndata: ".join(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    if not event:
        return b"data: %b\n\n" % data
    # A line end in a name would let its author write events of his own.
    name = event.encode() if event.isprintable() else _one_line(event)
    return b"event: %b\ndata: %b\n\n" % (name, data)


def comment(text: str) -> bytes:
    """Writes a comment, which readers skip: a sign of life, or a note for people."""
    return b": %b\n\n" % _one_line(text)


def _one_line(text: str) -> bytes:
    return text.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace")
