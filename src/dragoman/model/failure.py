"""Failure: an error that a provider returned, as a value that the codecs translate like a response."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.model.parts import Extras


class FailureKind(Enum):
    """Error classes of all protocols (mapping.md §21)."""

    INVALID = "invalid"
    CONTEXT_OVERFLOW = "context_overflow"
    UNSUPPORTED = "unsupported"
    UNAUTHENTICATED = "unauthenticated"
    QUOTA = "quota"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    UNPROCESSABLE = "unprocessable"
    RATE_LIMITED = "rate_limited"
    INTERNAL = "internal"
    BAD_GATEWAY = "bad_gateway"
    UPSTREAM_AUTH = "upstream_auth"
    BAD_CODING = "bad_coding"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    # An error of the gateway for which a retry within seconds fails again.
    PERMANENT = "lasting"
    OTHER = "other"


class Failure(Struct, frozen=True, kw_only=True):
    """A provider's error. `native` and `code` are the provider's own type and code."""

    kind: FailureKind
    message: str
    status: int = 500
    native: str = ""
    code: str | None = None
    param: str | None = None
    request_id: str | None = None
    extras: Extras | None = None
