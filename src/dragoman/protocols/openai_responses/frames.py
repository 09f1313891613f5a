"""Frames of a client's stream: numbered from 0 without a gap, around items that are numbered likewise (S8)."""

from __future__ import annotations

from msgspec.json import Encoder

from dragoman.model.events import TextRun
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.protocols.openai_responses.shapes import ITEM_ADDED, ITEM_DONE
from dragoman.wire.json import encode
from dragoman.wire.sse import frame

_quoted = Encoder().encode
_SEQUENCE = b',"sequence_number":'


class FrameWriter:
    """Writes the frames of one stream and keeps the finished items and the text of the open part."""

    __slots__ = ("_after", "_before", "item_id", "items", "pieces", "sequence")

    def __init__(self) -> None:
        self.sequence = 0
        self.items: JsonList = []
        self.item_id = ""
        self.pieces: list[str] = []
        # What stands in every delta of the open part before and after its text.
        self._before = b""
        self._after = b""

    def frame(self, kind: str, members: JsonObject) -> bytes:
        number = self.sequence
        self.sequence = number + 1
        return frame(encode({"type": kind, **members, "sequence_number": number}), kind)

    def prepare(self, kind: str, members: JsonObject, after: bytes = b"") -> None:
        """Write all of a delta's frame but its text, once for the part; `after` are members that follow the text."""
        opening = encode({"type": kind, "item_id": self.item_id, "output_index": len(self.items), **members})
        self._before = b"event: %b\ndata: %b" % (kind.encode(), opening[:-1] + b',"delta":')
        self._after = after + _SEQUENCE
        self.pieces = []

    def delta(self, text: str) -> bytes:
        """More text of the open part."""
        self.pieces.append(text)
        number = self.sequence
        self.sequence = number + 1
        return b"%b%b%b%d}\n\n" % (self._before, _quoted(text), self._after, number)

    def run(self, run: TextRun) -> bytes:
        """More text of the open part, in several deltas."""
        self.pieces.append(run.text)
        before, after, number = self._before, self._after, self.sequence
        self.sequence += len(run.strings)
        frames = [b'%b"%b"%b%d}\n\n' % (before, text, after, at) for at, text in enumerate(run.strings, number)]
        return b"".join(frames)

    def part_text(self) -> str:
        return "".join(self.pieces)

    def item_added(self, item: JsonObject) -> bytes:
        return self.frame(ITEM_ADDED, {"output_index": len(self.items), "item": item})

    def item_done(self, item: JsonObject) -> bytes:
        """The end of an item, which is one of the answer's from then on."""
        written = self.frame(ITEM_DONE, {"output_index": len(self.items), "item": item})
        self.items.append(item)
        return written

    def in_item(self, kind: str, members: JsonObject) -> bytes:
        """A frame about the open item."""
        return self.frame(kind, {"item_id": self.item_id, "output_index": len(self.items), **members})
