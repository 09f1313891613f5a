"""AWS event-stream framing: `application/vnd.amazon.eventstream` bytes to messages. A message is total length (4),
headers length (4), CRC32 of those (4), headers, payload, CRC32 of all before (4), big-endian. A header is the length of
its name (1), the name, its type (1) and its value; see
https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html#streaming-event-stream."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from zlib import crc32

from msgspec import Struct

from dragoman.errors import BadResponse, Truncated

LIMIT = 64 * 1024 * 1024

_PRELUDE = struct.Struct(">III")
_TRAILER = 4
_MIN_MESSAGE_BYTES = _PRELUDE.size + _TRAILER
_MAX_HEADER_BYTES = 128 * 1024

# Bytes of a value by its type: true, false, byte, short, integer, long, timestamp, uuid.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
# Types whose length is a two-byte prefix.
_BYTES, _STRING = 6, 7


class EventStreamMessage(Struct, frozen=True, gc=False):
    headers: Mapping[str, str]
    payload: bytes


class EventStreamReader:
    """Reads messages as bytes arrive. Broken framing raises `BadResponse` after all messages before it."""

    __slots__ = ("_broken", "_held", "_limit", "_needed", "_seen", "_seen_headers")

    def __init__(self, *, limit: int = LIMIT) -> None:
        self._limit = limit
        self._held = bytearray()
        # Bytes that must be buffered before parsing makes sense.
        self._needed = _MIN_MESSAGE_BYTES
        self._broken: str = ""
        # Nearly all messages of a stream have the same header bytes, so the last headers are cached.
        self._seen = b""
        self._seen_headers: Mapping[str, str] = {}

    def feed(self, chunk: bytes) -> list[EventStreamMessage]:
        if self._broken:
            raise BadResponse(self._broken)
        held = self._held
        held += chunk
        if len(held) < self._needed:
            return []
        messages: list[EventStreamMessage] = []
        at = 0
        try:
            while end := self._end(at):
                messages.append(self._message(bytes(held[at:end])))
                at = end
        except BadResponse as error:
            self._broken = str(error)
            held.clear()
            if not messages:
                raise
            return messages
        del held[:at]
        return messages

    def close(self) -> None:
        if self._broken:
            raise BadResponse(self._broken)
        if self._held:
            raise Truncated("The provider's stream broke off within a message.")

    def _end(self, at: int) -> int:
        """The end of the message at `at`, or 0 while it is incomplete."""
        held = self._held
        if len(held) - at < _PRELUDE.size:
            self._needed = _MIN_MESSAGE_BYTES
            return 0
        total, headers, checksum = _PRELUDE.unpack_from(held, at)
        if crc32(held[at : at + 8]) != checksum:
            raise BadResponse("The provider's stream has a message whose beginning does not match its checksum.")
        if total > self._limit:
            raise BadResponse(f"The provider's stream has a message of more than {self._limit} bytes.")
        if headers > _MAX_HEADER_BYTES or total < _MIN_MESSAGE_BYTES + headers:
            raise BadResponse("The provider's stream has a message whose lengths cannot be.")
        self._needed = total if len(held) - at < total else _MIN_MESSAGE_BYTES
        return at + total if len(held) - at >= total else 0

    def _message(self, frame: bytes) -> EventStreamMessage:
        body = len(frame) - _TRAILER
        if crc32(memoryview(frame)[:body]) != int.from_bytes(frame[body:]):
            raise BadResponse("The provider's stream has a message that does not match its checksum.")
        payload = _PRELUDE.size + int.from_bytes(frame[4:8])
        raw = frame[_PRELUDE.size : payload]
        if raw != self._seen:
            self._seen_headers = read_headers(raw)
            self._seen = raw
        return EventStreamMessage(self._seen_headers, frame[payload:body])


def read_headers(raw: bytes) -> dict[str, str]:
    """Parse the text headers. Others are skipped by their length."""
    headers: dict[str, str] = {}
    at = 0
    try:
        while at < len(raw):
            name_end = at + 1 + raw[at]
            name = raw[at + 1 : name_end].decode()
            kind = raw[name_end]
            at = name_end + 1
            if kind in (_BYTES, _STRING):
                size = int.from_bytes(raw[at : at + 2])
                at += 2
            else:
                size = _SIZES[kind]
            if at + size > len(raw) or name in headers:
                raise BadResponse(_BAD_HEADERS)
            if kind == _STRING:
                headers[name] = raw[at : at + size].decode()
            at += size
    except (IndexError, KeyError, UnicodeDecodeError):
        raise BadResponse(_BAD_HEADERS) from None
    return headers


_BAD_HEADERS = "The provider's stream has a message whose headers cannot be read."
