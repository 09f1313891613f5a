"""Moves of an exchange up to a choice: what the client wants, what must be known of it, and who may be asked."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.events_commands import Begin, Done, Locate, ResolveReferences, StartHeartbeats
from dragoman.gateway.exchange.failure_transitions import FailureTransitions
from dragoman.gateway.exchange.provider_request import strict_mode
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import (
    NOTHING_SEEN,
    Seen,
    conversation_of,
    needs_references,
    required_features,
    requirements_of,
    seen_in,
    storing_providers,
    thread_of,
    unable_to_go_on,
    with_provider_storage,
)
from dragoman.gateway.exchange.states import State
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, parse_request
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.losses import Strict
from dragoman.routing.explanation import candidate_entries
from dragoman.routing.needs import RequiredFeatures
from dragoman.sessions.classes import class_of

# A member of an enumeration is slow to find, and this one is looked for in every exchange.
_READING = State.READING


class SelectionTransitions(FailureTransitions):
    """A request of which it is found out whom it may go to."""

    # What it goes on from, where that was looked up to be weighed.
    _references: ResolvedReferences | None = None
    # Strict mode of the server, the key and the client's header together, once it was needed.
    _strict: Strict | None = None

    def _begin(self, event: Begin) -> None:
        self._body = event.body
        extractor = self._runtime.session_facts.extractor(self._builder.record)
        self._work(_READING, len(event.body), parse_request, event.body, self._client_request.api_path, extractor)

    def _read(self, event: Done) -> None:
        assert isinstance(event.value, ParsedRequest)
        self._parsed = parsed = event.value
        runtime, routing = self._runtime, self._runtime.settings.routing
        if self._client_request.target is not None:
            self._set_out(RetryState((self._client_request.target,), routing, routing_state=runtime.routing_state))
            return
        try:
            route = runtime.routes.route(parsed.model, self._client_request.api_path.protocol)
        except DragomanError:
            self._builder.update(requested_model=parsed.model, size=len(self._body), facts=parsed.facts)
            raise
        if route.only is not None:
            # Where there is no choice, none is made; but of several keys a conversation keeps one.
            if len(route.only.provider.keys) > 1 and route.sticky:
                self._route = route
                body, required = self._body, RequiredFeatures(conversation_start=True)
                self._work(State.CHOOSING, len(body), seen_in, body, self._client_request, parsed, route, required)
            else:
                self._set_out(RetryState((route.only,), routing, route, routing_state=runtime.routing_state))
            return
        self._route = route
        if runtime.state.store is not None and parsed.references is not None and storing_providers(route, parsed):
            self._wait(State.LOCATING, Locate(parsed.references))
        else:
            self._is_astray = runtime.state.store is None and bool(storing_providers(route, parsed))
            self._see()

    def _located(self, event: Done) -> None:
        """What a provider of the line keeps is its own to go on from; of all else the plan need not know."""
        route, parsed = self._route, self._parsed
        assert isinstance(event.value, str | None) and route is not None and parsed is not None
        self._is_astray = event.value is None
        if event.value is not None and event.value in storing_providers(route, parsed):
            self._storing_provider = event.value
        self._see()

    def _see(self) -> None:
        """See as much of the request as the line asks for."""
        runtime, route, parsed = self._runtime, self._route, self._parsed
        assert route is not None and parsed is not None
        required = required_features(
            self._body, self._client_request, route, has_affinities=len(runtime.routing_state.affinities) > 0
        )
        if not self._storing_provider and not self._is_astray and needs_references(parsed, required):
            self._builder.update(requested_model=parsed.model, size=len(self._body), facts=parsed.facts)
            self._wait(State.WEIGHING, ResolveReferences(self._body, parsed, route.targets[0]))
        else:
            self._inspect(required)

    def _weighed(self, event: Done) -> None:
        """What a request goes on from is said to whoever is chosen, and weighs as much as what it says itself."""
        route = self._route
        assert (event.value is None or isinstance(event.value, ResolvedReferences)) and route is not None
        self._references = event.value
        self._inspect(required_features(self._body, self._client_request, route, has_affinities=True))

    def _inspect(self, required: RequiredFeatures) -> None:
        route, parsed, body, references = self._route, self._parsed, self._body, self._references
        assert route is not None and parsed is not None
        size = len(body) if references is None else len(body) + references.size
        if not (required.conversation_start or required.request_features or required.losses or required.issuer):
            self._choose(NOTHING_SEEN)
        elif not required.losses and size <= INLINE:
            self._choose(seen_in(body, self._client_request, parsed, route, required, references))
        else:
            times = len(route.targets) if required.losses else 1
            self._work(
                State.CHOOSING, times * size, seen_in, body, self._client_request, parsed, route, required, references
            )

    def _chosen(self, event: Done) -> None:
        route, parsed, runtime = self._route, self._parsed, self._runtime
        assert isinstance(event.value, Seen) and route is not None and parsed is not None
        if route.only is None:
            self._choose(event.value)
            return
        retry_state = RetryState((route.only,), runtime.settings.routing, route, routing_state=runtime.routing_state)
        conversation = conversation_of(self._client_request, parsed, event.value.conversation_start, parsed.model)
        retry_state.conversation = conversation
        retry_state.affinity = (
            self._runtime.routing_state.affinities.lookup(conversation, self._runtime.clock()) if conversation else None
        )
        retry_state.stays = bool(conversation)
        self._set_out(retry_state)

    def _choose(self, seen: Seen) -> None:
        """Put the targets of a line in the order in which they are tried."""
        runtime, route, record, parsed = self._runtime, self._route, self._builder.record, self._parsed
        assert route is not None and parsed is not None
        client_request, facts, routing, routing_state = (
            self._client_request,
            parsed.facts,
            runtime.settings.routing,
            runtime.routing_state,
        )
        conversation = ""
        if (seen.conversation_start is not None or parsed.references is not None) and route.summary.follows:
            thread = thread_of(route, facts) if route.threaded else ""
            conversation = conversation_of(
                client_request, parsed, seen.conversation_start, route.name, thread, facts.session != ""
            )
        if self._is_astray:
            # Only whoever keeps it can go on from what was said, and nobody knows who that is.
            seen = replace(seen, refused={**unable_to_go_on(route), **seen.refused}, alone=True)
        requirements = requirements_of(
            client_request, len(self._body), seen, record.program, record.key, self._own_strict
        )
        if route.ruled:
            requirements = replace(requirements, client=facts.client, thread=class_of(facts).kind)
        if self._storing_provider:
            requirements = replace(requirements, storing_provider=self._storing_provider)
        plan = routing_state.plan(route, requirements, runtime.target_info, conversation, routing.exploration_rate)
        order = tuple(map(with_provider_storage, plan.order)) if self._storing_provider or self._is_astray else None
        retry_state = RetryState(order, routing, route, plan, routing_state, runtime.settings.timeouts)
        retry_state.conversation = conversation
        retry_state.affinity = plan.affinity
        # `value` of an enumeration is a slow way to `_value_`.
        retry_state.record_changes = {"route": route.name, "policy": plan.policy, "reason": plan.why._value_}
        if not retry_state.is_unranked:
            candidates, more = candidate_entries(plan, route.missed)
            retry_state.record_changes |= {"candidates": candidates, "candidates_more": more}
        if _waits_for_a_stream(parsed):
            self._is_held = True
            self._do(StartHeartbeats(routing.heartbeat_after))
        self._set_out(retry_state)

    def _set_out(self, retry_state: RetryState) -> None:
        retry_state.has_client_keys = bool(self._runtime.settings.keys)
        self._retry_state = self._responses.retry_state = retry_state
        self._search()

    @property
    def _own_strict(self) -> Strict:
        """Strict mode as server, key and client state it; a route may add to it."""
        if self._strict is None:
            self._strict = strict_mode(self._runtime.settings.server, self._client_request)
        return self._strict


def _waits_for_a_stream(parsed: ParsedRequest) -> bool:
    """Whether a client waits for events; one whose response runs in the background follows it."""
    in_background = parsed.references is not None and parsed.references.background
    return bytes(parsed.outline.stream) == b"true" and not in_background
