"""Journeys: a client's request there and a provider's answer back, with ids and a clock that never change."""

from __future__ import annotations

from functools import cache
from itertools import count

from dragoman.model.events import Event
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.codec import Codec, Mint, TargetModel, TranslationContext
from dragoman.protocols.registry import codec_of
from dragoman.rules.capabilities import capabilities_of
from dragoman.rules.tool_table import ToolTable
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translation_context
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import SseReader
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

STEADY = Mint(token=lambda length: "k" * length, now=lambda: 1_700_000_000)


def counting() -> Mint:
    """A mint whose tokens all differ, and are the same on every journey."""
    numbers = count()
    return Mint(token=lambda length: f"{next(numbers):0{length}d}", now=lambda: 1_700_000_000)


_SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
# Every tool that an answer may call, in each protocol's words.
_NAMES = ("get_weather", "read-file", "run")
_TOOLS: dict[str, list[JsonValue]] = {
    MESSAGES: [{"name": name, "input_schema": _SCHEMA} for name in _NAMES],
    CHAT: [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in _NAMES],
    RESPONSES: [{"type": "function", "name": name, "parameters": _SCHEMA, "strict": False} for name in _NAMES],
}
_QUESTIONS: dict[str, JsonObject] = {
    MESSAGES: {"model": "claude-opus-5", "max_tokens": 4096, "messages": [{"role": "user", "content": "Look."}]},
    CHAT: {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": "Look."}],
        "stream_options": {"include_usage": True},
    },
    RESPONSES: {"model": "gpt-5", "input": "Look."},
}


def question(protocol: str) -> JsonObject:
    """A request that declares tools and asks for a stream."""
    return {**_QUESTIONS[protocol], "tools": _TOOLS[protocol], "stream": True}


@cache
def asked(client: str, provider: str) -> TranslatedRequest:
    """The question of a client, put to a provider."""
    return translate_request(question(client), source=client, target=provider)


def bare(codec: Codec) -> TranslationContext:
    """What an answer without its question is read against."""
    return translation_context(None, codec)


def at_home(codec: Codec, *, legacy: bool = False) -> TranslationContext:
    """What an answer is read against whose question stayed in its own protocol."""
    body = question(codec.name)
    if legacy:
        del body["tools"]
        body["functions"] = [{"name": "get_weather", "parameters": _SCHEMA}]
    request = codec.decode_request(parsed(body))
    return TranslationContext(request=request, target=home(codec, request.model), table=ToolTable())


def parsed(body: JsonObject) -> JsonObject:
    """A generated document as it would be read from the wire."""
    return decode_object(encode(body))


def home(codec: Codec, model: str) -> TargetModel:
    """A target of a request that stays in its own protocol."""
    return TargetModel(model=model, vendor=codec.vendor, capabilities=capabilities_of(codec.name, model, codec.vendor))


def events_of(protocol: str, stream: bytes, asking: TranslationContext | None = None) -> list[Event]:
    """The events of a provider's stream, its end included."""
    codec = codec_of(protocol)
    decoder = codec.stream_decoder(asking or bare(codec), STEADY, Ledger())
    reader = SseReader()
    events: list[Event] = []
    for frame in [*reader.feed(stream), *reader.close()]:
        events += decoder.feed(frame)
    return events + decoder.close()


def translated_stream(
    provider: str, client: str, stream: bytes, request: TranslatedRequest | None = None, mint: Mint | None = None
) -> bytes:
    """A provider's stream as its client gets it."""
    translator = StreamPipeline(source=provider, target=client, request=request, mint=mint or counting())
    return translator.feed(stream) + translator.close()
