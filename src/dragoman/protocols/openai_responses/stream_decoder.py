"""Decodes a provider's Responses stream to events (mapping.md 25.5 and 25.6). Several items may be open; `open_items`
finds the item of an event and its new content. This module has the response around them, and the table of events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from dragoman.errors import WireError
from dragoman.model.events import (
    ArgumentsDelta,
    ArgumentsRun,
    Ended,
    Event,
    Failed,
    PartGrew,
    Started,
    Stopped,
    TextDelta,
    TextRun,
    UsageReported,
)
from dragoman.model.failure import Failure
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, Refusal
from dragoman.model.response import Usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_responses.failure import failed_frames, failure_in, failure_of, has_failed
from dragoman.protocols.openai_responses.open_call import OpenCall
from dragoman.protocols.openai_responses.open_item import ItemContext, OpenItem, OpenPiece
from dragoman.protocols.openai_responses.open_items import OpenItems
from dragoman.protocols.openai_responses.open_message import OpenMessage
from dragoman.protocols.openai_responses.open_reasoning import OpenReasoning
from dragoman.protocols.openai_responses.response import CANCELLED, cancelled, decode_stop
from dragoman.protocols.openai_responses.shapes import (
    CUSTOM_CALL,
    EVENT_MEMBERS,
    FUNCTION_CALL,
    INCOMPLETE,
    MESSAGE,
    PART_MEMBERS,
    REASONING,
    REPEATED,
    TEXT_DELTA,
)
from dragoman.protocols.openai_responses.usage import decode_usage, without_searches
from dragoman.rules.extras import ECHOES
from dragoman.rules.failures import ENDED_EARLY, bad_gateway
from dragoman.rules.response_metadata import label, moment
from dragoman.rules.surrogates import UNREADABLE, SurrogateJoiner
from dragoman.rules.text_runs import TextFrames
from dragoman.wire.fields import Fields
from dragoman.wire.json import read_json
from dragoman.wire.sse import Frame


class ResponsesStreamDecoder:
    def __init__(self, translation: TranslationContext, mint: Mint, ledger: Ledger) -> None:
        self._ledger = ledger
        self._surrogates = SurrogateJoiner(ledger)
        self._context = ItemContext(translation, mint, ledger)
        self._unknowns = self._context.unknowns
        self._items = OpenItems(self._context)
        self._by_id = self._items.by_id
        self._by_index = self._items.by_index
        self._started = False
        self._over = False
        # Counts arrive only with the end.
        self.final_usage: Usage | None = None
        # The state for an orderly end of a broken relayed stream: last number, response and finished items.
        self._sequence: JsonValue = -1
        self._response: JsonObject = {}
        self._finished: JsonList = []
        self.text_frames = TextFrames()
        if translation.relayed:
            # The number of each frame is needed.
            self.text_frames.lessons = 0
        # The piece of `text_frames`.
        self._growing = OpenPiece()
        self._growing_index = 0
        self._grows_arguments = False

    def feed(self, frame: Frame) -> list[Event]:
        if self._over:
            return []
        if frame.data[:1] != b"{" and (data := frame.data.strip()) in _NO_EVENT:
            # Some servers send an event without data as a heartbeat.
            return self.close() if data else []
        out: list[Event] = []
        self._context.out = out
        self.text_frames.is_ready = False
        try:
            try:
                # Inlined from `SurrogateJoiner.read`, to save one call per event.
                event = read_json(frame.data)
            except UNREADABLE:
                event = self._surrogates.reread(frame.data)
            if type(event) is dict:
                self._sequence = event.get("sequence_number", self._sequence)
                kind = event.get("type") or frame.event
                route = _ROUTES.get(kind) if type(kind) is str else None
                if route is None:
                    self._response_event(kind, event)
                    return out
                # The fast path for growth, nearly all of a stream.
                if not _has_expected_members(event):
                    self._unknowns.members(event, EVENT_MEMBERS)
                name = event.get("item_id")
                if type(name) is str:
                    item = self._by_id.get(name)
                else:
                    # Some servers send no item ID.
                    index = event.get("output_index")
                    item = self._by_index.get(index) if type(index) is int else None
                if type(item) is not route[0] or item.done:
                    self._begin({})
                    item = self._items.of_event(event, route[0], route[1])
                if item is not None:
                    route[2](item, event)
                    if len(out) == 1 and kind in _GROWING:
                        self._learn(frame, event, item)
        except WireError as error:
            self._fail(bad_gateway(f"the provider's stream is not readable: {error}"))
        return out

    def _learn(self, frame: Frame, event: JsonObject, item: OpenItem) -> None:
        growing, text, grew = item.growing(event), event.get("delta"), self._context.out[0]
        # Content that was emitted in another form does not continue it.
        if growing is None or type(text) is not str or type(grew) is not PartGrew:
            return
        delta = grew.delta
        if isinstance(delta, TextDelta | ArgumentsDelta) and delta.text == text:
            self._growing_index, self._growing = growing
            self._grows_arguments = type(delta) is ArgumentsDelta
            self.text_frames.learn(frame, text, partial(_text_in, event), arguments=self._grows_arguments)

    def grow(self, run: TextRun) -> PartGrew:
        """More text of the piece that grew last."""
        self._growing.add(run.text)
        return PartGrew(self._growing_index, ArgumentsRun(run.text, run.strings) if self._grows_arguments else run)

    def close(self) -> list[Event]:
        """The stream ended without a terminal event: the response is truncated."""
        if self._over:
            return []
        self._context.out = []
        self._fail(bad_gateway(ENDED_EARLY))
        return self._context.out

    def broken(self, failure: Failure) -> bytes:
        """The error of a relayed stream that broke off, numbered after its last frame (§21)."""
        last = self._sequence if type(self._sequence) is int else -1
        return failed_frames(failure, self._response, self._finished, last + 1)

    def _response_event(self, kind: JsonValue, event: JsonObject) -> None:
        handler = _HANDLERS.get(kind) if type(kind) is str else None
        if handler is not None:
            if kind not in _FAILURES:
                self._unknowns.members(event, EVENT_MEMBERS)
            handler(self, event)
        elif not kind and event.get("error"):
            self._error(event)
        elif type(kind) is str and kind in REPEATED:
            self._unknowns.members(event, EVENT_MEMBERS)
            part = event.get("part")
            if type(part) is dict:
                self._unknowns.members(part, PART_MEMBERS)
        else:
            self._unknowns.name(kind if type(kind) is str else "event")

    def _created(self, event: JsonObject) -> None:
        if self._items:
            # Another response begins where this one broke off.
            self._fail(bad_gateway("another response began inside the stream"))
        else:
            self._begin(event)

    def _begin(self, event: JsonObject) -> None:
        response = event.get("response")
        if type(response) is dict:
            self._unknowns.members(response, _RESPONSE)
        if self._started:
            return
        self._started = True
        if type(response) is dict:
            self._response = response
        fields = Fields(self._response)
        self._context.out.append(
            Started(
                id=label(fields, "id", self._ledger) or "",
                model=label(fields, "model", self._ledger) or "",
                created=moment(fields, "created_at", self._ledger),
            )
        )

    def _terminal(self, event: JsonObject) -> None:
        response = event.get("response")
        if type(response) is not dict:
            response = {}
        if has_failed(response, event):
            # The response itself states that it failed, whatever the event's name.
            self._failed(event)
            return
        if response.get("status") == CANCELLED:
            self._fail(cancelled())
            return
        if event.get("type") == "response.incomplete":
            # The event states it, even if the response does not.
            response = {**response, "status": INCOMPLETE}
        self._begin(event)
        context = self._context
        self._items.finish_all(response.get("output"))
        self._surrogates.close()
        usage = self._counted(response)
        if usage is not None:
            context.out.append(UsageReported(usage))
        counted: JsonValue = response.get("tool_usage")
        if usage is not None and usage.web_searches is not None:
            counted = without_searches(counted, native=context.reader.native) or None
        self._unknowns.name("tool_usage", counted)
        refusals: list[Part] = [Refusal(text="".join(piece.pieces)) for piece in context.refusals]
        context.out.append(Stopped(decode_stop(response, [*refusals, *context.emitted_parts])))
        context.out.append(Ended())
        self._over = True

    def _counted(self, response: JsonObject) -> Usage | None:
        """Token counts. After the content was sent, unreadable counts must not fail the response."""
        try:
            return decode_usage(response, self._ledger, native=self._context.reader.native)
        except WireError as error:
            self._ledger.dropped(Feature.USAGE, ("usage",), f"the provider's usage cannot be read: {error}")
            return None

    def _failed(self, event: JsonObject) -> None:
        response = event.get("response")
        if type(response) is not dict:
            response = {}
        self._fail(failure_in(response, event), self._counted(response))

    def _cancelled(self, event: JsonObject) -> None:
        del event
        self._fail(cancelled())

    def _error(self, event: JsonObject) -> None:
        nested = event.get("error")
        self._fail(failure_of(nested if type(nested) is dict else {**event, "type": None}))

    def _fail(self, failure: Failure, usage: Usage | None = None) -> None:
        self._context.out.append(Failed(failure, usage))
        self._over = True

    def _added(self, event: JsonObject) -> None:
        self._begin({})
        body = event.get("item")
        if type(body) is dict:
            self._items.announce(event, body)

    def _done(self, event: JsonObject) -> None:
        self._begin({})
        body = event.get("item")
        if type(body) is dict:
            self._finished.append(body)
            self._items.finish(event, body)


def _text_in(event: JsonObject, data: bytes) -> str | None:
    """The text in data that equals this event except for its text. The event is consumed."""
    try:
        other = read_json(data)
    except UNREADABLE:
        return None
    text = event["delta"] = other.get("delta") if type(other) is dict else None
    return text if type(text) is str and not event.get("logprobs") and event == other else None


_NO_EVENT = (b"[DONE]", b"")
_has_expected_members = EVENT_MEMBERS.issuperset

# Members of the response. The counts of its tools are read with the usage.
_RESPONSE = ECHOES | {"id", "model", "created_at", "output", "usage", "tool_usage"}

_FAILURES = ("response.failed", "error", "response.error")

_Grow: TypeAlias = Callable[..., None]

# Events of items: the class of their item, the type of an item that begins with them, and their effect.
_ROUTES: dict[str, tuple[type[OpenItem], str, _Grow]] = {
    "response.output_text.delta": (OpenMessage, MESSAGE, OpenMessage.text_delta),
    "response.function_call_arguments.delta": (OpenCall, FUNCTION_CALL, OpenCall.arguments_delta),
    "response.custom_tool_call_input.delta": (OpenCall, CUSTOM_CALL, OpenCall.arguments_delta),
    "response.reasoning_summary_text.delta": (OpenReasoning, REASONING, OpenReasoning.summary_delta),
    "response.reasoning_text.delta": (OpenReasoning, REASONING, OpenReasoning.text_delta),
    "response.reasoning.delta": (OpenReasoning, REASONING, OpenReasoning.text_delta),
    "response.refusal.delta": (OpenMessage, MESSAGE, OpenMessage.refusal_delta),
    "response.content_part.done": (OpenMessage, MESSAGE, OpenMessage.part_done),
    "response.output_text.done": (OpenMessage, MESSAGE, OpenMessage.text_done),
    "response.refusal.done": (OpenMessage, MESSAGE, OpenMessage.refusal_done),
    "response.output_text.annotation.added": (OpenMessage, MESSAGE, OpenMessage.annotation_added),
    "response.function_call_arguments.done": (OpenCall, FUNCTION_CALL, OpenCall.arguments_done),
    "response.custom_tool_call_input.done": (OpenCall, CUSTOM_CALL, OpenCall.arguments_done),
    "response.reasoning_summary_text.done": (OpenReasoning, REASONING, OpenReasoning.summary_done),
    "response.reasoning_text.done": (OpenReasoning, REASONING, OpenReasoning.text_done),
    "response.reasoning.done": (OpenReasoning, REASONING, OpenReasoning.text_done),
}

_GROWING = frozenset(
    {
        TEXT_DELTA,
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
    }
)

_HANDLERS: dict[str, Callable[[ResponsesStreamDecoder, JsonObject], None]] = {
    "response.created": ResponsesStreamDecoder._created,
    "response.queued": ResponsesStreamDecoder._begin,
    "response.in_progress": ResponsesStreamDecoder._begin,
    "response.output_item.added": ResponsesStreamDecoder._added,
    "response.output_item.done": ResponsesStreamDecoder._done,
    "response.completed": ResponsesStreamDecoder._terminal,
    "response.incomplete": ResponsesStreamDecoder._terminal,
    "response.failed": ResponsesStreamDecoder._failed,
    "error": ResponsesStreamDecoder._error,
    # Unofficial names that servers use. Without them the stream would end without its reason.
    "response.error": ResponsesStreamDecoder._error,
    "response.cancelled": ResponsesStreamDecoder._cancelled,
}
