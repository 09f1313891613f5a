"""Failure classification: derives the outcome of an attempt from the gateway's own error or a provider's failure. The
first match wins: code or type, then the kind that the codec found, then the status."""

from __future__ import annotations

from dragoman.errors import (
    BadResponse,
    ConfigError,
    DragomanError,
    Exhausted,
    Overdue,
    Overloaded,
    Oversized,
    Stalled,
    TimedOut,
    Truncated,
    Unanswered,
    Unconfigured,
    Unconnected,
    Unreachable,
    Unresolved,
    UpstreamError,
)
from dragoman.model.failure import Failure, FailureKind
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.rules.failures import is_flagged

# The first match wins, so subclasses precede their parents. Other errors concern the gateway, or the client.
_ERRORS: tuple[tuple[type[DragomanError], AttemptOutcome], ...] = (
    (Unconfigured, AttemptOutcome.INVALID_KEY),
    (ConfigError, AttemptOutcome.INVALID_KEY),
    (Exhausted, AttemptOutcome.GATEWAY_ERROR),
    (Unresolved, AttemptOutcome.UNRESOLVED),
    # The request was sent, and it is unknown whether it was processed.
    (Unanswered, AttemptOutcome.STREAM_BROKEN),
    (Unreachable, AttemptOutcome.UNREACHABLE),
    (Unconnected, AttemptOutcome.UNREACHABLE),
    (Stalled, AttemptOutcome.STREAM_BROKEN),
    (TimedOut, AttemptOutcome.FIRST_BYTE_TIMEOUT),
    (Truncated, AttemptOutcome.STREAM_BROKEN),
    # The gateway's limit, which a response of another target would exceed, too.
    (Oversized, AttemptOutcome.GATEWAY_ERROR),
    # A response is billed, whether readable or not.
    (BadResponse, AttemptOutcome.UNREADABLE),
    (UpstreamError, AttemptOutcome.CONNECTION_LOST),
)

_KINDS: dict[FailureKind, AttemptOutcome] = {
    FailureKind.INVALID: AttemptOutcome.INVALID_REQUEST,
    FailureKind.CONTEXT_OVERFLOW: AttemptOutcome.CONTEXT_LENGTH_EXCEEDED,
    FailureKind.UNSUPPORTED: AttemptOutcome.INVALID_REQUEST,
    FailureKind.UNAUTHENTICATED: AttemptOutcome.INVALID_KEY,
    FailureKind.QUOTA: AttemptOutcome.INSUFFICIENT_QUOTA,
    FailureKind.FORBIDDEN: AttemptOutcome.FORBIDDEN,
    FailureKind.NOT_FOUND: AttemptOutcome.INVALID_REQUEST,
    FailureKind.CONFLICT: AttemptOutcome.INVALID_REQUEST,
    FailureKind.TOO_LARGE: AttemptOutcome.INVALID_REQUEST,
    FailureKind.UNPROCESSABLE: AttemptOutcome.INVALID_REQUEST,
    FailureKind.RATE_LIMITED: AttemptOutcome.RATE_LIMITED,
    FailureKind.INTERNAL: AttemptOutcome.CONNECTION_LOST,
    FailureKind.BAD_GATEWAY: AttemptOutcome.CONNECTION_LOST,
    FailureKind.UPSTREAM_AUTH: AttemptOutcome.INVALID_KEY,
    FailureKind.BAD_CODING: AttemptOutcome.INVALID_REQUEST,
    FailureKind.OVERLOADED: AttemptOutcome.OVERLOADED,
    FailureKind.TIMEOUT: AttemptOutcome.FIRST_BYTE_TIMEOUT,
    # Another gateway has the same problem.
    FailureKind.PERMANENT: AttemptOutcome.UNREACHABLE,
}
# Statuses with another meaning than their class.
_STATUSES: dict[int, AttemptOutcome] = {
    408: AttemptOutcome.CONNECTION_LOST,
    425: AttemptOutcome.CONNECTION_LOST,
    503: AttemptOutcome.OVERLOADED,
    # A proxy in front of the server gave up. The server may still be working.
    504: AttemptOutcome.FIRST_BYTE_TIMEOUT,
    524: AttemptOutcome.FIRST_BYTE_TIMEOUT,
    529: AttemptOutcome.OVERLOADED,
}

