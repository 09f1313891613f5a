"""Trace context: parses clients' `traceparent` and `tracestate` strictly (https://www.w3.org/TR/trace-context-2/), and
derives span IDs. IDs follow from the exchange ID and the number of the call, so that caller and exporter agree
(decision 35)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

PARENT, STATE = b"traceparent", b"tracestate"
# Flags: sampled, and random trace ID. All other flags are reserved and forwarded as zero.
_SAMPLED, _FLAGS = 1, 3
# Later versions may be longer than the current one, which has 55 characters.
_MAX_PARENT_LENGTH = 256
_is_parent = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?").fullmatch
_NO_TRACE, _NO_SPAN = b"0" * 32, b"0" * 16
# Limits of a forwarded state in bytes and members. The longest members are dropped first.
_MAX_STATE_LENGTH = 512
_MAX_MEMBERS = 32
_LARGE_MEMBER = 128
# Longer values are invalid.
_MAX_RECEIVED_STATE_LENGTH = 8192
_member = re.compile(rb"([a-z0-9][a-z0-9_*/@-]{0,255})=[ -+\--<>-~]{0,255}[!-+\--<>-~]").fullmatch


def read_trace_context(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, str]:
    """The trace of a request and its state; "" without a valid one."""
    parents: list[bytes] = []
    states: list[bytes] = []
    for name, value in headers:
        if name == PARENT:
            parents.append(value)
        elif name == STATE:
            states.append(value)
    # With several headers, the right one is unknown.
    parent = read_parent(parents[0]) if len(parents) == 1 else ""
    return (parent, read_state(b",".join(states))) if parent else ("", "")


def read_parent(value: bytes) -> str:
    """A valid `traceparent`, converted to the current version, or ""."""
    match = _is_parent(value) if len(value) <= _MAX_PARENT_LENGTH else None
    if match is None:
        return ""
    version, trace, span, flags, rest = match.groups()
    if version == b"ff" or trace == _NO_TRACE or span == _NO_SPAN or (version == b"00" and rest is not None):
        return ""
    return _written(trace.decode(), span.decode(), int(flags, 16) & _FLAGS)


def read_state(value: bytes) -> str:
    """A valid `tracestate`, shortened for forwarding, or ""."""
    if not value or len(value) > _MAX_RECEIVED_STATE_LENGTH:
        return ""
    members = [member for part in value.split(b",") if (member := part.strip(b" \t"))]
    keys = [match[1] for member in members if (match := _member(member))]
    if len(keys) < len(members) or len(set(keys)) < len(keys) or len(keys) > _MAX_MEMBERS:
        return ""
    length = sum(map(len, members)) + len(members) - 1
    for large in (True, False):
        for at in range(len(members) - 1, -1, -1):
            if length > _MAX_STATE_LENGTH and (len(members[at]) > _LARGE_MEMBER or not large):
                length -= len(members.pop(at)) + 1
    return b",".join(members).decode()


def trace_id_of(exchange: str, parent: str) -> str:
    """The trace of an exchange: its client's, otherwise its own."""
    return parent[3:35] if parent else blake2b(exchange.encode(), digest_size=16).hexdigest()


def span_id_of(exchange: str, call: int | None = None) -> str:
    """The span ID of an exchange, or of one of its calls, counted from 0."""
    named = exchange if call is None else f"{exchange}/{call}"
    return blake2b(named.encode(), digest_size=8).hexdigest()


def is_sampled(exchange: str, parent: str, share: float) -> bool:
    """Whether an exchange is exported: as its client states, otherwise by sample ratio and trace ID."""
    if parent:
        return bool(int(parent[-2:], 16) & _SAMPLED)
    return int(trace_id_of(exchange, "")[16:], 16) < round(share * 2**64)


def parent_of_call(exchange: str, parent: str, call: int, share: float) -> str:
    """The `traceparent` for a provider: the call's own span, or the client's if this exchange is not exported."""
    if is_sampled(exchange, parent, share):
        flags = int(parent[-2:], 16) if parent else _SAMPLED
        return _written(trace_id_of(exchange, parent), span_id_of(exchange, call), flags)
    return parent or _written(trace_id_of(exchange, ""), span_id_of(exchange, call), 0)


def _written(trace: str, span: str, flags: int) -> str:
    return f"00-{trace}-{span}-{flags:02x}"
