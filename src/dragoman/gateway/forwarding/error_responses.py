"""Reply parts: errors in the client's own envelope, and the headers that go with every answer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from dragoman.errors import (
    ClientError,
    ConfigError,
    DragomanError,
    KeyBusy,
    KeysUnreadable,
    OffloadBusy,
    Overloaded,
    TimedOut,
    TooLong,
    UnknownKeysLimited,
    UpstreamError,
)
from dragoman.gateway.forwarding.header_forwarding import MAX_VALUE_LENGTH, safe
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.paths import CHAT, MESSAGES
from dragoman.http.upstream_call import HeaderList
from dragoman.model.failure import Failure, FailureKind
from dragoman.translate import LossLine, TranslatedResponse, heaviest_first, translate_failure

JSON = (b"content-type", b"application/json")
EVENT_STREAM: HeaderList = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    # Proxies in front of us must not collect a stream.
    (b"x-accel-buffering", b"no"),
]
_LOSSES = b"x-dragoman-losses"
_ROUTE = b"x-dragoman-route"
_ADVICE = b"x-dragoman-advice"
_ADVICE_LIMIT = 500
NO_LOSSES: tuple[bytes, bytes] = (_LOSSES, b"none")
# The target is not known yet.
PENDING: tuple[bytes, bytes] = (_ROUTE, b"pending")
# Proxies refuse header lines that are much longer.
_LOSSES_LIMIT = 2000
# More of them do not fit in, however short they are.
_MAX_LOSSES = 200
# Clients that retry after a 5xx or a 404, whatever the headers state, by the start of their user agents (decision 29).
_AGENTS = ("claude-cli/", "codex", "opencode/")

_CLIENT_KINDS: dict[int, FailureKind] = {
    400: FailureKind.INVALID,
    401: FailureKind.UNAUTHENTICATED,
    403: FailureKind.FORBIDDEN,
    404: FailureKind.NOT_FOUND,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    415: FailureKind.BAD_CODING,
    429: FailureKind.RATE_LIMITED,
    500: FailureKind.INTERNAL,
}


def failure_of(error: DragomanError) -> Failure | None:
    """The gateway's own error as a failure; None for an error in the request's body, which the library words."""
    if isinstance(error, ClientError):
        kind = _CLIENT_KINDS.get(error.status, FailureKind.OTHER)
        # Only models have a code of their own for "not found"; a path has none.
        native = "invalid_request_error" if kind is FailureKind.NOT_FOUND else ""
        return Failure(
            kind=kind, status=error.status, message=error.message, native=native, param=error.param, code=error.code
        )
    if isinstance(error, UnknownModel):
        return Failure(kind=FailureKind.NOT_FOUND, status=404, message=error.advice.client, param="model")
    if isinstance(error, Overloaded | OffloadBusy | KeysUnreadable):
        return Failure(kind=FailureKind.OVERLOADED, status=503, message=str(error))
    if isinstance(error, KeyBusy | UnknownKeysLimited):
        return Failure(kind=FailureKind.RATE_LIMITED, status=429, message=str(error))
    if isinstance(error, TooLong):
        return Failure(kind=FailureKind.CONTEXT_OVERFLOW, status=400, message=str(error))
    if isinstance(error, TimedOut):
        return Failure(kind=FailureKind.TIMEOUT, status=504, message=str(error))
    if isinstance(error, UpstreamError):
        return Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
    if isinstance(error, ConfigError):
        # Its words name files and settings, which are the operator's alone.
        return Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider is not configured completely")
    return None


def encode_error(
    error: DragomanError | Failure, protocol: str, request_id: str, *, program: str = "", is_permanent: bool = False
) -> TranslatedResponse:
    """An error in the client's protocol; if unknown, in OpenAI's. An `is_permanent` error, an unknown model, and a
    provider that refuses the gateway's key get a status after which agents do not retry: they heed no header, and call
    a 502 temporary."""
    failure = error if isinstance(error, Failure) else failure_of(error) or error
    if isinstance(failure, Failure) and program.startswith(_AGENTS):
        is_missing = failure.kind is FailureKind.NOT_FOUND and failure.param == "model"
        is_final = is_permanent or is_missing or failure.kind is FailureKind.UPSTREAM_AUTH
        failure = replace(failure, kind=FailureKind.PERMANENT) if is_final else failure
    return translate_failure(failure, target=protocol or CHAT, request_id=request_id)


def id_header(protocol: str, request_id: str) -> tuple[bytes, bytes]:
    """The exchange's id under the name that the client's SDK looks for."""
    return (b"request-id" if protocol == MESSAGES else b"x-request-id", request_id.encode())


def route_header(provider: str, model: str, protocol: str, policy: str = "", attempts: int = 0) -> tuple[bytes, bytes]:
    """Provider, model and protocol that answered; of several targets also policy and attempt number."""
    return (_remembered if len(model) <= _REMEMBERED else _route_header)(provider, model, protocol, policy, attempts)


def _route_header(provider: str, model: str, protocol: str, policy: str, attempts: int) -> tuple[bytes, bytes]:
    # A model's name must not pose as the protocol.
    named = safe(f"{provider}/{model}").replace(b";", b"%3B")
    value = b"%b; protocol=%b" % (named, protocol.encode())
    if policy:
        value += b"; policy=%b" % policy.encode()
    return (_ROUTE, b"%b; attempts=%d" % (value, attempts) if policy or attempts else value)


# Names come from outside. Many long ones must not fill the memory.
_REMEMBERED = 256
_remembered = lru_cache(maxsize=1024)(_route_header)


def advice_header(text: str) -> tuple[bytes, bytes]:
    """The advice for an error whose body is the provider's."""
    return (_ADVICE, safe(text, _ADVICE_LIMIT))


def losses_header(losses: Sequence[LossLine]) -> tuple[bytes, bytes]:
    """The ledger in short: `dropped:sampling@sampling.seed, …`. Of the rest, bookkeeping is cut first, and counted."""
    if not losses:
        return NO_LOSSES
    text = _joined(losses)
    if len(text) <= _LOSSES_LIMIT and len(losses) <= _MAX_LOSSES:
        return (_LOSSES, text[:-2].encode())
    text = _joined(heaviest_first(losses))
    truncated = text[: text.rfind(", ", 0, _LOSSES_LIMIT) + 2]
    return (_LOSSES, f"{truncated}+{len(losses) - truncated.count(', ')} more".encode())


def _joined(losses: Sequence[LossLine]) -> str:
    """As many losses as the header may have, each with a comma and a blank behind it."""
    parts = [f"{loss['fate']}:{loss['feature']}@{loss['at']}" for loss in losses[:_MAX_LOSSES]]
    text = ", ".join(parts)
    is_plain = text.isascii() and text.isprintable() and text.count(",") < len(parts)
    if not is_plain or max(map(len, parts)) > MAX_VALUE_LENGTH:
        text = ", ".join([safe(part).replace(b",", b"%2C").decode() for part in parts])
    return text + ", "
