"""Kinds: what became of an attempt, as far as its error or its failure tells."""

from __future__ import annotations

from dragoman.errors import DragomanError, TimedOut, Truncated, Unreachable, UpstreamError
from dragoman.model.failure import Failure, FailureKind
from dragoman.routing.outcomes import Kind

_KINDS: dict[FailureKind, Kind] = {
    FailureKind.CONTEXT_OVERFLOW: Kind.TOO_LONG,
    FailureKind.UNAUTHENTICATED: Kind.BAD_KEY,
    FailureKind.FORBIDDEN: Kind.BAD_KEY,
    FailureKind.UPSTREAM_AUTH: Kind.BAD_KEY,
    FailureKind.QUOTA: Kind.NO_MONEY,
    FailureKind.RATE_LIMITED: Kind.RATE_LIMITED,
    FailureKind.OVERLOADED: Kind.OVERLOADED,
    FailureKind.UNAVAILABLE: Kind.OVERLOADED,
    FailureKind.INTERNAL: Kind.NO_ANSWER,
    FailureKind.BAD_GATEWAY: Kind.NO_ANSWER,
    FailureKind.TIMEOUT: Kind.NO_ANSWER,
}


def kind_of(error: DragomanError | None, failure: Failure) -> Kind:
    """What became of an attempt that failed."""
    match error:
        case None:
            return _KINDS.get(failure.kind, Kind.WRONG_REQUEST)
        case TimedOut():
            return Kind.SILENT
        case Unreachable():
            return Kind.UNREACHABLE
        case Truncated():
            return Kind.BROKEN
        case UpstreamError():
            return Kind.NO_ANSWER
    return Kind.OURS
