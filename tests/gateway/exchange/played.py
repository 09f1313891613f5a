"""A machine whose commands are answered by a test, one by one: no sockets, no sleep."""

from __future__ import annotations

import io
from collections.abc import Callable, Coroutine

from dragoman.config.settings import Routing, Settings
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.events_commands import (
    CallTarget,
    Command,
    Done,
    ExchangeEvent,
    Reserve,
    ResolveReferences,
    StreamThrough,
    Translated,
)
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.state_machine import Machine
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.observability.record import Record
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage
from dragoman.http.upstream_call import HeaderList
from dragoman.routing.needs import Requirements
from dragoman.routing.plan import PlanInputs, RandomDraws, plan
from dragoman.routing.route import Route
from tests.gateway.harness import CHAT, PATHS, new_service, settings_for
from tests.gateway.routed import target_of
from tests.virtual_time import run

# Where the providers would listen.
NO_PORT = 9


class Head:
    """The head of an answer."""

    def __init__(self, status: int, kind: bytes) -> None:
        self.status = status
        self.headers: HeaderList = [(b"content-type", kind)]


STREAM = Head(200, b"text/event-stream")
BODY = b'{"model":"messages/served","stream":true,"messages":[{"role":"user","content":"Hello."}]}'
OPENING = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
)
OPENING += b'"model":"served","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}\n\n'
CONTENT = b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
CONTENT += b'"text":""}}\n\nevent: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
CONTENT += b'"delta":{"type":"text_delta","text":"Hi"}}\n\n'


class Watched(Machine):
    """A machine that tells the states that it passes through without waiting in them."""

    def _dispatch(self, event: ExchangeEvent) -> None:
        self.passed.append(self.state)
        super()._dispatch(event)

    passed: list[State]


class Played:
    """A machine whose commands are answered here, one by one."""

    def __init__(self, service: Runtime, *others: str, headers: HeaderList | None = None, protocol: str = CHAT) -> None:
        asked = ClientRequest(api_path=api_path_of(PATHS[protocol]), headers=headers or [])
        self.account = service.builder_of(
            Record(id="req_1", client_protocol=protocol, path="", started=service.clock(), time=0.0)
        )
        self.machine = Watched(service, asked, self.account, ExchangeStorage(service, asked.api_path))
        self.machine.passed = []
        self.said: list[Command] = []
        self._service, self._others, self._protocol = service, others, protocol

    def say(self, event: ExchangeEvent) -> Command:
        """Let it move; give the last command."""
        self.said = self.machine.handle(event)
        return self.said[-1]

    def until_called(self, event: ExchangeEvent) -> CallTarget:
        """Answer what is asked before a provider is."""
        command = self.say(event)
        while not isinstance(command, CallTarget):
            if isinstance(command, ResolveReferences):
                command = self.say(Done(None))
            else:
                assert isinstance(command, Reserve), command
                command = self.say(Done(command.prepared))
        return command

    def more_targets(self) -> None:
        """As if the request's name had these targets behind the one that is asked."""
        routes, first = self._service.routes, self.machine.attempt.target
        targets = tuple(target_of(routes, name, self._protocol) for name in self._others)
        route = Route(name="line", members=(first, *targets))
        planned = plan(route, Requirements(size=1), PlanInputs(), RandomDraws())
        self.machine._retry_state = RetryState(planned.order[1:], Routing(), route, planned)
        self.machine._retry_state.tries = 1

    def told(self) -> SentState:
        return self.machine.sent

    def hear(self) -> StreamThrough:
        command = self.say(Done(STREAM))
        assert isinstance(command, StreamThrough)
        return command

    def take(self, hear: StreamThrough, chunk: bytes) -> Command | None:
        self.said = self.machine.handle(Translated(hear.feed(chunk), 1.0))
        return self.said[-1] if self.said else None


def played_by(story: Callable[[Runtime], None], settings: Callable[[int], Settings] = settings_for) -> None:
    """Play a story with the working parts of a gateway that nobody can call."""

    async def play(service: Runtime) -> None:
        story(service)

    served_by(play, settings)


def served_by(
    work: Callable[[Runtime], Coroutine[None, None, None]], settings: Callable[[int], Settings] = settings_for
) -> None:
    """Run work with the working parts of a gateway that nobody can call, in virtual time."""

    async def serve() -> None:
        service = new_service(settings(NO_PORT), io.StringIO())
        try:
            await work(service)
        finally:
            await service.close()
            await service.state.close(0.0)

    run(serve())


def kinds(said: list[Command]) -> list[type]:
    return [type(command) for command in said]
