"""Turn: one answer of the mock, as it is sent and as it is remembered."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mock.answers.delivery import Delivery, TimedBytes, deliver, written
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import MESSAGES, RESPONSES
from dragoman.mock.reasoning import finished, thinks
from dragoman.mock.script_player import Play
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Thinking
from dragoman.model.request import Request
from dragoman.model.response import Response
from dragoman.protocols.codec import Mint
from dragoman.wire.json import decode, decode_object

_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class MockTurn(Struct, frozen=True, kw_only=True):
    """An answer: `body` is the whole of it, however much of that is sent."""

    delivery: Delivery
    body: JsonObject


def turn_of(play: Play, request: Request, mint: Mint) -> MockTurn | Failure:
    """The answer that a request gets."""
    if play.failure is not None:
        return play.failure
    parts = play.parts if thinks(request) else tuple(part for part in play.parts if not isinstance(part, Thinking))
    response = finished(build_response(request, parts, mint), request, mint)
    delivery = deliver(response, request, mint, pace=play.pace, ending=play.ending)
    if isinstance(delivery, Failure):
        return delivery
    delivery = replace(delivery, wait=delivery.wait + play.wait)
    if not delivery.streamed:
        return MockTurn(delivery=delivery, body=decode_object(delivery.body))
    pieces = _with_input_count(delivery.pieces, response)
    last = _last_response(pieces) if request.origin == RESPONSES else None
    body = last if last is not None else decode_object(written(response, request, mint))
    return MockTurn(delivery=replace(delivery, pieces=pieces), body=body)


def _with_input_count(stream: Iterable[TimedBytes], response: Response) -> list[TimedBytes]:
    """All of a stream; the Messages service has counted its input by the time it begins."""
    pieces = list(stream)
    if response.origin == MESSAGES and response.usage is not None:
        delay, first = pieces[0]
        pieces[0] = (delay, first.replace(b'"input_tokens":0', b'"input_tokens":%d' % (response.usage.input or 0), 1))
    return pieces


def _last_response(pieces: list[TimedBytes]) -> JsonObject | None:
    """The response as the last event of its stream tells it, with the ids that the stream gave its items."""
    for _, frames in reversed(pieces):
        for frame in reversed(frames.split(b"\n\n")):
            data = frame.partition(b"data: ")[2]
            value = decode(data) if data.startswith(b"{") else None
            if isinstance(value, dict) and value.get("type") in _LAST_EVENTS:
                response = value.get("response")
                return response if isinstance(response, dict) else None
    return None
