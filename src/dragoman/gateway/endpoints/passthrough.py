"""Passthrough: other paths of providers (embeddings, audio, files, batches …), relayed unchanged. Only the paths in
`paths` and `server.passthrough_paths` are open, because a provider's key permits more. The body's `model`, in JSON or a
form, selects the provider: the first target of a route with the path, or any if only the model matters (embeddings).
Without a model it is the provider in `x-dragoman-provider`, otherwise the only one of the path's family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ClientError, DragomanError, NotPermitted
from dragoman.gateway.access.endpoint_rights import check_path, is_stated_path, query_names
from dragoman.gateway.advice import printable, redirected
from dragoman.gateway.endpoints.passthrough_fallback import PATHS, Ended, SameModel
from dragoman.gateway.endpoints.passthrough_usage import Tail, meter
from dragoman.gateway.exchange.attempt import Attempt, is_stream
from dragoman.gateway.exchange.call_log import Calls
from dragoman.gateway.exchange.one_call import one_call
from dragoman.gateway.exchange.provider_errors import read_plain_error
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.forwarding import error_responses, header_forwarding
from dragoman.gateway.forwarding.error_responses import JSON, id_header, route_header
from dragoman.gateway.forwarding.named_models import check_fields_of_form, check_names_of_body
from dragoman.gateway.forwarding.provider_request import check_unambiguous, receive
from dragoman.gateway.json_limits import check_request_members
from dragoman.gateway.observability.record import RouteDecision
from dragoman.gateway.paths import MESSAGES, ApiPath, ModelPlace, PathRule, is_plain, relayed_rule
from dragoman.gateway.runtime import Incoming, Runtime
from dragoman.gateway.stored_responses.stored_state import owner_of
from dragoman.gateway.thread_offload import offload
from dragoman.http.upstream_call import HeaderList, UpstreamCall, header
from dragoman.identities.identity import Rights, rights_of
from dragoman.identities.permissions import limits_models, permits_provider
from dragoman.model.failure import Failure, FailureKind
from dragoman.providers.provider import Provider
from dragoman.providers.transport import transport_of
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.candidate import Why
from dragoman.routing.failure_classification import kind_of
from dragoman.routing.route import FALLBACK
from dragoman.routing.target import Target
from dragoman.streaming.relay import has_data
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.json_spans import JsonSpan, replace_text, replace_value
from dragoman.wire.multipart import field_span, is_form

_OPENAI = ("openai-chat", "openai-responses")
_METHODS = frozenset({"GET", "POST", "DELETE", "HEAD"})
# Query parameters by which some servers override the method.
_OVERRIDES = frozenset({"_method", "x-http-method", "x-http-method-override", "x-method-override"})
_MAX_NAME_BYTES = 256
_MAX_CONTENT_TYPE_BYTES = 200
_STRING = msgspec.json.Decoder(str)
_NAMES = frozenset({"model"})


class Tried(Struct, frozen=True):
    """The number of attempts, and the policy that ordered targets; empty if there was only one target."""

    attempts: int = 0
    policy: str = ""


ONCE = Tried()


async def forward(
    incoming: Incoming, *, provider: str = "", target: Target | None = None, body: bytes | None = None
) -> None:
    """Relay a request to a given provider or target, or to the one it belongs to. `body` is set if it was read
    before."""
    runtime, request, api_path, builder = incoming.runtime, incoming.request, incoming.api_path, incoming.builder
    if request.method not in _METHODS:
        raise ClientError(405, f"this path does not take {request.method}")
    rule = check_relayed(incoming)
    if body is None:
        is_sent = request.method == "POST"
        body = await receive(runtime, request, builder.record.key, holder=incoming.key) if is_sent else b""
    kind = request.header(b"content-type") or b""
    name, field = await offload(partial(_named, body, kind), len(body), builder.record.key)
    record = builder.record
    record.size = len(body)
    if name:
        record.requested_model = name
        targets = (target,) if target is not None else _serving(runtime, name, api_path, rights_of(incoming.key))
        _check_family(targets[0].provider, api_path)
        targets = tuple(_in_family(each, api_path) for each in targets)
        if targets[0].model != name:
            renaming = partial(_renamed, body, field, targets[0].model)
            body = await offload(renaming, len(body), builder.record.key)
    else:
        targets = (_nameless(_provider(incoming, provider), api_path),)
    if limits_models(rights_of(incoming.key)):
        checking = partial(_check_models, incoming, rule, body, kind, targets, is_named=bool(name))
        await offload(checking, len(body), builder.record.key)
    ordered = partial(order_for, incoming, kind, body)
    if len(targets) > 1:
        record.set_route(RouteDecision(name, FALLBACK, Why.POLICY.value))
        await try_in_turn(incoming, SameModel(incoming, targets), ordered)
        return
    target = targets[0]
    record.set_target(target)
    attempt = Attempt(target, runtime.target_settings(target))
    attempt.begin_request(b"")
    order = ordered(target, attempt.key)
    # This call has no fallback.
    works = bool(name) and request.method == "POST"
    calls = Calls(runtime, builder, conversation=False, works=works, learns=False)
    calls.begin()
    calls.queued()
    ended = partial(calls.close, attempt)
    try:
        async with one_call(incoming, target, order, on_admitted=calls.admitted) as (
            call,
            time_limits,
        ):
            attempt.status, attempt.headers = call.status, call.headers
            await _hand_over(incoming, target, call, time_limits, ended=ended)
    except DragomanError as error:
        ended(kind_of(error))
        raise
    finally:
        # Whatever ended it, an earlier outcome stays.
        ended(AttemptOutcome.CLIENT_DISCONNECTED)


def order_for(incoming: Incoming, kind: bytes, body: bytes, target: Target, key: str | None) -> Order:
    request, rest = incoming.request, incoming.api_path.rest
    passed = header_forwarding.relayed(request.headers, request.table, target, owner_of(incoming.key))
    if body and kind:
        passed.append((b"content-type", kind))
    return Order(
        provider=target.provider,
        endpoint=target.endpoint,
        model=target.model,
        stream=False,
        body=body,
        headers=passed,
        key=key,
        path=f"/v1{rest}" if target.endpoint.protocol == MESSAGES else rest,
        method=request.method,
        query=request.query,
    )


async def try_in_turn(incoming: Incoming, fallback: SameModel, ordered: Callable[[Target, str | None], Order]) -> None:
    """Call several targets in turn until one succeeds."""
    policy = fallback.retry_state.policy or FALLBACK

    async def on_response(target: Target, call: UpstreamCall, time_limits: TimeLimits, ended: Ended) -> None:
        tried = Tried(fallback.retry_state.tries, policy)
        await _hand_over(incoming, target, call, time_limits, tried=tried, ended=ended)

    missed = await fallback.run(ordered, on_response)
    if missed is None:
        return
    attempt, response = missed.attempt, missed.response
    assert attempt is not None
    tried = Tried(fallback.retry_state.tries, policy)
    if response is not None:
        headers = _headers(incoming, attempt.target, response.status, response.headers, tried)
        _refuse(incoming, response.status, headers, response.body or b"")
        return
    _send_bad_key(incoming, attempt.target, missed.failure, tried)


def _send_bad_key(incoming: Incoming, target: Target, failure: Failure, tried: Tried = ONCE) -> None:
    """Report that the provider rejected the gateway's own credential, not the client's."""
    builder = incoming.builder
    redactor, record = incoming.runtime.redactor(target.provider), builder.record
    message = redactor.clean_text(failure.message[: redactor.max_error_bytes])
    refused = replace(failure, kind=FailureKind.UPSTREAM_AUTH, status=502, message=message)
    response = error_responses.encode_error(refused, record.client_protocol, record.id, program=record.program)
    headers = _headers(incoming, target, response.status, [JSON], tried)
    builder.finalize(status=response.status, failure=FailureKind.UPSTREAM_AUTH.value)
    incoming.request.respond(response.status, [*headers, *header_forwarding.written(response.headers)], response.body)


def _check_models(
    incoming: Incoming, rule: PathRule, body: bytes, kind: bytes, targets: Sequence[Target], *, is_named: bool
) -> None:
    """Reject models that a key with a list of models may not use, and requests that name none, because then a provider
    or file chooses. A model in the body was checked with its route."""
    rights = rights_of(incoming.key)
    if rule.model is ModelPlace.NONE and not is_stated_path(rights, rule):
        raise NotPermitted(f"paths of {rule.right}, which name no model")
    if rule.model is ModelPlace.BODY and not is_named:
        raise NotPermitted("requests that name no model")
    is_batch = rule.model is ModelPlace.REQUESTS
    if is_form(kind) and is_named:
        check_fields_of_form(body, kind, _family(incoming.api_path))
    if rule.model is not ModelPlace.OWN and _is_json(body, kind):
        for target in targets:
            protocols = _family(incoming.api_path)
            check_names_of_body(incoming.runtime.routes, rights, body, target, protocols, is_batch=is_batch)
    elif is_batch:
        raise NotPermitted("requests that name no model")


def check_relayed(incoming: Incoming) -> PathRule:
    """Return the rule of the request's path if the client may use it. Otherwise no provider is called."""
    request, api_path, settings = incoming.request, incoming.api_path, incoming.runtime.settings
    if not is_plain(api_path.rest):
        raise ClientError(404, f"there is no path {printable(api_path.rest)} here")
    opened = settings.server.passthrough_paths
    rights, shared = rights_of(incoming.key), incoming.runtime.guard.several_owners
    rule = relayed_rule(request.method, api_path.rest, shared=shared, opened=opened)
    if rule is None or not (rule.is_open or rights.paths is not None):
        requested = f"{request.method} {printable(api_path.rest)}"
        message = f"{requested} is not relayed here; server.passthrough_paths opens it if it should be"
        # The operator, who could open the path, reads the log.
        incoming.builder.record.refusal, incoming.builder.record.at_door = message, True
        raise ClientError(403, message)
    if any(name.lower() in _OVERRIDES for name in query_names(request.query)):
        raise ClientError(400, "a query cannot name another method")
    check_path(rights, rule)
    return rule


