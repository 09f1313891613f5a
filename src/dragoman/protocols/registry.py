"""Protocol registry: the codecs in reading order, and the detection of a body's protocol.

The package of a protocol is imported on first use. `load_codecs` imports all, before requests arrive."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from dragoman.errors import DragomanError
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.codec import Codec, ProtocolName


def _anthropic_messages() -> Codec:
    from dragoman.protocols import anthropic_messages

    return anthropic_messages.CODEC


def _openai_chat() -> Codec:
    from dragoman.protocols import openai_chat

    return openai_chat.CODEC


def _openai_responses() -> Codec:
    from dragoman.protocols import openai_responses

    return openai_responses.CODEC


_LOADERS: dict[ProtocolName, Callable[[], Codec]] = {
    "anthropic-messages": _anthropic_messages,
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
}
PROTOCOL_NAMES: tuple[ProtocolName, ...] = tuple(_LOADERS)
_BY_NAME: dict[str, Codec] = {}


def codec_of(name: str) -> Codec:
    codec = _BY_NAME.get(name)
    return _load(name) if codec is None else codec


def _load(name: str) -> Codec:
    for known, load in _LOADERS.items():
        if known == name:
            codec = _BY_NAME[name] = load()
            return codec
    raise DragomanError(f"unknown protocol {name!r}; known are {', '.join(_LOADERS)}")


@cache
def load_codecs() -> tuple[Codec, ...]:
    return tuple(map(codec_of, PROTOCOL_NAMES))


def recognise(body: JsonObject) -> Codec | None:
    for codec in load_codecs():
        if codec.recognises(body):
            return codec
    return None


def recognise_response(body: JsonObject) -> Codec | None:
    """The protocol of a response or first stream event, detected by its shape."""
    kind, sort = body.get("type"), body.get("object")
    if kind in ("message", "message_start", "ping", "content_block_start") or (kind == "error" and "error" in body):
        return codec_of("anthropic-messages")
    if sort == "response" or (isinstance(kind, str) and (kind.startswith("response.") or kind == "error")):
        return codec_of("openai-responses")
    if "choices" in body or (isinstance(sort, str) and sort.startswith("chat.completion")):
        return codec_of("openai-chat")
    return None
