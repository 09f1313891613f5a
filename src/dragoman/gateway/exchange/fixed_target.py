"""Fixed target: the target of a request that is no turn of its conversation: a count, or a compaction (decision 25).

Where a name has several targets, it is one of the provider that keeps what the request refers to, else the one that the
conversation is with, else the one whose window the request fills most. Chance has no part in it, and no turn is taken:
who asks twice is answered by the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.provider_request import asks_strictness
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import (
    NOTHING_SEEN,
    Seen,
    conversation_of,
    keepers_of,
    kept_there,
    needs_of,
    seen_in,
)
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest
from dragoman.gateway.stored_responses.stored_state import located, name_of, owner_of
from dragoman.gateway.thread_offload import beside_loop
from dragoman.routing.needs import RequiredFeatures, Requirements
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.sessions.classes import class_of

_WANTS = RequiredFeatures(signs=True, opening=True)


async def fixed_target(service: Runtime, asked: ClientRequest, body: bytes, looked: ParsedRequest) -> Target:
    """The target of a request; one of a name that leads to no other is not looked at any further."""
    return (await _fixed(service, asked, body, looked))[0]


async def compaction_course(
    service: Runtime, asked: ClientRequest, body: bytes, looked: ParsedRequest, account: RecordBuilder
) -> Target | RetryState:
    """The targets of a compaction: the same first one, then the others of its route by its rules and by their health.

    A single target where there is no other, or where a provider keeps what the request refers to.
    """
    target, is_kept, seen, conversation = await _fixed(service, asked, body, looked)
    route = service.routes.route(looked.model, asked.api_path.protocol)
    if route.only is not None or is_kept:
        return target
    settings, record = service.settings, account.record
    strict = settings.server.strict or (asked.key is not None and asked.key.strict)
    needs = needs_of(asked, len(body), seen, record.program, record.key, strict or asks_strictness(asked))
    if route.ruled:
        needs = replace(needs, client=record.facts.client, thread=class_of(record.facts).kind)
    plan = service.traffic.glance(route, needs, service.knowledge, conversation=conversation)
    order = plan.order
    if not plan.held and service.traffic.is_good(target) and any(each.id == target.id for each in order):
        order = (target, *(each for each in order if each.id != target.id))
    course = RetryState(order, settings.routing, route, plan, service.traffic, settings.timeouts)
    course.noted = {"route": route.name, "policy": plan.policy, "reason": plan.why.value}
    course.guarded = bool(settings.keys)
    return course


async def _fixed(
    service: Runtime, asked: ClientRequest, body: bytes, looked: ParsedRequest
) -> tuple[Target, bool, Seen, str]:
    """The target, whether a provider keeps what is referred to, what was seen of the request, and its conversation."""
    protocol = asked.api_path.protocol
    route = service.routes.route(looked.model, protocol)
    if route.only is not None:
        return route.only, False, NOTHING_SEEN, ""
    seen = await beside_loop(partial(seen_in, body, asked, looked, route, _WANTS), len(body), name_of(asked.key))
    conversation = conversation_of(asked, looked, seen.opening, route.name) if route.outline.sticky else ""
    pin = service.traffic.pins.pin(conversation, service.clock()) if conversation else None
    pinned = None if pin is None else pin.target
    fills = filling(Requirements(size=len(body), signs=seen.signs), service.knowledge.window)
    keeper = await _keeper(service, asked, looked, route)
    if keeper is None:
        # Nobody knows whose it is: the conversation's own, else the first who may know it.
        may = [kept_there(target) for target in route.targets if target.can_keep]
        return next((target for target in may if target.id == pinned), may[0]), True, seen, conversation
    if keeper:
        able = [kept_there(target) for target in route.targets if target.can_keep and target.provider.name == keeper]
        return next((target for target in able if target.id == pinned), max(able, key=fills)), True, seen, conversation
    return service.routes.fixed(looked.model, protocol, pinned, fills), False, seen, conversation


async def stay(service: Runtime, asked: ClientRequest, body: bytes, looked: ParsedRequest, target: Target) -> None:
    """Let a conversation go on with whoever compacted it, since nobody else can read what it came to."""
    route = service.routes.route(looked.model, asked.api_path.protocol)
    if route.only is not None or not route.outline.sticky:
        return
    seeing = partial(seen_in, body, asked, looked, route, RequiredFeatures(opening=True))
    seen = await beside_loop(seeing, len(body), name_of(asked.key))
    conversation = conversation_of(asked, looked, seen.opening, route.name)
    if conversation:
        service.traffic.pin(owner_of(asked.key).hex(), conversation, Affinity(target.id))


async def _keeper(service: Runtime, asked: ClientRequest, looked: ParsedRequest, route: Route) -> str | None:
    """The provider on the line that keeps what a request refers to; "" if none of them does, None if nobody knows."""
    keepers = keepers_of(route, looked)
    if looked.said is None or not keepers:
        return ""
    if service.state.store is None:
        return None
    found = await located(service.state, asked.key, looked.said, noted=service.notes_ids)
    return found if found is None or found in keepers else ""


def filling(needs: Requirements, window_of: Callable[[Target], int | None]) -> Callable[[Target], float]:
    """Which share of a target's window a request takes.

    Nothing of one that is unknown; and less than that where it overflows, by as much as it does.
    """

    def fills(target: Target) -> float:
        window = window_of(target)
        if window is None:
            return 0.0
        share = needs.tokens / max(window, 1)
        return share if share <= 1.0 else 1.0 - share

    return fills