async def _hand_over(
    incoming: Incoming,
    target: Target,
    call: UpstreamCall,
    limits: TimeLimits,
    *,
    tried: Tried = ONCE,
    ended: Ended,
) -> None:
    """Relay the response; an error without the provider's secrets. `ended` gets the outcome."""
    runtime, request, builder = incoming.runtime, incoming.request, incoming.builder
    if 300 <= call.status < 400:
        raise redirected(call.headers)
    headers = _headers(incoming, target, call.status, call.headers, tried)
    if call.status >= 400:
        redactor = runtime.redactor(target.provider)
        body = await call.read(redactor.max_error_bytes)
        error = await read_plain_error(redactor, target.endpoint.protocol, call.status, body, builder.record.key)
        outcome = kind_of(error.failure, cloud=False)
        ended(outcome)
        if not runtime.guard.open and outcome is AttemptOutcome.INVALID_KEY:
            _send_bad_key(incoming, target, error.failure)
            return
        _refuse(incoming, call.status, headers, error.body)
        return
    builder.record.status = call.status
    clock, tail, streams = runtime.clock, Tail(), is_stream(call)

    def take(piece: bytes) -> None:
        limits.received_at = clock()
        if streams and has_data(piece) is not None:
            # The format of these streams is unknown, so all data counts as content.
            limits.content_received()
        tail.take(piece)
        request.write(piece)

    request.start(call.status, headers)
    request.on_pause, request.on_resume = call.pause, call.resume
    try:
        await call.pump(take)
    except DragomanError:
        # The status was sent: the connection can only be broken off.
        ended(AttemptOutcome.STREAM_BROKEN)
        builder.finalize(failure="truncated")
        request.abort()
        return
    finally:
        request.on_pause = request.on_resume = None
    ended(AttemptOutcome.ANSWERED)
    if request.method == "POST":
        meter(runtime, builder, target, tail)
    builder.finalize()
    request.end()


