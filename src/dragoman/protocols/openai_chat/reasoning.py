"""Reasoning in all forms of Chat servers, decoded and encoded (mapping.md §11, V7).

reasoning_content, reasoning, thinking   text                     DeepSeek and most; OpenRouter, Groq; Ollama
reasoning_text, reasoning_opaque         text and its signature   Copilot
reasoning_details                        entries with formats     OpenRouter, MiniMax
thinking_blocks, reasoning_items         signed blocks, items     LiteLLM
content parts of type `thinking`         text in its position     Mistral

A provider's reasoning is stored with its form, because it must return in the same form."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import Part, Refusal, Seal, Text, Thinking, ThinkingKind, ToolCall
from dragoman.protocols.codec import TargetModel
from dragoman.protocols.openai_chat.reasoning_details import (
    Blocks,
    ReasoningDetails,
    block_text,
    detail_text,
    nested_blocks,
    repeats_itself,
    text_of,
)
from dragoman.protocols.openai_chat.shapes import (
    ANTHROPIC,
    BESIDE,
    BLOCKS,
    CONTENT,
    DETAIL_ENCRYPTED,
    DETAIL_SUMMARY,
    DETAIL_TEXT,
    DETAILS,
    FORMAT_ANTHROPIC,
    FORMAT_RESPONSES,
    FORMAT_TURN,
    ITEMS,
    NAME,
    OPAQUE,
    OTHERS_TOO,
    REASONING_FIELDS,
    RESPONSES,
    THINKING_PARTS,
)
from dragoman.rules.seals import to_envelope
from dragoman.wire.fields import Fields

_STRING_MEMBERS = ("type", "text", "summary", "data", "signature", "format", "id")


class StatedReasoning(Struct, frozen=True):
    """Reasoning as text: its member, the text, a member that repeats it, and its `value` if that is no string."""

    field: str
    text: str
    also: str | None = None
    value: JsonList | None = None


class Structured(Struct, frozen=True, kw_only=True):
    """Members next to the text of reasoning, or in place of it, in the provider's form."""

    details: list[JsonObject] = []
    blocks: list[JsonObject] = []
    items: list[JsonObject] = []
    opaque: str = ""
    parts: list[JsonObject] = []

    def text(self) -> str:
        """Its readable text. Details and blocks are two forms of the same text."""
        if self.details:
            return "".join(detail_text(entry) for entry in self.details)
        if self.items and not self.blocks:
            return "\n\n".join([text_of(item.get("summary")) or "" for item in self.items])
        return "".join(block_text(block) for block in self.blocks or self.parts)


NOTHING = Structured()


def read_stated(message: Fields) -> StatedReasoning | None:
    """The plain text of a message's reasoning. Equal text in two members counts once."""
    stated: StatedReasoning | None = None
    for field in REASONING_FIELDS:
        if field not in message.value:
            continue
        value = message.value[field]
        if value is None or value == "":
            message.skip(field)
            continue
        text = _readable(message, field, value)
        if text is None:
            continue
        if stated is None:
            message.skip(field)
            stated = StatedReasoning(field, text, None, value if isinstance(value, list) else None)
        elif text == stated.text:
            message.skip(field)
            stated = replace(stated, also=stated.also or field)
    return stated


def _readable(message: Fields, field: str, value: JsonValue) -> str | None:
    """The text of a member. A member with other uses is ignored if it is no text."""
    text = text_of(value)
    return text if text is not None or field == OTHERS_TOO else message.optional_text(field)


def read_structured(message: Fields) -> Structured:
    value = message.value
    if _STRUCTURED.isdisjoint(value):
        return NOTHING
    details, blocks = ReasoningDetails(), Blocks()
    for entry in message.each(DETAILS):
        for key in _STRING_MEMBERS:
            entry.optional_text(key)
        entry.optional_integer("index")
        details.add(entry.value)
    raw_blocks = message.each(BLOCKS) or Fields({BLOCKS: nested_blocks(value)}, message.path).each(BLOCKS)
    for block in raw_blocks:
        blocks.add(block.value)
    if repeats_itself(value):
        message.skip(BESIDE)
    items = [item.value for item in message.each(ITEMS)]
    opaque = message.optional_text(OPAQUE) or ""
    return Structured(details=details.merged(), blocks=blocks.merged(), items=items, opaque=opaque)


