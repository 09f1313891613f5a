"""Mock turn: one response of the mock as it is sent and stored, with reasoning in the form of each service.

protocol             reasoning is included                            signature
anthropic-messages   if thinking is on; its text unless omitted       `signature`, of the text and a nonce
openai-responses     unless effort is none; a summary if requested    `encrypted_content`, of the text and a nonce
openai-chat          unless effort is none; `reasoning_content`       none

A signature is verified without stored state, so that signatures of one run are valid in the next."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mock.answers.delivery import Delivery, TimedBytes, deliver, written
from dragoman.mock.answers.response import build_response
from dragoman.mock.answers.signatures import MESSAGES, RESPONSES, encrypted, sealed
from dragoman.mock.answers.signatures import signature as digest_of
from dragoman.mock.script import TURN_LETTERS
from dragoman.mock.script_player import Play
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Part, Thinking, ToolCall
from dragoman.model.request import Request, ThinkingMode
from dragoman.model.response import Response
from dragoman.protocols.codec import Mint
from dragoman.wire.json import decode, decode_object

_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class MockTurn(Struct, frozen=True, kw_only=True):
    """A response. `body` is the full response, even if only a part is sent."""

    delivery: Delivery
    body: JsonObject


def turn_of(play: Play, request: Request, mint: Mint) -> MockTurn | Failure:
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
    """Add the input count to the first event, as the Messages service does."""
    pieces = list(stream)
    if response.origin == MESSAGES and response.usage is not None:
        delay, first = pieces[0]
        pieces[0] = (delay, first.replace(b'"input_tokens":0', b'"input_tokens":%d' % (response.usage.input or 0), 1))
    return pieces


def _last_response(pieces: list[TimedBytes]) -> JsonObject | None:
    """The response in the last event of its stream, with the IDs of its items."""
    for _, frames in reversed(pieces):
        for frame in reversed(frames.split(b"\n\n")):
            data = frame.partition(b"data: ")[2]
            value = decode(data) if data.startswith(b"{") else None
            if isinstance(value, dict) and value.get("type") in _LAST_EVENTS:
                response = value.get("response")
                return response if isinstance(response, dict) else None
    return None


_NONCE = 14
_CALL_LETTERS = 8
# Models with thinking by default, and models that include its text by default (docs/internals/anthropic-messages.md
# §23).
_THINKING_BY_DEFAULT = ("*claude*[a-z]-5", "*claude*[a-z]-5[-.@]*")
_SHOWING_BY_DEFAULT = ("*claude-3*", "*-4-[0-6]*", "*-4.[0-6]*", "*-4-20*")


def sign(text: str, nonce: str) -> str:
    """The signature of a thought, with the nonce at its end."""
    return digest_of(nonce + text).rstrip("=") + nonce


def is_signed(text: str, signature: str) -> bool:
    """Whether a signature belongs to a text. The signature of hidden thinking belongs to any text."""
    nonce = signature[-_NONCE:]
    return signature in (sign(text, nonce), sign("", nonce))


def thinks(request: Request) -> bool:
    reasoning = request.reasoning
    if request.origin != MESSAGES:
        return reasoning.effort != "none"
    if reasoning.mode is None:
        return any(fnmatchcase(request.model.lower(), pattern) for pattern in _THINKING_BY_DEFAULT)
    return reasoning.mode is not ThinkingMode.DISABLED


def finished(response: Response, request: Request, mint: Mint) -> Response:
    turn = mint.token(TURN_LETTERS)
    parts = [_finished(part, request, turn, mint) for part in response.parts]
    return replace(response, parts=tuple(parts))


def _finished(part: Part, request: Request, turn: str, mint: Mint) -> Part:
    if isinstance(part, ToolCall) and not request.legacy_functions:
        prefix = part.call_id.partition("_")[0]
        return replace(part, call_id=f"{prefix}_{turn}{mint.token(_CALL_LETTERS)}")
    if isinstance(part, Thinking) and request.origin == MESSAGES:
        visible = _is_visible(request)
        token = sign(part.text if visible else "", mint.token(_NONCE))
        return sealed(part, MESSAGES, "", token=token, visible=visible)
    if isinstance(part, Thinking) and request.origin == RESPONSES:
        token = encrypted(f"{mint.token(_NONCE)}\n{part.text}")
        return sealed(part, RESPONSES, part.id or "", token=token, visible=request.reasoning.summary is not None)
    return part


def _is_visible(request: Request) -> bool:
    display = request.reasoning.display
    if display is not None:
        return display != "omitted"
    model = request.model.lower()
    # Servers of other models include reasoning.
    return "claude" not in model or any(fnmatchcase(model, pattern) for pattern in _SHOWING_BY_DEFAULT)
