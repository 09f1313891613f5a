"""Error bodies of all protocols (mapping.md §21): bytes to `ErrorReport` (`error_body`, `report_of`), then by keywords
and status to `Failure`. Both OpenAI protocols share one error object, so it is encoded here, too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Extras
from dragoman.rules.nested import BESIDE, DEEPEST, MESSAGE_MEMBERS, inner_of, line_of
from dragoman.rules.overflow import CODE as OVERFLOW_CODE
from dragoman.rules.overflow import is_context_overflow
from dragoman.wire.json import decode_lenient, encode_text

ENDED_EARLY = "upstream stream ended unexpectedly"


def bad_gateway(message: str) -> Failure:
    return Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=message)


_MESSAGE_LIMIT = 500
# Maximum length of an error's message and names, because both are searched for secrets.
_MAX_MESSAGE_LENGTH = 16 * 1024
_MAX_NAME_LENGTH = 200


def bounded(failure: Failure) -> Failure:
    fields = failure.extras.fields if failure.extras is not None else {}
    size = len(failure.message) + (len(encode_text(fields)) if fields else 0)
    if (
        size <= _MAX_MESSAGE_LENGTH
        and max(map(len, (failure.native, failure.code or "", failure.param or ""))) <= _MAX_NAME_LENGTH
    ):
        return failure
    return replace(
        failure,
        message=failure.message[:_MAX_MESSAGE_LENGTH],
        native=failure.native[:_MAX_NAME_LENGTH],
        code=failure.code and failure.code[:_MAX_NAME_LENGTH],
        param=failure.param and failure.param[:_MAX_NAME_LENGTH],
        extras=failure.extras if size <= _MAX_MESSAGE_LENGTH else None,
    )


STATUS_KINDS: dict[int, FailureKind] = {
    400: FailureKind.INVALID,
    401: FailureKind.UNAUTHENTICATED,
    402: FailureKind.QUOTA,
    403: FailureKind.FORBIDDEN,
    404: FailureKind.NOT_FOUND,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    415: FailureKind.BAD_CODING,
    422: FailureKind.UNPROCESSABLE,
    429: FailureKind.RATE_LIMITED,
    500: FailureKind.INTERNAL,
    502: FailureKind.BAD_GATEWAY,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}

_QUOTA_KEYWORDS = (
    "quota",
    "billing",
    "credit",
    "spend",
    # MiniMax `insufficient_balance_error`: https://github.com/modelscope/modelscope/issues/1691
    "balance",
    # DashScope `Arrearage`: https://help.aliyun.com/en/model-studio/error-code
    "arrear",
    # Volcengine `AccountOverdueError`: https://www.volcengine.com/docs/82379/1299023
    "overdue",
)
_QUOTA_STATUSES = frozenset({400, 402, 403, 429})
# Quotas that are rates recover by themselves: at DashScope (https://github.com/can1357/oh-my-pi/pull/8476) and Cerebras
# (https://github.com/anomalyco/opencode/issues/7463).
_RATE_KEYWORDS = ("throttling", "error-code#token-limit", "per minute limit exceeded")
# Z.ai reports it only in the message, with a 429 (https://docs.z.ai/api-reference/api-code), MiniMax's Messages
# endpoint even with a 500 (https://github.com/MiniMax-AI/MiniMax-M2/issues/62).
_no_balance = re.compile(r"\s*insufficient balance\b", re.IGNORECASE).match

# Keywords in the code or type of an error without a status, and the corresponding status (O2). The first match counts:
# a code like `image_file_not_found` concerns the request, and errors of all kinds are called `invalid_…`.
_STATUS_KEYWORDS: tuple[tuple[str, int], ...] = (
    ("image", 400),
    ("context_length", 400),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("slow_down", 429),
    ("quota", 429),
    ("billing", 402),
    ("credit", 402),
    ("spend", 402),
    ("balance", 402),
    ("arrear", 402),
    ("overdue", 402),
    ("overloaded", 503),
    ("unavailable", 503),
    ("authentication", 401),
    ("api_key", 401),
    ("permission", 403),
    ("not_found", 404),
    ("conflict", 409),
    ("too_large", 413),
    ("timeout", 504),
    ("bio_policy", 400),
    ("unsupported", 400),
    ("invalid_", 400),
)


class ErrorReport(Struct, frozen=True, kw_only=True):
    """An error body before classification. The message is never empty. `within` is an embedded error."""

    status: int
    message: str
    native: str
    code: str | None
    param: str | None
    within: ErrorReport | None = None


def error_body(raw: bytes | JsonObject) -> JsonObject:
    """An error response as an object. If it is no JSON object, its first characters become the message."""
    if isinstance(raw, dict):
        return raw
    try:
        value = decode_lenient(raw)
    except WireError:
        value = None
    if isinstance(value, list) and value and isinstance(value[0], dict):
        # Google's servers return a list of errors, usually with one element.
        value = value[0]
    if isinstance(value, str) or (isinstance(value, list) and value and isinstance(value[0], str)):
        value = {"message": line_of(value)[:_MESSAGE_LIMIT]}
    if isinstance(value, dict):
        return value
    # UTF-8 has up to four bytes per character, and the body may be a long page.
    return {"message": raw.strip()[: _MESSAGE_LIMIT * 4].decode("utf-8", "replace")[:_MESSAGE_LIMIT]}


def error_of(body: JsonObject) -> JsonObject:
    error = body.get("error")
    return error if isinstance(error, dict) else body


def report_of(
    body: JsonObject, status: int | None, statuses: Mapping[str, int], code: str | None = None, depth: int = DEEPEST
) -> ErrorReport:
    """Read an error of any shape, with embedded errors. Without a status of the response (O2), the error's own status
    counts, else that of its keywords: by `statuses`, then the general ones, or an embedded error's. `code` overrides
    the usual code."""
    error = error_of(body)
    native, param = _text(error.get("type")), _text(error.get("param"))
    # `error` is the name of the stream event, not a type.
    native = native if native != "error" else ""
    code = code or _code(error.get("code"))
    message = _message(error, body)
    inner = inner_of(error, body, message) if depth else None
    if status is None:
        status = _own_status(error, body) or _status_by_keywords(code or "", native, statuses)
    within = None
    if inner is not None:
        own = _own_status(error_of(inner.body), inner.body)
        # A proxy's status does not describe the embedded error.
        inner_status = own or (status if status is not None and status < 500 else None)
        within = report_of(inner.body, inner_status, statuses, depth=depth - 1)
        inner_message = within.message if within.message != silent(within.status) else ""
        message = inner.joined(message, inner_message)
        native, code, param = native or within.native, code or within.code, param or within.param or ""
        status = status or within.status
    if status is None:
        # Without a status, only a context overflow is recognised by its text alone.
        status = 400 if is_context_overflow(400, code, message) else 500
    return ErrorReport(
        status=status, message=message or silent(status), native=native, code=code, param=param or None, within=within
    )


def silent(status: int) -> str:
    return f"upstream answered {status}"


def kind_by_keywords(report: ErrorReport) -> FailureKind | None:
    """The failure kind by the keywords of an error in any protocol, if any match."""
    if is_context_overflow(report.status, report.code, report.message):
        return FailureKind.CONTEXT_OVERFLOW
    if _no_balance(report.message):
        return FailureKind.QUOTA
    if report.status in _QUOTA_STATUSES:
        named = f"{report.native} {report.code or ''}".lower()
        if any(word in named for word in _QUOTA_KEYWORDS):
            searched = f"{named} {report.message[:_MESSAGE_LIMIT].lower()}"
            return FailureKind.RATE_LIMITED if any(word in searched for word in _RATE_KEYWORDS) else FailureKind.QUOTA
    return kind_by_keywords(report.within) if report.within is not None else None


def _message(error: JsonObject, body: JsonObject) -> str:
    member = body.get("error")
    bare_error = member if isinstance(member, str | list) else None
    inner = error.get("error")
    nested = inner.get("message") if isinstance(inner, dict) else inner
    # AWS's gateway capitalises it. Next to a message, `error` is only its name.
    flat = (body.get(name) for name in MESSAGE_MEMBERS)
    places = (
        *(error.get(name) for name in MESSAGE_MEMBERS if error is not body or bare_error is None or name in BESIDE),
        bare_error,
        *flat,
    )
    for value in (*places, nested if error is not body else None, error.get("errors"), body.get("errors")):
        text = line_of(value)
        if text and not text.isspace():
            return text
    return ""


def _own_status(error: JsonObject, body: JsonObject) -> int | None:
    for where in (error, body):
        for name in ("code", "status", "status_code"):
            status = _as_status(where.get(name))
            if status is not None:
                return status
    return None


def _as_status(value: JsonValue) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599 else None


def _status_by_keywords(code: str, native: str, statuses: Mapping[str, int]) -> int | None:
    for name in (code.lower(), native.lower()):
        if name in statuses:
            return statuses[name]
        for word, status in _STATUS_KEYWORDS:
            if word in name:
                return status
    return None


def _code(value: JsonValue) -> str | None:
    """A code as text. A code that only repeats a status is ignored."""
    if isinstance(value, bool) or not isinstance(value, str | int) or _as_status(value) is not None:
        return None
    return str(value) or None


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


# The server whose members next to the error are read.
_ROUTER = "openrouter"
_INVALID = "invalid_request_error"
_SERVER = "server_error"

OPENAI_ERRORS: dict[FailureKind, tuple[int, str, str | None]] = {
    FailureKind.INVALID: (400, _INVALID, None),
    FailureKind.CONTEXT_OVERFLOW: (400, _INVALID, OVERFLOW_CODE),
    FailureKind.UNSUPPORTED: (400, _INVALID, "unsupported_parameter"),
    FailureKind.UNAUTHENTICATED: (401, _INVALID, "invalid_api_key"),
    FailureKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    FailureKind.FORBIDDEN: (403, _INVALID, "permission_denied"),
    FailureKind.NOT_FOUND: (404, _INVALID, "model_not_found"),
    FailureKind.CONFLICT: (409, _INVALID, "conflict"),
    FailureKind.TOO_LARGE: (413, _INVALID, "request_too_large"),
    FailureKind.UNPROCESSABLE: (422, _INVALID, None),
    FailureKind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    FailureKind.INTERNAL: (500, _SERVER, None),
    FailureKind.BAD_GATEWAY: (502, _SERVER, "upstream_error"),
    # Never 401 or 403, because clients would suspect their own key. `x-should-retry: false` is sent with it.
    FailureKind.UPSTREAM_AUTH: (502, _SERVER, "upstream_auth"),
    FailureKind.BAD_CODING: (415, _INVALID, "unsupported_encoding"),
    FailureKind.OVERLOADED: (503, "service_unavailable_error", "server_is_overloaded"),
    FailureKind.UNAVAILABLE: (503, _SERVER, None),
    FailureKind.TIMEOUT: (504, _SERVER, "timeout"),
    # The only status after which no agent retries (decision 29).
    FailureKind.PERMANENT: (400, _INVALID, "provider_not_ready"),
}
_OPENAI_STATUSES = {code: status for status, _, code in OPENAI_ERRORS.values() if code is not None}
_OPENAI_KINDS: dict[tuple[int, str | None], FailureKind] = {
    (OPENAI_ERRORS[kind][0], OPENAI_ERRORS[kind][2]): kind
    for kind in (FailureKind.UNSUPPORTED, FailureKind.UPSTREAM_AUTH, FailureKind.PERMANENT)
}
# Codes that stay unchanged, because clients act on them.
_OPENAI_CODES = frozenset({(FailureKind.RATE_LIMITED, "slow_down"), (FailureKind.CONFLICT, "conversation_locked")})


def openai_failure(body: JsonObject, status: int | None) -> Failure:
    """The failure for an error in OpenAI's protocols. An error inside a successful response has no status (O2)."""
    report = report_of(body, status, _OPENAI_STATUSES)
    kind = (
        kind_by_keywords(report)
        or _OPENAI_KINDS.get((report.status, report.code))
        or STATUS_KINDS.get(report.status, FailureKind.OTHER)
    )
    return Failure(
        kind=kind,
        message=report.message,
        status=report.status,
        native=report.native,
        code=report.code,
        param=report.param,
        extras=_moderation_of(error_of(body).get("metadata")),
    )


