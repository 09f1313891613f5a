"""Signs of a Messages request: tools, media, thinking, structured output, and how much may be answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


class _Source(Struct):
    kind: str = field(name="type", default="")
    data: Raw = NULL


class _Block(Struct):
    kind: str = field(name="type", default="")
    source: Raw = NULL
    # Of results of tools, which may hold media themselves.
    content: Raw = NULL


class _Message(Struct):
    content: Raw = NULL


class _Thinking(Struct):
    kind: str = field(name="type", default="")


class _Output(Struct):
    format: Raw = NULL


class _Request(Struct):
    messages: Raw = NULL
    tools: Raw = NULL
    thinking: Raw = NULL
    output_config: Raw = NULL
    output_format: Raw = NULL
    max_tokens: Raw = NULL
    container: Raw = NULL
    speed: Raw = NULL


# Its own service tiers cost the same unless something was agreed on; speed has a price.
TIERS = {"speed-fast": "speed-fast"}
_REQUEST = msgspec.json.Decoder(_Request)
_MESSAGES = msgspec.json.Decoder(list[_Message])
_BLOCKS = msgspec.json.Decoder(list[_Block])
_SOURCE = msgspec.json.Decoder(_Source)
_THINKING = msgspec.json.Decoder(_Thinking)
_OUTPUT = msgspec.json.Decoder(_Output)
# By which a request refers to what its provider keeps; signs tell whether it does.
REFERENCE_KEYS = (b'"file_id"', b'"container"')


def request_features_of(body: bytes) -> RequestFeatures:
    """What a request has in it; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return RequestFeatures()
    images = documents = stored = False
    media = 0
    for message in listed(request.messages, _MESSAGES):
        blocks = listed(message.content, _BLOCKS)
        for block in (*blocks, *_within(blocks)):
            images = images or block.kind == "image"
            documents = documents or block.kind == "document"
            if block.kind in ("image", "document"):
                source = peeked(block.source, _SOURCE)
                # A document may be plain text, which is read as such.
                media += length(source.data) if source is not None and source.kind == "base64" else 0
                stored = stored or (source is not None and source.kind == "file")
    thinking = peeked(request.thinking, _THINKING) if has_value(request.thinking) else None
    output = peeked(request.output_config, _OUTPUT) if has_value(request.output_config) else None
    return RequestFeatures(
        tools=has_value(request.tools),
        images=images,
        documents=documents,
        thinking=thinking is not None and thinking.kind in ("enabled", "adaptive"),
        structured=has_value(request.output_format) or (output is not None and has_value(output.format)),
        media=media,
        max_output=number(request.max_tokens),
        references_stored=stored or has_value(request.container),
        tier="speed-fast" if bytes(request.speed) == b'"fast"' else "",
    )


def _within(blocks: Sequence[_Block]) -> list[_Block]:
    return [inner for block in blocks if block.kind == "tool_result" for inner in listed(block.content, _BLOCKS)]


_PEEKED_MESSAGES = msgspec.json.Decoder(list[PeekedMessage])


def conversation_start_of(members: Mapping[str, Raw]) -> ConversationStart:
    """How the conversation of a request began."""
    messages = peeked(members.get("messages", NULL), _PEEKED_MESSAGES)
    return (
        ConversationStart()
        if messages is None
        else conversation_start_in(messages, text_in(members.get("system", NULL)))
    )