_STRUCTURED = frozenset({DETAILS, BLOCKS, ITEMS, OPAQUE, BESIDE})


def text_seal(
    stated: StatedReasoning | None, text: str, beside: Structured = NOTHING, target: TargetModel | None = None
) -> Seal:
    """The seal with which this protocol's own reasoning returns to its issuer."""
    body: JsonObject = {"field": stated.field if stated is not None else _field(beside), "text": text}
    if stated is not None and stated.also is not None:
        body["also"] = stated.also
    if stated is not None and stated.value is not None:
        body["value"] = stated.value
    if beside.details:
        body["details"] = [*beside.details]
    if beside.blocks:
        body["blocks"] = [*beside.blocks]
    if beside.items:
        body["items"] = [*beside.items]
    if beside.opaque:
        body["opaque"] = beside.opaque
    if beside.parts:
        body["parts"] = [*beside.parts]
    return Seal(
        origin=NAME,
        kind="text",
        body=body,
        model=target.model if target is not None else None,
        vendor=target.vendor if target is not None else None,
    )


def _field(beside: Structured) -> str:
    if beside.parts:
        return CONTENT
    if beside.details:
        return DETAILS
    return BLOCKS if beside.blocks else ITEMS if beside.items else OPAQUE


def decode_reasoning(message: Fields, target: TargetModel) -> Thinking | None:
    """The reasoning of a provider's response outside its content, as one part."""
    stated = read_stated(message)
    beside = read_structured(message)
    if stated is None and beside is NOTHING:
        return None
    text = stated.text if stated is not None else beside.text()
    if not text and beside == NOTHING:
        return None
    return sealed_text(stated, text, beside, target)


def sealed_text(
    stated: StatedReasoning | None, text: str, beside: Structured, target: TargetModel | None = None
) -> Thinking:
    kind = ThinkingKind.FULL if text else ThinkingKind.WITHHELD
    return Thinking(text=text, kind=kind, seal=text_seal(stated, text, beside, target))


def encode_details(part: Thinking) -> list[JsonObject]:
    """The entries that carry a part's signature through a client, without their index."""
    seal = part.seal
    if seal is None:
        return []
    if seal.origin == NAME and seal.kind == "text":
        return _objects(seal.body.get("details"))
    if seal.origin == ANTHROPIC and seal.kind in ("thinking", "redacted"):
        entries = [_anthropic_entry(seal)]
    elif seal.origin == RESPONSES and seal.kind == "item":
        entries = _responses_entries(seal)
    else:
        entries = [{"type": DETAIL_ENCRYPTED, "data": to_envelope(seal), "format": "unknown"}]
    for entry in entries:
        if seal.model:
            entry["model"] = seal.model
        if part.extras is not None and part.extras.origin == NAME:
            entry.update(part.extras.fields)
    return entries


def _anthropic_entry(seal: Seal) -> JsonObject:
    body = seal.body
    if seal.kind == "redacted":
        return {"type": DETAIL_ENCRYPTED, "data": body.get("data", ""), "format": FORMAT_ANTHROPIC}
    return {
        "type": DETAIL_TEXT,
        "text": body.get("thinking", ""),
        "signature": body.get("signature", ""),
        "format": FORMAT_ANTHROPIC,
    }


def _responses_entries(seal: Seal) -> list[JsonObject]:
    body = seal.body
    summary = body.get("summary")
    texts = [part.get("text") for part in summary if isinstance(part, dict)] if isinstance(summary, list) else []
    shared: JsonObject = {"id": body["id"]} if "id" in body else {}
    shared["format"] = FORMAT_RESPONSES
    entries: list[JsonObject] = [{"type": DETAIL_SUMMARY, "summary": text, **shared} for text in texts]
    data = body.get("encrypted_content")
    whole = any(value for key, value in body.items() if key not in ("id", "type", "summary", "encrypted_content"))
    if whole or not isinstance(data, str):
        data = to_envelope(seal)
    entries.append({"type": DETAIL_ENCRYPTED, "data": data, **shared})
    return entries