def _headers(incoming: Incoming, target: Target, status: int, response_headers: HeaderList, tried: Tried) -> HeaderList:
    """The headers of a relayed response."""
    runtime, record = incoming.runtime, incoming.builder.record
    own = len(target.provider.keys) <= 1 or runtime.settings.server.forward_pooled_rate_limits
    kind = (header(response_headers, b"content-type") or b"application/octet-stream")[:_MAX_CONTENT_TYPE_BYTES]
    given = header_forwarding.returned(response_headers, limits=own)
    if status >= 400:
        redactor = runtime.redactor(target.provider)
        kind, given = redactor.clean_headers([(b"content-type", kind)])[0][1], redactor.clean_headers(given)
    return [
        (b"content-type", kind),
        id_header(record.client_protocol, record.id),
        route_header(
            target.provider.name, target.printable_model, target.endpoint.protocol, tried.policy, tried.attempts
        ),
        *given,
        *runtime.guard.greeting(incoming.request),
    ]


def _refuse(incoming: Incoming, status: int, headers: HeaderList, body: bytes) -> None:
    """Send a provider's error, whose secrets were removed."""
    incoming.builder.finalize(status, "other")
    incoming.request.respond(status, headers, body)


def _serving(runtime: Runtime, name: str, api_path: ApiPath, rights: Rights) -> tuple[Target, ...]:
    """The targets of a name that have the path: the first one, or all if any will do. All have the same model, because
    results of other models (such as embeddings) are not comparable."""
    targets = runtime.routes.alike(name, api_path.protocol, rights)
    able = tuple(target for target in targets if _speaks(target.provider, api_path)) or targets
    return able if api_path.rest in PATHS else able[:1]


