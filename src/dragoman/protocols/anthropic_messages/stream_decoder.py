"""A Messages stream to events.

    phase     event                      then
    FRESH     message_start              RUNNING
    FRESH     anything about blocks      RUNNING, as if the start had been told
    RUNNING   content_block_*            RUNNING; each kind of block has its own reader below
    RUNNING   message_delta              RUNNING; reason and usage are remembered, the later ones win (U8)
    any       message_stop               OVER, told as Stopped and Ended
    any       error, unreadable          OVER, told as Failed
    OVER      anything                   nothing

Nothing here raises: what cannot be read ends the stream as a bad gateway would.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from dragoman.errors import WireError
from dragoman.model.events import (
    ArgumentsDelta,
    CitationAdded,
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
    UsageReported,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, Seal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.protocols.anthropic_messages.failure import error_object, failure_in_body
from dragoman.protocols.anthropic_messages.hosted import listing_result
from dragoman.protocols.anthropic_messages.parts import decode_block, decode_citation
from dragoman.protocols.anthropic_messages.response import make_stop, unwrapper_for, with_issuer
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.protocols.anthropic_messages.usage import decode_usage, merged_usage
from dragoman.protocols.codec import Asked, Mint
from dragoman.rules.seals import from_envelope, issued_by
from dragoman.rules.unwrap import InputUnwrapper, ValueUnwrapper
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode_lenient, encode, encode_text
from dragoman.wire.sse import Frame
from dragoman.wire.sse import frame as frame_of

UNEXPECTED_END = "upstream stream ended unexpectedly"


class _Phase(Enum):
    FRESH = "nothing was told"
    RUNNING = "the answer grows"
    OVER = "nothing more is told"


class _Block:
    """A block while it is open: by default one that comes whole with its start."""

    __slots__ = ("decoder", "index", "start")

    def __init__(self, decoder: MessagesStreamDecoder, start: JsonObject) -> None:
        self.decoder = decoder
        self.start = start
        self.index = -1

    def open(self) -> list[Event]:
        """What the start of the block tells."""
        return []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        """What a delta tells; kinds that are not known here are ignored (S9)."""
        del kind, delta
        return []

    def close(self) -> list[Event]:
        """What the end of the block tells."""
        return self.decoder.whole(self.start)

    def announce(self, part: Part) -> PartStarted:
        """Give the part the next number."""
        self.index = self.decoder.next_index()
        return PartStarted(self.index, part)


class _TextBlock(_Block):
    """Text is announced with its first character (S3)."""

    __slots__ = ()

    def open(self) -> list[Event]:
        events = self._say(self.start.get("text"))
        for citation in Fields(self.start).each("citations"):
            events += self._cite(citation)
        return events

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "text_delta":
            text = delta.get("text")
            if self.index >= 0 and type(text) is str and text:
                return [PartGrew(self.index, TextDelta(text))]
            return self._say(text)
        if kind == "citations_delta":
            return self._cite(Fields(delta).fields("citation"))
        return []

    def _say(self, text: JsonValue) -> list[Event]:
        if text is not None and type(text) is not str:
            raise WireError("/delta/text", "string", type(text).__name__)
        if not text:
            return []
        events: list[Event] = []
        if self.index < 0:
            events.append(self.announce(Text(text="")))
        events.append(PartGrew(self.index, TextDelta(text)))
        return events

    def _cite(self, citation: Fields) -> list[Event]:
        events: list[Event] = []
        if self.index < 0:
            events.append(self.announce(Text(text="")))
        events.append(PartGrew(self.index, CitationAdded(decode_citation(citation))))
        return events

    def close(self) -> list[Event]:
        return [PartEnded(self.index)] if self.index >= 0 else []


class _ThinkingBlock(_Block):
    """Thinking is announced at once; its seal is the whole block, known at its end."""

    __slots__ = ("_pieces", "_signature")

    def open(self) -> list[Event]:
        self._pieces: list[str] = []
        self._signature = _text(self.start, "signature")
        events: list[Event] = [self.announce(Thinking(text="", kind=ThinkingKind.SUMMARY))]
        return events + self._say(_text(self.start, "thinking"))

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "thinking_delta":
            return self._say(_text(delta, "thinking"))
        if kind == "signature_delta":
            self._signature = _text(delta, "signature")
        return []

    def _say(self, text: str) -> list[Event]:
        if not text:
            return []
        self._pieces.append(text)
        return [PartGrew(self.index, TextDelta(text))]

    def close(self) -> list[Event]:
        if not self._signature:
            return [PartEnded(self.index)]
        body: JsonObject = {**self.start, "thinking": "".join(self._pieces), "signature": self._signature}
        seal = from_envelope(self._signature) or self.decoder.issued(Seal(origin=NAME, kind="thinking", body=body))
        return [PartGrew(self.index, SealSet(seal)), PartEnded(self.index)]


class _CallBlock(_Block):
    """A client tool call; its arguments are unwrapped as they arrive (S16)."""

    __slots__ = ("_silent", "_unwrapper")

    def open(self) -> list[Event]:
        self._silent = True
        self._unwrapper: InputUnwrapper | ValueUnwrapper | None = None
        part = decode_block(Fields({**self.start, "id": _text(self.start, "id"), "input": {}}))
        assert isinstance(part, ToolCall)
        call_id = self.decoder.fresh_call_id(part.call_id)
        entry = self.decoder.asked.table.restored(part.name)
        name, namespace, form = part.name, part.namespace, part.form
        if entry is not None:
            name, namespace, form = entry.name, entry.namespace, entry.form
            self._unwrapper = unwrapper_for(entry)
        call = ToolCall(call_id=call_id, name=name, arguments="", namespace=namespace, form=form, extras=part.extras)
        return [self.announce(call)]

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind != "input_json_delta":
            return []
        text = delta.get("partial_json")
        if type(text) is not str:
            raise WireError("/delta/partial_json", "string", type(text).__name__)
        if not text:
            return []
        self._silent = False
        if self._unwrapper is not None:
            text = self._unwrapper.feed(text)
            if not text:
                return []
        return [PartGrew(self.index, ArgumentsDelta(text))]

    def close(self) -> list[Event]:
        events: list[Event] = []
        if self._silent:
            # The start always holds `{}`; it counts only where no delta came (pitfalls 46 and 47).
            given = self.start.get("input")
            events = self.grow("input_json_delta", {"partial_json": encode_text(given if given else {})})
        if self._unwrapper is not None:
            rest = self._unwrapper.close()
            if rest:
                events.append(PartGrew(self.index, ArgumentsDelta(rest)))
        events.append(PartEnded(self.index))
        return events


class _HostedBlock(_Block):
    """A call that the provider runs: told whole once its input is complete."""

    __slots__ = ("_pieces",)

    def open(self) -> list[Event]:
        self._pieces: list[str] = []
        return []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "input_json_delta":
            self._pieces.append(_text(delta, "partial_json"))
        return []

    def close(self) -> list[Event]:
        text = "".join(self._pieces)
        value: JsonValue = decode_lenient(text.encode()) if text.strip() else self.start.get("input")
        return self.decoder.whole({**self.start, "input": value if isinstance(value, dict) else {}})


class _CompactionBlock(_Block):
    """A compaction: its content comes in one delta."""

    __slots__ = ("_members",)

    def open(self) -> list[Event]:
        self._members: JsonObject = {}
        return []

    def grow(self, kind: str, delta: JsonObject) -> list[Event]:
        if kind == "compaction_delta":
            self._members.update({key: value for key, value in delta.items() if key != "type"})
        elif kind == "signature_delta":
            self._members["signature"] = _text(delta, "signature")
        return []

    def close(self) -> list[Event]:
        return self.decoder.whole({**self.start, **self._members})


_BLOCKS: dict[str, type[_Block]] = {
    "text": _TextBlock,
    "thinking": _ThinkingBlock,
    "tool_use": _CallBlock,
    "server_tool_use": _HostedBlock,
    "mcp_tool_use": _HostedBlock,
    "compaction": _CompactionBlock,
}


def _text(value: JsonObject, key: str) -> str:
    """A string member; absent and null count as empty."""
    found = value.get(key)
    if found is None:
        return ""
    if type(found) is not str:
        raise WireError(f"/{key}", "string", type(found).__name__)
    return found


class MessagesStreamDecoder:
    """Reads one stream."""

    def __init__(self, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self.asked = asked
        self._mint = mint
        self._ledger = ledger
        self._phase = _Phase.FRESH
        self._blocks: dict[int, _Block] = {}
        self._next = 0
        self._call_ids: set[str] = set()
        self._usage: JsonObject = {}
        self._stop: Fields | None = None
        self._readers: dict[str, Callable[[JsonObject], list[Event]]] = {
            "content_block_delta": self._read_delta,
            "content_block_start": self._read_start,
            "content_block_stop": self._read_stop,
            "message_start": self._read_message,
            "message_delta": self._read_message_delta,
            "message_stop": self._read_end,
            "ping": self._read_ping,
            "error": self._read_error,
        }

    def feed(self, frame: Frame) -> list[Event]:
        """The events that one frame tells."""
        if self._phase is _Phase.OVER or not frame.data:
            return []
        try:
            event = decode_lenient(frame.data)
            if type(event) is not dict:
                return self._fail(f"an event of the stream is no object: {frame.data[:100]!r}") if event is None else []
            kind = event.get("type", frame.event)
            reader = self._readers.get(kind) if type(kind) is str else None
            if reader is not None:
                return reader(event)
            # Unknown events are ignored, but an error by any name ends the stream (O2).
            return self._read_error(event) if event.get("error") is not None else []
        except WireError as error:
            if frame.data.strip() == b"[DONE]":
                return []
            return self._fail(f"the provider's stream cannot be read: {error}")

    def close(self) -> list[Event]:
        """What the end of the stream tells: a story with a stop reason is complete (S10)."""
        if self._phase is _Phase.OVER:
            return []
        try:
            if self._stop is not None and self._stop.value.get("stop_reason") is not None:
                return self._read_end({})
        except WireError as error:
            return self._fail(f"the provider's stream cannot be read: {error}")
        return self._fail(UNEXPECTED_END)

    def broken(self, failure: Failure) -> bytes:
        """The frame by which a relayed stream tells its client that it broke off."""
        return frame_of(encode({"type": "error", "error": error_object(failure)}), "error")

    def next_index(self) -> int:
        """The number of the next part."""
        index = self._next
        self._next += 1
        return index

    def fresh_call_id(self, given: str) -> str:
        """The provider's id of a call, or a new one where it gave none or one that another call has (N2)."""
        call_id = given if given and given not in self._call_ids else f"call_{self._mint.token(24)}"
        self._call_ids.add(call_id)
        return call_id

    def issued(self, seal: Seal) -> Seal:
        """A seal with its issuer written on it."""
        return issued_by(seal, self.asked.target.model, self.asked.target.upstream)

    def whole(self, block: JsonObject) -> list[Event]:
        """A block that is told in one piece."""
        part = with_issuer(decode_block(Fields(block)), self.asked)
        result = listing_result(part)
        told = (part,) if result is None else (part, result)
        events: list[Event] = []
        for one in told:
            index = self.next_index()
            events += (PartStarted(index, one), PartEnded(index))
        return events

    def _begin(self) -> list[Event]:
        """Tell the start if the provider forgot to."""
        if self._phase is not _Phase.FRESH:
            return []
        self._phase = _Phase.RUNNING
        return [Started(id="", model=self.asked.target.model)]

    def _read_message(self, event: JsonObject) -> list[Event]:
        message = Fields(event).fields("message")
        if self._phase is not _Phase.FRESH:
            return []
        self._phase = _Phase.RUNNING
        started = Started(id=message.optional_text("id") or "", model=message.optional_text("model") or "")
        return [started, *self._remember_usage(message)]

    def _remember_usage(self, owner: Fields) -> list[Event]:
        usage = owner.optional_object("usage")
        if not usage:
            return []
        self._usage = merged_usage(self._usage, usage)
        return [UsageReported(decode_usage(Fields(self._usage)))]

    def _read_start(self, event: JsonObject) -> list[Event]:
        events = self._begin()
        fields = Fields(event)
        index = fields.integer("index")
        start = fields.object("content_block")
        # A block that was left open ends where the next one begins.
        events += self._close_blocks()
        block = _BLOCKS.get(_text(start, "type"), _Block)(self, start)
        self._blocks[index] = block
        return events + block.open()

    def _read_delta(self, event: JsonObject) -> list[Event]:
        index, delta = event.get("index"), event.get("delta")
        if type(delta) is not dict or type(index) is not int:
            raise WireError("", "a delta and its index", "something else")
        block = self._blocks.get(index)
        kind = delta.get("type")
        if block is None or type(kind) is not str:
            return []
        return block.grow(kind, delta)

    def _read_stop(self, event: JsonObject) -> list[Event]:
        block = self._blocks.pop(Fields(event).integer("index"), None)
        return block.close() if block is not None else []

    def _close_blocks(self) -> list[Event]:
        events: list[Event] = []
        while self._blocks:
            events += self._blocks.pop(next(iter(self._blocks))).close()
        return events

    def _read_message_delta(self, event: JsonObject) -> list[Event]:
        fields = Fields(event)
        delta = fields.optional_fields("delta")
        if delta is not None and (self._stop is None or delta.value.get("stop_reason") is not None):
            self._stop = delta
        return self._begin() + self._remember_usage(fields)

    def _read_end(self, _event: JsonObject) -> list[Event]:
        events = self._begin() + self._close_blocks()
        told = self._stop or Fields({})
        stop = make_stop(
            told.optional_text("stop_reason") or "",
            told.optional_text("stop_sequence"),
            told.optional_fields("stop_details"),
            called=bool(self._call_ids),
        )
        self._phase = _Phase.OVER
        return [*events, Stopped(stop), Ended()]

    def _read_ping(self, _event: JsonObject) -> list[Event]:
        return [Heartbeat()]

    def _read_error(self, event: JsonObject) -> list[Event]:
        self._phase = _Phase.OVER
        return [Failed(failure_in_body(event))]

    def _fail(self, message: str) -> list[Event]:
        self._phase = _Phase.OVER
        return [Failed(Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=message))]
