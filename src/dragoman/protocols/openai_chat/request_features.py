"""Signs of a Chat request: tools, media, thinking, structured output, and how much may be answered."""

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

_NO_EFFORT = (b"null", b'"none"')


class _Part(Struct):
    kind: str = field(name="type", default="")
    image_url: Raw = NULL
    file: Raw = NULL
    input_audio: Raw = NULL


class _Message(Struct):
    content: Raw = NULL


class _Format(Struct):
    kind: str = field(name="type", default="")


class _Request(Struct):
    messages: Raw = NULL
    tools: Raw = NULL
    functions: Raw = NULL
    response_format: Raw = NULL
    reasoning_effort: Raw = NULL
    max_completion_tokens: Raw = NULL
    max_tokens: Raw = NULL
    n: Raw = NULL
    service_tier: Raw = NULL


# What other tiers cost is known by these names; one of them is said as a speed elsewhere.
TIERS = {"flex": "flex", "priority": "priority", "fast": "priority", "speed-fast": "priority"}
_USUAL_TIERS = frozenset({"", "auto", "default"})
_MAX_TIER_BYTES = 32
# More than this is refused by whoever takes several.
_MAX_CHOICES = 128
_REQUEST = msgspec.json.Decoder(_Request)
_MESSAGES = msgspec.json.Decoder(list[_Message])
_PARTS = msgspec.json.Decoder(list[_Part])
_FORMAT = msgspec.json.Decoder(_Format)
# By which a request refers to what its provider keeps; signs tell whether it does.
REFERENCE_KEYS = (b'"file_id"',)


def request_features_of(body: bytes) -> RequestFeatures:
    """What a request has in it; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return RequestFeatures()
    images = documents = stored = False
    media = 0
    for message in listed(request.messages, _MESSAGES):
        for part in listed(message.content, _PARTS):
            images = images or part.kind == "image_url"
            documents = documents or part.kind == "file"
            stored = stored or (part.kind == "file" and b'"file_id"' in bytes(part.file))
            media += length(part.image_url) + length(part.file) + length(part.input_audio)
    output_format = peeked(request.response_format, _FORMAT) if has_value(request.response_format) else None
    cap = number(request.max_completion_tokens)
    tier = text_in(request.service_tier) if length(request.service_tier) <= _MAX_TIER_BYTES else ""
    return RequestFeatures(
        tools=has_value(request.tools) or has_value(request.functions),
        images=images,
        documents=documents,
        thinking=bytes(request.reasoning_effort) not in _NO_EFFORT,
        structured=output_format is not None and output_format.kind in ("json_schema", "json_object"),
        media=media,
        max_output=number(request.max_tokens) if cap is None else cap,
        references_stored=stored,
        choices=min(max(number(request.n) or 1, 1), _MAX_CHOICES),
        tier="" if tier in _USUAL_TIERS else tier,
    )


_PEEKED_MESSAGES = msgspec.json.Decoder(list[PeekedMessage])


def conversation_start_of(members: Mapping[str, Raw]) -> ConversationStart:
    """How the conversation of a request began."""
    cache_key = members.get("prompt_cache_key")
    if cache_key is not None and has_value(cache_key):
        return ConversationStart(cache_key=text_in(cache_key))
    messages = peeked(members.get("messages", NULL), _PEEKED_MESSAGES)
    return conversation_start_in([] if messages is None else messages)
