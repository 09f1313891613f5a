"""What the tests of this room share: targets, a mint that counts, and short ways to encode and decode."""

from __future__ import annotations

from itertools import count
from typing import Any

from msgspec.structs import replace

from dragoman.model.events import Event
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import HostedCall, HostedKind, HostedResult, Part, Text, WebSource
from dragoman.model.request import Message, Request, Role
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.anthropic_messages import CODEC, NAME
from dragoman.protocols.codec import EncodedRequest, Mint, TargetModel, TranslationContext
from dragoman.rules.capabilities import capabilities_of
from dragoman.rules.part_serializer import PartSerializer
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import Frame, SseReader

ADAPTIVE = "claude-opus-5"
MANUAL = "claude-sonnet-4-5"
OTHER = "some-model"


def target(model: str = ADAPTIVE, upstream: str = "anthropic") -> TargetModel:
    """A provider of this protocol."""
    return TargetModel(model=model, vendor=upstream, capabilities=capabilities_of(NAME, model, upstream))


def plain(value: JsonObject) -> JsonObject:
    """A body as a reader gets it, with nothing left unwritten."""
    return decode_object(encode(value))


def user(*parts: Part | str) -> Message:
    """A user message."""
    return said(Role.USER, *parts)


def assistant(*parts: Part | str) -> Message:
    """An assistant message."""
    return said(Role.ASSISTANT, *parts)


def said(role: Role, *parts: Part | str) -> Message:
    """A message; strings are text parts."""
    return Message(role=role, parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts))


def chat(*messages: Message) -> Request:
    """A request that came in another protocol."""
    return Request(origin="openai-chat", model="m", messages=messages or (user("hi"),), max_tokens=4096)


def encoded(request: Request, model: str = ADAPTIVE) -> tuple[EncodedRequest, Ledger]:
    """A request written for a model, and what was lost."""
    ledger = Ledger()
    result = CODEC.encode_request(request, target(model), ledger)
    return replace(result, body=plain(result.body)), ledger


def body_of(request: Request, model: str = ADAPTIVE) -> JsonObject:
    """The body of a request written for a model."""
    return encoded(request, model)[0].body


def losses(ledger: Ledger) -> list[tuple[str, str, str]]:
    """The losses as fate, feature and place."""
    return [(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses]


def asked(request: Request | None = None, table: ToolTable | None = None, model: str = ADAPTIVE) -> TranslationContext:
    """What an answer is read and written against."""
    return TranslationContext(
        request=request or Request(origin=NAME, model="alias"), target=target(model), table=table or ToolTable()
    )


def mint() -> Mint:
    """Tokens that count up."""
    numbers = count(1)
    return Mint(token=lambda length: str(next(numbers)).rjust(length, "0"), now=lambda: 1_700_000_000)


def decoded_stream(
    events: list[JsonObject], given: TranslationContext | None = None, ledger: Ledger | None = None
) -> list[Event]:
    """The events that a stream of frames tells."""
    decoder = CODEC.stream_decoder(given or asked(), mint(), ledger if ledger is not None else Ledger())
    told: list[Event] = []
    for event in events:
        kind = event.get("type")
        told += decoder.feed(Frame(kind if isinstance(kind, str) else None, encode(event)))
    return told + decoder.close()


def encoded_stream(events: list[Event], given: TranslationContext | None = None, ledger: Ledger | None = None) -> bytes:
    """The bytes of a stream, serialised as a client of this protocol needs it."""
    ledger = ledger if ledger is not None else Ledger()
    encoder = CODEC.stream_encoder(given or asked(), mint(), ledger)
    pieces: list[bytes] = []
    serial = PartSerializer(lambda event: pieces.append(encoder.feed(event)), ledger)
    for event in events:
        serial(event)
    return b"".join(pieces)


def frames(stream: bytes) -> list[JsonObject]:
    """The objects of a stream; each event line equals the type of its data."""
    reader = SseReader()
    found: list[JsonObject] = []
    for frame in reader.feed(stream) + reader.close():
        value = decode_object(frame.data)
        assert value["type"] == frame.event
        found.append(value)
    return found


def at(value: JsonValue, *steps: str | int) -> JsonValue:
    """A member deep inside a value."""
    for step in steps:
        match value, step:
            case dict(), str():
                value = value[step]
            case list(), int():
                value = value[step]
            case _:
                raise AssertionError(f"no {step!r} in {value!r}")
    return value


def start(index: int, **block: Any) -> JsonObject:  # noqa: ANN401 - test data is JSON
    """The start of a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **members: Any) -> JsonObject:  # noqa: ANN401 - test data is JSON
    """A delta of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def stop(index: int) -> JsonObject:
    """The end of a block."""
    return {"type": "content_block_stop", "index": index}


OPENING: JsonObject = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "served", "content": [], "usage": {"input_tokens": 7, "output_tokens": 1}},
}
CLOSING: list[JsonObject] = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 9},
    },
    {"type": "message_stop"},
]


def block(**members: object) -> Fields:
    """A block being read."""
    value: JsonObject = {}
    value.update(members)  # type: ignore[arg-type]  # test data is JSON
    return Fields(value)


def written(
    *parts: Part, stop: StopReason = StopReason.END, request: Request | None = None
) -> tuple[JsonObject, Ledger]:
    """Another protocol's answer as a client gets it."""
    ledger = Ledger()
    response = Response(
        origin="openai-responses",
        id="resp_0123456789abcdef",
        model="served",
        parts=parts,
        stop=Stop(reason=stop),
        usage=Usage(input=10, output=5, cache_read=4, cache_write=1, thinking=2),
    )
    return plain(CODEC.encode_response(response, asked(request), mint(), ledger)), ledger


SEARCH = (
    HostedCall(call_id="ws_1", kind=HostedKind.WEB_SEARCH, name="web_search", arguments='{"query":"q"}'),
    HostedResult(call_id="ws_1", kind=HostedKind.WEB_SEARCH, sources=(WebSource(url="https://x"),)),
)
