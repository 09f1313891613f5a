"""What the tests of this room share: a target, a question, a mint that counts, short ways through the codec."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.model.events import Event, PartEnded, PartGrew, PartStarted
from dragoman.model.folding import fold
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part
from dragoman.model.request import Message, Request, Role
from dragoman.model.response import Response
from dragoman.model.tools import FunctionTool, TextTool, ToolSpec
from dragoman.protocols.codec import EncodedRequest, Mint, TargetModel, TranslationContext
from dragoman.protocols.openai_chat import CODEC
from dragoman.rules.capabilities import capabilities_of
from dragoman.rules.tool_table import ToolTable, Wrapped
from dragoman.wire.json import decode, encode
from dragoman.wire.sse import Frame, SseReader
from tests.model.event_order import OrderCheck

A = "anthropic-messages"
C = "openai-chat"
R = "openai-responses"


def target(model: str = "m", upstream: str = "", **changes: object) -> TargetModel:
    """A provider of this protocol."""
    known = capabilities_of(C, model, upstream)
    return TargetModel(model=model, vendor=upstream, capabilities=replace(known, **changes))


def mint() -> Mint:
    """Tokens that count up, at a fixed time."""
    count = [0]

    def token(length: int) -> str:
        count[0] += 1
        return str(count[0]).rjust(length, "t")

    return Mint(token=token, now=lambda: 1700000000)


def ask(
    *tools: ToolSpec, origin: str = A, provider: str = "", request: Request | None = None, **changes: bool
) -> TranslationContext:
    """A question with client tools, put to a provider without custom tools."""
    table = ToolTable()
    for tool in tools:
        if not isinstance(tool, FunctionTool | TextTool):
            continue
        table.add(tool, Wrapped.INPUT if type(tool).__name__ == "TextTool" else Wrapped.NOT)
    asked = request or Request(origin=origin, model="alias", tools=tuple(tools), include_usage=True)
    there = target()
    there = replace(there, capabilities=replace(there.capabilities, **changes))
    return TranslationContext(request=asked, target=there, table=table, origin=provider)


def said(*messages: Message, origin: str = A, **members: object) -> Request:
    """A request of another protocol."""
    return Request(origin=origin, model="alias", messages=messages, **members)  # type: ignore[arg-type]  # test data


def user(*parts: Part) -> Message:
    return Message(role=Role.USER, parts=parts)


def assistant(*parts: Part) -> Message:
    return Message(role=Role.ASSISTANT, parts=parts)


def written(request: Request, to: TargetModel | None = None) -> tuple[JsonObject, Ledger, EncodedRequest]:
    """A request as this protocol's provider gets it, through JSON once, with the losses."""
    ledger = Ledger()
    encoded = CODEC.encode_request(request, to or target(), ledger)
    body = decode(encode(encoded.body))
    assert isinstance(body, dict)
    return body, ledger, encoded


def losses(ledger: Ledger) -> set[tuple[str, str, str]]:
    """The ledger as fate, feature and place."""
    return {(loss.fate.value, loss.feature.value, loss.at) for loss in ledger.losses}


def dig(value: object, *steps: str | int) -> JsonValue:
    """What stands deep inside a JSON value."""
    for step in steps:
        if isinstance(step, int):
            assert isinstance(value, list)
            value = value[step]
        else:
            assert isinstance(value, dict)
            value = value[step]
    assert value is None or isinstance(value, bool | int | float | str | list | dict)
    return value


def objects(value: object, *steps: str | int) -> list[JsonObject]:
    """The objects of a list deep inside a JSON value."""
    found = dig(value, *steps)
    assert isinstance(found, list)
    return [one for one in found if isinstance(one, dict)]


def chunk(
    delta: JsonValue = None,
    finish: str | None = None,
    *,
    index: int = 0,
    logprobs: JsonValue = None,
    **members: JsonValue,
) -> JsonObject:
    """A chunk of a provider's stream."""
    choice: JsonObject = {"index": index, "delta": delta, "finish_reason": finish, "logprobs": logprobs}
    return {"id": "chatcmpl-u", "created": 7, "model": "m", "choices": [choice], **members}


def heard(
    chunks: Iterable[JsonObject | bytes],
    asked: TranslationContext | None = None,
    *,
    done: bool = True,
    ledger: Ledger | None = None,
) -> list[Event]:
    """The events of a stream, every one checked against the legal orders."""
    decoder = CODEC.stream_decoder(asked or ask(), mint(), Ledger() if ledger is None else ledger)
    events: list[Event] = []
    for one in chunks:
        events += decoder.feed(Frame(None, one if isinstance(one, bytes) else encode(one)))
    if done:
        events += decoder.feed(Frame(None, b"[DONE]"))
    events += decoder.close()
    check = OrderCheck()
    for event in events:
        check(event)
    return events


def told(
    events: Iterable[Event], asked: TranslationContext | None = None, ledger: Ledger | None = None
) -> list[JsonObject | str]:
    """The frames of a client's stream; `[DONE]` as a string."""
    encoder = CODEC.stream_encoder(asked or ask(origin=C, provider=A), mint(), Ledger() if ledger is None else ledger)
    stream = b"".join(encoder.feed(event) for event in events)
    reader = SseReader()
    frames = reader.feed(stream) + reader.close()
    found: list[JsonObject | str] = []
    for frame in frames:
        assert frame.event is None
        value = "[DONE]" if frame.data == b"[DONE]" else decode(frame.data)
        assert isinstance(value, dict | str)
        found.append(value)
    return found


F, G = FunctionTool(name="f"), FunctionTool(name="g")


def answer(*chunks: JsonObject | bytes, asked: TranslationContext | None = None, done: bool = True) -> Response:
    """The answer that a stream folds to."""
    response = fold(heard(chunks, asked or ask(F, G), done=done), C)
    assert isinstance(response, Response), response
    return response


def kinds(events: list[Event]) -> list[str]:
    return [
        f"{type(event).__name__}{event.index}"
        if isinstance(event, PartStarted | PartGrew | PartEnded)
        else type(event).__name__
        for event in events
    ]


def fragment(index: int | None = 0, **members: JsonValue) -> JsonObject:
    """A chunk with one call fragment; `name`, `arguments` and `input` go where they belong."""
    inner: JsonObject = {key: members.pop(key) for key in ("name", "arguments") if key in members}
    one: JsonObject = {
        **({} if index is None else {"index": index}),
        **members,
        **({"function": inner} if inner else {}),
    }
    return chunk({"tool_calls": [one]})
