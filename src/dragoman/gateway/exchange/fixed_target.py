"""Fixed target of a count or a compaction, which is no turn of its conversation (decision 25): the target of the
provider that stores what the request refers to, else the conversation's, else the one whose window the request fills
most. Nothing is random, so that repeated requests get the same target."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import (
    NOTHING_SEEN,
    Seen,
    conversation_of,
    requirements_of,
    seen_in,
    storing_providers,
    with_provider_storage,
)
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.forwarding.named_models import check_deeper_names
from dragoman.gateway.forwarding.provider_request import strict_mode
from dragoman.gateway.observability.record import RouteDecision
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest
from dragoman.gateway.stored_responses.stored_state import locate_provider, name_of, owner_of
from dragoman.gateway.thread_offload import offload
from dragoman.identities.identity import rights_of
from dragoman.identities.permissions import limits_models
from dragoman.routing.needs import RequiredFeatures, Requirements
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.sessions.classes import class_of

_REQUIRED_FEATURES = RequiredFeatures(request_features=True, conversation_start=True)


async def fixed_target(runtime: Runtime, client_request: ClientRequest, body: bytes, parsed: ParsedRequest) -> Target:
    """The target of a request; one of a name that leads to no other is not looked at any further."""
    return (await _fixed(runtime, client_request, body, parsed))[0]


async def compaction_targets(
    runtime: Runtime, client_request: ClientRequest, body: bytes, parsed: ParsedRequest, builder: RecordBuilder
) -> Target | RetryState:
    """The targets of a compaction: the fixed target, then the others of its route by rules and health. A single target
    if there is no other, or if a provider stores what the request refers to."""
    target, is_stored, seen, conversation = await _fixed(runtime, client_request, body, parsed)
    route = runtime.routes.route(parsed.model, client_request.api_path.protocol, rights_of(client_request.key))
    if route.only is not None or is_stored:
        return target
    settings, record = runtime.settings, builder.record
    strict = strict_mode(settings.server, client_request)
    requirements = requirements_of(client_request, len(body), seen, record.program, record.key, strict)
    if route.ruled:
        requirements = replace(requirements, client=record.facts.client, thread=class_of(record.facts).kind)
    plan = runtime.routing_state.glance(route, requirements, runtime.target_info, conversation=conversation)
    order = plan.order
    if not plan.held and runtime.routing_state.is_healthy(target) and any(each.id == target.id for each in order):
        order = (target, *(each for each in order if each.id != target.id))
    retry_state = RetryState(order, settings.routing, route, plan, runtime.routing_state, settings.timeouts)
    retry_state.decision = RouteDecision(route.name, plan.policy, plan.why.value)
    retry_state.has_client_keys = not runtime.guard.open
    return retry_state


async def _fixed(
    runtime: Runtime, client_request: ClientRequest, body: bytes, parsed: ParsedRequest
) -> tuple[Target, bool, Seen, str]:
    """The target, whether a provider keeps what is referred to, what was seen of the request, and its conversation."""
    protocol, rights = client_request.api_path.protocol, rights_of(client_request.key)
    route = runtime.routes.route(parsed.model, protocol, rights)
    if limits_models(rights):
        checking = partial(check_deeper_names, runtime.routes, rights, parsed.glance, route.targets)
        await offload(checking, len(body), name_of(client_request.key))
    if route.only is not None:
        return route.only, False, NOTHING_SEEN, ""
    seen = await offload(
        partial(seen_in, body, client_request, parsed, route, _REQUIRED_FEATURES),
        len(body),
        name_of(client_request.key),
    )
    conversation = (
        conversation_of(client_request, parsed, seen.conversation_start, route.name) if route.summary.sticky else ""
    )
    affinity = runtime.routing_state.affinities.lookup(conversation, runtime.clock()) if conversation else None
    affinity_target = None if affinity is None else affinity.target
    fills = filling(Requirements(size=len(body), request_features=seen.request_features), runtime.target_info.window)
    storing_provider = await _storing_provider(runtime, client_request, parsed, route)
    if storing_provider is None:
        # The owner is unknown: the conversation's own target, else the first possible one.
        may = [with_provider_storage(target) for target in route.targets if target.can_store]
        return next((target for target in may if target.id == affinity_target), may[0]), True, seen, conversation
    if storing_provider:
        able = [
            with_provider_storage(target)
            for target in route.targets
            if target.can_store and target.provider.name == storing_provider
        ]
        return (
            next((target for target in able if target.id == affinity_target), max(able, key=fills)),
            True,
            seen,
            conversation,
        )
    return runtime.routes.fixed(parsed.model, protocol, rights, affinity_target, fills), False, seen, conversation


async def set_affinity(
    runtime: Runtime, client_request: ClientRequest, body: bytes, parsed: ParsedRequest, target: Target
) -> None:
    """Bind a conversation to the provider that compacted it, because only that provider can read the result."""
    route = runtime.routes.route(parsed.model, client_request.api_path.protocol, rights_of(client_request.key))
    if route.only is not None or not route.summary.sticky:
        return
    seeing = partial(seen_in, body, client_request, parsed, route, RequiredFeatures(conversation_start=True))
    seen = await offload(seeing, len(body), name_of(client_request.key))
    conversation = conversation_of(client_request, parsed, seen.conversation_start, route.name)
    if conversation:
        runtime.routing_state.set_affinity(owner_of(client_request.key).hex(), conversation, Affinity(target.id))


async def _storing_provider(
    runtime: Runtime, client_request: ClientRequest, parsed: ParsedRequest, route: Route
) -> str | None:
    """The provider on the line that keeps what a request refers to; "" if none of them does, None if that is
    unknown."""
    providers = storing_providers(route, parsed)
    if parsed.references is None or not providers:
        return ""
    if runtime.state.store is None:
        return None
    provider = await locate_provider(
        runtime.state, client_request.key, parsed.references, owners_recorded=runtime.records_ids
    )
    return provider if provider is None or provider in providers else ""


def filling(requirements: Requirements, window_of: Callable[[Target], int | None]) -> Callable[[Target], float]:
    """The share of a target's window that a request takes; 0 if unknown, and negative by as much as it overflows."""

    def fills(target: Target) -> float:
        window = window_of(target)
        if window is None:
            return 0.0
        share = requirements.tokens / max(window, 1)
        return share if share <= 1.0 else 1.0 - share

    return fills
