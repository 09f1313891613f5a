"""Encodes events as a Messages stream. Parts arrive one after the other (`rules.part_serializer`).

state       event          frames                                   next state
(any)       Started        message_start                            idle
idle        PartStarted    content_block_start, or the full block   open, or idle if it makes no block
open        PartGrew       content_block_delta                      open
open        PartEnded      held content, content_block_stop         idle
(any)       Ended          message_delta, message_stop              over
(any)       Failed         error                                    over

Each open block has one of the writers below. Nearly all of a stream is deltas, so their frames are a prefix that is
fixed for the block, the text as JSON, and an ending."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import msgspec

from dragoman.model.events import (
    ArgumentsDelta,
    ArgumentsRun,
    ChoiceReported,
    CitationAdded,
    Delta,
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartEnded,
    PartGrew,
    PartStarted,
    SealSet,
    Started,
    Stopped,
    TextDelta,
    TextRun,
    UsageReported,
)
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Extras, InputForm, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.response import Stop, StopReason, Usage
from dragoman.protocols.anthropic_messages.failure import error_object
from dragoman.protocols.anthropic_messages.response import encode_stop
from dragoman.protocols.anthropic_messages.response_parts import (
    CITED_TEXT_LIMIT,
    WRAPPED,
    ResponseEncodeContext,
    call_opening,
    encode_citation,
    encode_response_part,
    report_call_extras,
    report_logprobs,
    signature_of,
)
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.protocols.anthropic_messages.usage import encode_streamed_usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.rules.arguments import Wrapping, to_object
from dragoman.rules.extras import drop_choices
from dragoman.rules.input_wrapping import INPUT_CLOSING, INPUT_OPENING
from dragoman.rules.text_runs import FrameForm, encode_run, texts_of
from dragoman.wire.json import encode, encode_text
from dragoman.wire.sse import frame

PING = frame(b'{"type":"ping"}', "ping")

_encode_string = msgspec.json.Encoder().encode
_ENDING = b"}}\n\n"


def _named(value: JsonObject) -> bytes:
    """A frame whose event line repeats the type."""
    kind = value["type"]
    assert isinstance(kind, str)
    return frame(encode(value), kind)


def _start(index: int, block: JsonObject) -> bytes:
    return _named({"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, delta: JsonObject) -> bytes:
    return _named({"type": "content_block_delta", "index": index, "delta": delta})


def _stop(index: int) -> bytes:
    return b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n' % index


def _prefix(index: int, kind: str, member: str) -> bytes:
    return (
        f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},'
        f'"delta":{{"type":"{kind}","{member}":'
    ).encode()


def _run_form(prefix: bytes) -> FrameForm:
    return FrameForm(prefix + b'"', b'"' + _ENDING)


class _Writer:
    """An open block. The default is complete at its start and only has to be closed."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index

    def grow(self, delta: Delta) -> bytes:
        del delta
        return b""

    @property
    def run_form(self) -> FrameForm | None:
        return None

    def close(self) -> bytes:
        return _stop(self.index)


