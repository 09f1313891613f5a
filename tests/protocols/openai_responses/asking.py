"""What the tests of this room share: questions, a clock that stands still, and streams there and back."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.model.events import Event
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part
from dragoman.model.request import Message, Request, Role
from dragoman.model.response import Response, Stop, StopReason, Usage
from dragoman.protocols.codec import EncodedRequest, Mint, TargetModel, TranslationContext
from dragoman.protocols.openai_responses import CODEC, NAME
from dragoman.rules.capabilities import Capabilities, capabilities_of
from dragoman.rules.part_serializer import PartSerializer
from dragoman.rules.tool_table import ToolTable
from dragoman.wire.json import decode_object, encode
from dragoman.wire.sse import Frame, SseReader
from tests.model.event_order import OrderCheck

MESSAGES = "anthropic-messages"
CHAT = "openai-chat"
SUFFIX = "AbCdEfGhIjKlMnOpQrStUvWx"
MINT = Mint(token=lambda length: SUFFIX[:length], now=lambda: 1_700_000_000)


def target(**changes: JsonValue) -> TargetModel:
    """OpenAI's own endpoint, with other abilities where a test says so."""
    known = capabilities_of(NAME, "gpt-5", "openai")
    members = {name: object.__getattribute__(known, name) for name in Capabilities.__struct_fields__}
    return TargetModel(model="gpt-5", vendor="openai", capabilities=Capabilities(**{**members, **changes}))


def decoded(body: JsonObject) -> Request:
    """A request of this protocol."""
    return CODEC.decode_request({"model": "gpt-5", "input": "hi", **body})


def written(request: Request, **changes: JsonValue) -> tuple[JsonObject, list[str]]:
    """The body of a request for a provider of this protocol, and the losses as `fate feature place`."""
    encoded, losses = encoded_request(request, **changes)
    return encoded.body, losses


def encoded_request(request: Request, **changes: JsonValue) -> tuple[EncodedRequest, list[str]]:
    ledger = Ledger()
    encoded = CODEC.encode_request(request, target(**changes), ledger)
    return encoded, lines(ledger)


def lines(ledger: Ledger) -> list[str]:
    return [f"{loss.fate.value} {loss.feature.value} {loss.at}" for loss in ledger.losses]


def said(*parts: Part, role: Role = Role.USER) -> Message:
    return Message(role=role, parts=parts)


def from_messages(*messages: Message) -> Request:
    """A request of a Messages client."""
    return Request(origin=MESSAGES, model="claude", messages=messages)


def from_chat(*messages: Message) -> Request:
    """A request of a Chat client."""
    return Request(origin=CHAT, model="gpt", messages=messages)


def items(body: JsonObject) -> list[JsonObject]:
    """The input of a body."""
    found = body["input"]
    assert isinstance(found, list)
    return [item for item in found if isinstance(item, dict)]


def asked_abroad(table: ToolTable | None = None, origin: str = MESSAGES) -> TranslationContext:
    """Another protocol's client asked a provider of this one."""
    return TranslationContext(
        request=Request(origin=origin, model="alias"), target=target(), table=table or ToolTable(), origin=NAME
    )


def asked_here(body: JsonObject | None = None) -> TranslationContext:
    """A client of this protocol asked a provider of another."""
    return TranslationContext(
        request=CODEC.decode_request({"model": "alias", "input": "hi", **(body or {})}),
        target=TargetModel(model="claude", vendor="anthropic", capabilities=Capabilities()),
        table=ToolTable(),
        origin=MESSAGES,
    )


def answer(
    *parts: Part,
    reason: StopReason = StopReason.END,
    usage: Usage | None = None,
    explanation: str | None = None,
    sequence: str | None = None,
) -> Response:
    """An answer of another provider."""
    return Response(
        origin=MESSAGES,
        id="msg_0123456789abcdefgh",
        model="claude",
        parts=parts,
        stop=Stop(reason=reason, explanation=explanation, sequence=sequence),
        usage=usage or Usage(input=7, output=3),
    )


def told(response: Response, asked: TranslationContext | None = None) -> tuple[JsonObject, list[str]]:
    """A whole answer as the client gets it, with what was lost."""
    ledger = Ledger()
    body = CODEC.encode_response(response, asked or asked_here(), MINT, ledger)
    return decode_object(encode(body)), lines(ledger)


def output(body: JsonObject) -> list[JsonObject]:
    found = body["output"]
    assert isinstance(found, list)
    return [item for item in found if isinstance(item, dict)]


def streamed(events: Iterable[Event], asked: TranslationContext | None = None) -> list[JsonObject]:
    """The events of a client's stream; its frames are checked for what every stream of this wire must have."""
    ledger = Ledger()
    encoder = CODEC.stream_encoder(asked or asked_here(), MINT, ledger)
    pieces: list[bytes] = []
    serial = PartSerializer(lambda event: pieces.append(encoder.feed(event)), ledger)
    for event in events:
        serial(event)
    frames = SseReader().feed(b"".join(pieces))
    found = [decode_object(frame.data) for frame in frames if frame.data != b"[DONE]"]
    for number, (frame, body) in enumerate(zip(frames, found, strict=False)):
        assert frame.event == body["type"]
        assert body["sequence_number"] == number
    return found


def kinds(events: list[JsonObject]) -> list[str]:
    """The types of events without their common prefix."""
    return [str(event["type"]).removeprefix("response.") for event in events]


def read(events: list[JsonObject], asked: TranslationContext | None = None, *, close: bool = True) -> list[Event]:
    """The events of the model that a provider's stream tells, in a legal order."""
    decoder = CODEC.stream_decoder(asked or asked_abroad(), MINT, Ledger())
    found = [one for event in events for one in decoder.feed(Frame(str(event["type"]), encode(event)))]
    if close:
        found += decoder.close()
    check = OrderCheck()
    for one in found:
        check(one)
    return found


def response_body(*output_items: JsonObject, **members: JsonValue) -> JsonObject:
    """A whole answer of a provider of this protocol."""
    return {
        "id": "resp_0123456789abcdefgh",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "gpt-5",
        "status": "completed",
        "output": list(output_items),
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 15,
        },
        **members,
    }
