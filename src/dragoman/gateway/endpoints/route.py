"""`POST /route`: why a request would go where it goes, for `dragoman route`. It goes nowhere, and is not logged.

The body is the request; the query says the rest: `model`, and, where that is not the asker's own, `client` (its
protocol), `key` (the name of a gateway key) and `thread` (the class of a thread). No dice are rolled and no turn is
taken. `check=1` asks the providers whether they can be used, which is told as `checked`.
"""

from __future__ import annotations

import io
from functools import partial
from urllib.parse import parse_qs

from msgspec import Struct
from msgspec.structs import replace

from dragoman.config.settings import Key, Settings, Storage
from dragoman.errors import ClientError, DragomanError, OffloadBusy, WireError
from dragoman.gateway.access.client_address import client_address
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.error_responses import JSON
from dragoman.gateway.exchange.provider_request import receive, strict_mode
from dragoman.gateway.exchange.routing_inputs import (
    Seen,
    conversation_of,
    keepers_of,
    needs_of,
    says_too_little,
    seen_in,
    thread_of,
    unable_to_go_on,
    wanted,
)
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.paths import ApiPath, conversation_path
from dragoman.gateway.route_preflight import checked
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, look, may_recall
from dragoman.gateway.stored_responses.stored_state import StoredState, located, looked_up, name_of
from dragoman.gateway.thread_offload import beside_loop
from dragoman.http.server import ServerRequest
from dragoman.http.upstream_call import HeaderList
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.request_features import RequestFeatures
from dragoman.protocols.registry import codec_of, recognise
from dragoman.routing.candidate import Candidate, Filter, Plan, Ranked, Why
from dragoman.routing.explanation import ABSENT, BEHIND, because, in_order, reason, shown_target
from dragoman.routing.needs import Requirements
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.sessions.classes import OTHER, class_of
from dragoman.wire.json import decode_object, encode

# What keeps a request from the one target of a name, too.
_UNSAYABLE = frozenset({Filter.REFUSED, Filter.STRICT})
_ONLY = "the name has no other target"


class Question(Struct, frozen=True, kw_only=True):
    """What is to be explained of a request: the name asked for, and who asks."""

    model: str
    # The client's protocol; "" is to be recognised.
    client: str = ""
    # The name of the gateway key that it would come with; "" is the asker's own.
    key: str = ""
    program: str = ""
    # The class of the thread that it would be of; "" is as its headers and its shape say.
    thread: str = ""
    headers: HeaderList = []
    # Whether the providers are to be asked.
    check: bool = False


async def explain_route(service: Runtime, request: ServerRequest, key: Key | None) -> None:
    """Answer `POST /route`."""
    body = await receive(service, request, name_of(key))
    said = parse_qs(request.query)
    program = (request.header(b"user-agent") or b"").partition(b" ")[0].decode("latin-1")
    question = Question(
        model=said.get("model", [""])[0],
        client=said.get("client", [""])[0],
        key=said.get("key", [""])[0],
        program=program,
        thread=said.get("thread", [""])[0],
        headers=request.headers,
        check=said.get("check") == ["1"],
    )
    is_operator = service.guard.is_operator(request, client_address(request, service.proxies), name_of(key))
    try:
        told = await explained(service, body, question, key, is_operator=is_operator)
    except OffloadBusy:
        raise
    except DragomanError as error:
        # Not by way of the door, which would write down what it says of the request.
        status = error.status if isinstance(error, ClientError) else 404 if isinstance(error, UnknownModel) else 400
        words = error.advice.client if isinstance(error, UnknownModel) and not is_operator else str(error)
        request.respond(status, [JSON], encode({"error": {"message": words}}))
        return
    request.respond(200, [JSON], encode(told))


async def planned(settings: Settings, body: bytes, question: Question) -> JsonObject:
    """The same from a configuration alone: how a gateway that has only just started would route a request."""
    log = Log(io.StringIO())
    service = Runtime(settings, Metrics(), log, StoredState(Storage(keep=False), log))
    own = next((key for key in settings.keys if key.name == question.key), None)
    try:
        return await explained(service, body, question, own)
    finally:
        await service.close()