class _TextWriter(_Writer):
    """Text or refusal text. Citations are attached without splitting the block (§19)."""

    __slots__ = ("_buffer", "_ledger", "_part", "_prefix", "_weighed")

    def __init__(self, index: int, part: int, ledger: Ledger) -> None:
        super().__init__(index)
        self._part = part
        self._weighed = False
        self._prefix = _prefix(index, "text_delta", "text")
        # Also read from the middle, where citations point.
        self._buffer = StringIO()
        self._ledger = ledger

    def grow(self, delta: Delta) -> bytes:
        if type(delta) is TextDelta:
            text = delta.text
            self._buffer.write(text)
            if delta.logprobs is not None and not self._weighed:
                self._weighed = True
                report_logprobs(("parts", self._part), self._ledger)
            return self._prefix + _encode_string(text) + _ENDING if text else b""
        if type(delta) is TextRun:
            self._buffer.write(delta.text)
            return encode_run(delta, self._prefix, _ENDING)
        if type(delta) is CitationAdded:
            return self._cite(delta)
        return b""

    @property
    def run_form(self) -> FrameForm | None:
        return _run_form(self._prefix)

    def _cite(self, delta: CitationAdded) -> bytes:
        citation = delta.citation
        if citation.origin == NAME:
            return _delta(self.index, {"type": "citations_delta", "citation": citation.native})
        at = ("parts", self._part, "citations")
        if citation.url is None:
            self._ledger.dropped(Feature.CITATIONS, at, "only web pages can be cited here")
            return b""
        self._ledger.approximated(Feature.CITATIONS, at, "a cited span became a citation of the whole block")
        cited = self._between(*citation.span) if citation.span is not None else self._between(0, CITED_TEXT_LIMIT)
        return _delta(self.index, {"type": "citations_delta", "citation": encode_citation(citation, cited)})

    def _between(self, start: int, end: int) -> str:
        """The text between two positions that a citation covers."""
        buffer = self._buffer
        length = buffer.tell()
        start, end, _ = slice(start, end).indices(length)
        buffer.seek(start)
        cited = buffer.read(min(max(end - start, 0), CITED_TEXT_LIMIT))
        buffer.seek(length)
        return cited

    @property
    def text(self) -> str:
        return self._buffer.getvalue()


class _RefusalWriter(_TextWriter):
    """Refusal text. It becomes a block once it has more than white space, as in a full response."""

    __slots__ = ("opened",)

    def __init__(self, index: int, part: int, ledger: Ledger) -> None:
        super().__init__(index, part, ledger)
        self.opened = False

    def grow(self, delta: Delta) -> bytes:
        frames = super().grow(delta)
        if self.opened:
            return frames
        if not isinstance(delta, TextDelta) or not delta.text.strip():
            return b""
        self.opened = True
        text = self.text
        return _start(self.index, {"type": "text", "text": ""}) + self._prefix + _encode_string(text) + _ENDING

    @property
    def run_form(self) -> FrameForm | None:
        return _run_form(self._prefix) if self.opened else None

    def close(self) -> bytes:
        return _stop(self.index) if self.opened else b""


class _ThinkingWriter(_Writer):
    """Thinking: always one signature before its end, possibly an empty one (pitfall 80)."""

    __slots__ = ("_prefix", "_signature")

    def __init__(self, index: int, part: Thinking) -> None:
        super().__init__(index)
        self._prefix = _prefix(index, "thinking_delta", "thinking")
        self._signature = signature_of(part.seal)

    def grow(self, delta: Delta) -> bytes:
        if type(delta) is TextDelta:
            return self._prefix + _encode_string(delta.text) + _ENDING if delta.text else b""
        if type(delta) is TextRun:
            return encode_run(delta, self._prefix, _ENDING)
        if type(delta) is SealSet:
            self._signature = signature_of(delta.seal)
        return b""

    @property
    def run_form(self) -> FrameForm | None:
        return _run_form(self._prefix)

    def close(self) -> bytes:
        signature = _delta(self.index, {"type": "signature_delta", "signature": self._signature})
        return signature + _stop(self.index)


