"""Telling: a play as the answer of a service, whole or streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.response import answer_to, asked_of, events_of
from dragoman.mock.answers.signatures import MESSAGES, RESPONSES
from dragoman.mock.reasoning import finished, thinks
from dragoman.mock.script_player import Play
from dragoman.model.events import ArgumentsDelta, Failed, PartEnded, PartGrew, Stopped, TextDelta
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Thinking
from dragoman.model.request import Request
from dragoman.model.response import Response
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.wire.json import decode, decode_object, encode

# A rest in seconds, and the bytes that come after it.
Piece: TypeAlias = tuple[float, bytes]

# After how many tokens an answer ends that does not end well.
_FEW = 2
_OVERLOADED = Failure(kind=FailureKind.OVERLOADED, status=529, message="Overloaded: you asked for it.")
_LAST_EVENTS = frozenset({"response.completed", "response.incomplete", "response.failed"})


class Told(Struct, frozen=True, kw_only=True):
    """An answer on its way: `body` is the whole of it, `pieces` are what is sent; one that `breaks` has no end."""

    body: JsonObject
    pieces: list[Piece]
    streamed: bool = False
    wait: float = 0.0
    breaks: bool = False


def tell(play: Play, request: Request, mint: Mint) -> Told | Failure:
    """The answer that a request gets."""
    if play.failure is not None:
        return play.failure
    parts = play.parts if thinks(request) else tuple(part for part in play.parts if not isinstance(part, Thinking))
    response = finished(answer_to(request, parts, mint), request, mint)
    told = _streamed(response, play, request, mint) if request.stream else _whole(response, play, request, mint)
    return told if isinstance(told, Failure) else replace(told, wait=told.wait + play.wait)


def _whole(response: Response, play: Play, request: Request, mint: Mint) -> Told | Failure:
    if play.ending is Ending.FAILS:
        return replace(_OVERLOADED, status=529 if request.origin == MESSAGES else 503)
    written = encode(codec_of(request.origin).encode_response(response, asked_of(request), mint, Ledger()))
    # A service generates first and answers then.
    wait = play.pace * (response.usage.output if response.usage is not None else 0)
    breaks = play.ending is Ending.BREAKS
    sent = written[: len(written) // 2] if breaks else written
    return Told(body=decode_object(written), pieces=[(0.0, sent)], wait=wait, breaks=breaks)


def _streamed(response: Response, play: Play, request: Request, mint: Mint) -> Told:
    pieces = list(_frames(response, play, request, mint))
    if request.origin == MESSAGES and response.usage is not None:
        # The service has counted its input by the time it begins.
        rest, first = pieces[0]
        pieces[0] = (rest, first.replace(b'"input_tokens":0', b'"input_tokens":%d' % (response.usage.input or 0), 1))
    last = _last_response(pieces) if request.origin == RESPONSES else None
    if last is None:
        whole = codec_of(request.origin).encode_response(response, asked_of(request), mint, Ledger())
        last = decode_object(encode(whole))
    return Told(body=last, pieces=pieces, streamed=True, breaks=play.ending is Ending.BREAKS)


def _frames(response: Response, play: Play, request: Request, mint: Mint) -> Iterator[Piece]:
    """The stream, event by event; before the tokens there is a rest."""
    encoder = codec_of(request.origin).stream_encoder(asked_of(request), mint, Ledger())
    said = 0
    for event in events_of(response):
        is_token = isinstance(event, PartGrew) and isinstance(event.delta, TextDelta | ArgumentsDelta)
        is_time = (is_token and said >= _FEW) or isinstance(event, PartEnded | Stopped)
        if is_time and play.ending is not Ending.WHOLE:
            if play.ending is Ending.FAILS:
                yield 0.0, encoder.feed(Failed(_OVERLOADED))
            return
        said += is_token
        frames = encoder.feed(event)
        if frames:
            yield play.pace if is_token else 0.0, frames


def _last_response(pieces: list[Piece]) -> JsonObject | None:
    """The response as the last event of its stream tells it, with the ids that the stream gave its items."""
    for _, frames in reversed(pieces):
        for frame in reversed(frames.split(b"\n\n")):
            data = frame.partition(b"data: ")[2]
            value = decode(data) if data.startswith(b"{") else None
            if isinstance(value, dict) and value.get("type") in _LAST_EVENTS:
                response = value.get("response")
                return response if isinstance(response, dict) else None
    return None