async def explained(
    service: Runtime, body: bytes, question: Question, own: Key | None, *, is_operator: bool = True
) -> JsonObject:
    """How a request is routed now, and why; `own` is the key of who wants to know."""
    asker = name_of(own)
    api_path = await beside_loop(partial(_path_of, body, question.client), len(body), asker)
    key = own
    if question.key and (own is None or question.key != own.name):
        key = next((each for each in service.settings.keys if each.name == question.key), None)
    asked = ClientRequest(api_path=api_path, headers=question.headers, key=key)
    looked = await beside_loop(partial(look, body, api_path), len(body), asker)
    looked = replace(looked, model=question.model or looked.model)
    route = service.routes.route(looked.model, api_path.protocol)
    wants = replace(wanted(body, asked, route, pinned=True), losses=True)
    # What another one has had kept is not looked up.
    keeper = await _keeper(service, asked, looked, route) if key is own else ""
    found = None
    if key is own and keeper == "" and may_recall(api_path) and says_too_little(looked, wants):
        found = await looked_up(service.state, service.settings, key, looked.said, body, route.targets[0])
    seeing = partial(seen_in, body, asked, looked, route, wants, found)
    size = len(body) if found is None else len(body) + found.size
    seen = await beside_loop(seeing, len(route.targets) * size, asker)
    if keeper is None:
        seen = replace(seen, refused={**unable_to_go_on(route), **seen.refused}, alone=True)
    signs = seen.signs
    if not wants.signs:
        signs = await beside_loop(partial(codec_of(api_path.protocol).signs_of, body), len(body), asker)
    strict = strict_mode(service.settings.server, asked)
    name = question.key or asker
    said = question.headers or [(b"user-agent", question.program.encode("utf-8", "replace"))]
    hearing = partial(service.listener.facts, said, api_path.protocol, name, body)
    facts = await beside_loop(hearing, len(body), asker)
    if question.thread:
        facts = replace(facts, said_class=question.thread.removeprefix(f"{OTHER}:"))
    needs = needs_of(asked, len(body), seen, question.program, name, strict)
    needs = replace(needs, client=facts.client, thread=class_of(facts).kind, keeper=keeper or "")
    # Where another one's conversation is, is not told.
    known = route.outline.follows and key is own
    thread = thread_of(route, facts)
    conversation = conversation_of(asked, looked, seen.opening, route.name, thread) if known else ""
    plan = service.traffic.glance(route, needs, service.knowledge, conversation=conversation)
    if route.only is not None:
        plan = _of_one(plan, route.only)
    told = _told(service, looked.model, route, plan, signs, seen)
    return {**told, "checked": [*await checked(service, route, is_operator=is_operator)]} if question.check else told


async def _keeper(service: Runtime, asked: ClientRequest, looked: ParsedRequest, route: Route) -> str | None:
    """The provider of the line that keeps what a request refers to; "" if none of them does, None if nobody knows."""
    keepers, state = keepers_of(route, looked), service.state
    if looked.said is None or not keepers:
        return ""
    if state.store is None:
        # Where something is kept, but no gateway runs, it may be kept there.
        return "" if service.settings.storage.keep else None
    found = await located(state, asked.key, looked.said, noted=service.notes_ids)
    return found if found is None or found in keepers else ""


def _path_of(body: bytes, client: str) -> ApiPath:
    """The endpoint that a request would come to."""
    if client:
        found = conversation_path(client)
        if found is None:
            raise ClientError(400, "the client's protocol is not known here")
        return found
    codec = recognise(decode_object(body))
    found = None if codec is None else conversation_path(codec.name)
    if found is None:
        raise WireError("", "a request of one of the three dialects", "another document; say which client's it is")
    return found


def _of_one(plan: Plan, only: Target) -> Plan:
    """Where there is no choice none is made: the one target is asked, however it stands."""
    candidates = tuple(
        found if found.left_out in _UNSAYABLE else replace(found, left_out=None, behind=None)
        for found in plan.candidates
    )
    able = all(found.left_out is None for found in candidates)
    ranked = Ranked((only,) if able else (), candidates)
    return replace(plan, first=only if able else None, why=Why.ONLY if able else Why.NOBODY, ranked=ranked)


def _told(service: Runtime, model: str, route: Route, plan: Plan, signs: RequestFeatures, seen: Seen) -> JsonObject:
    needs = replace(plan.needs, signs=signs)
    first = plan.order[0] if plan.order else None
    why = _ONLY if route.only is not None and first is not None else because(plan, rolled=False)
    return {
        "model": model,
        "line": route.name,
        "policy": plan.policy,
        "chosen": None if first is None else _name(first),
        "why": plan.why.value,
        "because": why,
        "rules": [*plan.rule.splitlines()],
        "client": needs.protocol,
        "program": needs.client,
        "thread": needs.thread,
        "bytes": needs.size,
        "tokens": needs.tokens,
        "candidates": [
            *(_candidate(service, route, found, plan, needs, seen) for found in in_order(plan)),
            *map(_missed, route.missed),
        ],
    }


def _missed(name: str) -> JsonObject:
    """A target that would be there if its provider were."""
    return {
        "target": shown_target(name),
        "place": None,
        "standing": "absent",
        "left_out": {"filter": "absent", "why": ABSENT},
    }


def _candidate(
    service: Runtime, route: Route, found: Candidate, plan: Plan, needs: Requirements, seen: Seen
) -> JsonObject:
    """Everything that is known of a target, whether the policy asked for it or not."""
    target, traffic = found.target, service.traffic
    cost = found.cost
    if cost is None:
        cost = traffic.cost(target, needs, service.knowledge, traffic.usual_output(route, needs))
    speed = found.speed or traffic.speeds.speed(target.id, needs.size, plan.now)
    losses = seen.losses.get(target.id)
    tried = next((place for place, each in enumerate(plan.order, 1) if each.id == target.id), None)
    return {
        "target": _name(target),
        "dialect": target.endpoint.protocol,
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
        "standing": found.standing.level.value,
        "seconds": round(max(found.standing.until - plan.now, 0.0), 1),
        "losses": None if losses is None else losses.changes,
        "bookkeeping_losses": None if losses is None else losses.all - losses.changes,
        "window": found.window,
        "left_out": None if found.left_out is None else {"filter": found.left_out.value, "why": reason(found, plan)},
        "behind": None
        if found.behind is None or found.left_out is not None
        else {"standing": found.behind.value, "why": BEHIND[found.behind]},
    }


def _name(target: Target) -> str:
    return f"{target.provider.name}/{target.shown}"