class _CallWriter(_Writer):
    """A call with JSON arguments. Arguments that do not begin as an object are held and wrapped (N3)."""

    __slots__ = ("_first", "_held", "_ledger", "_part", "_passes", "_prefix")

    def __init__(self, index: int, part: int, ledger: Ledger) -> None:
        super().__init__(index)
        self._prefix = _prefix(index, "input_json_delta", "partial_json")
        self._part = part
        self._ledger = ledger
        self._held: list[str] = []
        # The first character that is not blank.
        self._first = ""
        self._passes = False

    def grow(self, delta: Delta) -> bytes:
        if type(delta) is ArgumentsRun:
            if self._passes:
                return encode_run(delta, self._prefix, _ENDING)
            return b"".join([self.grow(ArgumentsDelta(text)) for text in texts_of(delta)])
        if type(delta) is not ArgumentsDelta:
            return b""
        text = delta.text
        if not self._passes:
            self._held.append(text)
            self._first = self._first or text.lstrip()[:1]
            if self._first != "{":
                return b""
            self._passes = True
            text = "".join(self._held)
        return self._prefix + _encode_string(text) + _ENDING if text else b""

    def close(self) -> bytes:
        if not self._passes and self._first:
            value, wrapping = to_object("".join(self._held))
            if wrapping is not Wrapping.NONE:
                self._ledger.approximated(Feature.ARGUMENTS, ("parts", self._part, "arguments"), WRAPPED)
            wrapped = encode_text(value)
            return self._prefix + _encode_string(wrapped) + _ENDING + _stop(self.index)
        return _stop(self.index)


class _TextCallWriter(_Writer):
    """A custom tool call, sent as a function call with one string."""

    __slots__ = ("_prefix",)

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self._prefix = _prefix(index, "input_json_delta", "partial_json")

    def write(self, text: str) -> bytes:
        return self._prefix + _encode_string(text) + _ENDING

    def grow(self, delta: Delta) -> bytes:
        if type(delta) is ArgumentsRun:
            return b"".join([self.write(encode_text(text)[1:-1]) for text in texts_of(delta)])
        return self.write(encode_text(delta.text)[1:-1]) if type(delta) is ArgumentsDelta else b""

    def close(self) -> bytes:
        return self.write(INPUT_CLOSING) + _stop(self.index)


