"""Admin framework: the definition of an endpoint, and the parsing and encoding of parameters, bodies and errors.

`endpoint` makes one row of the table in `endpoints.py`. Parameters and bodies are structs: unknown members are
rejected, `null` removes a value, and an absent member (`UNSET`) leaves it unchanged."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from dragoman.errors import ClientError, DragomanError
from dragoman.gateway.forwarding.error_responses import JSON
from dragoman.gateway.forwarding.provider_request import receive
from dragoman.gateway.observability.metrics import Snapshot
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import name_of
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import ADMIN, CLIENT, VIEWER, Identity
from dragoman.identities.key_text import has_key_text
from dragoman.wire.duplicate_keys import OBJECT, ambiguous

if TYPE_CHECKING:
    from dragoman.gateway.admin.key_database import KeyDatabase
    from dragoman.gateway.admin.live_events import LiveEvents
    from dragoman.gateway.admin.query_runner import QueryRunner

P = TypeVar("P", bound=Struct)
B = TypeVar("B", bound=Struct)
R = TypeVar("R", bound=Struct)

PREFIX = "/admin/v1"
NO_STORE = (b"cache-control", b"no-store")
# Maximum query parameters of a request, and maximum bytes of a body.
_MAX_PARAMETERS = 32
_MAX_BODY_BYTES = 256 * 1024
_RANKS = {CLIENT: 0, VIEWER: 1, ADMIN: 2}
_NEEDED = {VIEWER: f"a key with the role {VIEWER} or {ADMIN}", ADMIN: f"a key with the role {ADMIN}"}
# Member types in error messages, by their names in messages of the decoder.
_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "datetime": "an RFC 3339 time",
}
_types = re.compile("`([a-z |]+)`").sub
# Machine-readable error types by status.
ERROR_TYPES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    412: "precondition_failed",
    413: "too_large",
    428: "precondition_required",
    429: "busy",
    503: "unavailable",
    504: "query_too_long",
}
_INTERNAL = "internal"
# Remedies for errors that occur in the entire gateway.
_REMEDIES = {
    401: "send a key that is in force; an administrator makes one with dragoman key new",
    408: "send the request again",
    413: "send a smaller body",
    429: "try again later",
    503: "try again later",
}


class AdminError(DragomanError):
    """A rejected request of the admin API: status, problem and remedy."""

    def __init__(self, status: int, message: str, remedy: str = "", *, headers: HeaderList | None = None) -> None:
        self.status = status
        self.message = message
        self.remedy = remedy
        self.headers: HeaderList = headers or []
        super().__init__(message)


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters, or no body."""


class ErrorDetail(Struct, frozen=True, kw_only=True):
    """The problem: a machine-readable type, a sentence, and the remedy."""

    type: str
    message: str
    remedy: str


class ErrorBody(Struct, frozen=True, kw_only=True):
    error: ErrorDetail


class AdminServices(Struct, frozen=True, kw_only=True):
    """Services for endpoints besides the runtime. They survive changes of the configuration."""

    queries: QueryRunner
    keys: KeyDatabase
    events: LiveEvents
    # The current time in microseconds.
    now: Callable[[], int]
    # The counts of all workers, this one first.
    snapshots: Callable[[], Awaitable[list[Snapshot]]]


class AdminCall(Struct, frozen=True, kw_only=True):
    """One request of the admin API, and its client. `role` is that of the key, but `client` below `/me`. A client of
    this machine has the role `viewer` if the gateway requires no keys."""

    runtime: Runtime
    services: AdminServices
    request: ServerRequest
    identity: Identity | None
    role: str
    # The path parameters.
    path: Mapping[str, str]
    # Response headers in addition to the usual ones.
    headers: HeaderList
    # Whether the request would still be admitted, for long responses.
    is_current: Callable[[], bool]

    @property
    def name(self) -> str:
        return name_of(self.identity)

    @property
    def is_client(self) -> bool:
        """Whether the caller may read only the records of its own key."""
        return self.role == CLIENT

    def send(self, body: bytes, status: int = 200) -> None:
        self.request.respond(status, [JSON, NO_STORE, *self.headers], body)


class AdminEndpoint(Struct, frozen=True, kw_only=True):
    """One row of the table. `path` follows `/admin/v1`; `{id}` in it matches one segment."""

    # The name in generated clients: that of its handler.
    name: str
    method: str
    path: str
    # The minimum role.
    role: str
    summary: str
    parameters: type[Struct]
    body: type[Struct] | None
    # None for a stream of events.
    result: type[Struct] | None
    serve: Callable[[AdminCall], Awaitable[None]]
    # The status of a successful response.
    status: int = 200
    # Whether the header `If-Match` is required.
    needs_match: bool = False


def endpoint(
    method: str,
    path: str,
    role: str,
    summary: str,
    handler: Callable[[AdminCall, P], Awaitable[R | Raw]],
    parameters: type[P],
    result: type[R],
    *,
    needs_match: bool = False,
) -> AdminEndpoint:
    async def serve(call: AdminCall) -> None:
        answer = await handler(call, read_parameters(call.request.query, parameters))
        call.send(_encode(answer))

    return AdminEndpoint(
        name=handler.__name__,
        method=method,
        path=path,
        role=role,
        summary=summary,
        parameters=parameters,
        body=None,
        result=result,
        serve=serve,
        needs_match=needs_match,
    )