def _nameless(provider: Provider, api_path: ApiPath) -> Target:
    return _in_family(Target(provider=provider, endpoint=provider.endpoints[0], model="", strict=False), api_path)


def _named(body: bytes, kind: bytes) -> tuple[str, JsonSpan | None]:
    """The model that a body names, or "", and its span in a form."""
    field = field_span(body, kind, "model") if body and is_form(kind) else None
    if field is not None:
        return _form_model(body, field), field
    return _model_in(body) if _is_json(body, kind) else "", None


def _renamed(body: bytes, field: JsonSpan | None, model: str) -> bytes:
    """The same body with another model's name, in its form field or in its object."""
    return replace_text(body, "model", model) if field is None else replace_value(body, field, model.encode())


def _is_json(body: bytes, kind: bytes) -> bool:
    """Whether a body is parsed as JSON: by its type, or by its start. A body without a type is sent as JSON."""
    # SDKs name a type even without a body.
    if not body or is_form(kind):
        return False
    return not kind or b"json" in kind.lower() or body[:64].lstrip()[:1] == b"{"


def _form_model(body: bytes, field: JsonSpan) -> str:
    value = body[field.start : min(field.end, field.start + _MAX_NAME_BYTES + 1)]
    try:
        name = value.decode()
    except UnicodeError:
        name = "\0"
    if len(value) > _MAX_NAME_BYTES or not name.isprintable():
        raise ClientError(400, "the form's model is not the name of one")
    return name


def _model_in(body: bytes) -> str:
    check_request_members(body)
    try:
        members = OBJECT.decode(body)
        check_unambiguous(body, members, _NAMES)
        return _STRING.decode(members["model"]) if "model" in members else ""
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise ClientError(400, "the body is not a JSON object with a model's name as text") from None


def _speaks(provider: Provider, api_path: ApiPath) -> bool:
    # Clouds that serve a model have conversations, but not the rest of its vendor's API.
    if provider.transport != "echo" and transport_of(provider.transport).paths is not None:
        return False
    return any(endpoint.protocol in _family(api_path) for endpoint in provider.endpoints)


def _family(api_path: ApiPath) -> tuple[str, ...]:
    return (MESSAGES,) if api_path.protocol == MESSAGES else _OPENAI


def _check_family(provider: Provider, api_path: ApiPath) -> None:
    if not _speaks(provider, api_path):
        raise ClientError(404, f"{provider.name} has no path {printable(api_path.rest)}")


def _in_family(target: Target, api_path: ApiPath) -> Target:
    endpoints = (each for each in target.provider.endpoints if each.protocol in _family(api_path))
    endpoint = next(endpoints, target.endpoint)
    return target if endpoint is target.endpoint else replace(target, endpoint=endpoint)


def _provider(incoming: Incoming, provider_name: str) -> Provider:
    runtime, api_path = incoming.runtime, incoming.api_path
    named = provider_name or (incoming.request.header(b"x-dragoman-provider") or b"").decode("latin-1")
    providers, rights = runtime.settings.providers, rights_of(incoming.key)
    if named:
        if not permits_provider(rights, named):
            raise NotPermitted(printable(named))
        match = runtime.settings.callable.get(named)
        if match is None:
            if named in runtime.settings.absent:
                raise ClientError(404, f"{named} is not set up here")
            raise ClientError(404, f"no provider {printable(named)} is configured")
        _check_family(match, api_path)
        return match
    able = [
        provider
        for provider in providers.values()
        if provider.transport != "echo" and _speaks(provider, api_path) and permits_provider(rights, provider.name)
    ]
    if len(able) == 1:
        return able[0]
    raise ClientError(
        404, f"there is no path {printable(api_path.rest)} here, or x-dragoman-provider must name the provider"
    )
