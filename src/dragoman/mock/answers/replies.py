"""Replies: what a call gives, under the status and the headers of a service."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.http.upstream_call import HeaderList
from dragoman.mock.answers.delivery import Delivery, at_once
from dragoman.mock.answers.signatures import CHAT, MESSAGES, RESPONSES
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.codec import Mint
from dragoman.protocols.registry import codec_of
from dragoman.translate import translate_failure
from dragoman.wire.json import encode

_JSON, _STREAM = b"application/json", b"text/event-stream; charset=utf-8"
_REQUEST_ID = {MESSAGES: "request-id", CHAT: "x-request-id", RESPONSES: "x-request-id"}
# In the common form: OpenAI's names, resets in seconds.
_LIMITS = {
    "x-ratelimit-limit-requests": "1000",
    "x-ratelimit-remaining-requests": "999",
    "x-ratelimit-reset-requests": "1",
    "x-ratelimit-limit-tokens": "1000000",
    "x-ratelimit-remaining-tokens": "999000",
    "x-ratelimit-reset-tokens": "1",
}
# Errors that are worth another try, and when.
_RETRIED = {429: b"1", 503: b"1", 529: b"1"}

NOWHERE = Failure(
    kind=FailureKind.NOT_FOUND, status=404, message="There is nothing under this path.", native="invalid_request_error"
)

# What a handler gives: a body, an answer on its way, or what is wrong.
Outcome: TypeAlias = JsonObject | Delivery | Failure


class MockHttpResponse(Struct, frozen=True, kw_only=True):
    """What is sent back."""

    status: int
    headers: HeaderList
    delivery: Delivery


def http_response(outcome: Outcome, protocol: str, request_id: str, mint: Mint) -> MockHttpResponse:
    """What is sent back to a client of a protocol."""
    if isinstance(outcome, Failure):
        return _failed(outcome, protocol, request_id, mint)
    delivery = outcome if isinstance(outcome, Delivery) else at_once(encode(outcome))
    form = _STREAM if delivery.streamed else _JSON
    return MockHttpResponse(status=200, headers=_headers(form, protocol, request_id, mint), delivery=delivery)


def _failed(failure: Failure, protocol: str, request_id: str, mint: Mint) -> MockHttpResponse:
    """An error under the status that was meant, even where a client would be told another."""
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
    """The answer to a method that a path does not take."""
    return Failure(kind=FailureKind.OTHER, status=405, message=f"Not allowed here: {method[:20]}.")


def unreadable(error: WireError | RecursionError) -> Failure:
    """The answer to a body that cannot be read: a value, because an error that is kept keeps whoever raised it."""
    if isinstance(error, RecursionError):
        error = WireError("", "JSON of bounded depth", "nesting beyond the limit")
    path = error.path.lstrip("/").replace("/", ".") or None
    return Failure(kind=FailureKind.INVALID, status=400, message=error.describe("the body"), param=path)