def _moderation_of(metadata: JsonValue) -> Extras | None:
    """The reasons for which OpenRouter's own moderation stopped the content, without the content."""
    reasons = metadata.get("reasons") if isinstance(metadata, dict) else None
    if not isinstance(reasons, list) or not reasons or not all(isinstance(reason, str) for reason in reasons):
        return None
    return Extras(origin=_ROUTER, fields={"metadata": {"reasons": reasons}})


def is_flagged(failure: Failure) -> bool:
    """Whether a content check of OpenRouter stopped the request."""
    return failure.extras is not None and failure.extras.origin == _ROUTER


def openai_error(failure: Failure) -> tuple[int, JsonObject]:
    row = OPENAI_ERRORS.get(failure.kind)
    if row is None:
        status = failure.status if 400 <= failure.status <= 599 else 500
        row = (status, _INVALID if status < 500 else _SERVER, None)
    status, error_type, code = row
    if code is None or (failure.kind, failure.code) in _OPENAI_CODES:
        code = failure.code
    elif failure.kind is FailureKind.NOT_FOUND and failure.code is None and failure.native == _INVALID:
        # These servers send the code themselves if it means a model.
        code = None
    message = failure.message or silent(failure.status)
    return status, {"message": message, "type": error_type, "param": failure.param, "code": code}


def decode_openai_failure(status: int, body: bytes | JsonObject) -> Failure:
    return openai_failure(error_body(body), status)


def encode_openai_failure(failure: Failure, request_id: str | None = None) -> tuple[int, JsonObject]:
    """Status and body of an error response in OpenAI's protocols. The request ID is sent in a header."""
    del request_id
    status, error = openai_error(failure)
    return status, {"error": error}
