"""Output items of a response: decoded to parts, encoded back, and built for a client of another provider. Full
responses and streams share the functions that build items, so that their items are equal."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import (
    Compaction,
    Extras,
    Foreign,
    HostedCall,
    HostedResult,
    InputForm,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)
from dragoman.model.response import Stop, StopReason
from dragoman.model.tools import FunctionTool
from dragoman.protocols.codec import TranslationContext
from dragoman.protocols.openai_responses import hosted, openai_tools
from dragoman.protocols.openai_responses.items import (
    decode_compaction,
    decode_thinking,
    encode_compaction,
    encode_thinking,
)
from dragoman.protocols.openai_responses.parts import decode_part, encode_native
from dragoman.protocols.openai_responses.shapes import (
    COMPACTION,
    COMPLETED,
    CONTENT_FILTER,
    CUSTOM_CALL,
    FUNCTION_CALL,
    ID_PREFIXES,
    INCOMPLETE,
    MAX_OUTPUT_TOKENS,
    MESSAGE,
    NAME,
    REASONING,
)
from dragoman.rules.arguments import is_complete, or_empty, unwrapped
from dragoman.rules.ids import legacy_call_id
from dragoman.rules.input_wrapping import InputUnwrapper
from dragoman.rules.tool_table import ToolEntry, Wrapped, report_bent
from dragoman.wire.fields import Fields

_CALLS = {FUNCTION_CALL: ("arguments", InputForm.JSON), CUSTOM_CALL: ("input", InputForm.TEXT)}


class OutputReader:
    """Decodes the items of one response. Without a request it decodes a signed turn of this protocol."""

    def __init__(self, translation: TranslationContext | None, ledger: Ledger) -> None:
        self._translation = translation
        self._ledger = ledger
        self._parts = 0
        # A response without its request is decoded like one of the same protocol.
        self.native = translation is None or translation.request.origin in ("", NAME)
        self._model = translation.target.model if translation is not None else None
        self._vendor = translation.target.vendor if translation is not None else None
        self._ids: set[str] = set()

    def read(self, item: Fields) -> tuple[Part, ...]:
        parts = self._read(item)
        self._parts += len(parts)
        return parts

    def _read(self, item: Fields) -> tuple[Part, ...]:
        kind = item.optional_text("type") or ""
        if kind == MESSAGE:
            return self._message(item)
        if kind in _CALLS and not self.is_foreign(kind, item.value.get("name")):
            return (self._call(item, kind),)
        if kind == REASONING:
            return (decode_thinking(item, self._model, self._vendor),)
        if kind in openai_tools.CALL_TYPES and not openai_tools.is_hosted(item.value):
            call = openai_tools.decode_call(item, kind)
            return (replace(call, call_id=self._unique(call.call_id, call.name)),)
        if kind in hosted.CALL_TYPES:
            return hosted.decode_hosted(item, kind, self._model, self._vendor)
        if kind == COMPACTION:
            return (decode_compaction(item, self._model, self._vendor),)
        return (Foreign(origin=NAME, kind=kind, body=item.value, id=item.optional_text("id")),)

    def _message(self, item: Fields) -> tuple[Part, ...]:
        item_id = item.optional_text("id")
        parts = [with_id(decode_part(part), item_id) for part in item.each("content")]
        if not parts:
            return (Foreign(origin=NAME, kind=MESSAGE, body=item.value, id=item_id),) if self.native else ()
        members = message_members(item.value, native=self.native)
        if members:
            parts[0] = with_members(parts[0], members)
        return tuple(parts)

    def _call(self, item: Fields, kind: str) -> ToolCall:
        """A function or free-text call with the client's name and form."""
        member, form = _CALLS[kind]
        name = item.text("name")
        arguments = item.optional_text(member) or ""
        call = ToolCall(
            call_id=self._unique(item.optional_text("call_id") or "", name),
            name=name,
            arguments=arguments,
            form=form,
            namespace=item.optional_text("namespace"),
            id=item.optional_text("id"),
        )
        item.skip("type")
        if not self.native:
            item.skip("status")
        extras = item.rest(NAME)
        call = replace(call, extras=extras) if extras is not None else call
        if self.native:
            return call
        entry = self.entry(name)
        if entry is None:
            return replace(call, arguments=_clean(arguments, form))
        if entry.wrapped is Wrapped.INPUT:
            unwrapper = InputUnwrapper()
            arguments = unwrapper.unwrap(arguments)
            if unwrapper.bent:
                report_bent(self._parts, self._ledger)
        return replace(
            call, name=entry.name, namespace=entry.namespace, form=entry.form, arguments=_clean(arguments, entry.form)
        )

    def entry(self, wire: str) -> ToolEntry | None:
        return self._translation.table.restored(wire) if self._translation is not None and not self.native else None

    def is_foreign(self, kind: str, name: JsonValue) -> bool:
        """Whether a call is not meant for the client: a free-text call of an undeclared tool. xAI reports its own
        hosted calls so, with results; a client would run it again, or fail (mapping.md §13)."""
        return kind == CUSTOM_CALL and not self.native and type(name) is str and bool(name) and self.entry(name) is None

    def _unique(self, value: str, name: str) -> str:
        if self.native:
            return value
        if not value or value in self._ids:
            value = legacy_call_id(name, len(self._ids))
        self._ids.add(value)
        return value


