"""Before a target of several is chosen, it is found out who keeps what a request refers to, and what that is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings, Storage
from dragoman.errors import ClientError, Unreachable
from dragoman.gateway.exchange.events_commands import (
    Begin,
    CallTarget,
    Done,
    ExchangeEvent,
    Locate,
    Reserve,
    ResolveReferences,
    Respond,
    WaitFailed,
)
from dragoman.gateway.exchange.states import State
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.routing.route import RuleCondition
from dragoman.store.responses import Item
from tests.gateway.exchange.played import Played, played_by
from tests.gateway.harness import RESPONSES, settings_for


def _line(port: int) -> Settings:
    line = RouteConfig(pattern="line", targets=("chat/served", "responses/served", "messages/served"))
    return replace(settings_for(port), routes=(line,))


@pytest.mark.parametrize(
    ("keeper", "targets"),
    [
        ("responses", ["responses/served"]),
        # Here, and somebody who is not on the line.
        ("", ["chat/served"]),
        ("all", ["chat/served"]),
        # Nobody knows: the first who may.
        (None, ["responses/served"]),
    ],
)
def test_what_a_provider_keeps_it_alone_is_asked_for(keeper: str | None, targets: list[str]) -> None:
    def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        located = play.say(Begin(b'{"model":"line","input":"x","previous_response_id":"resp_1"}'))
        assert isinstance(located, Locate) and located.references.previous == "resp_1"
        assert play.machine.state is State.LOCATING
        recalled = play.say(Done(keeper))
        assert isinstance(recalled, ResolveReferences)
        assert [recalled.target.id] == targets
        assert recalled.target.stores_at_provider is (keeper in ("responses", None))

    played_by(story, _line)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"line","input":"x"}',
        b'{"model":"line","input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}]}',
        b'{"model":"responses/served","input":"x","previous_response_id":"resp_1"}',
        b'{"model":"chat/served","input":"x","previous_response_id":"resp_1"}',
    ],
)
def test_nothing_is_located_for_those_who_refer_to_nothing_or_have_no_choice(body: bytes) -> None:
    def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        assert isinstance(play.say(Begin(body)), ResolveReferences)
        assert State.LOCATING not in play.machine.passed

    played_by(story, _line)


@pytest.mark.parametrize(
    ("more", "asked"),
    [(b"", ["chat", "responses"]), (b',"previous_response_id":"resp_1"', ["responses"])],
    ids=["refers to nothing", "refers"],
)
def test_without_a_store_one_that_keeps_responses_is_asked_alone(more: bytes, asked: list[str]) -> None:
    line = RouteConfig(pattern="line", targets=("chat/served", "responses/served", "all/served"))

    def settings(port: int) -> Settings:
        return replace(settings_for(port), routes=(line,), storage=Storage(store_responses=False))

    def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        call = play.until_called(Begin(b'{"model":"line","input":"x"%b}' % more))
        called = [call.prepared.target.provider.name]
        play.say(WaitFailed(Unreachable("nobody is there")))
        if play.machine.state is not State.OVER:
            called.append(play.machine.attempt.target.provider.name)
        assert called == asked

    played_by(story, settings)


def test_a_store_that_cannot_say_who_keeps_it_is_told() -> None:
    def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        play.say(Begin(b'{"model":"line","input":"x","previous_response_id":"resp_1"}'))
        play.say(WaitFailed(ClientError(500, "what is kept cannot be read")))
        told = next(command for command in play.said if isinstance(command, Respond))
        assert (told.status, b"cannot be read" in told.body) == (500, True)
        assert play.machine.state is State.OVER

    played_by(story, _line)


FOUND = ResolvedReferences(
    before=[Item("msg_1", b'{"type":"message","role":"user","content":"Once upon a time."}')],
    stored_weight=(1, 66),
    own=[b'{"type":"message","role":"user","content":"And?"}'],
    cut=frozenset({"input", "previous_response_id", "conversation"}),
    background=False,
)


@pytest.mark.parametrize("policy", ["fallback", "least-loss"])
def test_what_was_looked_up_to_be_weighed_is_said_to_all_who_are_asked(policy: str) -> None:
    rule = RouteRule(when=RuleCondition(input_tokens_over=2000), targets=("chat/roomy",), weights=())
    line = RouteConfig(pattern="line", targets=("chat/served", "messages/served"), policy=policy, rules=(rule,))

    def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        weighing = play.say(Begin(b'{"model":"line","input":"And?","previous_response_id":"resp_1"}'))
        assert (type(weighing), play.machine.state) == (ResolveReferences, State.WEIGHING)
        asked: list[str] = []
        event: ExchangeEvent = Done(FOUND)
        for _ in line.targets:
            reserve = play.say(event)
            assert isinstance(reserve, Reserve) and b"Once upon a time." in reserve.prepared.translated.body
            asked.append(reserve.prepared.target.provider.name)
            assert isinstance(play.say(Done(reserve.prepared)), CallTarget)
            event = WaitFailed(Unreachable("nobody is there"))
        play.say(event)
        assert sorted(asked) == ["chat", "messages"] and play.machine.state is State.OVER

    played_by(story, lambda port: replace(settings_for(port), routes=(line,)))
