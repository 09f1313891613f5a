"""`POST /route`: explains the route of a request, for `dragoman route`. The request is neither sent nor logged. The
body is the request; the query has `model` and, if they differ from the caller's, `protocol`, `key` (a name) and
`thread` (a class). No random choice is made and no turn is taken. `check=1` probes the providers (`checked`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Settings, Storage
from dragoman.errors import ClientError, DragomanError, OffloadBusy, WireError
from dragoman.gateway.access.client_address import client_address
from dragoman.gateway.access.endpoint_rights import require_provider
from dragoman.gateway.exchange.routing_inputs import (
    Seen,
    conversation_of,
    needs_references,
    required_features,
    requirements_of,
    seen_in,
    storing_providers,
    thread_of,
    unable_to_go_on,
)
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.error_responses import JSON
from dragoman.gateway.forwarding.named_models import check_deeper_names
from dragoman.gateway.forwarding.provider_request import receive, strict_mode
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.paths import ApiPath, conversation_path
from dragoman.gateway.route_preflight import check_targets
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, may_resolve_references, parse_request
from dragoman.gateway.stored_responses.stored_state import StoredState, locate_provider, look_up_references, name_of
from dragoman.gateway.thread_offload import offload
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import ADMIN, CLIENT, Identity, Rights, reading_rights_of
from dragoman.identities.permissions import permits_provider
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request_features import RequestFeatures
from dragoman.protocols.registry import recognise
from dragoman.routing.candidate import Candidate, Filter, Plan, Ranked, Why
from dragoman.routing.explanation import (
    ABSENT,
    NOT_PERMITTED,
    because,
    in_order,
    printable_target,
    reason,
    why_deprioritized,
)
from dragoman.routing.needs import Requirements
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.sessions.classes import OTHER, class_of
from dragoman.wire.json import decode_object, encode

# Filters that also exclude the only target of a name.
_UNSAYABLE = frozenset({Filter.REFUSED, Filter.STRICT})
_ONLY = "the name has no other target"


class Question(Struct, frozen=True, kw_only=True):
    """The request to explain: the model name and the client."""

    model: str
    # The client's protocol; "" means detected.
    protocol: str = ""
    # The name of the request's gateway key; "" is the caller's own.
    key: str = ""
    # The start of the client's User-Agent.
    client: str = ""
    # The class of the request's thread; "" means derived from headers and shape.
    thread: str = ""
    headers: HeaderList = []
    # Whether the providers are called.
    check: bool = False


async def explain_route(runtime: Runtime, request: ServerRequest, key: Identity | None, role: str) -> None:
    """Respond to `POST /route`. `role` is that of the key, or of the operator."""
    body = await receive(runtime, request, name_of(key), holder=key)
    query = parse_qs(request.query)
    client = (request.header(b"user-agent") or b"").partition(b" ")[0].decode("latin-1")
    question = Question(
        model=query.get("model", [""])[0],
        protocol=query.get("protocol", [""])[0],
        key=query.get("key", [""])[0],
        client=client,
        thread=query.get("thread", [""])[0],
        headers=request.headers,
        check=query.get("check") == ["1"],
    )
    _check_role(role, question, name_of(key))
    is_operator = runtime.guard.is_operator(request, client_address(request, runtime.proxies), name_of(key))
    try:
        explanation = await explained(runtime, body, question, key, is_operator=is_operator)
    except OffloadBusy:
        raise
    except DragomanError as error:
        # The usual access check would record the request.
        status = error.status if isinstance(error, ClientError) else 404 if isinstance(error, UnknownModel) else 400
        message = error.advice.client if isinstance(error, UnknownModel) and not is_operator else str(error)
        request.respond(status, [JSON], encode({"error": {"message": message}}))
        return
    request.respond(200, [JSON], encode(explanation))


def _check_role(role: str, question: Question, asker: str) -> None:
    """Reject requests beyond a role: a client explains only its own requests, and only an admin may call providers."""
    if role == CLIENT and question.key not in ("", asker):
        raise ClientError(403, "the requests of another key are explained to a key with the role viewer or admin")
    if role != ADMIN and question.check:
        raise ClientError(403, "providers are called for a key with the role admin")


async def planned(settings: Settings, body: bytes, question: Question) -> JsonObject:
    """The same from a configuration alone: how a newly started gateway would route a request."""
    log = Log(io.StringIO())
    runtime = Runtime(settings, Metrics(), log, StoredState(Storage(store_responses=False), log))
    own = next((key for key in settings.keys if key.name == question.key), None)
    try:
        return await explained(runtime, body, question, own)
    finally:
        await runtime.close()


async def explained(
    runtime: Runtime, body: bytes, question: Question, own: Identity | None, *, is_operator: bool = True
) -> JsonObject:
    """Explain how a request would be routed now. `own` is the key of the caller."""
    asker = name_of(own)
    api_path = await offload(partial(_path_of, body, question.protocol), len(body), asker)
    key = own
    if question.key and (own is None or question.key != own.name):
        key = runtime.guard.identities.named(question.key)
    client_request = ClientRequest(api_path, question.headers, dict(reversed(question.headers)), key=key)
    parsed = await offload(partial(parse_request, body, api_path), len(body), asker)
    parsed = replace(parsed, model=question.model or parsed.model)
    rights = reading_rights_of(key)
    route = runtime.routes.route(parsed.model, api_path.protocol, rights)
    check_deeper_names(runtime.routes, rights, parsed.glance, route.targets)
    features = replace(required_features(body, client_request, route, has_affinities=True), losses=True)
    # Items of another key are not looked up.
    storing_provider = await _storing_provider(runtime, client_request, parsed, route) if key is own else ""
    references = None
    is_stored_here = key is own and storing_provider == ""
    if is_stored_here and may_resolve_references(api_path) and needs_references(parsed, features):
        references = await look_up_references(
            runtime.state,
            runtime.settings,
            key,
            parsed.references,
            body,
            route.targets[0],
            shared=runtime.guard.several_owners,
        )
    seeing = partial(seen_in, body, client_request, parsed, route, features, references)
    size = len(body) if references is None else len(body) + references.size
    seen = await offload(seeing, len(route.targets) * size, asker)
    if storing_provider is None:
        seen = replace(seen, refused={**unable_to_go_on(route), **seen.refused}, alone=True)
    request_features = seen.request_features
    if not features.request_features:
        request_features = await offload(parsed.glance.request_features, len(body), asker)
    strict = strict_mode(runtime.settings.server, client_request)
    name = question.key or asker
    headers = question.headers or [(b"user-agent", question.client.encode("utf-8", "replace"))]
    extract_facts = partial(runtime.session_facts.facts, headers, name, parsed.glance)
    facts = await offload(extract_facts, len(body), asker)
    if question.thread:
        facts = replace(facts, said_class=question.thread.removeprefix(f"{OTHER}:"))
    requirements = requirements_of(client_request, len(body), seen, question.client, name, strict)
    requirements = replace(
        requirements, client=facts.client, thread=class_of(facts).kind, storing_provider=storing_provider or ""
    )
    # The affinity of another key's conversation is not revealed.
    may_use_affinity = route.summary.follows and key is own
    thread = thread_of(route, facts)
    conversation = (
        conversation_of(client_request, parsed, seen.conversation_start, route.name, thread) if may_use_affinity else ""
    )
    plan = runtime.routing_state.glance(route, requirements, runtime.target_info, conversation=conversation)
    if route.only is not None:
        plan = _of_one(plan, route.only)
    missed = [_missed(name, rights) for name in route.missed if _may_read(own, name)]
    explanation = _explanation(runtime, parsed.model, route, plan, request_features, seen, missed)
    if not question.check:
        return explanation
    if key is not own:
        # The explained request is another key's, but the calls are the caller's own.
        runtime.routes.route(parsed.model, api_path.protocol, reading_rights_of(own))
        for target in route.targets:
            require_provider(own, target)
    return {**explanation, "checked": [*await check_targets(runtime, route, is_operator=is_operator)]}


async def _storing_provider(
    runtime: Runtime, client_request: ClientRequest, parsed: ParsedRequest, route: Route
) -> str | None:
    """The provider of the route that stores the referenced items; "" if none does, None if that is unknown."""
    providers, state = storing_providers(route, parsed), runtime.state
    if parsed.references is None or not providers:
        return ""
    if state.store is None:
        # Without a running gateway, items may be stored by the gateway itself.
        return "" if runtime.settings.storage.store_responses else None
    provider = await locate_provider(state, client_request.key, parsed.references, owners_recorded=runtime.records_ids)
    return provider if provider is None or provider in providers else ""


def _path_of(body: bytes, protocol: str) -> ApiPath:
    """The endpoint of a request."""
    if protocol:
        api_path = conversation_path(protocol)
        if api_path is None:
            raise ClientError(400, "the client's protocol is not known here")
        return api_path
    codec = recognise(decode_object(body))
    api_path = None if codec is None else conversation_path(codec.name)
    if api_path is None:
        raise WireError("", "a request in one of the three protocols", "another document; name its protocol")
    return api_path


def _of_one(plan: Plan, only: Target) -> Plan:
    """A name with one target has no choice: the target is called in any health state."""
    candidates = tuple(
        candidate if candidate.left_out in _UNSAYABLE else replace(candidate, left_out=None, deprioritized=None)
        for candidate in plan.candidates
    )
    able = all(candidate.left_out is None for candidate in candidates)
    ranked = Ranked((only,) if able else (), candidates)
    return replace(plan, first=only if able else None, why=Why.ONLY if able else Why.NO_TARGET, ranked=ranked)


def _explanation(
    runtime: Runtime,
    model: str,
    route: Route,
    plan: Plan,
    request_features: RequestFeatures,
    seen: Seen,
    missed: Sequence[JsonObject],
) -> JsonObject:
    requirements = replace(plan.requirements, request_features=request_features)
    first = plan.order[0] if plan.order else None
    why = _ONLY if route.only is not None and first is not None else because(plan, randomized=False)
    return {
        "model": model,
        "route": route.name,
        "policy": plan.policy,
        "chosen": None if first is None else _name(first),
        "why": plan.why.value,
        "because": why,
        "rules": [*plan.rule.splitlines()],
        "client_protocol": requirements.protocol,
        "client": requirements.client,
        "thread": requirements.thread,
        "bytes": requirements.size,
        "tokens": requirements.tokens,
        "candidates": [
            *(_candidate(runtime, route, candidate, plan, requirements, seen) for candidate in in_order(plan)),
            *missed,
        ],
    }


def _may_read(asker: Identity | None, target: str) -> bool:
    """Whether the caller may read the name of a target that a list of providers excludes."""
    return permits_provider(reading_rights_of(asker), target.partition("/")[0])


def _missed(name: str, rights: Rights) -> JsonObject:
    """A missing target: its provider is not configured, or not in the key's list."""
    is_permitted = permits_provider(rights, name.partition("/")[0])
    left_out = ("absent", ABSENT) if is_permitted else ("providers", NOT_PERMITTED)
    return {
        "target": printable_target(name),
        "place": None,
        "health": "absent",
        "left_out": {"filter": left_out[0], "why": left_out[1]},
    }