def _clean(arguments: str, form: InputForm) -> str:
    return or_empty(unwrapped(arguments)) if form is InputForm.JSON else arguments


def with_id(part: Part, item_id: str | None) -> Part:
    return part if item_id is None else replace(part, id=item_id)


def message_members(item: JsonObject, *, native: bool) -> JsonObject:
    """Members of a message item other than its content. For other protocols its status is that of the response."""
    core = ("id", "type", "role", "content")
    members: JsonObject = {key: value for key, value in item.items() if key not in core and value is not None}
    if not native or members.get("status") == COMPLETED:
        members.pop("status", None)
    return members


# Members of a message item whose names are unique even among those of its parts.
_LIFTED = ("phase", "status")


def with_members(part: Part, members: JsonObject) -> Part:
    """Attach the members of a message item, other than its content, to its first part."""
    fields = dict(part.extras.fields) if part.extras is not None else {}
    fields |= {key: value for key, value in members.items() if key in _LIFTED}
    others: JsonObject = {key: value for key, value in members.items() if key not in _LIFTED}
    if others:
        fields[MESSAGE] = others
    return replace(part, extras=Extras(origin=NAME, fields=fields))


def lifted(part: Part) -> JsonObject:
    fields = part.extras.fields if part.extras is not None and part.extras.origin == NAME else {}
    members: JsonObject = {key: fields[key] for key in _LIFTED if key in fields}
    others = fields.get(MESSAGE)
    return {**members, **others} if isinstance(others, dict) else members


def encode_turn(parts: tuple[Part, ...]) -> list[JsonObject]:
    """The items for the parts of a response."""
    items: list[JsonObject] = []
    content: JsonList | None = None
    current: str | None = None
    for part in parts:
        if isinstance(part, Text | Refusal) or (isinstance(part, Foreign) and not _is_item(part)):
            members = lifted(part)
            if content is None or part.id != current or members:
                content, current = [], part.id
                item: JsonObject = {"type": MESSAGE, "role": "assistant", "status": COMPLETED, "content": content}
                if current is not None:
                    item["id"] = current
                items.append({**item, **members})
            content.append(encode_native(_without_members(part)))
            continue
        content = None
        if not isinstance(part, HostedResult):
            items.append(_native_item(part))
    return items


# Content parts that only this protocol has belong to a message. Other foreign parts are items of their own.
def _is_item(part: Foreign) -> bool:
    return "role" in part.body or "id" in part.body or part.kind.endswith(("_call", "_output"))


def _without_members(part: Text | Refusal | Foreign) -> Text | Refusal | Foreign:
    if part.extras is None:
        return part
    fields = {key: value for key, value in part.extras.fields.items() if key != MESSAGE and key not in _LIFTED}
    return replace(part, extras=Extras(origin=NAME, fields=fields) if fields else None)


def _native_item(part: Part) -> JsonObject:
    match part:
        case Thinking():
            return encode_thinking(part)
        case Compaction():
            return encode_compaction(part)
        case HostedCall():
            return hosted.encode_hosted(part, None)
        case Foreign():
            return part.body
        case ToolCall():
            extras = part.extras.fields if part.extras is not None and part.extras.origin == NAME else {}
            if "type" in extras:
                return extras
            item = call_item(part.id or "", part, part.arguments)
            item["call_id"] = part.call_id
            item.pop("status", None)
            if part.id is None:
                del item["id"]
            return {**item, **extras}
    raise AssertionError(f"no item is {type(part).__name__}")


def decode_turn(blocks: list[JsonObject]) -> tuple[Part, ...]:
    reader = OutputReader(None, Ledger())
    return tuple([part for block in blocks for part in reader.read(Fields(block))])


