"""Likeness: chunks that differ from the one before in nothing but their text, of which only that is read.

Nearly all of a stream is the same chunk again with another text. What stands around that text is learned from a chunk
that was read, and tried: with another text in its place the chunk must read as before, but for that. Servers that write
something else into every chunk are not learned from again and again.
"""

from __future__ import annotations

from msgspec.json import Decoder

from dragoman.model.jsonvalue import JsonValue
from dragoman.rules.surrogates import UNREADABLE
from dragoman.wire.json import encode, read_json

# One chunk in so many is learned from, since few of them are not worth it, and so many chunks in all.
_FEW = 4
_LESSONS = 4 * _FEW
# No text of a provider's; it stands in the place of one for a moment.
_PROBE = "\0probe\0"
_WRITTEN_PROBE = encode(_PROBE)
_read_text = Decoder(str).decode


class ChunkFastPath:
    """What stands around the text of a stream's chunks, as long as it stays the same."""

    __slots__ = ("_after", "_before", "is_ready", "lessons")

    def __init__(self) -> None:
        self.is_ready = False
        self.lessons = _LESSONS
        self._before = self._after = b""

    def text(self, data: bytes) -> str:
        """The text of a chunk that is like the one before; "" if it is another, or says nothing."""
        before, after = self._before, self._after
        if not data.startswith(before) or not data.endswith(after):
            return ""
        try:
            return _read_text(data[len(before) : len(data) - len(after)])
        except UNREADABLE:
            return ""

    def learn(self, data: bytes, chunk: JsonValue, name: str) -> None:
        """Learn from a chunk that was read, and is not needed any more: this member of its delta is its text."""
        self.is_ready = False
        self.lessons -= 1
        if self.lessons % _FEW:
            return
        match chunk:
            case {"choices": [{"delta": dict() as delta}]}:
                self._before, matched, self._after = data.partition(encode(delta.get(name)))
                delta[name] = _PROBE
                try:
                    self.is_ready = bool(matched) and read_json(self._before + _WRITTEN_PROBE + self._after) == chunk
                except UNREADABLE:
                    # It was mended before it could be read.
                    self.is_ready = False
