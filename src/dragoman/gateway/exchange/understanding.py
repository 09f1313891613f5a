"""Understanding a request: one read of the body, the route of its model, and its targets in their order.

    step     waits for                                       skipped if
    parse    a thread, for a large body
    resolve  –                                               the target was fixed before
    lead     –                                               a plan must be made first; else it is the last step
    locate   the store: which provider stores the input      the request refers to nothing, or there is one target
    weigh    the store: the input that size or losses need   routing needs neither
    inspect  a thread, for large bodies and many targets     the route asks for nothing
    choose   –                                               there is one target

It ends in an `UnderstoodRequest`, or in the error that is the response.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.exchange import Exchange, UnderstoodRequest
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import (
    FITS_ALL,
    NOTHING_SEEN,
    Seen,
    conversation_of,
    markers_in,
    needs_references,
    required_features,
    requirements_of,
    seen_in,
    storing_providers,
    thread_of,
    unable_to_go_on,
    with_provider_storage,
)
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.named_models import check_deeper_names, may_name_models
from dragoman.gateway.observability.record import Record, RouteDecision
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, parse_request
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences, refers
from dragoman.gateway.stored_responses.stored_state import locate_provider
from dragoman.gateway.thread_offload import INLINE
from dragoman.identities.identity import ALL_RIGHTS, rights_of
from dragoman.model.losses import Strict
from dragoman.routing.candidate import Plan
from dragoman.routing.explanation import candidate_entries
from dragoman.routing.needs import RequiredFeatures
from dragoman.routing.plan import Lead
from dragoman.routing.plan_inputs import RandomDraws
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.sessions.classes import class_of


async def understand(exchange: Exchange, body: bytes) -> UnderstoodRequest:
    """Read a request and choose its targets."""
    runtime, client_request = exchange.runtime, exchange.client_request
    extract = partial(runtime.session_facts.extract, exchange.builder.record)
    if len(body) <= INLINE:
        parsed = parse_request(body, client_request.api_path, extract)
    else:
        parsed = await exchange.work(len(body), parse_request, body, client_request.api_path, extract)
    target: Target | None = client_request.target
    route: Route | None = None
    key = client_request.key
    rights = ALL_RIGHTS if key is None else key.rights
    if target is None:
        try:
            route = runtime.routes.route(parsed.model, client_request.api_path.protocol, rights)
            if rights.models is not None and may_name_models(parsed.glance):
                await _check_names(exchange, body, parsed, route.targets)
        except DragomanError:
            _record(exchange, body, parsed)
            raise
        target = route.only
        if target is None:
            draws = runtime.routing_state.draw(runtime.settings.routing.exploration_rate) if route.timed else None
            if route.leads and (led := _led(exchange, body, parsed, route, draws)) is not None:
                return led
            return await _among(exchange, body, parsed, route, draws)
        if len(target.provider.keys) > 1 and route.sticky:
            # A name with one target has no choice; but of several keys a conversation keeps one.
            return await _with_key(exchange, body, parsed, route, target)
    retry_state = RetryState((target,), runtime.settings.routing, route, None, runtime.routing_state)
    return UnderstoodRequest(body, parsed, retry_state)


async def _check_names(exchange: Exchange, body: bytes, parsed: ParsedRequest, targets: Iterable[Target]) -> None:
    """Refuse models deeper in the request that its key may not use."""
    rights = rights_of(exchange.client_request.key)
    await exchange.work(len(body), check_deeper_names, exchange.runtime.routes, rights, parsed.glance, targets)


async def _with_key(
    exchange: Exchange, body: bytes, parsed: ParsedRequest, route: Route, target: Target
) -> UnderstoodRequest:
    runtime, client_request = exchange.runtime, exchange.client_request
    required = RequiredFeatures(conversation_start=True)
    seen = await exchange.work(len(body), seen_in, body, client_request, parsed, route, required)
    retry_state = RetryState((target,), runtime.settings.routing, route, None, runtime.routing_state)
    conversation = conversation_of(client_request, parsed, seen.conversation_start, parsed.model)
    retry_state.conversation = conversation
    if conversation:
        retry_state.affinity = runtime.routing_state.affinities.lookup(conversation, runtime.clock())
    retry_state.stays = bool(conversation)
    return UnderstoodRequest(body, parsed, retry_state, route)


def _led(
    exchange: Exchange, body: bytes, parsed: ParsedRequest, route: Route, draws: RandomDraws | None
) -> UnderstoodRequest | None:
    """The request, for its first target; None if a plan must be made first. It is made if the target fails."""
    runtime, client_request, size = exchange.runtime, exchange.client_request, len(body)
    if parsed.references is not None or size > FITS_ALL:
        return None
    refers, sealed = markers_in(body, client_request.api_path.protocol, route)
    routing_state, settings = runtime.routing_state, runtime.settings
    if refers or sealed or not routing_state.leads(route, size, runtime.target_info, draws):
        return None
    conversation = ""
    if route.required_features[len(routing_state.affinities) > 0].conversation_start:
        start = parsed.glance.conversation_start()
        conversation = conversation_of(client_request, parsed, start, route.name, "", parsed.facts.session != "")
    lead = routing_state.lead(route, size, conversation, draws)
    if lead is None:
        return None
    later = partial(_plan_behind, lead, route, runtime, client_request, size, exchange.builder.record, exchange.strict)
    retry_state = RetryState(
        None, settings.routing, route, None, routing_state, settings.timeouts, later, lead.target, conversation
    )
    retry_state.affinity = lead.affinity
    # `value` of an enumeration is a slow way to `_value_`.
    retry_state.decision = RouteDecision(route.name, retry_state.policy, lead.why._value_)
    if parsed.glance.stream:
        _hold_heartbeats(exchange)
    return UnderstoodRequest(body, parsed, retry_state, route)


def _plan_behind(
    lead: Lead, route: Route, runtime: Runtime, client_request: ClientRequest, size: int, record: Record, strict: Strict
) -> Plan:
    """The plan of a request that went to its first target without one. The exchange holds these arguments, so none of
    them may refer to the exchange."""
    requirements = requirements_of(client_request, size, NOTHING_SEEN, record.program, record.key, strict)
    return runtime.routing_state.plan_behind(lead, route, requirements, runtime.target_info)


async def _among(
    exchange: Exchange, body: bytes, parsed: ParsedRequest, route: Route, draws: RandomDraws | None
) -> UnderstoodRequest:
    """Choose among several targets, with the features that the route needs."""
    runtime, client_request = exchange.runtime, exchange.client_request
    # The provider that stores the referenced items; astray if it is unknown.
    storing_provider, is_astray = "", False
    if parsed.references is not None and (providers := storing_providers(route, parsed)):
        if runtime.state.store is None:
            is_astray = True
        else:
            located = await locate_provider(
                runtime.state, client_request.key, parsed.references, owners_recorded=runtime.records_ids
            )
            is_astray = located is None
            storing_provider = located if located is not None and located in providers else ""
    required = required_features(body, client_request, route, has_affinities=len(runtime.routing_state.affinities) > 0)
    references = None
    if not storing_provider and not is_astray and needs_references(parsed, required):
        _record(exchange, body, parsed)
        references = await resolve_references(exchange, body, parsed, route.targets[0])
        required = required_features(body, client_request, route, has_affinities=True)
    if required.conversation_start or required.request_features or required.losses or required.issuer:
        size = len(body) if references is None else len(body) + references.size
        times = len(route.targets) if required.losses else 1
        seen = await exchange.work(times * size, seen_in, body, client_request, parsed, route, required, references)
    else:
        seen = NOTHING_SEEN
    if is_astray:
        # Only the provider that stores the input can continue from it.
        seen = replace(seen, refused={**unable_to_go_on(route), **seen.refused}, alone=True)
    retry_state = _plan(exchange, len(body), parsed, route, seen, storing_provider, draws, is_astray=is_astray)
    return UnderstoodRequest(body, parsed, retry_state, route, references)


def _plan(
    exchange: Exchange,
    size: int,
    parsed: ParsedRequest,
    route: Route,
    seen: Seen,
    storing_provider: str,
    draws: RandomDraws | None,
    *,
    is_astray: bool,
) -> RetryState:
    """Put the targets of a route in the order in which they are tried."""
    runtime, client_request, record = exchange.runtime, exchange.client_request, exchange.builder.record
    facts, routing, routing_state = parsed.facts, runtime.settings.routing, runtime.routing_state
    conversation = ""
    if (seen.conversation_start is not None or parsed.references is not None) and route.summary.follows:
        thread = thread_of(route, facts) if route.threaded else ""
        conversation = conversation_of(
            client_request, parsed, seen.conversation_start, route.name, thread, facts.session != ""
        )
    requirements = requirements_of(client_request, size, seen, record.program, record.key, exchange.strict)
    if route.ruled:
        requirements = replace(requirements, client=facts.client, thread=class_of(facts).kind)
    if storing_provider:
        requirements = replace(requirements, storing_provider=storing_provider)
    plan = routing_state.plan(route, requirements, runtime.target_info, conversation, draws)
    order = tuple(map(with_provider_storage, plan.order)) if storing_provider or is_astray else None
    retry_state = RetryState(order, routing, route, plan, routing_state, runtime.settings.timeouts)
    retry_state.conversation = conversation
    retry_state.affinity = plan.affinity
    providers = rights_of(client_request.key).providers
    candidates, more = ((), None) if retry_state.is_unranked else candidate_entries(plan, route.missed, providers)
    retry_state.decision = RouteDecision(route.name, plan.policy, plan.why._value_, candidates, more)
    if parsed.glance.stream and not (parsed.references is not None and parsed.references.background):
        # A client whose response runs in the background follows it, and waits for no events here.
        _hold_heartbeats(exchange)
    return retry_state


def _hold_heartbeats(exchange: Exchange) -> None:
    """Have a client that waits for events receive heartbeats while targets are tried."""
    exchange.has_early_heartbeats = True
    exchange.limits.alive = exchange.heartbeat_due
    exchange.limits.hold(exchange.runtime.settings.routing.heartbeat_after)


def _record(exchange: Exchange, body: bytes, parsed: ParsedRequest) -> None:
    """Record a request whose targets are unknown."""
    record = exchange.builder.record
    record.requested_model, record.size, record.facts = parsed.model, len(body), parsed.facts


async def resolve_references(
    exchange: Exchange, body: bytes, parsed: ParsedRequest, target: Target
) -> ResolvedReferences | None:
    """Look up what a request refers to, which may be a thousand times its size."""
    storage, key = exchange.storage, exchange.client_request.key
    if parsed.references is None or not refers(parsed.references, native=True):
        return await storage.resolve(key, body, parsed, target)
    # Another target gets it anew.
    exchange.forget_references()
    async with exchange.runtime.unfinished.turn(exchange.builder.record.key) as charge:
        resolved = await storage.resolve(key, body, parsed, target)
        charge.take(resolved.size if resolved is not None else 0)
    exchange.reference_charge = charge
    return resolved