class ItemBuilder:
    """Builds the items of one response. IDs count with their position (N4)."""

    def __init__(self, suffix: str, translation: TranslationContext, ledger: Ledger) -> None:
        self._suffix = suffix
        # Reasoning of this protocol keeps its ID: its signature may be bound to it.
        self._preserves_ids = translation.origin == NAME
        # The positions of reasoning by requested ID: xAI gives two items of a response the same.
        self._reasoned: dict[str, list[int]] = {}
        self.natives: dict[str, FunctionTool] = openai_tools.declared_native(translation.request)
        self.ledger = ledger

    def item_id(self, kind: str, index: int) -> str:
        return f"{ID_PREFIXES[kind]}{self._suffix}_{index}"

    def native_item(self, call: ToolCall, index: int) -> JsonObject | None:
        """A call of a vendor's tool as its own item; None if it is none or its arguments do not fit."""
        spec = self.natives.get(call.name) if call.namespace is None else None
        if spec is None:
            return None
        body = openai_tools.encode_call(spec, call, call.call_id)
        if body is None:
            return None
        kind = body["type"]
        assert isinstance(kind, str)
        return {"id": self.item_id(kind, index), **body}

    def reasoning_id(self, part: Thinking, index: int) -> str:
        """The ID of reasoning, known before its signature. A repeated one is replaced."""
        if not self._preserves_ids or part.id is None:
            return self.item_id(REASONING, index)
        given = self._reasoned.setdefault(part.id, [index])
        if index == given[0]:
            return part.id
        if index not in given:
            given.append(index)
            self.ledger.approximated(Feature.THINKING, ("output", index, "id"), "an id said twice names one item only")
        return self.item_id(REASONING, index)

    def reasoning(self, part: Thinking, index: int) -> JsonObject:
        item = encode_thinking(replace(part, id=None, extras=None))
        item_id = self.reasoning_id(part, index)
        return {**item, "id": item_id} if "id" in item else {"id": item_id, **item}

    def compaction(self, part: Compaction, index: int) -> JsonObject:
        return {"id": self.item_id(COMPACTION, index), **encode_compaction(replace(part, id=None, extras=None))}

    def hosted(self, call: HostedCall, result: HostedResult | None, index: int) -> JsonObject:
        return {"id": self.item_id(hosted.ITEM_TYPES[call.kind], index), **hosted.encode_hosted(call, result)}


def call_kind(call: ToolCall) -> str:
    return CUSTOM_CALL if call.form is InputForm.TEXT else FUNCTION_CALL


def call_item(item_id: str, call: ToolCall, arguments: str, status: str = COMPLETED) -> JsonObject:
    kind = call_kind(call)
    item: JsonObject = {
        "id": item_id,
        "type": kind,
        "call_id": call.call_id,
        "name": call.name,
        _CALLS[kind][0]: arguments,
    }
    if kind == FUNCTION_CALL:
        # Free-text calls have no status in this protocol.
        item["status"] = status
    if call.namespace is not None:
        item["namespace"] = call.namespace
    return item


def message_item(item_id: str, content: JsonList, status: str = COMPLETED) -> JsonObject:
    return {"id": item_id, "type": MESSAGE, "role": "assistant", "status": status, "content": content}


def text_part(text: str, annotations: JsonList, logprobs: JsonList | None) -> JsonObject:
    """Output text. The lists are present even if empty (pitfall 101)."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs or []}


def refusal_part(text: str) -> JsonObject:
    return {"type": "refusal", "refusal": text}


_REASONS: dict[StopReason, str] = {
    StopReason.LENGTH: MAX_OUTPUT_TOKENS,
    StopReason.CONTEXT_FULL: MAX_OUTPUT_TOKENS,
    StopReason.PAUSE: MAX_OUTPUT_TOKENS,
    StopReason.FILTER: CONTENT_FILTER,
    StopReason.REFUSAL: CONTENT_FILTER,
}


def incomplete_reason(stop: Stop, refused: bool) -> str | None:
    """The reason why a response is incomplete, or None. A refusal text completes a response (§17, §20)."""
    if stop.reason is StopReason.REFUSAL and refused:
        return None
    return _REASONS.get(stop.reason)


def explained(stop: Stop, refused: bool) -> str | None:
    """The explanation of a refusal, if the response has no refusal text of its own."""
    refusal = stop.reason in (StopReason.REFUSAL, StopReason.FILTER)
    return stop.explanation if refusal and not refused and stop.explanation else None


def last_status(call: ToolCall | None, arguments: str, reason: str | None) -> str:
    """The status of the last item: incomplete after a truncation, unless it is a call with complete arguments."""
    if reason is None or (call is not None and call.form is InputForm.JSON and is_complete(arguments)):
        return COMPLETED
    return INCOMPLETE
