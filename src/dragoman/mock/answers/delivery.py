"""Delivery: a response as bytes, full or streamed, complete or broken off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.http.upstream_call import HeaderList
from dragoman.mock.answers.models import Ending
from dragoman.mock.answers.response import events_of, translation_context
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.model.events import ArgumentsDelta, Failed, PartEnded, PartGrew, Stopped, TextDelta
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.request import Request
from dragoman.model.response import Response
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.translate import translate_failure
from dragoman.wire.json import encode

# A delay in seconds, and the bytes that follow it.
TimedBytes: TypeAlias = tuple[float, bytes]

# Tokens after which a broken response ends. A shorter one ends before it is complete.
_FEW = 2
_OVERLOADED = Failure(kind=FailureKind.OVERLOADED, status=529, message="Overloaded: you asked for it.")


class Delivery(Struct, frozen=True, kw_only=True):
    """The chunks, after `wait` seconds. `breaks` means that it breaks off. A stream has no `body`."""

    pieces: Iterable[TimedBytes]
    body: bytes = b""
    streamed: bool = False
    wait: float = 0.0
    breaks: bool = False


def deliver(response: Response, request: Request, mint: Mint, *, pace: float, ending: Ending) -> Delivery | Failure:
    """A response in the requested form. `pace` is the time per token."""
    if request.stream:
        pieces = _pieces(response, request, mint, pace, ending)
        # Computed at once, so that an encoding error can still change the status.
        return Delivery(pieces=chain([next(pieces)], pieces), streamed=True, breaks=ending is Ending.BREAKS)
    if ending is Ending.FAILS:
        return replace(_OVERLOADED, status=529 if request.origin == MESSAGES else 503)
    body = written(response, request, mint)
    if ending is Ending.BREAKS:
        return Delivery(pieces=((0.0, body[: len(body) // 2]),), body=body, breaks=True)
    # Like a service, it generates first and responds then.
    wait = pace * (response.usage.output if response.usage is not None else 0)
    return at_once(body, wait)


def at_once(body: bytes, wait: float = 0.0) -> Delivery:
    return Delivery(pieces=((0.0, body),), body=body, wait=wait)


def written(response: Response, request: Request, mint: Mint) -> bytes:
    return encode(codec_of(request.origin).encode_response(response, translation_context(request), mint, Ledger()))


def _pieces(response: Response, request: Request, mint: Mint, pace: float, ending: Ending) -> Iterator[TimedBytes]:
    """Yield the stream event by event, each encoded when it is due, with a delay before the tokens."""
    encoder = codec_of(request.origin).stream_encoder(translation_context(request), mint, Ledger())
    token_count = 0
    for event in events_of(response):
        is_token = isinstance(event, PartGrew) and isinstance(event.delta, TextDelta | ArgumentsDelta)
        is_time = (is_token and token_count >= _FEW) or isinstance(event, PartEnded | Stopped)
        if is_time and ending is not Ending.COMPLETE:
            if ending is Ending.FAILS:
                yield 0.0, encoder.feed(Failed(_OVERLOADED))
            return
        token_count += is_token
        frames = encoder.feed(event)
        if frames:
            yield pace if is_token else 0.0, frames


_JSON, _STREAM = b"application/json", b"text/event-stream; charset=utf-8"
_REQUEST_ID = {MESSAGES: "request-id", CHAT: "x-request-id", RESPONSES: "x-request-id"}
_LIMITS = {
    "x-ratelimit-limit-requests": "1000",
    "x-ratelimit-remaining-requests": "999",
    "x-ratelimit-reset-requests": "1",
    "x-ratelimit-limit-tokens": "1000000",
    "x-ratelimit-remaining-tokens": "999000",
    "x-ratelimit-reset-tokens": "1",
}
# Retry delays by status, for errors that clients should retry.
_RETRIED = {429: b"1", 503: b"1", 529: b"1"}

NOWHERE = Failure(
    kind=FailureKind.NOT_FOUND, status=404, message="There is nothing under this path.", native="invalid_request_error"
)

Outcome: TypeAlias = JsonObject | Delivery | Failure


class MockHttpResponse(Struct, frozen=True, kw_only=True):
    status: int
    headers: HeaderList
    delivery: Delivery


def http_response(outcome: Outcome, protocol: str, request_id: str, mint: Mint) -> MockHttpResponse:
    if isinstance(outcome, Failure):
        return _failed(outcome, protocol, request_id, mint)
    delivery = outcome if isinstance(outcome, Delivery) else at_once(encode(outcome))
    form = _STREAM if delivery.streamed else _JSON
    return MockHttpResponse(status=200, headers=_headers(form, protocol, request_id, mint), delivery=delivery)


def _failed(failure: Failure, protocol: str, request_id: str, mint: Mint) -> MockHttpResponse:
    """An error with its original status, even where the gateway would send another one."""
    response = translate_failure(failure, target=protocol, request_id=request_id)
    headers = _headers(_JSON, protocol, request_id, mint)
    if failure.status in _RETRIED:
        headers.append((b"retry-after", _RETRIED[failure.status]))
    headers += ((name.encode(), value.encode()) for name, value in response.headers.items())
    return MockHttpResponse(status=failure.status, headers=headers, delivery=at_once(response.body))


def _headers(form: bytes, protocol: str, request_id: str, mint: Mint) -> HeaderList:
    headers = {_REQUEST_ID[protocol]: request_id, **codec_of(protocol).encode_limits(_LIMITS, mint.now())}
    return [(b"content-type", form), *((name.encode(), value.encode()) for name, value in headers.items())]


def not_allowed(method: str) -> Failure:
    return Failure(kind=FailureKind.OTHER, status=405, message=f"Not allowed here: {method[:20]}.")


def unreadable(error: WireError | RecursionError) -> Failure:
    """The response to an unreadable body. It is a value, because a stored exception would keep its frames."""
    if isinstance(error, RecursionError):
        error = WireError("", "JSON of bounded depth", "nesting beyond the limit")
    path = error.path.lstrip("/").replace("/", ".") or None
    return Failure(kind=FailureKind.INVALID, status=400, message=error.describe("the body"), param=path)
