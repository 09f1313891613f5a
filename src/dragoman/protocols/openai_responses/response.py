"""Full responses of Responses, decoded and encoded (§16–§20)."""

from __future__ import annotations

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import Compaction, Extras, HostedCall, HostedResult, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.codec import Mint, TranslationContext
from dragoman.protocols.openai_responses import hosted
from dragoman.protocols.openai_responses.failure import failure_in, has_failed
from dragoman.protocols.openai_responses.output import (
    ItemBuilder,
    OutputReader,
    call_item,
    call_kind,
    encode_turn,
    explained,
    incomplete_reason,
    last_status,
    message_item,
    refusal_part,
    text_part,
)
from dragoman.protocols.openai_responses.parts import encode_annotations
from dragoman.protocols.openai_responses.response_object import TIERS, finish, response_object
from dragoman.protocols.openai_responses.shapes import (
    CONTENT_FILTER,
    FUNCTION_CALL,
    INCOMPLETE,
    MAX_OUTPUT_TOKENS,
    MESSAGE,
    NAME,
)
from dragoman.protocols.openai_responses.usage import (
    decode_usage,
    encode_native_usage,
    has_other_counts,
    with_searches,
    without_searches,
)
from dragoman.rules.argument_assembly import CallsSeen
from dragoman.rules.arguments import or_empty
from dragoman.rules.extras import drop_choices, drop_extras
from dragoman.rules.response_metadata import label, moment
from dragoman.rules.stop_reasons import reason_of
from dragoman.rules.whitespace import with_blanks
from dragoman.wire.fields import Fields

CANCELLED = "cancelled"
_REASONS = {
    MAX_OUTPUT_TOKENS: StopReason.LENGTH,
    "max_messages": StopReason.LENGTH,
    CONTENT_FILTER: StopReason.FILTER,
    "steered": StopReason.END,
}


def decode_response(body: JsonObject, translation: TranslationContext, ledger: Ledger) -> Response | Failure:
    fields = Fields(body)
    status = fields.optional_text("status")
    if has_failed(body):
        return failure_in(body)
    if status == CANCELLED:
        return cancelled()
    nothing_left = status == INCOMPLETE and body.get("output") is None
    if not nothing_left and not isinstance(body.get("output"), list):
        # A body without it is no response: an error of another form, or an empty object.
        raise fields.fail("output", "array", body.get("output"))
    reader = OutputReader(translation, ledger)
    calls = CallsSeen()
    read: list[Part] = []
    for item in fields.each("output"):
        if reader.native or not _is_repeat(item, calls):
            read += reader.read(item)
    parts = tuple(read)
    usage: Usage | None = None
    try:
        usage = decode_usage(body, ledger, native=reader.native)
    except WireError as unread:
        # Unreadable counts must not fail the response.
        ledger.dropped(Feature.USAGE, ("usage",), f"the provider's usage cannot be read: {unread}")
    members = {**body}
    for key in _MODELLED:
        members.pop(key, None)
    if body.get("usage") is not None:
        del members["usage"]
    if usage is not None and usage.web_searches is not None:
        # The searches are counted with the usage.
        beyond = without_searches(members.pop("tool_usage", None), native=reader.native)
        if beyond:
            members["tool_usage"] = beyond
    return Response(
        origin=NAME,
        id=label(fields, "id", ledger) or "",
        model=label(fields, "model", ledger) or "",
        created=moment(fields, "created_at", ledger),
        parts=parts,
        stop=decode_stop(body, parts),
        usage=usage,
        extras=Extras(origin=NAME, fields=members) if members else None,
    )


_MODELLED = ("id", "model", "created_at", "output")


def cancelled() -> Failure:
    return Failure(kind=FailureKind.INTERNAL, status=500, message="the response was cancelled", native=CANCELLED)


def _is_repeat(item: Fields, calls: CallsSeen) -> bool:
    """Whether an item repeats a function call under the same ID (S15)."""
    body = item.value
    if body.get("type") != FUNCTION_CALL or not body.get("call_id"):
        return False
    return calls.is_repeat(_string(body.get("call_id")), _string(body.get("name")), _string(body.get("arguments")))


