"""Frames of a client's stream, numbered from 0 without gaps (S8), and its open message."""

from __future__ import annotations

from msgspec.json import Encoder

from dragoman.model.events import ArgumentsRun, TextDelta, TextRun
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Citation, Text
from dragoman.protocols.openai_responses.output import message_item, refusal_part, text_part
from dragoman.protocols.openai_responses.parts import encode_annotation, report_citation
from dragoman.protocols.openai_responses.shapes import (
    ANNOTATION_ADDED,
    IN_PROGRESS,
    ITEM_ADDED,
    ITEM_DONE,
    PART_ADDED,
    PART_DONE,
    REFUSAL_DELTA,
    REFUSAL_DONE,
    TEXT_DELTA,
    TEXT_DONE,
)
from dragoman.rules.text_runs import FrameForm
from dragoman.wire.json import encode
from dragoman.wire.sse import frame

_quoted = Encoder().encode
_SEQUENCE = b',"sequence_number":'


class FrameWriter:
    """Encodes the frames of one stream, and stores the finished items and the text of the open part."""

    __slots__ = ("_after", "_before", "item_id", "items", "pieces", "sequence")

    def __init__(self) -> None:
        self.sequence = 0
        self.items: JsonList = []
        self.item_id = ""
        self.pieces: list[str] = []
        self._before = b""
        self._after = b""

    def frame(self, kind: str, members: JsonObject) -> bytes:
        number = self.sequence
        self.sequence = number + 1
        return frame(encode({"type": kind, **members, "sequence_number": number}), kind)

    def prepare(self, kind: str, members: JsonObject, after: bytes = b"") -> None:
        """Encode a delta's frame without its text, once for the part. `after` are members that follow the text."""
        opening = encode({"type": kind, "item_id": self.item_id, "output_index": len(self.items), **members})
        self._before = b"event: %b\ndata: %b" % (kind.encode(), opening[:-1] + b',"delta":')
        self._after = after + _SEQUENCE
        self.pieces = []

    def delta(self, text: str) -> bytes:
        self.pieces.append(text)
        number = self.sequence
        self.sequence = number + 1
        return b"%b%b%b%d}\n\n" % (self._before, _quoted(text), self._after, number)

    def run(self, run: TextRun | ArgumentsRun) -> bytes:
        self.pieces.append(run.text)
        number = self.sequence
        self.sequence += len(run.strings)
        return self.run_form(number).frames_of(run.strings)

    def run_form(self, number: int) -> FrameForm:
        return FrameForm(self._before + b'"', b'"' + self._after, number, b"}\n\n")

    def part_text(self) -> str:
        return "".join(self.pieces)

    def item_added(self, item: JsonObject) -> bytes:
        return self.frame(ITEM_ADDED, {"output_index": len(self.items), "item": item})

    def item_done(self, item: JsonObject) -> bytes:
        written = self.frame(ITEM_DONE, {"output_index": len(self.items), "item": item})
        self.items.append(item)
        return written

    def in_item(self, kind: str, members: JsonObject) -> bytes:
        return self.frame(kind, {"item_id": self.item_id, "output_index": len(self.items), **members})


_NO_LOGPROBS = b',"logprobs":[]'


