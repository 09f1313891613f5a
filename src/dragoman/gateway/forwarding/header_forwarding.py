"""Header forwarding between client and provider, by allow-lists in both directions (mapping.md §2). Never forwarded:
credentials, cookies, proxy headers, and account selection, which is the operator's; of responses also organisation ids
and entity headers, since the body was read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import sha256

from dragoman.gateway.observability.record import Record
from dragoman.gateway.paths import MESSAGES
from dragoman.http.upstream_call import HeaderList
from dragoman.routing.target import Target
from dragoman.telemetry.trace_context import PARENT, STATE, parent_of_call

_VERSION = b"anthropic-version"
_BETA = b"anthropic-beta"
_DEFAULT_VERSION = b"2023-06-01"
# New features travel as new headers: on the same protocol these prefixes are open.
_PASSED_PREFIXES = (b"anthropic-", b"openai-")
_AGENT_PREFIX = b"x-claude-code-"
_WITHHELD = frozenset({b"anthropic-dangerous-direct-browser-access"})
# A client's label for its activity, without effect.
_PASSED = frozenset({b"x-claude-code-session", b"x-claude-code-session-id"})
# Words of header names that select an account or a model, or carry a credential, whole or as a prefix. Any non-letter
# separates words; a feature has no id.
_is_personal = re.compile(
    rb"model|deployment|engine|organi[sz]ation|project|workspace|account|admin|tenant|team|user|owner|customer|billing"
    rb"|impersonat|key|auth|token|secret|credential|passw|cookie"
    rb"|(?<![a-z])(?:org|proj|prj|acct|group|profile|member|behalf|cred|session|subscri|enterprise|company|department"
    rb"|identit|principal|delegat|assume|act[^a-z]?as|bill|bearer|jwt)"
    rb"|(?<![a-z])(?:ids?|uuid|guid)(?![a-z])"
).search
_IDEMPOTENCY = b"idempotency-key"
# Prefixes of headers that need a closer check.
_LOOKED_AT = (*_PASSED_PREFIXES, _AGENT_PREFIX, _IDEMPOTENCY)
# A malformed value would fail the whole request.
_is_beta = re.compile(rb"[A-Za-z0-9._-]+").fullmatch

_RETRY = frozenset({b"retry-after", b"retry-after-ms", b"x-should-retry"})
_LIMIT_PREFIXES = (b"anthropic-ratelimit-", b"anthropic-priority-", b"anthropic-fast-", b"x-ratelimit-")
# Headers of nearly every message that never pass. A look-up costs a tenth of comparing a name with all prefixes.
_COMMON = frozenset(
    b"accept accept-encoding accept-language authorization connection content-length content-type date host keep-alive"
    b" server transfer-encoding user-agent vary via x-api-key x-request-id".split()
)

# A client's parser gives up on headers that are very long, and names from outside may be.
MAX_VALUE_LENGTH = 200
# Maximum headers of a provider's response for a client.
_MAX_RETURNED = 64
# Names of responses that were found to be none of these: most come again with the next response.
_NEVER_RETURNED = set(_COMMON)
_MAX_NAMES = 512
_PROVIDER_REQUEST_IDS = frozenset({b"request-id", b"x-request-id", b"x-amzn-requestid", b"apim-request-id"})


def relayed(headers: HeaderList, names: Collection[bytes], target: Target, owner: bytes) -> HeaderList:
    """The client's headers, by `names`, for a provider of the same protocol; `owner` distinguishes gateway keys."""
    is_messages = target.endpoint.protocol == MESSAGES
    passed: HeaderList = []
    if not is_messages and _COMMON.issuperset(names):
        return passed
    once = b""
    for name, value in headers:
        if name in _COMMON or not name.startswith(_LOOKED_AT):
            continue
        if name == _BETA:
            betas = [beta for beta in (part.strip() for part in value.split(b",")) if _is_beta(beta)]
            if betas:
                passed.append((name, b",".join(betas)))
        elif name == _IDEMPOTENCY:
            # The first of several is the one that counts.
            once = once or value
        elif _is_passed(name, target.provider.anthropic):
            passed.append((name, value))
    if once:
        passed.append((_IDEMPOTENCY, _scoped_idempotency_key(once, target, owner)))
    if is_messages and all(name != _VERSION for name, _ in passed):
        passed.append((_VERSION, _DEFAULT_VERSION))
    return passed


def _is_passed(name: bytes, anthropic: bool) -> bool:
    if name.startswith(_PASSED_PREFIXES) or (anthropic and name.startswith(_AGENT_PREFIX)):
        return name in _PASSED or (name not in _WITHHELD and not _is_personal(name))
    return False


def _scoped_idempotency_key(value: bytes, target: Target, owner: bytes) -> bytes:
    """The idempotency key for the provider: keys of two owners never collide."""
    digest = sha256()
    for part in (owner, target.provider.name.encode(), target.endpoint.base_url.encode(), value):
        digest.update(b"%d:%b" % (len(part), part))
    return digest.hexdigest().encode()


def traced(headers: HeaderList, record: Record, share: float | None) -> HeaderList:
    """The headers with the trace context of the next call; `share` is the sampled ratio, None without telemetry. With
    telemetry the provider names this call as parent; else the client's own trace context is forwarded (decision 35)."""
    if share is not None:
        parent = parent_of_call(record.id, record.trace, len(record.attempts), share)
    elif record.trace:
        parent = record.trace
    else:
        return headers
    traced_headers = [*headers, (PARENT, parent.encode())]
    if record.trace_state:
        traced_headers.append((STATE, record.trace_state.encode()))
    return traced_headers


def written(headers: Mapping[str, str]) -> HeaderList:
    """The headers that a translated body requires."""
    return [(name.encode(), value.encode()) for name, value in headers.items()]


def returned(headers: HeaderList, *, limits: bool) -> HeaderList:
    """The provider's headers that a client of the same protocol gets; rate limits only where they are its own."""
    returned_headers: HeaderList = []
    for name, value in headers:
        if name in _NEVER_RETURNED:
            continue
        is_retry = name in _RETRY
        if not is_retry and not name.startswith(_LIMIT_PREFIXES):
            if len(name) <= MAX_VALUE_LENGTH and len(_NEVER_RETURNED) < _MAX_NAMES:
                _NEVER_RETURNED.add(name)
        elif (is_retry or limits) and len(value) <= MAX_VALUE_LENGTH:
            returned_headers.append((name, value))
    return returned_headers[:_MAX_RETURNED]


def limits_of(headers: HeaderList, *, limits: bool) -> dict[str, str]:
    """The same as text, to be translated for a client of another protocol."""
    passed = returned(headers, limits=limits)
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in passed} if passed else {}


def provider_request_id(headers: HeaderList) -> str:
    """The provider's own id of the exchange, for the record."""
    for name, value in headers:
        if name in _PROVIDER_REQUEST_IDS:
            return value.decode("latin-1")[:120]
    return ""


def safe(text: str, max_length: int = MAX_VALUE_LENGTH) -> bytes:
    """Text from outside as a header value: short, printable ASCII, everything else percent-encoded."""
    text = text[:max_length]
    if text.isascii() and text.isprintable():
        return text.encode()
    return b"".join(
        byte.to_bytes() if 0x20 <= byte < 0x7F and byte != 0x25 else b"%%%02X" % byte
        for byte in text.encode("utf-8", "replace")
    )
