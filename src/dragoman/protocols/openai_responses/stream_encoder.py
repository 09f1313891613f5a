"""Events to a client's stream (mapping.md 25.2 and 25.4).

One item is open at a time, items are numbered from 0, frames from 0 without a gap. An item whose status only the end of
the answer can tell is closed by what follows it:

    open item         growth                                 closed by
    message           output_text.delta, refusal.delta       the next part that is no text, or the stop
    reasoning         reasoning_summary_text.delta           its own end
    function call     function_call_arguments.delta          its own end if the arguments are whole, else the next part
    custom call       custom_tool_call_input.delta           the next part, or the stop
    vendor's call     held, its arguments make the item      its own end, opened and closed at once
    hosted call       –                                      its result; failed if something else follows
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec.json import Encoder
from msgspec.structs import replace

from dragoman.model.events import (
    ArgumentsDelta,
    CitationAdded,
    Delta,
    Ended,
    Event,
    Failed,
    PartEnded,
    PartGrew,
    PartReplaced,
    PartStarted,
    SealSet,
    Started,
    Stopped,
    TextDelta,
    UsageReported,
)
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Citation,
    Compaction,
    HostedCall,
    HostedKind,
    HostedResult,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.response import Stop, StopReason, Usage
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_responses import hosted
from dragoman.protocols.openai_responses.echo import finish, response_object
from dragoman.protocols.openai_responses.failure import failed_frames
from dragoman.protocols.openai_responses.output import (
    ItemBuilder,
    call_item,
    call_kind,
    explained,
    incomplete_reason,
    last_status,
    message_item,
    refusal_part,
    text_part,
)
from dragoman.protocols.openai_responses.parts import encode_annotation
from dragoman.protocols.openai_responses.response import report_end
from dragoman.protocols.openai_responses.shapes import (
    ANNOTATION_ADDED,
    ARGUMENTS_DELTA,
    ARGUMENTS_DONE,
    COMPLETED,
    CREATED,
    CUSTOM_CALL,
    FAILED,
    FUNCTION_CALL,
    IN_PROGRESS,
    INCOMPLETE,
    INPUT_DELTA,
    INPUT_DONE,
    ITEM_ADDED,
    ITEM_DONE,
    MESSAGE,
    PART_ADDED,
    PART_DONE,
    REASONING,
    REFUSAL_DELTA,
    REFUSAL_DONE,
    RESPONSE_COMPLETED,
    RESPONSE_INCOMPLETE,
    STARTED,
    SUMMARY_DELTA,
    SUMMARY_DONE,
    SUMMARY_PART_ADDED,
    SUMMARY_PART_DONE,
    TEXT_DELTA,
    TEXT_DONE,
)
from dragoman.rules.arguments import is_complete
from dragoman.rules.ids import object_suffix
from dragoman.wire.json import encode
from dragoman.wire.sse import DONE, frame

_quoted = Encoder().encode
_SEQUENCE = b',"sequence_number":'
_LOGPROBS = b',"logprobs":[],"sequence_number":'
_END = b"}\n\n"

# Events between the announcement and the result of a hosted call, and those of its end.
_HOSTED_RUNNING = {
    HostedKind.WEB_SEARCH: ("in_progress", "searching"),
    HostedKind.CODE: ("in_progress", "interpreting"),
    HostedKind.MCP: ("in_progress",),
    HostedKind.MCP_LISTING: ("in_progress",),
}
_HOSTED_FAILING = frozenset({HostedKind.MCP, HostedKind.MCP_LISTING})


class _Open(Enum):
    """What takes growth at the moment."""

    NOTHING = "nothing"
    TEXT = "text"
    REFUSAL = "refusal"
    THINKING = "thinking"
    CALL = "call"
    VENDOR_CALL = "vendor call"
    WHOLE = "a part that comes whole"
    IGNORED = "a part without an item"


class StreamEncoder:
    """Writes one stream."""

    def __init__(self, asked: Asked, mint: Mint, ledger: Ledger) -> None:
        self._asked = asked
        self._mint = mint
        self._ledger = ledger
        self._builder = ItemBuilder("", asked, ledger)
        self._body: JsonObject = {}
        self._sequence = 0
        self._items: JsonList = []
        self._open = _Open.NOTHING
        # Of every delta: what stands before and after its text. Set when a part opens.
        self._before = b""
        self._after = b""
        self._pieces: list[str] = []
        self._part: Part | None = None
        self._item_id = ""
        # The open message: its finished content, and of its open text what was told before this block.
        self._content: JsonList | None = None
        self._text_open = False
        self._refusal_open = False
        self._annotations: JsonList = []
        self._logprobs: JsonList = []
        self._citations: list[Citation] = []
        self._block_start = 0
        self._part_index = 0
        self._waiting_call: ToolCall | None = None
        self._hosted: HostedCall | None = None
        self._refused = False
        self._usage: Usage | None = None
        self._stop: Stop | None = None
        self._reason: str | None = None
        self._over = False

    def feed(self, event: Event) -> bytes:
        """The frames that one event makes."""
        handler = _HANDLERS.get(type(event))
        return handler(self, event) if handler is not None and not self._over else b""

    # Frames.

    def _frame(self, kind: str, members: JsonObject) -> bytes:
        number = self._sequence
        self._sequence = number + 1
        return frame(encode({"type": kind, **members, "sequence_number": number}), kind)

    def _delta(self, text: str) -> bytes:
        number = self._sequence
        self._sequence = number + 1
        return b"".join((self._before, _quoted(text), self._after, b"%d" % number, _END))

    def _prepare(self, kind: str, members: JsonObject, after: bytes = _SEQUENCE) -> None:
        """Write all of a delta's frame but its text, once for the part."""
        opening = encode({"type": kind, "item_id": self._item_id, "output_index": len(self._items), **members})
        self._before = b"event: %b\ndata: %b" % (kind.encode(), opening[:-1] + b',"delta":')
        self._after = after
        self._pieces = []

    def _item_added(self, item: JsonObject) -> bytes:
        return self._frame(ITEM_ADDED, {"output_index": len(self._items), "item": item})

    def _item_done(self, item: JsonObject) -> bytes:
        written = self._frame(ITEM_DONE, {"output_index": len(self._items), "item": item})
        self._items.append(item)
        return written

    def _at(self, members: JsonObject) -> JsonObject:
        return {"item_id": self._item_id, "output_index": len(self._items), **members}

    # The answer as a whole.

    def _started(self, event: Event) -> bytes:
        assert isinstance(event, Started)
        return self._begin(event)

    def _begin(self, event: Started) -> bytes:
        suffix = object_suffix(event.id) or self._mint.token(24)
        self._builder = ItemBuilder(suffix, self._asked, self._ledger)
        created = event.created if event.created is not None else self._mint.now()
        model = self._asked.request.model or event.model
        self._body = response_object("resp_" + suffix, created, self._asked, model)
        return self._frame(CREATED, {"response": self._body}) + self._frame(STARTED, {"response": self._body})

    def _usage_reported(self, event: Event) -> bytes:
        assert isinstance(event, UsageReported)
        self._usage = event.usage
        return b""

    def _stopped(self, event: Event) -> bytes:
        assert isinstance(event, Stopped)
        self._stop = stop = event.stop
        self._reason = reason = incomplete_reason(stop, self._refused)
        written: list[bytes] = []
        explanation = explained(stop, self._refused)
        if explanation is not None:
            written.append(self._settle(Refusal(text="")))
            written.append(self._open_refusal(Refusal(text="")))
            self._pieces.append(explanation)
            written.append(self._delta(explanation))
        written.append(self._settle(None, reason))
        if not self._items and reason is None:
            written.append(self._open_text(Text(text="")))
            written.append(self._close_message(COMPLETED))
        return b"".join(written)

    def _ended(self, event: Event) -> bytes:
        del event
        self._over = True
        stop = self._stop or Stop(reason=StopReason.END)
        reason = self._reason
        report_end(stop, self._usage, self._ledger)
        created = self._body["created_at"]
        now = max(self._mint.now(), created) if isinstance(created, int) else self._mint.now()
        body = finish(self._body, self._items, self._usage, reason, now)
        kind = RESPONSE_COMPLETED if reason is None else RESPONSE_INCOMPLETE
        return self._frame(kind, {"response": body}) + DONE

    def _failed(self, event: Event) -> bytes:
        assert isinstance(event, Failed)
        written: list[bytes] = []
        if not self._body:
            written.append(self._begin(Started(id="", model="")))
        call = self._waiting_call
        if call is not None and call_kind(call) == CUSTOM_CALL:
            # Its end was told, so it is finished; what is still open stays open (§21).
            written.append(self._close_call(None))
        self._over = True
        written.append(failed_frames(event.failure, self._body, self._items, self._sequence))
        return b"".join(written)

    # Parts.

    def _part_started(self, event: Event) -> bytes:
        assert isinstance(event, PartStarted)
        part = event.part
        self._part_index = event.index
        settled = self._settle(part)
        self._part = part
        opener = _OPENERS.get(type(part))
        if opener is None:
            self._open = _Open.IGNORED
            self._ledger.dropped(
                Feature.FOREIGN_CONTENT, ("parts", event.index), f"{type(part).__name__} has no item for this client"
            )
            return settled
        return settled + opener(self, part)

    def _part_grew(self, event: Event) -> bytes:
        assert isinstance(event, PartGrew)
        delta = event.delta
        kind = type(delta)
        if kind is TextDelta or kind is ArgumentsDelta:
            text: str = delta.text  # type: ignore[union-attr]  # both kinds have it; a second isinstance costs a tenth
            if not text:
                return b""
            self._pieces.append(text)
            opened = self._open
            if opened is _Open.TEXT or opened is _Open.CALL:
                if kind is TextDelta and delta.logprobs:  # type: ignore[union-attr]  # a text delta by the line above
                    return self._delta_with_logprobs(delta)
                return self._delta(text)
            return self._grow_slowly(text)
        return self._grow_otherwise(delta)

    def _grow_slowly(self, text: str) -> bytes:
        """Growth of parts that are rare, or whose first piece opens something."""
        if self._open is _Open.THINKING:
            if len(self._pieces) > 1:
                return self._delta(text)
            part: JsonObject = {"type": "summary_text", "text": ""}
            return self._frame(SUMMARY_PART_ADDED, self._at({"summary_index": 0, "part": part})) + self._delta(text)
        return self._delta(text) if self._open is _Open.REFUSAL else b""

    def _delta_with_logprobs(self, delta: Delta) -> bytes:
        assert isinstance(delta, TextDelta)
        logprobs = delta.logprobs or []
        self._logprobs.extend(logprobs)
        members: JsonObject = {"content_index": self._content_index(), "delta": delta.text, "logprobs": logprobs}
        return self._frame(TEXT_DELTA, self._at(members))

    def _grow_otherwise(self, delta: Delta) -> bytes:
        if isinstance(delta, CitationAdded):
            self._citations.append(delta.citation)
        elif isinstance(delta, SealSet):
            if isinstance(self._part, Thinking):
                self._part = replace(self._part, seal=delta.seal)
        elif isinstance(delta, PartReplaced):
            self._part = delta.part
        return b""

    def _part_ended(self, event: Event) -> bytes:
        del event
        opened, self._open = self._open, _Open.NOTHING
        match opened:
            case _Open.TEXT:
                return self._end_block()
            case _Open.THINKING:
                return self._close_reasoning()
            case _Open.CALL:
                return self._end_call()
            case _Open.VENDOR_CALL:
                return self._write_vendor_call()
            case _Open.WHOLE:
                return self._write_compaction()
        return b""

    def _settle(self, following: Part | None, reason: str | None = None) -> bytes:
        """Close what waited for the next part, or for the stop."""
        if self._waiting_call is not None:
            return self._close_call(reason if following is None else None)
        if self._hosted is not None:
            if isinstance(following, HostedResult) and following.call_id == self._hosted.call_id:
                return b""
            return self._close_hosted(None)
        if self._content is not None and not isinstance(following, Text | Refusal):
            return self._close_message(COMPLETED if following is not None or reason is None else INCOMPLETE)
        return b""

    # Messages.

    def _open_message(self) -> bytes:
        if self._content is not None:
            return b""
        self._content = []
        self._item_id = self._builder.item_id(MESSAGE, len(self._items))
        return self._item_added(message_item(self._item_id, [], IN_PROGRESS))

    def _content_index(self) -> int:
        return len(self._content or ())

    def _open_text(self, part: Part) -> bytes:
        assert isinstance(part, Text)
        written = self._open_message()
        if not self._text_open:
            written += self._close_refusal()
            self._text_open = True
            self._annotations, self._logprobs = [], []
            self._block_start = 0
            index = self._content_index()
            self._prepare(TEXT_DELTA, {"content_index": index}, _LOGPROBS)
            empty = text_part("", [], None)
            written += self._frame(PART_ADDED, self._at({"content_index": index, "part": empty}))
        else:
            self._block_start = sum(map(len, self._pieces))
        self._open = _Open.TEXT
        self._citations = list(part.citations)
        if part.text:
            self._pieces.append(part.text)
            logged = TextDelta(part.text, part.logprobs)
            written += self._delta_with_logprobs(logged) if part.logprobs else self._delta(part.text)
        return written

    def _end_block(self) -> bytes:
        """The end of one block of text: its citations get their places in the part."""
        if not self._citations:
            # Most blocks have none; the length is taken only when one has.
            return b""
        text = "".join(self._pieces)
        self._pieces = [text]
        start, length = self._block_start, len(text) - self._block_start
        written: list[bytes] = []
        for index, citation in enumerate(self._citations):
            annotation = encode_annotation(citation, start, length)
            if annotation is None:
                self._ledger.dropped(
                    Feature.CITATIONS, ("parts", self._part_index, "citations", index), "this source has no form here"
                )
                continue
            members: JsonObject = {
                "content_index": self._content_index(),
                "annotation_index": len(self._annotations),
                "annotation": annotation,
            }
            self._annotations.append(annotation)
            written.append(self._frame(ANNOTATION_ADDED, self._at(members)))
        self._citations = []
        return b"".join(written)

    def _close_text(self) -> bytes:
        if not self._text_open or self._content is None:
            return b""
        self._text_open = False
        text = "".join(self._pieces)
        index = len(self._content)
        part = text_part(text, self._annotations, self._logprobs)
        members: JsonObject = {"content_index": index, "text": text, "logprobs": self._logprobs}
        written = self._frame(TEXT_DONE, self._at(members))
        written += self._frame(PART_DONE, self._at({"content_index": index, "part": part}))
        self._content.append(part)
        self._pieces = []
        return written

    def _open_refusal(self, part: Part) -> bytes:
        assert isinstance(part, Refusal)
        written = self._open_message() + self._close_text() + self._close_refusal()
        self._refused = True
        self._open = _Open.REFUSAL
        self._refusal_open = True
        index = self._content_index()
        self._prepare(REFUSAL_DELTA, {"content_index": index})
        written += self._frame(PART_ADDED, self._at({"content_index": index, "part": refusal_part("")}))
        if part.text:
            self._pieces.append(part.text)
            written += self._delta(part.text)
        return written

    def _close_refusal(self) -> bytes:
        if not self._refusal_open or self._content is None:
            return b""
        self._refusal_open = False
        text = "".join(self._pieces)
        index = len(self._content)
        part = refusal_part(text)
        written = self._frame(REFUSAL_DONE, self._at({"content_index": index, "refusal": text}))
        written += self._frame(PART_DONE, self._at({"content_index": index, "part": part}))
        self._content.append(part)
        self._pieces = []
        return written

    def _close_message(self, status: str) -> bytes:
        written = self._close_text() + self._close_refusal()
        content, self._content = self._content or [], None
        return written + self._item_done(message_item(self._item_id, content, status))

    # Reasoning.

    def _open_thinking(self, part: Part) -> bytes:
        assert isinstance(part, Thinking)
        self._item_id = self._builder.item_id(REASONING, len(self._items))
        self._open = _Open.THINKING
        self._prepare(SUMMARY_DELTA, {"summary_index": 0})
        written = self._item_added({"id": self._item_id, "type": REASONING, "summary": []})
        if part.text:
            self._pieces.append(part.text)
            written += self._grow_slowly(part.text)
        return written

    def _close_reasoning(self) -> bytes:
        assert isinstance(self._part, Thinking)
        text = "".join(self._pieces)
        written = b""
        if text:
            part: JsonObject = {"type": "summary_text", "text": text}
            written += self._frame(SUMMARY_DONE, self._at({"summary_index": 0, "text": text}))
            written += self._frame(SUMMARY_PART_DONE, self._at({"summary_index": 0, "part": part}))
        item = self._builder.reasoning(replace(self._part, text=text), len(self._items))
        return written + self._item_done(item)

    # Calls.

    def _open_call(self, part: Part) -> bytes:
        assert isinstance(part, ToolCall)
        if part.namespace is None and part.name in self._builder.natives:
            self._open = _Open.VENDOR_CALL
            self._pieces = [part.arguments] if part.arguments else []
            return b""
        return self._announce_call(part)

    def _announce_call(self, part: ToolCall) -> bytes:
        kind = call_kind(part)
        self._item_id = self._builder.item_id(kind, len(self._items))
        self._open = _Open.CALL
        self._prepare(INPUT_DELTA if kind == CUSTOM_CALL else ARGUMENTS_DELTA, {})
        written = self._item_added(call_item(self._item_id, part, "", IN_PROGRESS))
        if part.arguments:
            self._pieces.append(part.arguments)
            written += self._delta(part.arguments)
        return written

    def _end_call(self) -> bytes:
        call = self._part
        assert isinstance(call, ToolCall)
        self._waiting_call = call
        written = b""
        if call_kind(call) == FUNCTION_CALL:
            arguments = "".join(self._pieces)
            if not arguments.strip():
                # A client never gets "" for no arguments, and at least one delta (N3).
                self._pieces = ["{}"]
                written = self._delta("{}")
                arguments = "{}"
            if is_complete(arguments):
                written += self._close_call(None)
        return written

    def _close_call(self, reason: str | None) -> bytes:
        call, self._waiting_call = self._waiting_call, None
        assert call is not None
        arguments = "".join(self._pieces)
        if call_kind(call) == CUSTOM_CALL:
            written = self._frame(INPUT_DONE, self._at({"input": arguments}))
        else:
            written = self._frame(ARGUMENTS_DONE, self._at({"name": call.name, "arguments": arguments}))
        status = last_status(call, arguments, reason)
        return written + self._item_done(call_item(self._item_id, call, arguments, status))

    def _write_vendor_call(self) -> bytes:
        assert isinstance(self._part, ToolCall)
        call = replace(self._part, arguments="".join(self._pieces))
        item = self._builder.native_item(call, len(self._items))
        if item is None:
            # The arguments make no item of the vendor's kind: the call is told as it came.
            self._part = call
            written = self._announce_call(call)
            self._open = _Open.NOTHING
            return written + self._end_call()
        return self._item_added({**item, "status": IN_PROGRESS}) + self._item_done(item)

    # Parts that come whole.

    def _open_hosted(self, part: Part) -> bytes:
        assert isinstance(part, HostedCall)
        self._hosted = part
        kind = hosted.ITEM_TYPES[part.kind]
        self._item_id = self._builder.item_id(kind, len(self._items))
        item = self._builder.hosted(part, HostedResult(call_id=part.call_id, kind=part.kind), len(self._items))
        if "status" in item:
            item["status"] = IN_PROGRESS
        written = self._item_added(item)
        for step in _HOSTED_RUNNING[part.kind]:
            written += self._frame(f"response.{kind}.{step}", self._at({}))
        return written

    def _open_hosted_result(self, part: Part) -> bytes:
        assert isinstance(part, HostedResult)
        return self._close_hosted(part) if self._hosted is not None else b""

    def _close_hosted(self, result: HostedResult | None) -> bytes:
        call, self._hosted = self._hosted, None
        assert call is not None
        failed = result is None or result.is_error
        written = b""
        if not failed or call.kind in _HOSTED_FAILING:
            step = FAILED if failed else COMPLETED
            written = self._frame(f"response.{hosted.ITEM_TYPES[call.kind]}.{step}", self._at({}))
        return written + self._item_done(self._builder.hosted(call, result, len(self._items)))

    def _open_compaction(self, part: Part) -> bytes:
        del part
        self._open = _Open.WHOLE
        return b""

    def _write_compaction(self) -> bytes:
        part = self._part
        if not isinstance(part, Compaction):
            return b""
        item = self._builder.compaction(part, len(self._items))
        return self._item_added(item) + self._item_done(item)


_HANDLERS: dict[type, Callable[[StreamEncoder, Event], bytes]] = {
    PartGrew: StreamEncoder._part_grew,
    PartStarted: StreamEncoder._part_started,
    PartEnded: StreamEncoder._part_ended,
    Started: StreamEncoder._started,
    UsageReported: StreamEncoder._usage_reported,
    Stopped: StreamEncoder._stopped,
    Ended: StreamEncoder._ended,
    Failed: StreamEncoder._failed,
}

_OPENERS: dict[type, Callable[[StreamEncoder, Part], bytes]] = {
    Text: StreamEncoder._open_text,
    Refusal: StreamEncoder._open_refusal,
    Thinking: StreamEncoder._open_thinking,
    ToolCall: StreamEncoder._open_call,
    HostedCall: StreamEncoder._open_hosted,
    HostedResult: StreamEncoder._open_hosted_result,
    Compaction: StreamEncoder._open_compaction,
}