def _candidate(
    runtime: Runtime, route: Route, candidate: Candidate, plan: Plan, requirements: Requirements, seen: Seen
) -> JsonObject:
    """All metadata of a target, whether the policy uses it or not."""
    target, routing_state = candidate.target, runtime.routing_state
    cost = candidate.cost
    if cost is None:
        cost = routing_state.cost(
            target, requirements, runtime.target_info, routing_state.usual_output(route, requirements)
        )
    speed = candidate.speed or routing_state.speeds.speed(target.id, requirements.size, plan.now)
    losses = seen.losses.get(target.id)
    tried = next((place for place, each in enumerate(plan.order, 1) if each.id == target.id), None)
    return {
        "target": _name(target),
        "provider_protocol": target.endpoint.protocol,
        "place": tried,
        "nano_dollars": cost,
        "speed": {
            "first_token": round(speed.first_token, 4),
            "tokens_per_second": round(speed.rate, 2) if speed.rate > 0 else None,
            "success_rate": round(speed.success_rate, 4),
            "age": round(speed.age, 1),
            "samples": speed.samples,
        }
        if speed is not None and speed.samples > 0
        else None,
        "health": candidate.health.level.value,
        "seconds": round(max(candidate.health.until - plan.now, 0.0), 1),
        "losses": None if losses is None else losses.changes,
        "bookkeeping_losses": None if losses is None else losses.all - losses.changes,
        "window": candidate.window,
        "left_out": None
        if candidate.left_out is None
        else {"filter": candidate.left_out.value, "why": reason(candidate, plan)},
        "deprioritized": None
        if candidate.deprioritized is None or candidate.left_out is not None
        else {"cause": candidate.deprioritized.value, "why": why_deprioritized(candidate, plan.now)},
    }


def _name(target: Target) -> str:
    return f"{target.provider.name}/{target.printable_model}"
