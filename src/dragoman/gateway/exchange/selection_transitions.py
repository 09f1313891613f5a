"""Moves of an exchange up to a choice: what the client wants, what must be known of it, and who may be asked."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.gateway.exchange.events_commands import Begin, Done, Locate, Recall, StartHeartbeats
from dragoman.gateway.exchange.failure_transitions import FailureTransitions
from dragoman.gateway.exchange.provider_request import strict_mode
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import (
    NOTHING_SEEN,
    Seen,
    conversation_of,
    keepers_of,
    kept_there,
    needs_of,
    says_too_little,
    seen_in,
    thread_of,
    unable_to_go_on,
    wanted,
)
from dragoman.gateway.exchange.states import State
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest, look
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.losses import Strict
from dragoman.routing.explanation import considered
from dragoman.routing.needs import RequiredFeatures
from dragoman.sessions.classes import class_of

# A member of an enumeration is slow to find, and this one is looked for in every exchange.
_READING = State.READING


class SelectionTransitions(FailureTransitions):
    """A request of which it is found out whom it may go to."""

    # What it goes on from, where that was looked up to be weighed.
    _found: ResolvedReferences | None = None
    # Strict mode of the server, the key and the client's header together, once it was needed.
    _strict: Strict | None = None

    def _begin(self, event: Begin) -> None:
        self._body = event.body
        listen = self._service.listener.ear(self._account.record)
        self._work(_READING, len(event.body), look, event.body, self._asked.api_path, listen)

    def _read(self, event: Done) -> None:
        assert isinstance(event.value, ParsedRequest)
        self._looked = looked = event.value
        service, routing = self._service, self._service.settings.routing
        if self._asked.target is not None:
            self._set_out(RetryState((self._asked.target,), routing, traffic=service.traffic))
            return
        try:
            route = service.routes.route(looked.model, self._asked.api_path.protocol)
        except DragomanError:
            self._account.update(asked=looked.model, size=len(self._body), facts=looked.facts)
            raise
        if route.only is not None:
            # Where there is no choice, none is made; but of several keys a conversation keeps one.
            if len(route.only.provider.keys) > 1 and route.sticky:
                self._route = route
                body, wants = self._body, RequiredFeatures(opening=True)
                self._work(State.CHOOSING, len(body), seen_in, body, self._asked, looked, route, wants)
            else:
                self._set_out(RetryState((route.only,), routing, route, traffic=service.traffic))
            return
        self._route = route
        if service.state.store is not None and looked.said is not None and keepers_of(route, looked):
            self._wait(State.LOCATING, Locate(looked.said))
        else:
            self._is_astray = service.state.store is None and bool(keepers_of(route, looked))
            self._see()

    def _located(self, event: Done) -> None:
        """What a provider of the line keeps is its own to go on from; of all else the plan need not know."""
        route, looked = self._route, self._looked
        assert isinstance(event.value, str | None) and route is not None and looked is not None
        self._is_astray = event.value is None
        if event.value is not None and event.value in keepers_of(route, looked):
            self._keeper = event.value
        self._see()

    def _see(self) -> None:
        """See as much of the request as the line asks for."""
        service, route, looked = self._service, self._route, self._looked
        assert route is not None and looked is not None
        wants = wanted(self._body, self._asked, route, pinned=len(service.traffic.pins) > 0)
        if not self._keeper and not self._is_astray and says_too_little(looked, wants):
            self._account.update(asked=looked.model, size=len(self._body), facts=looked.facts)
            self._wait(State.WEIGHING, Recall(self._body, looked, route.targets[0]))
        else:
            self._look_for(wants)

    def _weighed(self, event: Done) -> None:
        """What a request goes on from is said to whoever is chosen, and weighs as much as what it says itself."""
        route = self._route
        assert (event.value is None or isinstance(event.value, ResolvedReferences)) and route is not None
        self._found = event.value
        self._look_for(wanted(self._body, self._asked, route, pinned=True))

    def _look_for(self, wants: RequiredFeatures) -> None:
        route, looked, body, found = self._route, self._looked, self._body, self._found
        assert route is not None and looked is not None
        size = len(body) if found is None else len(body) + found.size
        if not (wants.opening or wants.signs or wants.losses or wants.issuer):
            self._choose(NOTHING_SEEN)
        elif not wants.losses and size <= INLINE:
            self._choose(seen_in(body, self._asked, looked, route, wants, found))
        else:
            times = len(route.targets) if wants.losses else 1
            self._work(State.CHOOSING, times * size, seen_in, body, self._asked, looked, route, wants, found)

    def _chosen(self, event: Done) -> None:
        route, looked, service = self._route, self._looked, self._service
        assert isinstance(event.value, Seen) and route is not None and looked is not None
        if route.only is None:
            self._choose(event.value)
            return
        course = RetryState((route.only,), service.settings.routing, route, traffic=service.traffic)
        conversation = conversation_of(self._asked, looked, event.value.opening, looked.model)
        course.conversation = conversation
        course.pin = self._service.traffic.pins.pin(conversation, self._service.clock()) if conversation else None
        course.stays = bool(conversation)
        self._set_out(course)

    def _choose(self, seen: Seen) -> None:
        """Put the targets of a line in the order in which they are tried."""
        service, route, record, looked = self._service, self._route, self._account.record, self._looked
        assert route is not None and looked is not None
        asked, facts, routing, traffic = self._asked, looked.facts, service.settings.routing, service.traffic
        conversation = ""
        if (seen.opening is not None or looked.said is not None) and route.outline.follows:
            thread = thread_of(route, facts) if route.threaded else ""
            conversation = conversation_of(asked, looked, seen.opening, route.name, thread, facts.session != "")
        if self._is_astray:
            # Only whoever keeps it can go on from what was said, and nobody knows who that is.
            seen = replace(seen, refused={**unable_to_go_on(route), **seen.refused}, alone=True)
        needs = needs_of(asked, len(self._body), seen, record.program, record.key, self._own_strict)
        if route.ruled:
            needs = replace(needs, client=facts.client, thread=class_of(facts).kind)
        if self._keeper:
            needs = replace(needs, keeper=self._keeper)
        plan = traffic.plan(route, needs, service.knowledge, conversation, routing.explore)
        order = tuple(map(kept_there, plan.order)) if self._keeper or self._is_astray else None
        course = RetryState(order, routing, route, plan, traffic, service.settings.timeouts)
        course.conversation = conversation
        course.pin = plan.pin
        # `value` of an enumeration is a slow way to `_value_`.
        course.noted = {"route": route.name, "policy": plan.policy, "reason": plan.why._value_}
        if not course.is_calm:
            found, more = considered(plan, route.missed)
            course.noted |= {"considered": found, "considered_more": more}
        if _waits_for_a_stream(looked):
            self._is_held = True
            self._do(StartHeartbeats(routing.hold))
        self._set_out(course)

    def _set_out(self, course: RetryState) -> None:
        course.guarded = bool(self._service.settings.keys)
        self._course = self._replies.course = course
        self._search()

    @property
    def _own_strict(self) -> Strict:
        """Strict mode as server, key and client state it; a route may add to it."""
        if self._strict is None:
            self._strict = strict_mode(self._service.settings.server, self._asked)
        return self._strict


def _waits_for_a_stream(looked: ParsedRequest) -> bool:
    """Whether a client waits for events; one whose response runs in the background follows it."""
    in_background = looked.said is not None and looked.said.background
    return bytes(looked.outline.stream) == b"true" and not in_background
