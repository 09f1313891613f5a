"""Relay of a stream: forwards frames of the same protocol unchanged."""

from __future__ import annotations

import re

from dragoman.model.events import Ended, Event, Failed
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.codec import StreamDecoder

_MAX_FAILURE_BYTES = 256 * 1024
_ENDS = (Failed, Ended)


class Relay:
    """Forwards complete frames unchanged. A partial frame is held, so that a cut is reported as an error."""

    def __init__(self, decoder: StreamDecoder) -> None:
        self.status = 200
        self.waiting = 0
        self.resume: tuple[JsonObject, ...] | None = None
        self.failure: Failure | None = None
        self._decoder = decoder
        self._held = bytearray()
        self._broken = False

    def take(self, chunk: bytes, events: list[Event]) -> bytes:
        last, held = events[-1] if events else None, self._held
        if type(last) is Failed and (
            (last.failure.kind is FailureKind.BAD_GATEWAY and not last.failure.native)
            or len(held) + len(chunk) > _MAX_FAILURE_BYTES
        ):
            # Unreadable bytes, or too many to search for secrets, are not forwarded.
            self._broken = True
            held.clear()
            return self._decoder.broken(last.failure)
        is_over = type(last) in _ENDS
        if not held and (is_over or chunk.endswith(b"\n\n")):
            return chunk
        # A blank line may be cut between two reads. Bytes before the seam are not searched again.
        start = len(held) - 1
        held += chunk
        end = len(held) if is_over else last_frame_end(held, start)
        if not end:
            return b""
        data = bytes(held[:end])
        del held[:end]
        return data

    def forward(self, chunk: bytes) -> bytes:
        """After the terminal frame, or the provider's own error, all further bytes belong to its ending."""
        return b"" if self._broken else chunk

    def end(self, events: list[Event]) -> bytes:
        if events and isinstance(events[-1], Failed):
            return self._decoder.broken(events[-1].failure)
        return _with_blank_line(bytes(self._held))


def _with_blank_line(frame: bytes) -> bytes:
    """Add the blank line to the last frame of a relayed stream: the one repair of a response. The end of the stream
    ends an event here (S14), but the official Python SDKs drop an event without a blank line, and with it the finish
    reason, `message_stop` or `response.completed`. A frame without data needs none."""
    if has_data(frame) is None:
        return frame
    line_end = b"\r\n" if b"\r\n" in frame else b"\r" if b"\r" in frame else b"\n"
    return frame + line_end * (1 if frame.endswith(line_end) else 2)


has_data = re.compile(rb"(?:\A|[\r\n])data").search

# Two line ends of any kind make a blank line. A return and its line feed are one line end.
_BLANK_LINES = (b"\n\n", b"\n\r", b"\r\r")
_find_frame = re.compile(rb"(?:[^\n]++\n)*+\n++").match
_skip_line_ends = re.compile(rb"[\r\n]*+").match


def frame_end(data: bytes, start: int) -> int:
    """Return the end of the frame at `start`, with all line feeds after its blank line."""
    frame = _find_frame(data, start)
    assert frame is not None
    return frame.end()


def last_frame_end(held: bytearray, start: int) -> int:
    """Return the end of the last frame whose blank line is not before `start`, or 0. A `start` of -1 means that nothing
    was held: line ends at the start still belong to the previous frame."""
    blank = max(held.rfind(line_ends, max(start, 0)) for line_ends in _BLANK_LINES)
    if blank < 0 <= start:
        return 0
    following = _skip_line_ends(held, max(blank, 0))
    assert following is not None
    return following.end()
