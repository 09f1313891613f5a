"""Signs of a Responses request: tools, media, thinking, structured output, and how much may be answered."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.wire.peek import (
    NULL,
    PeekedMessage,
    conversation_start_in,
    has_value,
    length,
    listed,
    number,
    peeked,
    text_in,
)


class _Part(Struct):
    kind: str = field(name="type", default="")
    image_url: Raw = NULL
    file_data: Raw = NULL
    file_id: Raw = NULL


class _Tool(Struct):
    kind: str = field(name="type", default="")
    vector_store_ids: Raw = NULL
    container: Raw = NULL


class _Item(Struct):
    content: Raw = NULL
    # Of results of tools, which may hold media themselves.
    output: Raw = NULL


class _Kind(Struct):
    kind: str = field(name="type", default="")


class _Text(Struct):
    format: Raw = NULL


class _Reasoning(Struct):
    effort: str | None = None
    summary: str | None = None


class _Request(Struct):
    input: Raw = NULL
    tools: Raw = NULL
    reasoning: Raw = NULL
    text: Raw = NULL
    max_output_tokens: Raw = NULL
    service_tier: Raw = NULL


# What other tiers cost is known by these names; one of them is said as a speed elsewhere.
TIERS = {"flex": "flex", "priority": "priority", "fast": "priority", "speed-fast": "priority"}
_USUAL_TIERS = frozenset({"", "auto", "default"})
_MAX_TIER_BYTES = 32
_REQUEST = msgspec.json.Decoder(_Request)
_ITEMS = msgspec.json.Decoder(list[_Item])
_PARTS = msgspec.json.Decoder(list[_Part])
_TOOLS = msgspec.json.Decoder(list[_Tool])
_TEXT = msgspec.json.Decoder(_Text)
_KIND = msgspec.json.Decoder(_Kind)
_REASONING = msgspec.json.Decoder(_Reasoning)
# By which a request refers to what its provider keeps; signs tell whether it does.
REFERENCE_KEYS = (b'"file_id"', b'"container"', b'"vector_store_ids"')


def request_features_of(body: bytes) -> RequestFeatures:
    """What a request has in it; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return RequestFeatures()
    images = documents = stored = False
    media = 0
    for item in listed(request.input, _ITEMS):
        for part in (*listed(item.content, _PARTS), *listed(item.output, _PARTS)):
            images = images or part.kind == "input_image"
            documents = documents or part.kind == "input_file"
            media += length(part.image_url) + length(part.file_data)
            stored = stored or has_value(part.file_id)
    for tool in listed(request.tools, _TOOLS):
        own = bytes(tool.container)[:1] == b'"'
        stored = (
            stored
            or (tool.kind == "file_search" and has_value(tool.vector_store_ids))
            or (tool.kind == "code_interpreter" and own)
        )
    reasoning = peeked(request.reasoning, _REASONING) if has_value(request.reasoning) else None
    text = peeked(request.text, _TEXT) if has_value(request.text) else None
    output_format = peeked(text.format, _KIND) if text is not None and has_value(text.format) else None
    tier = text_in(request.service_tier) if length(request.service_tier) <= _MAX_TIER_BYTES else ""
    return RequestFeatures(
        tools=has_value(request.tools),
        images=images,
        documents=documents,
        thinking=reasoning is not None and (reasoning.effort not in (None, "none") or reasoning.summary is not None),
        structured=output_format is not None and output_format.kind in ("json_schema", "json_object"),
        media=media,
        max_output=number(request.max_output_tokens),
        references_stored=stored,
        tier="" if tier in _USUAL_TIERS else tier,
    )


_PEEKED_MESSAGES = msgspec.json.Decoder(list[PeekedMessage])


def conversation_start_of(members: Mapping[str, Raw]) -> ConversationStart:
    """How the conversation of a request began."""
    cache_key = members.get("prompt_cache_key")
    if cache_key is not None and has_value(cache_key):
        return ConversationStart(cache_key=text_in(cache_key))
    instructions, raw_input = text_in(members.get("instructions", NULL)), members.get("input", NULL)
    messages = listed(raw_input, _PEEKED_MESSAGES)
    if not messages:
        return ConversationStart(instructions=instructions, text=text_in(raw_input))
    return conversation_start_in(messages, instructions)