def _string(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def decode_stop(response: JsonObject, parts: tuple[Part, ...] | list[Part]) -> Stop:
    """The stop reason, derived from the content (§17)."""
    status = response.get("status")
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    native = reason if isinstance(reason, str) else status if isinstance(status, str) else ""
    if status == INCOMPLETE or (status is None and reason):
        stop_reason = _REASONS.get(native) or reason_of(native)
        if native not in _REASONS and stop_reason in (StopReason.END, StopReason.OTHER):
            # The response is incomplete for an unknown reason.
            stop_reason = StopReason.LENGTH
        if stop_reason is not StopReason.END:
            return Stop(reason=stop_reason, native=native)
    for part in parts:
        if isinstance(part, Refusal):
            return Stop(reason=StopReason.REFUSAL, native=native, explanation=part.text or None)
    if ToolCall in map(type, parts):
        return Stop(reason=StopReason.TOOL_CALL, native=native)
    return Stop(reason=StopReason.END, native=native)


def encode_response(response: Response, translation: TranslationContext, mint: Mint, ledger: Ledger) -> JsonObject:
    if response.origin == NAME and response.extras is not None and response.extras.origin == NAME:
        return _encode_native(response)
    suffix = mint.response_suffix(translation.response_id or response.id)
    now = mint.now()
    created = response.created if response.created is not None else now
    model = translation.request.model or response.model
    output, reason = Assembly(ItemBuilder(suffix, translation, ledger)).assemble(response)
    report_end(response.stop, response.usage, ledger)
    if response.alternatives:
        drop_choices(ledger)
    if response.origin != NAME:
        drop_extras(response.extras, (), ledger, is_response=True)
    body = response_object("resp_" + suffix, created, translation, model, ledger)
    return finish(body, output, response.usage, reason, max(now, created))


def report_end(stop: Stop, usage: Usage | None, ledger: Ledger) -> None:
    """Report members of a response's end that this protocol cannot express."""
    if usage is None:
        ledger.invented(Feature.USAGE, ("usage",), "the provider reported no token counts; zeros are told")
    elif usage.extras is not None and has_other_counts(usage.extras):
        note = "tokens of sound, pictures and predictions are not counted here"
        ledger.dropped(Feature.USAGE, ("usage", "extras"), note)
    if usage is not None:
        TIERS.map_value(usage.service_tier, ("usage", "service_tier"), ledger)
    if stop.sequence is not None:
        ledger.dropped(Feature.STOP_SEQUENCE, ("stop", "sequence"), "which stop string fired cannot be told")
    if stop.category is not None:
        ledger.dropped(Feature.STOP_REASON, ("stop", "category"), "there is no category of refusals here")
    if stop.extras is not None and stop.extras.origin != NAME and stop.sequence is None:
        # Servers report a matched stop sequence in a member of their own.
        drop_extras(stop.extras, ("stop",), ledger)
    if stop.reason is StopReason.PAUSE:
        ledger.approximated(Feature.PAUSE, ("stop",), "told as an answer cut at its length")
    elif stop.reason is StopReason.CONTEXT_FULL:
        ledger.approximated(Feature.STOP_REASON, ("stop", "reason"), "told as an answer cut at its length")
    elif stop.reason is StopReason.OTHER and stop.native:
        ledger.approximated(Feature.STOP_REASON, ("stop", "reason"), "an end that is not known is told as complete")


def lose_members(extras: Extras, at: Place, ledger: Ledger) -> None:
    """Report members of a part that exist only in another protocol. A native object is reported with its part."""
    if extras.origin != NAME and "type" not in extras.fields:
        drop_extras(extras, at, ledger)


def lose_logprobs(at: Place, ledger: Ledger) -> None:
    ledger.dropped(Feature.LOGPROBS, (*at, "logprobs"), "refusals have no log probabilities here")


def _encode_native(response: Response) -> JsonObject:
    assert response.extras is not None
    body: JsonObject = {"id": response.id, **response.extras.fields}
    if response.created is not None:
        body["created_at"] = response.created
    body["model"] = response.model
    output: JsonList = [*encode_turn(response.parts)]
    body["output"] = output
    usage = response.usage
    if usage is not None:
        body["usage"] = encode_native_usage(usage)
        if usage.web_searches is not None:
            body["tool_usage"] = with_searches(body.get("tool_usage"), usage.web_searches)
    return body


class Assembly:
    """Assembles the output of a response from its parts. Adjacent text is one part of one message."""

    def __init__(self, builder: ItemBuilder) -> None:
        self._builder = builder
        self._items: JsonList = []
        self._texts: list[Text] = []
        self._places: list[Place] = []
        self._content: JsonList = []
        self._call: tuple[HostedCall, Place] | None = None
        self._last: tuple[ToolCall, str] | None = None

    def assemble(self, response: Response) -> tuple[JsonList, str | None]:
        """The items, and the reason if they are incomplete."""
        parts = response.parts
        refused = any(isinstance(part, Refusal) for part in parts)
        for index, part in with_blanks(parts):
            if not isinstance(part, HostedResult):
                self._finish_hosted(None)
            self._part(part, ("parts", index))
        self._finish_hosted(None)
        reason = incomplete_reason(response.stop, refused)
        explanation = explained(response.stop, refused)
        if explanation is not None:
            self._finish_text()
            self._content.append(refusal_part(explanation))
        if not self._items and not self._content and not self._texts and reason is None:
            self._content.append(text_part("", [], None))
        self._finish_message(INCOMPLETE if reason is not None else "completed")
        if self._last is not None and self._items:
            item = self._items[-1]
            if isinstance(item, dict) and "status" in item:
                item["status"] = last_status(*self._last, reason)
        return self._items, reason

    def _part(self, part: Part, at: Place) -> None:
        if part.extras is not None:
            lose_members(part.extras, at, self._builder.ledger)
        match part:
            case Text():
                if not part.text.strip():
                    if part.text:
                        self._builder.ledger.dropped(
                            Feature.EMPTY_TEXT, at, "text of white space only makes no item for this client"
                        )
                    return
                self._texts.append(part)
                self._places.append(at)
            case Refusal():
                self._finish_text()
                if part.logprobs:
                    lose_logprobs(at, self._builder.ledger)
                self._content.append(refusal_part(part.text))
            case Thinking():
                self._finish_message()
                self._add(self._builder.reasoning(part, len(self._items)))
            case ToolCall():
                self._finish_message()
                self._tool_call(part)
            case HostedCall():
                self._finish_message()
                self._call = (part, at)
            case HostedResult():
                if self._call is not None and self._call[0].call_id == part.call_id:
                    self._finish_hosted(part)
                    return
                self._finish_hosted(None)
                self._finish_message()
                hosted.lose_result(part, at, self._builder.ledger)
            case Compaction():
                self._finish_message()
                self._add(self._builder.compaction(part, len(self._items)))
            case _:
                self._finish_message()
                self._builder.ledger.dropped(
                    Feature.UNSUPPORTED_CONTENT, at, f"{type(part).__name__} has no item for this client"
                )

    def _add(self, item: JsonObject) -> None:
        self._last = None
        self._items.append(item)

    def _tool_call(self, part: ToolCall) -> None:
        index = len(self._items)
        item = self._builder.native_item(part, index)
        if item is not None:
            self._add(item)
            return
        kind = call_kind(part)
        arguments = or_empty(part.arguments) if kind == "function_call" else part.arguments
        self._add(call_item(self._builder.item_id(kind, index), part, arguments))
        self._last = (part, arguments)

    def _finish_text(self) -> None:
        if not self._texts:
            return
        annotations = encode_annotations(self._texts, self._places, self._builder.ledger)
        logprobs: JsonList = []
        for text in self._texts:
            logprobs.extend(text.logprobs or ())
        self._content.append(text_part("".join([text.text for text in self._texts]), annotations, logprobs))
        self._texts, self._places = [], []

    def _finish_message(self, status: str = "completed") -> None:
        self._finish_text()
        if self._content:
            item_id = self._builder.item_id(MESSAGE, len(self._items))
            content, self._content = self._content, []
            self._add(message_item(item_id, content, status))

    def _finish_hosted(self, result: HostedResult | None) -> None:
        if self._call is not None:
            (call, at), self._call = self._call, None
            hosted.report_hosted_call(call, at, self._builder.ledger)
            self._add(self._builder.hosted(call, result, len(self._items)))