# Codes and types, in lower case, that are more precise than their status.
_CODES: dict[str, AttemptOutcome] = {
    # A plan is used up, reported as a rate limit.
    "usage_limit_reached": AttemptOutcome.INSUFFICIENT_QUOTA,
    "usage_not_included": AttemptOutcome.INSUFFICIENT_QUOTA,
    "api_key_invalid": AttemptOutcome.INVALID_KEY,
    "invalid_api_key": AttemptOutcome.INVALID_KEY,
    "incorrect_api_key": AttemptOutcome.INVALID_KEY,
    "authentication_error": AttemptOutcome.INVALID_KEY,
    "account_deactivated": AttemptOutcome.INVALID_KEY,
    "content_filter": AttemptOutcome.CONTENT_REFUSED,
    "content_policy_violation": AttemptOutcome.CONTENT_REFUSED,
    "image_content_policy_violation": AttemptOutcome.CONTENT_REFUSED,
    "invalid_prompt": AttemptOutcome.CONTENT_REFUSED,
    "bio_policy": AttemptOutcome.CONTENT_REFUSED,
    "cyber_policy": AttemptOutcome.CONTENT_REFUSED,
    "moderation_blocked": AttemptOutcome.CONTENT_REFUSED,
    # DashScope: https://help.aliyun.com/en/model-studio/error-code
    "data_inspection_failed": AttemptOutcome.CONTENT_REFUSED,
    "datainspectionfailed": AttemptOutcome.CONTENT_REFUSED,
    "model_not_found": AttemptOutcome.UNKNOWN_MODEL,
    "model_not_available": AttemptOutcome.UNKNOWN_MODEL,
    "model_not_supported": AttemptOutcome.UNKNOWN_MODEL,
    "unknown_model": AttemptOutcome.UNKNOWN_MODEL,
    "invalid_model": AttemptOutcome.UNKNOWN_MODEL,
    # Azure has deployments instead of models.
    "deploymentnotfound": AttemptOutcome.UNKNOWN_MODEL,
}
# Codes and types, in lower case, that concern the key or its account, never the request.
_KEY_CODES = frozenset(
    {
        "account_deactivated",
        "api_key_disabled",
        "api_key_expired",
        "api_key_invalid",
        "arrearage",
        "authentication_error",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "exceeded_current_quota_error",
        "expiredtokenexception",
        "incorrect_api_key",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_quota",
        "insufficient_user_quota",
        "invalid_api_key",
        "invalid_authentication_error",
        "invalidsignatureexception",
        "key_disabled",
        "organization_deactivated",
        "organization_disabled",
        "token_expired",
        "unrecognizedclientexception",
        "usage_limit_reached",
        "usage_not_included",
    }
)
_OVERLOADED = "overloaded"
# Statuses for which a code may mean overload.
_LIMITS = frozenset({429, 500, 502, 503, 529})

# Outcomes by status, type and message prefix, all of which must match, for errors without a code.
_MESSAGE_PREFIXES: tuple[tuple[int, str, str, AttemptOutcome], ...] = (
    (400, "invalid_request_error", "your credit balance is too low", AttemptOutcome.INSUFFICIENT_QUOTA),
    # Google's servers put the reason into a list.
    (400, "", "api key not valid", AttemptOutcome.INVALID_KEY),
)


