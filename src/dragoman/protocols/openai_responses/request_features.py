"""Signs of a Responses request: tools, media, thinking, structured output, and how much may be answered."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.request_features import ConversationStart, RequestFeatures
from dragoman.wire.peek import NULL, PeekedMessage, length, listed, number, opening_in, peeked, says, text_in


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
_LONGEST_TIER = 32
_REQUEST = msgspec.json.Decoder(_Request)
_ITEMS = msgspec.json.Decoder(list[_Item])
_PARTS = msgspec.json.Decoder(list[_Part])
_TOOLS = msgspec.json.Decoder(list[_Tool])
_TEXT = msgspec.json.Decoder(_Text)
_KIND = msgspec.json.Decoder(_Kind)
_REASONING = msgspec.json.Decoder(_Reasoning)
# By which a request refers to what its provider keeps; signs tell whether it does.
KEEPSAKES = (b'"file_id"', b'"container"', b'"vector_store_ids"')


def signs_of(body: bytes) -> RequestFeatures:
    """What a request has in it; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return RequestFeatures()
    images = documents = kept = False
    media = 0
    for item in listed(request.input, _ITEMS):
        for part in (*listed(item.content, _PARTS), *listed(item.output, _PARTS)):
            images = images or part.kind == "input_image"
            documents = documents or part.kind == "input_file"
            media += length(part.image_url) + length(part.file_data)
            kept = kept or says(part.file_id)
    for tool in listed(request.tools, _TOOLS):
        own = bytes(tool.container)[:1] == b'"'
        kept = (
            kept
            or (tool.kind == "file_search" and says(tool.vector_store_ids))
            or (tool.kind == "code_interpreter" and own)
        )
    reasoning = peeked(request.reasoning, _REASONING) if says(request.reasoning) else None
    text = peeked(request.text, _TEXT) if says(request.text) else None
    told = peeked(text.format, _KIND) if text is not None and says(text.format) else None
    tier = text_in(request.service_tier) if length(request.service_tier) <= _LONGEST_TIER else ""
    return RequestFeatures(
        tools=says(request.tools),
        images=images,
        documents=documents,
        thinking=reasoning is not None and (reasoning.effort not in (None, "none") or reasoning.summary is not None),
        structured=told is not None and told.kind in ("json_schema", "json_object"),
        media=media,
        most_output=number(request.max_output_tokens),
        kept=kept,
        tier="" if tier in _USUAL_TIERS else tier,
    )


_SPOKEN = msgspec.json.Decoder(list[PeekedMessage])


def opening_of(members: Mapping[str, Raw]) -> ConversationStart:
    """How the conversation of a request began."""
    cache_key = members.get("prompt_cache_key")
    if cache_key is not None and says(cache_key):
        return ConversationStart(cache_key=text_in(cache_key))
    instructions, asked = text_in(members.get("instructions", NULL)), members.get("input", NULL)
    said = listed(asked, _SPOKEN)
    if not said:
        return ConversationStart(instructions=instructions, text=text_in(asked))
    return opening_in(said, instructions)
