"""Whole answers: decoded from a provider, encoded for a client (§16–§20)."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.model.parts import (
    Compaction,
    Extras,
    HostedCall,
    HostedResult,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.codec import Asked, Mint
from dragoman.protocols.openai_responses.echo import finish, response_object
from dragoman.protocols.openai_responses.failure import failure_of
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
from dragoman.protocols.openai_responses.parts import encode_annotation
from dragoman.protocols.openai_responses.shapes import (
    CONTENT_FILTER,
    FAILED,
    INCOMPLETE,
    MAX_OUTPUT_TOKENS,
    MESSAGE,
    NAME,
)
from dragoman.rules.arguments import or_empty
from dragoman.rules.ids import object_suffix
from dragoman.wire.fields import Fields

_REASONS = {
    MAX_OUTPUT_TOKENS: StopReason.LENGTH,
    "max_messages": StopReason.LENGTH,
    CONTENT_FILTER: StopReason.FILTER,
    "steered": StopReason.END,
}


def decode_response(body: JsonObject, asked: Asked, ledger: Ledger) -> Response | Failure:
    """Read a whole answer, or the failure it is (O2)."""
    fields = Fields(body)
    error = body.get("error")
    status = fields.optional_text("status")
    if isinstance(error, dict) or status == FAILED:
        return failure_of(error if isinstance(error, dict) else {"message": "the response failed"})
    if status == "cancelled":
        return Failure(kind=FailureKind.INTERNAL, status=500, message="the response was cancelled", native="cancelled")
    reader = OutputReader(asked)
    parts = tuple([part for item in fields.each("output") for part in reader.read(item)])
    response = Response(
        origin=NAME,
        id=fields.optional_text("id") or "",
        model=fields.optional_text("model") or "",
        created=fields.optional_integer("created_at"),
        parts=parts,
        stop=decode_stop(body, parts),
        usage=decode_usage(body),
    )
    members: JsonObject = {
        key: value
        for key, value in body.items()
        if key not in ("id", "model", "created_at", "output") and (key != "usage" or value is None)
    }
    return replace(response, extras=Extras(origin=NAME, fields=members)) if members else response


def decode_stop(response: JsonObject, parts: tuple[Part, ...] | list[Part]) -> Stop:
    """Why the answer ended, derived from what it holds (§17)."""
    status = response.get("status")
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    native = reason if isinstance(reason, str) else status if isinstance(status, str) else ""
    if status == INCOMPLETE:
        found = _REASONS.get(native, StopReason.LENGTH)
        if found is not StopReason.END:
            return Stop(reason=found, native=native)
    for part in parts:
        if isinstance(part, Refusal):
            return Stop(reason=StopReason.REFUSAL, native=native, explanation=part.text or None)
    if any(isinstance(part, ToolCall) for part in parts):
        return Stop(reason=StopReason.TOOL_CALL, native=native)
    return Stop(reason=StopReason.END, native=native)


def decode_usage(response: JsonObject) -> Usage | None:
    """Token counts; totals are inclusive on this wire already."""
    outer = Fields(response)
    usage = outer.optional_fields("usage")
    if usage is None:
        return None
    inputs = usage.optional_fields("input_tokens_details") or Fields({})
    outputs = usage.optional_fields("output_tokens_details") or Fields({})
    counts = Usage(
        input=usage.optional_integer("input_tokens") or 0,
        output=usage.optional_integer("output_tokens") or 0,
        cache_read=inputs.optional_integer("cached_tokens"),
        cache_write=inputs.optional_integer("cache_write_tokens"),
        thinking=outputs.optional_integer("reasoning_tokens"),
        web_searches=_searches(response.get("tool_usage")),
        service_tier=outer.optional_text("service_tier"),
    )
    beyond = _beyond(usage, inputs, outputs, counts)
    return replace(counts, extras=Extras(origin=NAME, fields=beyond)) if beyond else counts


def _beyond(usage: Fields, inputs: Fields, outputs: Fields, counts: Usage) -> JsonObject:
    """What is said beyond the model: lifetimes of cached tokens, a total that is no sum."""
    if usage.value.get("total_tokens") == counts.input + counts.output:
        usage.skip("total_tokens")
    rest = usage.rest(NAME)
    beyond: JsonObject = dict(rest.fields) if rest is not None else {}
    for key, details in (("input_tokens_details", inputs), ("output_tokens_details", outputs)):
        others = details.rest(NAME)
        if others is not None:
            beyond[key] = others.fields
    return beyond


def _home_usage(usage: Usage) -> JsonObject:
    extras: JsonObject = dict(usage.extras.fields) if usage.extras is not None else {}
    inputs = _details(extras, "input_tokens_details")
    outputs = _details(extras, "output_tokens_details")
    for details, key, count in (
        (inputs, "cached_tokens", usage.cache_read),
        (inputs, "cache_write_tokens", usage.cache_write),
        (outputs, "reasoning_tokens", usage.thinking),
    ):
        if count is not None:
            details[key] = count
    body: JsonObject = {"input_tokens": usage.input}
    if inputs:
        body["input_tokens_details"] = inputs
    body["output_tokens"] = usage.output
    if outputs:
        body["output_tokens_details"] = outputs
    return {**body, "total_tokens": usage.input + usage.output, **extras}


def _details(extras: JsonObject, key: str) -> JsonObject:
    beyond = extras.pop(key, None)
    return dict(beyond) if isinstance(beyond, dict) else {}


def _searches(usage: JsonValue) -> int | None:
    match usage:
        case {"web_search": {"num_requests": int(count)}}:
            return count
    return None


def encode_response(response: Response, asked: Asked, mint: Mint, ledger: Ledger) -> JsonObject:
    """Write a whole answer for the client."""
    if response.origin == NAME and response.extras is not None and response.extras.origin == NAME:
        return _encode_home(response)
    suffix = object_suffix(response.id) or mint.token(24)
    now = mint.now()
    created = response.created if response.created is not None else now
    model = asked.request.model or response.model
    output, reason = Assembly(ItemBuilder(suffix, asked, ledger)).assemble(response)
    report_end(response.stop, response.usage, ledger)
    if response.extras is not None and response.origin != NAME:
        for key, value in response.extras.fields.items():
            if value is not None:
                ledger.dropped(Feature.UNKNOWN_FIELD, ("extras", key), f"only {response.origin} knows {key!r}")
    body = response_object("resp_" + suffix, created, asked, model)
    return finish(body, output, response.usage, reason, max(now, created))


def report_end(stop: Stop, usage: Usage | None, ledger: Ledger) -> None:
    """Report what the end of an answer says and this wire cannot."""
    if usage is None:
        ledger.dropped(Feature.USAGE, ("usage",), "the provider reported no token counts; zeros are told")
    if stop.sequence is not None:
        ledger.dropped(Feature.STOP_SEQUENCE, ("stop", "sequence"), "which stop string fired cannot be told")
    if stop.reason in (StopReason.PAUSE, StopReason.CONTEXT_FULL):
        ledger.approximated(Feature.STOP_REASON, ("stop", "reason"), "told as an answer cut at its length")


def _encode_home(response: Response) -> JsonObject:
    assert response.extras is not None
    body: JsonObject = {"id": response.id, **response.extras.fields}
    if response.created is not None:
        body["created_at"] = response.created
    body["model"] = response.model
    output: JsonList = [*encode_turn(response.parts)]
    body["output"] = output
    usage = response.usage
    if usage is not None:
        body["usage"] = _home_usage(usage)
    return body


class Assembly:
    """Assembles the output of an answer from its parts: adjacent text is one part of one message."""

    def __init__(self, builder: ItemBuilder) -> None:
        self._builder = builder
        self._items: JsonList = []
        self._texts: list[Text] = []
        self._places: list[Place] = []
        self._content: JsonList = []
        self._call: HostedCall | None = None
        self._refused = False
        # The last item if it is a call, to tell whether it was cut.
        self._last: tuple[ToolCall, str] | None = None

    def assemble(self, response: Response) -> tuple[JsonList, str | None]:
        """The items, and the reason why they are incomplete."""
        parts = response.parts
        refused = any(isinstance(part, Refusal) for part in parts)
        for index, part in enumerate(parts):
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
                self._content.append(refusal_part(part.text))
            case Thinking():
                self._finish_message()
                self._add(self._builder.reasoning(part, len(self._items)))
            case ToolCall():
                self._finish_message()
                self._tool_call(part)
            case HostedCall():
                self._finish_message()
                self._call = part
            case HostedResult():
                self._finish_hosted(part)
            case Compaction():
                self._finish_message()
                self._add(self._builder.compaction(part, len(self._items)))
            case _:
                self._builder.ledger.dropped(
                    Feature.FOREIGN_CONTENT, at, f"{type(part).__name__} has no item for this client"
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
        annotations: JsonList = []
        logprobs: JsonList = []
        offset = 0
        for text, at in zip(self._texts, self._places, strict=True):
            for index, citation in enumerate(text.citations):
                one = encode_annotation(citation, offset, len(text.text))
                if one is None:
                    self._builder.ledger.dropped(
                        Feature.CITATIONS, (*at, "citations", index), "this source has no form here"
                    )
                else:
                    annotations.append(one)
            logprobs.extend(text.logprobs or ())
            offset += len(text.text)
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
            call, self._call = self._call, None
            self._add(self._builder.hosted(call, result, len(self._items)))