class MessageStream:
    """Encodes messages, one at a time. Adjacent blocks of text share one content part; every refusal is its own."""

    __slots__ = (
        "_annotations",
        "_block_start",
        "_citations",
        "_content",
        "_frames",
        "_ledger",
        "_length",
        "_logprobs",
        "_measured",
        "_refusal_open",
        "_text_open",
        "is_open",
    )

    def __init__(self, frames: FrameWriter, ledger: Ledger) -> None:
        self._frames = frames
        self._ledger = ledger
        self.is_open = False
        # Finished content, and the text of earlier blocks in the open part.
        self._content: JsonList = []
        self._text_open = False
        self._refusal_open = False
        self._annotations: JsonList = []
        self._logprobs: JsonList = []
        self._citations: list[Citation] = []
        # The start of this block in the open text in characters, and the measured length with its number of pieces.
        self._block_start = 0
        self._length = 0
        self._measured = 0

    def open_text(self, part: Text, item_id: str) -> bytes:
        frames = self._frames
        written = self._open(item_id)
        if self._text_open:
            self._block_start = self._text_length()
        else:
            written += self._close_refusal()
            self._text_open = True
            self._annotations, self._logprobs = [], []
            self._block_start = self._length = self._measured = 0
            index = len(self._content)
            frames.prepare(TEXT_DELTA, {"content_index": index}, _NO_LOGPROBS)
            written += frames.in_item(PART_ADDED, {"content_index": index, "part": text_part("", [], None)})
        self._citations = list(part.citations)
        if part.text:
            logged = TextDelta(part.text, part.logprobs)
            written += self.logged_delta(logged) if part.logprobs else frames.delta(part.text)
        return written

    def logged_delta(self, delta: TextDelta) -> bytes:
        frames = self._frames
        logprobs = delta.logprobs or []
        self._logprobs.extend(logprobs)
        frames.pieces.append(delta.text)
        members: JsonObject = {
            "content_index": len(self._content),
            "delta": delta.text,
            "logprobs": _without_bytes(logprobs),
        }
        return frames.in_item(TEXT_DELTA, members)

    def cite(self, citation: Citation) -> None:
        """Add a citation of the open block. Its span is known at the end of the block."""
        self._citations.append(citation)

    def end_block(self, part_index: int) -> bytes:
        """End one block of text. Its citations get their spans in the part."""
        if not self._citations:
            # Most blocks have no citations. The length is measured only for those with some.
            return b""
        frames = self._frames
        length = self._text_length() - self._block_start
        written: list[bytes] = []
        for index, citation in enumerate(self._citations):
            annotation = encode_annotation(citation, self._block_start, length)
            report_citation(citation, annotation, ("parts", part_index, "citations", index), self._ledger)
            if annotation is not None:
                members: JsonObject = {
                    "content_index": len(self._content),
                    "annotation_index": len(self._annotations),
                    "annotation": annotation,
                }
                self._annotations.append(annotation)
                written.append(frames.in_item(ANNOTATION_ADDED, members))
        self._citations = []
        return b"".join(written)

    def open_refusal(self, text: str, item_id: str) -> bytes:
        frames = self._frames
        written = self._open(item_id) + self._close_text() + self._close_refusal()
        self._refusal_open = True
        index = len(self._content)
        frames.prepare(REFUSAL_DELTA, {"content_index": index})
        written += frames.in_item(PART_ADDED, {"content_index": index, "part": refusal_part("")})
        return written + frames.delta(text) if text else written

    def close(self, status: str) -> bytes:
        written = self._close_text() + self._close_refusal()
        content, self._content = self._content, []
        self.is_open = False
        return written + self._frames.item_done(message_item(self._frames.item_id, content, status))

    def _text_length(self) -> int:
        pieces = self._frames.pieces
        self._length += sum(map(len, pieces[self._measured :]))
        self._measured = len(pieces)
        return self._length

    def _open(self, item_id: str) -> bytes:
        if self.is_open:
            return b""
        self.is_open = True
        self._frames.item_id = item_id
        return self._frames.item_added(message_item(item_id, [], IN_PROGRESS))

    def _close_text(self) -> bytes:
        if not self._text_open:
            return b""
        self._text_open = False
        text = self._frames.part_text()
        logprobs: JsonObject = {"text": text, "logprobs": _without_bytes(self._logprobs)}
        return self._close_part(TEXT_DONE, logprobs, text_part(text, self._annotations, self._logprobs))

    def _close_refusal(self) -> bytes:
        if not self._refusal_open:
            return b""
        self._refusal_open = False
        text = self._frames.part_text()
        return self._close_part(REFUSAL_DONE, {"refusal": text}, refusal_part(text))

    def _close_part(self, kind: str, members: JsonObject, part: JsonObject) -> bytes:
        index = len(self._content)
        written = self._frames.in_item(kind, {"content_index": index, **members})
        written += self._frames.in_item(PART_DONE, {"content_index": index, "part": part})
        self._content.append(part)
        self._frames.pieces = []
        return written


def _without_bytes(logprobs: JsonList) -> JsonList:
    """Log probabilities for events. Only the finished part has the bytes of tokens."""
    return [_bare(entry) for entry in logprobs]


def _bare(entry: JsonValue) -> JsonValue:
    if not isinstance(entry, dict):
        return entry
    others = entry.get("top_logprobs")
    bare: JsonObject = {key: value for key, value in entry.items() if key != "bytes"}
    if isinstance(others, list):
        bare["top_logprobs"] = _without_bytes(others)
    return bare