def of_calling_key(each: AdminEndpoint) -> AdminEndpoint:
    """An endpoint of records below `/me`: only those of the calling key, whatever its role."""

    async def serve(call: AdminCall) -> None:
        await each.serve(replace(call, role=CLIENT))

    verb, _, noun = each.name.partition("_")
    return replace(each, name=f"{verb}_own_{noun}", path=f"/me{each.path}", summary=f"own {each.summary}", serve=serve)


def endpoint_with_body(
    method: str,
    path: str,
    role: str,
    summary: str,
    handler: Callable[[AdminCall, B], Awaitable[R]],
    body: type[B],
    result: type[R],
    *,
    status: int = 200,
    needs_match: bool = False,
) -> AdminEndpoint:
    """An endpoint with a body and without query parameters."""

    async def serve(call: AdminCall) -> None:
        read_parameters(call.request.query, Nothing)
        answer = await handler(call, await read_body(call, body))
        call.send(_encode(answer), status)

    return AdminEndpoint(
        name=handler.__name__,
        method=method,
        path=path,
        role=role,
        summary=summary,
        parameters=Nothing,
        body=body,
        result=result,
        serve=serve,
        status=status,
        needs_match=needs_match,
    )


def event_stream(
    path: str,
    role: str,
    summary: str,
    handler: Callable[[AdminCall, P], Awaitable[None]],
    parameters: type[P],
) -> AdminEndpoint:
    """An endpoint whose response is a stream of server-sent events."""

    async def serve(call: AdminCall) -> None:
        await handler(call, read_parameters(call.request.query, parameters))

    return AdminEndpoint(
        name=handler.__name__,
        method="GET",
        path=path,
        role=role,
        summary=summary,
        parameters=parameters,
        body=None,
        result=None,
        serve=serve,
    )


def read_parameters(query: str, kind: type[P]) -> P:
    """Parse the query. Unknown, repeated and unnamed parameters are rejected."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), max_num_fields=_MAX_PARAMETERS)
    except ValueError:
        raise AdminError(400, "the query is not a list of name=value", "separate parameters with &") from None
    values: dict[str, str] = {}
    fields = kind.__struct_encode_fields__
    for name, value in pairs:
        if name not in fields:
            raise AdminError(400, "the query has a parameter that this path does not know", _known(fields))
        if name in values:
            raise AdminError(400, f"the parameter {name} is given twice", "give it once")
        values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise AdminError(400, _invalid("the query", error), "see /admin/v1/openapi.json") from None


async def read_body(call: AdminCall, kind: type[B]) -> B:
    """Parse the body: a JSON object without unknown members."""
    assert kind.__struct_config__.forbid_unknown_fields, kind
    try:
        body = await receive(call.runtime, call.request, call.name, _MAX_BODY_BYTES, holder=call.identity)
        # Errors and the audit log repeat parts of bodies, unescaped.
        if has_key_text(body) or (b"\\" in body and has_key_text(msgspec.json.encode(msgspec.json.decode(body)))):
            raise AdminError(400, "the body has the text of a gateway key", "leave it out: only its holder sends it")
        decoded = msgspec.json.decode(body, type=kind)
        twice = _given_twice(body, frozenset(kind.__struct_encode_fields__))
    except msgspec.ValidationError as error:
        raise AdminError(400, _invalid("the body", error), "see /admin/v1/openapi.json") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise AdminError(400, "the body is not JSON", "send a JSON object") from None
    if twice is not None:
        raise AdminError(400, f"the body has the member {twice} twice", "give it once")
    return decoded


def _given_twice(body: bytes, names: frozenset[str]) -> str | None:
    """The first of these members that occurs twice, or any repeated member of a nested object."""
    members = OBJECT.decode(body)
    twice = ambiguous(body, members, names)
    for value in map(bytes, members.values()):
        if twice is None and value[:1] == b"{":
            twice = _given_twice(value, frozenset(OBJECT.decode(value)))
    return twice


def require_role(role: str, needed: str, identity: Identity | None) -> None:
    """Reject a role that may not use an endpoint."""
    if _RANKS[role] < _RANKS[needed]:
        remedy = "use another key; /admin/v1/me shows this one"
        if identity is None:
            remedy = f"make one on the gateway's machine: dragoman key new NAME --role {needed}"
        raise AdminError(403, f"this path needs {_NEEDED[needed]}", remedy)


def send_error(request: ServerRequest, error: AdminError | ClientError, headers: HeaderList) -> None:
    remedy, own = _REMEDIES.get(error.status, ""), []
    if isinstance(error, AdminError):
        remedy, own = error.remedy, error.headers
    detail = ErrorDetail(type=ERROR_TYPES.get(error.status, _INTERNAL), message=error.message, remedy=remedy)
    request.respond(error.status, [JSON, NO_STORE, *own, *headers], _encode(ErrorBody(error=detail)))


def _encode(value: Struct | Raw) -> bytes:
    return msgspec.json.encode(value)


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types[1].split(" | "))


def _known(fields: Sequence[str]) -> str:
    return f"known parameters: {', '.join(fields)}" if fields else "this path has no parameters"


def _invalid(where: str, error: msgspec.ValidationError) -> str:
    """Describe an invalid member by its pointer, without its value, which may be a secret."""
    problem, _, place = str(error).partition(" - at `$")
    if problem.startswith("Invalid enum value"):
        problem = problem.partition(" '")[0]
    elif problem.startswith("Expected"):
        problem = _types(_in_words, problem)
    # Without the location of a member whose name the client chose.
    pointer = place.rstrip("`").replace("[...]", "").replace("[", ".").replace("]", "").replace(".", "/")
    return f"{where}{f' at {pointer}' if pointer else ''}: {problem[:1].lower()}{problem[1:]}"
