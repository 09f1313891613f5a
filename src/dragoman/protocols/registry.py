"""The registry: the protocols this library knows, in reading order, and how to tell them apart."""

from __future__ import annotations

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols import anthropic_messages, openai_chat, openai_responses
from dragoman.protocols.codec import Codec

PROTOCOLS: tuple[Codec, ...] = (anthropic_messages.CODEC, openai_chat.CODEC, openai_responses.CODEC)

_BY_NAME: dict[str, Codec] = {codec.name: codec for codec in PROTOCOLS}


def codec_of(name: str) -> Codec:
    """The codec of a protocol by its name."""
    codec = _BY_NAME.get(name)
    if codec is None:
        raise DragomanError(f"unknown protocol {name!r}; known are {', '.join(_BY_NAME)}")
    return codec


def recognise(body: JsonObject) -> Codec | None:
    """The protocol whose request this looks like, by its shape alone."""
    for codec in PROTOCOLS:
        if codec.recognises(body):
            return codec
    return None


def recognise_response(body: JsonObject) -> Codec | None:
    """The protocol whose answer, or whose first stream event, this looks like."""
    kind, sort = body.get("type"), body.get("object")
    if kind in ("message", "message_start", "ping", "content_block_start") or (kind == "error" and "error" in body):
        return anthropic_messages.CODEC
    if sort == "response" or (isinstance(kind, str) and (kind.startswith("response.") or kind == "error")):
        return openai_responses.CODEC
    if "choices" in body or (isinstance(sort, str) and sort.startswith("chat.completion")):
        return openai_chat.CODEC
    return None