def turn_entry(seal: Seal) -> JsonObject:
    """The entry that carries the exact form of a turn (V1), without its index."""
    return {"type": DETAIL_ENCRYPTED, "data": to_envelope(seal), "format": FORMAT_TURN}


def indexed(entries: Iterable[JsonObject], start: int = 0) -> list[JsonObject]:
    """Number entries: the official accumulator merges list entries by this member."""
    return [{"index": index, **entry} | {"index": index} for index, entry in enumerate(entries, start)]


def write_native(thinking: list[Thinking], message: JsonObject) -> None:
    """Write a response's reasoning in its original members, details with their issuers' formats."""
    entries: JsonList = []
    own: list[Thinking] = []
    foreign: list[str] = []
    for part in thinking:
        seal = part.seal
        if seal is not None and seal.origin == NAME:
            own.append(part)
        elif part.text:
            foreign.append(part.text)
        entries.extend(encode_details(part))
    write_echo(own, message, native=True)
    if foreign and not any(name in message for name in REASONING_FIELDS):
        message[REASONING_FIELDS[0]] = "\n\n".join(foreign)
    if entries:
        message[DETAILS] = [
            {"index": index, **entry} if isinstance(entry, dict) else entry for index, entry in enumerate(entries)
        ]


def write_echo(thinking: list[Thinking], message: JsonObject, *, native: bool = False) -> None:
    """Write reasoning back to the provider that emitted it, in the members it used. Content is written elsewhere."""
    texts: dict[str, list[str]] = {}
    entries: JsonList = []
    blocks: JsonList = []
    items: JsonList = []
    for part in thinking:
        body = part.seal.body if part.seal is not None else {}
        field, text, opaque, value = (body.get(key) for key in ("field", "text", "opaque", "value"))
        if field in REASONING_FIELDS and isinstance(field, str) and isinstance(text, str) and text:
            texts.setdefault(field, []).append(text)
            if native and isinstance(also := body.get("also"), str):
                texts.setdefault(also, []).append(text)
        if native and field == CONTENT and isinstance(text, str) and text:
            # A response that is encoded again has a string as its content. Other contents become members next to it.
            texts.setdefault(REASONING_FIELDS[0], []).append(text)
        if isinstance(value, list) and isinstance(field, str) and field in texts:
            message[field] = value
        if isinstance(opaque, str):
            message[OPAQUE] = opaque
        blocks.extend(block for block in _objects(body.get("blocks")) if block.get("type") in THINKING_PARTS)
        items.extend(item for item in _objects(body.get("items")) if item.get("type") == "reasoning")
        if not native:
            entries.extend(encode_details(part))
    for field, pieces in texts.items():
        if len(pieces) > 1 or field not in message:
            message[field] = "\n\n".join(pieces)
    for member, values in ((BLOCKS, blocks), (ITEMS, items)):
        if values:
            existing = message.get(member)
            message[member] = (existing if isinstance(existing, list) else []) + values
    if entries:
        message[DETAILS] = entries


def content_parts(part: Thinking) -> list[JsonObject]:
    seal = part.seal
    if seal is None or seal.origin != NAME or seal.kind != "text":
        return []
    return [one for one in _objects(seal.body.get("parts")) if one.get("type") in THINKING_PARTS]


def _objects(value: JsonValue) -> list[JsonObject]:
    return [dict(one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def rebuilds(parts: tuple[Part, ...]) -> bool:
    """Whether a client's echo of reasoning, content and calls gives back exactly these parts (V1)."""
    stage = 0
    texts = 0
    for part in parts:
        rank = _STAGES.get(type(part))
        if rank is None or rank < stage:
            return False
        stage = rank
        if isinstance(part, Text):
            texts += 1
            if texts > 1 or part.citations:
                return False
    return True


_STAGES: dict[type, int] = {Thinking: 0, Text: 1, Refusal: 2, ToolCall: 3}
