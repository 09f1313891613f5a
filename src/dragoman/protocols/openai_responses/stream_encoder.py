"""Encodes events as a client's Responses stream (mapping.md 25.2 and 25.4).

One item is open at a time. An item whose status depends on the end of the response is closed by the next event:

open item         growth                                 closed by
message           output_text.delta, refusal.delta       the next part other than text, or the stop
reasoning         reasoning_summary_text.delta           its own end
function call     function_call_arguments.delta          its own end if the arguments are complete, else the next part
custom call       custom_tool_call_input.delta           the next part, or the stop
vendor's call     held, its arguments make the item      its own end, opened and closed at once
hosted call       –                                      its result; failed if another part follows"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Raw
from msgspec.structs import replace

from dragoman.model.events import (
    ArgumentsDelta,
    ArgumentsRun,
    ChoiceReported,
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
    TextRun,
    UsageReported,
)
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
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
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_responses import hosted
from dragoman.protocols.openai_responses.failure import failed_frames
from dragoman.protocols.openai_responses.output import (
    ItemBuilder,
    call_item,
    call_kind,
    explained,
    incomplete_reason,
    last_status,
)
from dragoman.protocols.openai_responses.response import lose_logprobs, lose_members, report_end
from dragoman.protocols.openai_responses.response_object import finish, response_object
from dragoman.protocols.openai_responses.shapes import (
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
    MESSAGE,
    REASONING,
    RESPONSE_COMPLETED,
    RESPONSE_INCOMPLETE,
    STARTED,
    SUMMARY_DELTA,
    SUMMARY_DONE,
    SUMMARY_PART_ADDED,
    SUMMARY_PART_DONE,
)
from dragoman.protocols.openai_responses.stream_message import FrameWriter, MessageStream
from dragoman.rules.arguments import is_complete
from dragoman.rules.extras import drop_choices
from dragoman.rules.text_runs import FrameForm
from dragoman.wire.json import encode
from dragoman.wire.sse import DONE

# Events between the announcement and the result of a hosted call, and those of its end.
_HOSTED_RUNNING = {
    HostedKind.WEB_SEARCH: ("in_progress", "searching"),
    HostedKind.CODE: ("in_progress", "interpreting"),
    HostedKind.MCP: ("in_progress",),
    HostedKind.MCP_LISTING: ("in_progress",),
}
_HOSTED_FAILING = frozenset({HostedKind.MCP, HostedKind.MCP_LISTING})


class _Open(Enum):
    NOTHING = "nothing"
    TEXT = "text"
    REFUSAL = "refusal"
    THINKING = "thinking"
    CALL = "call"
    VENDOR_CALL = "vendor call"
    WHOLE = "a part that comes whole"


class ResponsesStreamEncoder:
    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self._translation = translation
        self._mint = mint
        self._ledger = ledger
        self._builder = ItemBuilder("", translation, ledger)
        self._frames = FrameWriter()
        self._message = MessageStream(self._frames, ledger)
        self._body: JsonObject = {}
        self._open = _Open.NOTHING
        # Whether growth of the open part is a delta without changes.
        self._plain = False
        self._part: Part | None = None
        self._part_index = 0
        self._waiting_call: ToolCall | None = None
        self._hosted: tuple[HostedCall, int] | None = None
        self._refused = False
        self._usage: Usage | None = None
        self._stop: Stop | None = None
        self._reason: str | None = None
        self._over = False

    def feed(self, event: Event) -> bytes:
        # By far the most frequent event is more text of an open part.
        if self._plain and type(event) is PartGrew:
            delta = event.delta
            if type(delta) is TextDelta or type(delta) is ArgumentsDelta:
                if not delta.text:
                    return b""
                if type(delta) is TextDelta and delta.logprobs:
                    return self._logged_delta(delta)
                return self._frames.delta(delta.text)
            if type(delta) is TextRun or type(delta) is ArgumentsRun:
                return self._frames.run(delta)
        handler = _HANDLERS.get(type(event))
        return handler(self, event) if handler is not None and not self._over else b""

    def run_form(self, index: int) -> FrameForm | None:
        return self._frames.run_form(self._frames.sequence) if self._plain else None

    def _logged_delta(self, delta: TextDelta) -> bytes:
        if self._open is _Open.TEXT:
            return self._message.logged_delta(delta)
        if self._open is _Open.REFUSAL and not self._frames.pieces:
            lose_logprobs(("parts", self._part_index), self._ledger)
        return self._frames.delta(delta.text)

    def _started(self, event: Started) -> bytes:
        suffix = self._mint.response_suffix(self._translation.response_id or event.id)
        self._builder = ItemBuilder(suffix, self._translation, self._ledger)
        created = event.created if event.created is not None else self._mint.now()
        model = self._translation.request.model or event.model
        self._body = body = response_object("resp_" + suffix, created, self._translation, model, self._ledger)
        # The first two frames and the last one have the tools, and the first two are the same.
        body["tools"] = Raw(encode(body["tools"]))
        written = Raw(encode(body))
        frame = self._frames.frame
        return frame(CREATED, {"response": written}) + frame(STARTED, {"response": written})

    def _usage_reported(self, event: UsageReported) -> bytes:
        self._usage = event.usage
        return b""

    def _choice_reported(self, _event: Event) -> bytes:
        drop_choices(self._ledger)
        return b""

    def _stopped(self, event: Stopped) -> bytes:
        self._stop = stop = event.stop
        self._reason = reason = incomplete_reason(stop, self._refused)
        written = b""
        explanation = explained(stop, self._refused)
        if explanation is not None:
            written += self._close_pending(Refusal(text=""))
            written += self._message.open_refusal(explanation, self._message_id())
        written += self._close_pending(None, reason)
        if not self._frames.items and reason is None:
            written += self._message.open_text(Text(text=""), self._message_id())
            written += self._message.close(COMPLETED)
        self._open, self._plain = _Open.NOTHING, False
        return written

    def _ended(self, event: Event) -> bytes:
        del event
        self._over = True
        stop = self._stop or Stop(reason=StopReason.END)
        reason = self._reason
        report_end(stop, self._usage, self._ledger)
        created = self._body["created_at"]
        now = max(self._mint.now(), created) if isinstance(created, int) else self._mint.now()
        body = finish(self._body, self._frames.items, self._usage, reason, now)
        kind = RESPONSE_COMPLETED if reason is None else RESPONSE_INCOMPLETE
        return self._frames.frame(kind, {"response": body}) + DONE

    def _failed(self, event: Failed) -> bytes:
        written = b""
        if not self._body:
            written += self._started(Started(id="", model=""))
        call = self._waiting_call
        if call is not None and call_kind(call) == CUSTOM_CALL:
            # Its end was sent, so it is finished. An open part stays open (§21).
            written += self._close_call(None)
        self._over, self._plain = True, False
        return written + failed_frames(event.failure, self._body, self._frames.items, self._frames.sequence)

    def _part_started(self, event: PartStarted) -> bytes:
        part = event.part
        written = self._close_pending(part)
        self._part = part
        self._part_index = event.index
        if part.extras is not None:
            lose_members(part.extras, ("parts", event.index), self._ledger)
        opener = _OPENERS.get(type(part))
        if opener is None:
            self._ledger.dropped(
                Feature.UNSUPPORTED_CONTENT,
                ("parts", event.index),
                f"{type(part).__name__} has no item for this client",
            )
            return written
        return written + opener(self, part)

    def _part_grew(self, event: PartGrew) -> bytes:
        """Growth that opens an item, is held, or is no text."""
        delta: Delta = event.delta
        match delta:
            case TextDelta() if self._open is _Open.THINKING:
                return self._think(delta.text)
            case ArgumentsDelta() if self._open is _Open.VENDOR_CALL:
                self._frames.pieces.append(delta.text)
            case CitationAdded() if self._open is _Open.TEXT:
                self._message.cite(delta.citation)
            case SealSet() if isinstance(self._part, Thinking):
                self._part = replace(self._part, seal=delta.seal)
            case PartReplaced():
                self._part = delta.part
        return b""

    def _part_ended(self, event: Event) -> bytes:
        del event
        opened, self._open, self._plain = self._open, _Open.NOTHING, False
        match opened:
            case _Open.TEXT:
                return self._message.end_block(self._part_index)
            case _Open.THINKING:
                return self._close_reasoning()
            case _Open.CALL:
                return self._end_call()
            case _Open.VENDOR_CALL:
                return self._write_vendor_call()
            case _Open.WHOLE:
                return self._write_compaction()
        return b""

    def _close_pending(self, following: Part | None, reason: str | None = None) -> bytes:
        """Close the item that waited for the next part, or for the stop."""
        if self._waiting_call is not None:
            return self._close_call(reason if following is None else None)
        if self._hosted is not None:
            if isinstance(following, HostedResult) and following.call_id == self._hosted[0].call_id:
                return b""
            return self._close_hosted(None)
        if self._message.is_open and not isinstance(following, Text | Refusal):
            return self._message.close(COMPLETED if following is not None or reason is None else INCOMPLETE)
        return b""

    def _item_id(self, kind: str) -> str:
        return self._builder.item_id(kind, len(self._frames.items))

    def _message_id(self) -> str:
        return self._item_id(MESSAGE)

    def _open_text(self, part: Text) -> bytes:
        self._open, self._plain = _Open.TEXT, True
        return self._message.open_text(part, self._message_id())

    def _open_refusal(self, part: Refusal) -> bytes:
        self._refused = True
        self._open, self._plain = _Open.REFUSAL, True
        if part.logprobs:
            lose_logprobs(("parts", self._part_index), self._ledger)
        return self._message.open_refusal(part.text, self._message_id())

    def _open_thinking(self, part: Thinking) -> bytes:
        frames = self._frames
        frames.item_id = self._builder.reasoning_id(part, len(frames.items))
        self._open = _Open.THINKING
        frames.prepare(SUMMARY_DELTA, {"summary_index": 0})
        written = frames.item_added({"id": frames.item_id, "type": REASONING, "summary": []})
        return written + self._think(part.text)

    def _think(self, text: str) -> bytes:
        if not text:
            return b""
        self._plain = True
        summary: JsonObject = {"summary_index": 0, "part": {"type": "summary_text", "text": ""}}
        return self._frames.in_item(SUMMARY_PART_ADDED, summary) + self._frames.delta(text)

    def _close_reasoning(self) -> bytes:
        assert isinstance(self._part, Thinking)
        frames = self._frames
        text = frames.part_text()
        written = b""
        if text:
            part: JsonObject = {"type": "summary_text", "text": text}
            written += frames.in_item(SUMMARY_DONE, {"summary_index": 0, "text": text})
            written += frames.in_item(SUMMARY_PART_DONE, {"summary_index": 0, "part": part})
        return written + frames.item_done(self._builder.reasoning(replace(self._part, text=text), len(frames.items)))

    def _open_call(self, part: ToolCall) -> bytes:
        if part.namespace is None and part.name in self._builder.natives:
            self._open = _Open.VENDOR_CALL
            self._frames.pieces = [part.arguments] if part.arguments else []
            return b""
        self._open, self._plain = _Open.CALL, True
        return self._announce_call(part)

    def _announce_call(self, part: ToolCall) -> bytes:
        frames = self._frames
        kind = call_kind(part)
        frames.item_id = self._item_id(kind)
        frames.prepare(INPUT_DELTA if kind == CUSTOM_CALL else ARGUMENTS_DELTA, {})
        written = frames.item_added(call_item(frames.item_id, part, "", IN_PROGRESS))
        return written + frames.delta(part.arguments) if part.arguments else written

    def _end_call(self) -> bytes:
        call = self._part
        assert isinstance(call, ToolCall)
        self._waiting_call = call
        written = b""
        if call_kind(call) == FUNCTION_CALL:
            arguments = self._frames.part_text()
            if not arguments.strip():
                # A client never gets "" for missing arguments, and always at least one delta (N3).
                self._frames.pieces = []
                written = self._frames.delta("{}")
                arguments = "{}"
            if is_complete(arguments):
                written += self._close_call(None)
        return written

    def _close_call(self, reason: str | None) -> bytes:
        call, self._waiting_call = self._waiting_call, None
        assert call is not None
        frames = self._frames
        arguments = frames.part_text()
        if call_kind(call) == CUSTOM_CALL:
            written = frames.in_item(INPUT_DONE, {"input": arguments})
        else:
            written = frames.in_item(ARGUMENTS_DONE, {"name": call.name, "arguments": arguments})
        status = last_status(call, arguments, reason)
        return written + frames.item_done(call_item(frames.item_id, call, arguments, status))

    def _write_vendor_call(self) -> bytes:
        assert isinstance(self._part, ToolCall)
        frames = self._frames
        call = replace(self._part, arguments=frames.part_text())
        item = self._builder.native_item(call, len(frames.items))
        if item is None:
            # The arguments are no valid item of the vendor's type: the call is sent as a function call.
            self._part = call
            return self._announce_call(call) + self._end_call()
        return frames.item_added({**item, "status": IN_PROGRESS}) + frames.item_done(item)

    def _open_hosted(self, part: HostedCall) -> bytes:
        self._hosted = (part, self._part_index)
        frames = self._frames
        kind = hosted.ITEM_TYPES[part.kind]
        begun = HostedResult(call_id=part.call_id, kind=part.kind)
        item = dict(self._builder.hosted(part, begun, len(frames.items)))
        frames.item_id = str(item["id"])
        if "status" in item:
            item["status"] = IN_PROGRESS
        written = frames.item_added(item)
        for step in _HOSTED_RUNNING[part.kind]:
            written += frames.in_item(f"response.{kind}.{step}", {})
        return written

    def _open_hosted_result(self, part: HostedResult) -> bytes:
        if self._hosted is not None:
            return self._close_hosted(part)
        hosted.lose_result(part, ("parts", self._part_index), self._ledger)
        return b""

    def _close_hosted(self, result: HostedResult | None) -> bytes:
        assert self._hosted is not None
        (call, index), self._hosted = self._hosted, None
        hosted.report_hosted_call(call, ("parts", index), self._ledger)
        failed = result is None or result.is_error
        written = b""
        if not failed or call.kind in _HOSTED_FAILING:
            step = FAILED if failed else COMPLETED
            written = self._frames.in_item(f"response.{hosted.ITEM_TYPES[call.kind]}.{step}", {})
        return written + self._frames.item_done(self._builder.hosted(call, result, len(self._frames.items)))

    def _open_compaction(self, part: Part) -> bytes:
        del part
        self._open = _Open.WHOLE
        return b""

    def _write_compaction(self) -> bytes:
        part, frames = self._part, self._frames
        if not isinstance(part, Compaction):
            return b""
        item = self._builder.compaction(part, len(frames.items))
        return frames.item_added(item) + frames.item_done(item)


_HANDLERS: dict[type, Callable[..., bytes]] = {
    PartGrew: ResponsesStreamEncoder._part_grew,
    PartStarted: ResponsesStreamEncoder._part_started,
    PartEnded: ResponsesStreamEncoder._part_ended,
    Started: ResponsesStreamEncoder._started,
    UsageReported: ResponsesStreamEncoder._usage_reported,
    ChoiceReported: ResponsesStreamEncoder._choice_reported,
    Stopped: ResponsesStreamEncoder._stopped,
    Ended: ResponsesStreamEncoder._ended,
    Failed: ResponsesStreamEncoder._failed,
}

_OPENERS: dict[type, Callable[..., bytes]] = {
    Text: ResponsesStreamEncoder._open_text,
    Refusal: ResponsesStreamEncoder._open_refusal,
    Thinking: ResponsesStreamEncoder._open_thinking,
    ToolCall: ResponsesStreamEncoder._open_call,
    HostedCall: ResponsesStreamEncoder._open_hosted,
    HostedResult: ResponsesStreamEncoder._open_hosted_result,
    Compaction: ResponsesStreamEncoder._open_compaction,
}