class MessagesStreamEncoder:
    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self._translation = translation
        self._mint = mint
        self._ledger = ledger
        self._index = 0
        self._part = 0
        self._writer: _Writer | None = None
        self._refusals: list[_TextWriter] = []
        self._answering = ResponseEncodeContext(translation, ledger)
        self._usage: Usage | None = None
        self._stopped = Stop(reason=StopReason.OTHER)
        self._over = False

    def feed(self, event: Event) -> bytes:
        if type(event) is PartGrew:
            writer = self._writer
            return writer.grow(event.delta) if writer is not None else b""
        return b"" if self._over else _WRITERS[type(event)](self, event)

    def run_form(self, index: int) -> FrameForm | None:
        return None if self._writer is None else self._writer.run_form

    def _write_message(self, event: Started) -> bytes:
        suffix = self._mint.response_suffix(event.id)
        message: JsonObject = {
            "id": f"msg_{suffix}",
            "type": "message",
            "role": "assistant",
            "model": self._translation.request.model or event.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            # Real counts come at the end and overwrite these (S5).
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }
        return _named({"type": "message_start", "message": message})

    def _write_start(self, event: PartStarted) -> bytes:
        part = event.part
        self._part = event.index
        if type(part) is Text or type(part) is Refusal:
            return self._start_text(part)
        if isinstance(part, Thinking) and not _is_redacted(part):
            return self._start_thinking(part)
        if isinstance(part, ToolCall):
            return self._start_call(part)
        return self._start_whole(part)

    def _open(self, writer: _Writer, block: JsonObject) -> bytes:
        self._writer = writer
        self._index += 1
        return _start(writer.index, block)

    def _lose_members(self, extras: Extras | None) -> None:
        """Report members of a part that exist only in another protocol. A native object is sent as its call."""
        report_call_extras(extras, ("parts", self._part), self._ledger)

    def _start_text(self, part: Text | Refusal) -> bytes:
        self._lose_members(part.extras)
        if isinstance(part, Refusal):
            refusal = _RefusalWriter(self._index, self._part, self._ledger)
            self._refusals.append(refusal)
            self._writer = refusal
            self._index += 1
            return refusal.grow(TextDelta(part.text)) if part.text else b""
        writer = _TextWriter(self._index, self._part, self._ledger)
        frames = self._open(writer, {"type": "text", "text": ""})
        return frames + writer.grow(TextDelta(part.text)) if part.text else frames

    def _start_thinking(self, part: Thinking) -> bytes:
        writer = _ThinkingWriter(self._index, part)
        self._lose_members(part.extras)
        frames = self._open(writer, {"type": "thinking", "thinking": "", "signature": ""})
        return frames + writer.grow(TextDelta(part.text)) if part.text else frames

    def _start_call(self, part: ToolCall) -> bytes:
        block = call_opening(part)
        if part.extras is not None and part.extras.origin == NAME:
            block.update(part.extras.fields)
        else:
            self._lose_members(part.extras)
        if part.form is InputForm.TEXT:
            text_writer = _TextCallWriter(self._index)
            frames = self._open(text_writer, block) + text_writer.write(INPUT_OPENING)
            return frames + text_writer.grow(ArgumentsDelta(part.arguments)) if part.arguments else frames
        writer = _CallWriter(self._index, self._part, self._ledger)
        frames = self._open(writer, block)
        return frames + writer.grow(ArgumentsDelta(part.arguments)) if part.arguments else frames

    def _start_whole(self, part: Part) -> bytes:
        at = ("parts", self._part)
        block = encode_response_part(part, at, self._answering)
        if block is None:
            return b""
        index = self._index
        writer = _Writer(index)
        kind = block["type"]
        if "input" in block and kind in ("server_tool_use", "mcp_tool_use"):
            text = encode_text(block["input"])
            frames = self._open(writer, {**block, "input": {}})
            return frames + _delta(index, {"type": "input_json_delta", "partial_json": text})
        if kind == "compaction":
            frames = self._open(writer, {**block, "content": None})
            delta: JsonObject = {"type": "compaction_delta", "content": block.get("content")}
            delta["encrypted_content"] = block.get("encrypted_content")
            return frames + _delta(index, delta)
        return self._open(writer, block)

    def _write_end(self, _event: Event) -> bytes:
        writer, self._writer = self._writer, None
        if isinstance(writer, _RefusalWriter) and not writer.opened:
            self._index -= 1
        return writer.close() if writer is not None else b""

    def _record_usage(self, event: UsageReported) -> bytes:
        self._usage = event.usage
        return b""

    def _drop_choices(self, _event: Event) -> bytes:
        drop_choices(self._ledger)
        return b""

    def _record_stop(self, event: Stopped) -> bytes:
        self._stopped = event.stop
        return b""

    def _ignore(self, _event: Event) -> bytes:
        return b""

    def _write_stop(self, _event: Event) -> bytes:
        self._over = True
        refusal = "".join([writer.text for writer in self._refusals]) if self._refusals else None
        last: JsonObject = {
            "type": "message_delta",
            "delta": encode_stop(self._stopped, refusal, self._ledger),
            "usage": encode_streamed_usage(self._usage, self._ledger),
        }
        return _named(last) + frame(b'{"type":"message_stop"}', "message_stop")

    def _write_failure(self, event: Failed) -> bytes:
        self._over = True
        self._writer = None
        return _named({"type": "error", "error": error_object(event.failure)})


def _is_redacted(part: Thinking) -> bool:
    seal = part.seal
    return seal is not None and seal.origin == NAME and seal.kind == "redacted"


# One look-up by exact type per event. In the class: bound methods in each encoder would be a reference cycle.
_WRITERS: dict[type, Callable[..., bytes]] = {
    PartStarted: MessagesStreamEncoder._write_start,
    PartEnded: MessagesStreamEncoder._write_end,
    Started: MessagesStreamEncoder._write_message,
    UsageReported: MessagesStreamEncoder._record_usage,
    ChoiceReported: MessagesStreamEncoder._drop_choices,
    Stopped: MessagesStreamEncoder._record_stop,
    Ended: MessagesStreamEncoder._write_stop,
    Failed: MessagesStreamEncoder._write_failure,
    Heartbeat: MessagesStreamEncoder._ignore,
}
