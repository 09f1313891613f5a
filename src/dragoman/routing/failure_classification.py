"""Kinds: which kind of outcome an error of ours, or a failure that a provider answered, is.

First match wins: what the code or type names, then the class that the codec found, then the status.
"""

from __future__ import annotations

from dragoman.errors import (
    BadAnswer,
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
from dragoman.routing.attempt_outcome import Kind
from dragoman.rules.failures import is_flagged

# First match wins, so classes stand before their own parents. What is not here is our own affair, or the client's.
_ERRORS: tuple[tuple[type[DragomanError], Kind], ...] = (
    (Unconfigured, Kind.BAD_KEY),
    (ConfigError, Kind.BAD_KEY),
    (Exhausted, Kind.OURS),
    (Unresolved, Kind.UNRESOLVED),
    # It was sent: whether it was done, nobody knows.
    (Unanswered, Kind.BROKEN),
    (Unreachable, Kind.UNREACHABLE),
    (Unconnected, Kind.UNREACHABLE),
    (Stalled, Kind.BROKEN),
    (TimedOut, Kind.SILENT),
    (Truncated, Kind.BROKEN),
    # Our limit, and the next one would answer as much.
    (Oversized, Kind.OURS),
    # What was answered was worked for, whether anybody can read it or not.
    (BadAnswer, Kind.UNREADABLE),
    (UpstreamError, Kind.NO_ANSWER),
)

# What the codecs tell apart.
_KINDS: dict[FailureKind, Kind] = {
    FailureKind.INVALID: Kind.WRONG_REQUEST,
    FailureKind.CONTEXT_OVERFLOW: Kind.TOO_LONG,
    FailureKind.UNSUPPORTED: Kind.WRONG_REQUEST,
    FailureKind.UNAUTHENTICATED: Kind.BAD_KEY,
    FailureKind.QUOTA: Kind.NO_MONEY,
    FailureKind.FORBIDDEN: Kind.FORBIDDEN,
    FailureKind.NOT_FOUND: Kind.WRONG_REQUEST,
    FailureKind.CONFLICT: Kind.WRONG_REQUEST,
    FailureKind.TOO_LARGE: Kind.WRONG_REQUEST,
    FailureKind.UNPROCESSABLE: Kind.WRONG_REQUEST,
    FailureKind.RATE_LIMITED: Kind.RATE_LIMITED,
    FailureKind.INTERNAL: Kind.NO_ANSWER,
    FailureKind.BAD_GATEWAY: Kind.NO_ANSWER,
    FailureKind.UPSTREAM_AUTH: Kind.BAD_KEY,
    FailureKind.BAD_CODING: Kind.WRONG_REQUEST,
    FailureKind.OVERLOADED: Kind.OVERLOADED,
    FailureKind.TIMEOUT: Kind.SILENT,
    # Another gateway has nobody to ask.
    FailureKind.LASTING: Kind.UNREACHABLE,
}
# Statuses that mean something else than those around them.
_STATUSES: dict[int, Kind] = {
    408: Kind.NO_ANSWER,
    425: Kind.NO_ANSWER,
    503: Kind.OVERLOADED,
    # Whoever stands before the server lost patience with it; it may be at work still.
    504: Kind.SILENT,
    524: Kind.SILENT,
    529: Kind.OVERLOADED,
}

# Codes and types, in small letters, that say more than their status does.
_CODES: dict[str, Kind] = {
    # A plan is used up, which comes as a rate limit.
    "usage_limit_reached": Kind.NO_MONEY,
    "usage_not_included": Kind.NO_MONEY,
    "api_key_invalid": Kind.BAD_KEY,
    "invalid_api_key": Kind.BAD_KEY,
    "incorrect_api_key": Kind.BAD_KEY,
    "authentication_error": Kind.BAD_KEY,
    "account_deactivated": Kind.BAD_KEY,
    "content_filter": Kind.REFUSED,
    "content_policy_violation": Kind.REFUSED,
    "image_content_policy_violation": Kind.REFUSED,
    # What the service takes to be against its rules.
    "invalid_prompt": Kind.REFUSED,
    "bio_policy": Kind.REFUSED,
    "cyber_policy": Kind.REFUSED,
    "moderation_blocked": Kind.REFUSED,
    # DashScope: https://help.aliyun.com/en/model-studio/error-code
    "data_inspection_failed": Kind.REFUSED,
    "datainspectionfailed": Kind.REFUSED,
    "model_not_found": Kind.UNKNOWN_MODEL,
    "model_not_available": Kind.UNKNOWN_MODEL,
    "model_not_supported": Kind.UNKNOWN_MODEL,
    "unknown_model": Kind.UNKNOWN_MODEL,
    "invalid_model": Kind.UNKNOWN_MODEL,
    # Azure has deployments in the place of models.
    "deploymentnotfound": Kind.UNKNOWN_MODEL,
}
# Codes and types, in small letters, that speak of the key or of whose it is, and never of what was asked with it.
_OF_KEYS = frozenset(
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
# The statuses of which a code may say that it is overload.
_LIMITS = frozenset({429, 500, 502, 503, 529})

# Meanings for which a provider has no code: status, type, and how its words begin, all of which must fit.
_WORDS: tuple[tuple[int, str, str, Kind], ...] = (
    (400, "invalid_request_error", "your credit balance is too low", Kind.NO_MONEY),
    # Google's servers, whose reason stands in a list beside.
    (400, "", "api key not valid", Kind.BAD_KEY),
)


def kind_of(
    what: DragomanError | Failure,
    *,
    stream: bool = False,
    content: bool = False,
    cut: bool = False,
    cloud: bool = True,
    whole: bool = False,
) -> Kind:
    """What became of an attempt that broke, or that a provider answered with a failure.

    `stream` says that its stream had begun, `content` that something of an answer had come, and `cut` that there was
    less time left for it than its target is due. A `cloud` forbids by its credentials alone, never for what was said.
    `whole` says that no stream was asked for, so that silence means little.
    """
    kind = _kind(what, stream=stream, content=content, cut=cut)
    if whole and kind is Kind.SILENT:
        return Kind.SLOW
    return Kind.BAD_KEY if cloud and kind is Kind.FORBIDDEN else kind


def _kind(what: DragomanError | Failure, *, stream: bool, content: bool, cut: bool) -> Kind:
    if isinstance(what, Failure):
        return _kind_of_failure(what, stream=stream, content=content)
    if cut and isinstance(what, Overdue):
        return Kind.OURS
    if isinstance(what, Overloaded):
        # Who has waited as long as anybody may does not begin to wait elsewhere.
        return Kind.OURS if what.waited else Kind.FULL
    kind = next((kind for error, kind in _ERRORS if isinstance(what, error)), Kind.OURS)
    return Kind.BROKEN if content and kind is not Kind.OURS else kind


def _kind_of_failure(failure: Failure, *, stream: bool, content: bool) -> Kind:
    if content:
        return Kind.BROKEN
    native = failure.native.lower()
    code = (failure.code or "").lower()
    named = _CODES.get(code) or _CODES.get(native)
    if named is Kind.UNKNOWN_MODEL and failure.status == 403:
        # It is there, but not for this key.
        return Kind.BAD_KEY
    if named is not None:
        return named
    if failure.status in _LIMITS and (_OVERLOADED in code or _OVERLOADED in native):
        return Kind.OVERLOADED
    kind = _KINDS.get(failure.kind)
    if kind is Kind.FORBIDDEN:
        return _kind_of_ban(failure)
    if kind is Kind.WRONG_REQUEST:
        return _kind_of_refusal(failure, native)
    if stream and failure.kind is FailureKind.BAD_GATEWAY and not native and not code:
        # What decoders say of a stream that broke off, or that nobody can read.
        return Kind.BROKEN
    if kind in (None, Kind.NO_ANSWER, Kind.SILENT):
        kind = _STATUSES.get(failure.status, kind)
    return kind or (Kind.WRONG_REQUEST if 400 <= failure.status < 500 else Kind.NO_ANSWER)


def _kind_of_refusal(failure: Failure, native: str) -> Kind:
    message = failure.message[:100].lower()
    for status, said, words, kind in _WORDS:
        if (failure.status, native) == (status, said) and message.startswith(words):
            return kind
    if failure.param == "model":
        return Kind.UNKNOWN_MODEL
    # Where a conversation is put to, nothing but the model can be missing, unless it says what.
    if failure.kind is FailureKind.NOT_FOUND and failure.param is None and failure.code is None:
        return Kind.UNKNOWN_MODEL
    return Kind.WRONG_REQUEST


def _kind_of_ban(failure: Failure) -> Kind:
    if speaks_of_key(failure):
        return Kind.BAD_KEY
    return Kind.REFUSED if is_flagged(failure) else Kind.FORBIDDEN


def speaks_of_key(failure: Failure) -> bool:
    """Whether a code or a type says that it is the key, or its account, that was refused."""
    return (failure.code or "").lower() in _OF_KEYS or failure.native.lower() in _OF_KEYS
