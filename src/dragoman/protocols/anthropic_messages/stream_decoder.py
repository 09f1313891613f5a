"""Decodes a Messages stream to events.

state     event                      next state and action
fresh     message_start              running
fresh     any event of a block       running, as after a message_start
running   content_block_*            running; `stream_blocks` has a reader for each type of block
running   message_delta              running; reason and usage are stored, later ones win (U8)
any       message_stop               over; emits Stopped and Ended
any       error, unreadable          over; emits Failed
over      any                        ignored

No method raises: unreadable data ends the stream like a bad gateway."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import DecodeError
from msgspec.json import Decoder

from dragoman.errors import WireError
from dragoman.model.events import (
    Ended,
    Event,
    Failed,
    Heartbeat,
    PartGrew,
    PartStarted,
    Started,
    Stopped,
    TextRun,
    UsageReported,
)
from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.response import Usage
from dragoman.protocols.anthropic_messages.failure import broken_failure, error_object, failure_in_body, is_error
from dragoman.protocols.anthropic_messages.response import make_stop
from dragoman.protocols.anthropic_messages.stream_blocks import (
    DELTA_MEMBERS,
    INPUT,
    Block,
    BlockContext,
    BlockGrew,
    InputGrown,
    OpenBlocks,
    begin,
    text_of,
)
from dragoman.protocols.anthropic_messages.usage import decode_usage, merged_usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.rules.extras import part_place
from dragoman.rules.failures import ENDED_EARLY, bad_gateway
from dragoman.rules.stop_reasons import at_cap, finalize_stop, stated_reason
from dragoman.rules.surrogates import SurrogateJoiner
from dragoman.rules.text_runs import TextFrames
from dragoman.wire.fields import Fields
from dragoman.wire.json import encode, kind_of
from dragoman.wire.sse import Frame
from dragoman.wire.sse import frame as frame_of

# Members that are read from events, from the message in the first event, and from the end in the last one.
_EVENT = frozenset({"type", "index", "message", "content_block", "delta", "usage"})
_MESSAGE = frozenset(
    {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "stop_details", "usage"}
)
_STOP = frozenset({"stop_reason", "stop_sequence", "stop_details"})

# Deltas that can begin a block, and its type.
_UNANNOUNCED = {"text_delta": "text", "thinking_delta": "thinking"}

_read_growth = Decoder(BlockGrew).decode
# The end of a block in the form of nearly all servers: only its index is read.
_match_stop = re.compile(rb'\{"type": ?"content_block_stop", ?"index": ?(0|[1-9][0-9]{0,8}) *+\}').fullmatch


class MessagesStreamDecoder:
    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self._reading = BlockContext(translation, mint, ledger)
        self._unknowns = self._reading.unknowns
        self._surrogates = SurrogateJoiner(ledger)
        self._fresh = True
        self._over = False
        self._blocks = OpenBlocks()
        self._by_index = self._blocks.by_index
        self._usage: JsonObject = {}
        self._counted: Usage | None = None
        self.final_usage: Usage | None = None
        self._stop: Fields | None = None
        # The last index assigned to a block without one.
        self._unnumbered = -1
        # Content of the first event: blocks without events, and the end of a full message.
        self._held: dict[int, JsonObject] = {}
        self._held_order: deque[int] = deque()
        self._whole_stop: Fields | None = None
        self._error: JsonValue = None
        self._has_content = False
        self.text_frames = TextFrames()
        self._growing = 0
        self._growing_block: Block | None = None

    def feed(self, frame: Frame) -> list[Event]:
        if frame.event == "content_block_delta" and self._by_index:
            # The most frequent frames: decoded by type, without building discarded values.
            try:
                grew = _read_growth(frame.data)
            except (DecodeError, UnicodeError):
                return self._read_other(frame)
            block = self._by_index.get(grew.index)
            if block is not None and type(grew.delta) is block.grown:
                return self._grow(frame, grew, block)
        return self._read_other(frame)

    def _read_other(self, frame: Frame) -> list[Event]:
        """Read any other frame. After it, the block that grew may no longer run."""
        events = self._read(frame)
        block = self._by_index.get(self._growing)
        if block is None or block is not self._growing_block or not block.runs:
            self.text_frames.is_ready = False
        return events

    def _grow(self, frame: Frame, grew: BlockGrew, block: Block) -> list[Event]:
        self._blocks.grown[grew.index] = None
        try:
            events = block.add_text(grew.delta.text)
        except WireError as error:
            return self._fail(f"the provider's stream cannot be read: {error}")
        if block.runs and events:
            self._growing, self._growing_block = grew.index, block
            arguments = type(grew.delta) is InputGrown
            self.text_frames.learn(frame, grew.delta.text, partial(_text_in, grew), arguments=arguments)
        else:
            self.text_frames.is_ready = False
        return events

    def grow(self, run: TextRun) -> PartGrew:
        block = self._by_index[self._growing]
        self._blocks.grown[self._growing] = None
        return PartGrew(block.index, block.grow_by(run))

    def _read(self, frame: Frame) -> list[Event]:
        if self._over or not frame.data:
            return []
        try:
            same = _SAME.get(frame.data)
            if same is not None:
                return same(self, {})
            if (stop := _match_stop(frame.data)) is not None:
                block = self._blocks.pop(int(stop[1]))
                return [] if block is None else block.close()
            event = self._surrogates.read(frame.data)
            if type(event) is not dict:
                return self._fail(f"an event of the stream is no object: {frame.data[:100]!r}") if event is None else []
            kind = event.get("type", frame.event)
            reader = _READERS.get(kind) if type(kind) is str else None
            if reader is not None:
                return reader(self, event)
            # Unknown events are dropped and reported, but an error under any name ends the stream (O2).
            if event.get("error") is not None:
                return self._read_error(event)
            self._unknowns.name(kind if type(kind) is str else "event")
            return []
        except WireError as error:
            if frame.data.strip() == b"[DONE]":
                return []
            return self._fail(f"the provider's stream cannot be read: {error}")

    def close(self) -> list[Event]:
        """Return the events of the end of the stream. With a stop reason it is complete (S10)."""
        if self._over:
            return []
        try:
            if self._stop is not None and stated_reason(self._stop.optional_text("stop_reason")):
                return self._read_end({})
            if self._whole_stop is not None and not self._has_content:
                return self._read_end({})
        except WireError as error:
            return self._fail(f"the provider's stream cannot be read: {error}")
        return self._fail(ENDED_EARLY)

    def broken(self, failure: Failure) -> bytes:
        return frame_of(encode({"type": "error", "error": error_object(failure)}), "error")

    def _begin(self) -> list[Event]:
        """Emit the start if the provider omitted it."""
        if not self._fresh:
            return []
        self._fresh = False
        return [Started(id="", model=self._reading.translation.target.model)]

    def _read_message(self, event: JsonObject) -> list[Event]:
        message = Fields(event).fields("message")
        self._unknowns.members(event, _EVENT)
        self._unknowns.members(message.value, _MESSAGE)
        if not self._fresh:
            # Before any other event it is a repetition; later it is another response after a break.
            return self._fail("another message began inside the stream") if self._has_content else []
        self._fresh = False
        if is_error(message.value):
            return self._read_error(message.value)
        self._error = message.value.get("error")
        content = message.value.get("content")
        blocks = content if type(content) is list else ()
        self._held = {number: block for number, block in enumerate(blocks) if type(block) is dict}
        self._held_order.extend(self._held)
        if stated_reason(message.optional_text("stop_reason")):
            self._whole_stop = message
        started = Started(id=message.optional_text("id") or "", model=message.optional_text("model") or "")
        return [started, *self._remember_usage(message)]

    def _emit_held(self, before: int | None = None) -> list[Event]:
        """Emit the blocks of the start that have no events, up to the present one."""
        events: list[Event] = []
        while self._held_order and (before is None or self._held_order[0] < before):
            held = self._held.pop(self._held_order.popleft(), None)
            if held is not None:
                block = begin(self._reading, held)
                events += [*block.open(), *block.close()]
        return events

    def _remember_usage(self, owner: Fields) -> list[Event]:
        try:
            usage = owner.optional_object("usage")
            if not usage:
                return []
            merged = merged_usage(self._usage, usage)
            counted = decode_usage(Fields(merged))
        except WireError as error:
            # Unreadable counts must not fail the response.
            self._reading.ledger.dropped(Feature.USAGE, ("usage",), f"the provider's usage cannot be read: {error}")
            return []
        self._usage, self._counted = merged, counted
        return [UsageReported(counted)]

    def _read_start(self, event: JsonObject) -> list[Event]:
        events = self._begin()
        fields = Fields(event)
        index = fields.optional_integer("index")
        if index is None:
            # Some servers send no index for sequential blocks.
            index = self._unnumbered = self._unnumbered - 1
        start = fields.object("content_block")
        self._unknowns.members(event, _EVENT)
        again = self._by_index.get(index)
        if again is not None and start.get("id") and again.start.get("id") == start["id"]:
            # A repeated start; only the input may be new.
            again.start.update(start)
            return events
        # A block without an end closes when the next one begins. A call may still wait for its arguments.
        events += self._blocks.passed(index)
        events += self._emit_held(index)
        # A block that starts again is emitted by its own start event.
        self._held.pop(index, None)
        self._has_content = True
        block = self._blocks.put(index, begin(self._reading, start))
        return events + block.open()

    def _read_delta(self, event: JsonObject) -> list[Event]:
        index, delta = self._index_of(event), event.get("delta")
        if type(delta) is not dict or type(index) is not int:
            raise WireError("", "a delta and its index", "something else")
        block = self._blocks.grow(index)
        kind = delta.get("type")
        if type(kind) is not str:
            return []
        events: list[Event] = []
        if block is None and index in self._held:
            # Its start was part of the message_start.
            self._has_content = True
            events = self._emit_held(index)
            block = self._blocks.put(index, begin(self._reading, self._held.pop(index)))
            events += block.open()
        if block is None and kind == INPUT:
            block = self._waiting(delta)
        if block is None:
            if kind not in _UNANNOUNCED:
                self._unknowns.name(kind)
                return []
            # A delta without a start, or after its end, begins a block.
            self._has_content = True
            events = self._begin()
            start: JsonObject = {"type": _UNANNOUNCED[kind]}
            block = self._blocks.put(index, begin(self._reading, start))
            events += block.open()
        if kind in block.takes:
            events += block.grow(kind, delta)
        at = part_place(block.index)
        self._unknowns.members(event, _EVENT, at)
        if kind not in block.takes:
            self._unknowns.name(kind, True, at)
        elif kind in DELTA_MEMBERS:
            self._unknowns.members(delta, DELTA_MEMBERS[kind], at)
        return events

    def _index_of(self, event: JsonObject) -> JsonValue:
        """The index of an event; without one, that of the latest open block."""
        index = event.get("index")
        return next(reversed(self._by_index), self._unnumbered) if index is None else index

    def _waiting(self, delta: JsonObject) -> Block | None:
        """The waiting call for arguments with an unknown index."""
        waiting = self._blocks.grow_only()
        if waiting is not None:
            return waiting
        silent = not self._reading.translation.relayed and self._reading.lacks_arguments
        if silent and text_of(delta, "partial_json").strip():
            # Running a call without its arguments, or with wrong ones, would be harmful.
            raise WireError("/index", "the index of an open call", "another")
        return None

    def _read_stop(self, event: JsonObject) -> list[Event]:
        index = self._index_of(event)
        if type(index) is not int:
            raise WireError("/index", "integer", kind_of(index))
        block = self._blocks.pop(index)
        self._unknowns.members(event, _EVENT, part_place(block.index if block is not None else None))
        return block.close() if block is not None else []

    def _read_message_delta(self, event: JsonObject) -> list[Event]:
        fields = Fields(event)
        delta = fields.optional_fields("delta")
        self._unknowns.members(event, _EVENT)
        self._error = event.get("error") or self._error
        if delta is not None:
            self._unknowns.members(delta.value, _STOP)
            self._error = delta.value.get("error") or self._error
        if delta is not None and (self._stop is None or stated_reason(delta.optional_text("stop_reason"))):
            self._stop = delta
        counts = self._remember_usage(fields)
        if counts and self._stop is not None and stated_reason(self._stop.optional_text("stop_reason")):
            self.final_usage = self._counted
        return self._begin() + counts

    def _read_end(self, event: JsonObject) -> list[Event]:
        self._unknowns.members(event, _EVENT)
        # A block without an end was cut.
        cut = bool(self._by_index)
        events = self._begin() + self._blocks.close() + self._emit_held()
        self._surrogates.close()
        stop_fields = (
            self._stop if self._stop is not None and stated_reason(self._stop.optional_text("stop_reason")) else None
        )
        stop_fields = stop_fields or self._whole_stop or self._stop or Fields({})
        broken = broken_failure(stop_fields.optional_text("stop_reason"), self._error)
        if self._error and not any(isinstance(event, PartStarted) for event in events) and not self._has_content:
            broken = failure_in_body({"error": self._error})
        if broken is not None:
            self._finish()
            return [*events, Failed(broken)]
        stop = make_stop(
            stop_fields.optional_text("stop_reason") or "",
            stop_fields.optional_text("stop_sequence"),
            stop_fields.optional_fields("stop_details"),
            called=bool(self._reading.call_ids),
        )
        cut = cut or at_cap(self._counted, self._reading.translation.request.max_tokens)
        self._finish()
        return [*events, Stopped(finalize_stop(stop, self._reading.ledger, cut=cut)), Ended()]

    def _read_ping(self, event: JsonObject) -> list[Event]:
        self._unknowns.members(event, _EVENT)
        return [Heartbeat()]

    def _read_error(self, event: JsonObject) -> list[Event]:
        self._finish()
        return [Failed(failure_in_body(event))]

    def _fail(self, message: str) -> list[Event]:
        self._finish()
        return [Failed(bad_gateway(message))]

    def _finish(self) -> None:
        # Without open blocks, `feed` no longer takes the fast path.
        self._over = True
        self.text_frames.is_ready = False
        self._blocks.clear()


def _text_in(grew: BlockGrew, data: bytes) -> str | None:
    """The text of an event that extends the same block by a delta of the same type."""
    try:
        other = _read_growth(data)
    except (DecodeError, UnicodeError):
        return None
    return other.delta.text if other.index == grew.index and type(other.delta) is type(grew.delta) else None


# In the class: a table of bound methods in each decoder would be a reference cycle.
_READERS: dict[str, Callable[[MessagesStreamDecoder, JsonObject], list[Event]]] = {
    "content_block_delta": MessagesStreamDecoder._read_delta,
    "content_block_start": MessagesStreamDecoder._read_start,
    "content_block_stop": MessagesStreamDecoder._read_stop,
    "message_start": MessagesStreamDecoder._read_message,
    "message_delta": MessagesStreamDecoder._read_message_delta,
    "message_stop": MessagesStreamDecoder._read_end,
    "ping": MessagesStreamDecoder._read_ping,
    "error": MessagesStreamDecoder._read_error,
}
# Events with constant bytes, in the two ways in which servers write them.
_SAME = {
    b'{"type":"ping"}': MessagesStreamDecoder._read_ping,
    b'{"type": "ping"}': MessagesStreamDecoder._read_ping,
    b'{"type":"message_stop"}': MessagesStreamDecoder._read_end,
    b'{"type": "message_stop"}': MessagesStreamDecoder._read_end,
}