def kind_of(
    what: DragomanError | Failure,
    *,
    stream: bool = False,
    content: bool = False,
    cut: bool = False,
    cloud: bool = True,
    non_streaming: bool = False,
) -> AttemptOutcome:
    """The outcome of a failed attempt. `stream`: its stream had started. `content`: content had arrived. `cut`: it got
    less time than its target's timeout. A `cloud` returns 403 for bad credentials only. `non_streaming`: a timeout may
    only mean a long response."""
    kind = _kind(what, stream=stream, content=content, cut=cut)
    if non_streaming and kind is AttemptOutcome.FIRST_BYTE_TIMEOUT:
        return AttemptOutcome.SLOW_RESPONSE
    return AttemptOutcome.INVALID_KEY if cloud and kind is AttemptOutcome.FORBIDDEN else kind


def _kind(what: DragomanError | Failure, *, stream: bool, content: bool, cut: bool) -> AttemptOutcome:
    if isinstance(what, Failure):
        return _kind_of_failure(what, stream=stream, content=content)
    if cut and isinstance(what, Overdue):
        return AttemptOutcome.GATEWAY_ERROR
    if isinstance(what, Overloaded):
        # A request that has waited for the full queue timeout does not wait again.
        return AttemptOutcome.GATEWAY_ERROR if what.waited else AttemptOutcome.QUEUE_FULL
    kind = next((kind for error, kind in _ERRORS if isinstance(what, error)), AttemptOutcome.GATEWAY_ERROR)
    return AttemptOutcome.STREAM_BROKEN if content and kind is not AttemptOutcome.GATEWAY_ERROR else kind


def _kind_of_failure(failure: Failure, *, stream: bool, content: bool) -> AttemptOutcome:
    if content:
        return AttemptOutcome.STREAM_BROKEN
    native = failure.native.lower()
    code = (failure.code or "").lower()
    named = _CODES.get(code) or _CODES.get(native)
    if named is AttemptOutcome.UNKNOWN_MODEL and failure.status == 403:
        # The model exists, but not for this key.
        return AttemptOutcome.INVALID_KEY
    if named is not None:
        return named
    if failure.status in _LIMITS and (_OVERLOADED in code or _OVERLOADED in native):
        return AttemptOutcome.OVERLOADED
    kind = _KINDS.get(failure.kind)
    if kind is AttemptOutcome.FORBIDDEN:
        return _kind_of_ban(failure)
    if kind is AttemptOutcome.INVALID_REQUEST:
        return _kind_of_refusal(failure, native)
    if stream and failure.kind is FailureKind.BAD_GATEWAY and not native and not code:
        # Failures of decoders for broken or unreadable streams.
        return AttemptOutcome.STREAM_BROKEN
    if kind in (None, AttemptOutcome.CONNECTION_LOST, AttemptOutcome.FIRST_BYTE_TIMEOUT):
        kind = _STATUSES.get(failure.status, kind)
    return kind or (AttemptOutcome.INVALID_REQUEST if 400 <= failure.status < 500 else AttemptOutcome.CONNECTION_LOST)


def _kind_of_refusal(failure: Failure, native: str) -> AttemptOutcome:
    message = failure.message[:100].lower()
    for status, error_type, prefix, kind in _MESSAGE_PREFIXES:
        if (failure.status, native) == (status, error_type) and message.startswith(prefix):
            return kind
    if failure.param == "model":
        return AttemptOutcome.UNKNOWN_MODEL
    # On a conversation's path, only the model can be missing, unless the error states otherwise.
    if failure.kind is FailureKind.NOT_FOUND and failure.param is None and failure.code is None:
        return AttemptOutcome.UNKNOWN_MODEL
    return AttemptOutcome.INVALID_REQUEST


def _kind_of_ban(failure: Failure) -> AttemptOutcome:
    if is_key_failure(failure):
        return AttemptOutcome.INVALID_KEY
    return AttemptOutcome.CONTENT_REFUSED if is_flagged(failure) else AttemptOutcome.FORBIDDEN


def is_key_failure(failure: Failure) -> bool:
    """Whether a code or a type means that the key, or its account, was rejected."""
    return (failure.code or "").lower() in _KEY_CODES or failure.native.lower() in _KEY_CODES
