"""From a body to targets in their order: what is looked up for which request."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings, Storage
from dragoman.errors import ClientError, Unreachable
from dragoman.gateway.exchange import calling, understanding
from dragoman.gateway.exchange.exchange import Exchange
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ParsedRequest
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.routing.route import RuleCondition
from dragoman.routing.target import Target
from dragoman.store.responses import Item
from tests.gateway.exchange.played import Played, played_by
from tests.gateway.harness import RESPONSES, settings_for


def _line(port: int) -> Settings:
    line = RouteConfig(pattern="line", targets=("chat/served", "responses/served", "messages/served"))
    return replace(settings_for(port), routes=(line,))


class Lookups:
    """Look-ups of an exchange: who stores its input, and what a target gets in its place."""

    def __init__(
        self, patch: pytest.MonkeyPatch, provider: str | None = None, found: ResolvedReferences | None = None
    ) -> None:
        self.located = 0
        self.targets: list[Target] = []
        self._provider, self._found = provider, found
        patch.setattr(understanding, "locate_provider", self._locate)
        patch.setattr(understanding, "resolve_references", self._resolve)
        patch.setattr(calling, "resolve_references", self._resolve)

    async def _locate(self, *_: object, owners_recorded: bool) -> str | None:
        self.located += 1
        return self._provider

    async def _resolve(
        self, _exchange: Exchange, _body: bytes, _parsed: ParsedRequest, target: Target
    ) -> ResolvedReferences | None:
        self.targets.append(target)
        if self._found is None:
            raise ClientError(404, "no such response")
        return self._found


@pytest.mark.parametrize(
    ("provider", "target"),
    [
        ("responses", "responses/served"),
        # It is stored here, or by a provider that the route does not have.
        ("", "chat/served"),
        ("all", "chat/served"),
        # Nobody knows where: the first target that may have it.
        (None, "responses/served"),
    ],
)
def test_the_provider_that_stores_the_input_is_the_target(
    provider: str | None, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = Lookups(monkeypatch, provider)

    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        with pytest.raises(IndexError):
            await play.begin(b'{"model":"line","input":"x","previous_response_id":"resp_1"}')
        assert lookups.located == 1 and lookups.targets[0].id == target
        assert lookups.targets[0].stores_at_provider is (provider in ("responses", None))

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
def test_nothing_is_located_without_a_reference_or_a_choice(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = Lookups(monkeypatch)

    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        with pytest.raises(IndexError):
            await play.begin(body)
        assert lookups.located == 0 and lookups.targets

    played_by(story, _line)


@pytest.mark.parametrize(
    ("more", "called"),
    [(b"", ["chat", "responses"]), (b',"previous_response_id":"resp_1"', ["responses"])],
    ids=["refers to nothing", "refers"],
)
def test_without_a_store_only_a_provider_that_stores_responses_is_called(more: bytes, called: list[str]) -> None:
    line = RouteConfig(pattern="line", targets=("chat/served", "responses/served"))

    def settings(port: int) -> Settings:
        return replace(settings_for(port), routes=(line,), storage=Storage(store_responses=False))

    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        await play.begin(b'{"model":"line","input":"x"%b}' % more)
        names: list[str] = []
        while not play.is_over:
            names.append(play.attempt.target.provider.name)
            await play.fail(Unreachable("nobody is there"))
        assert names == called and play.client.status == 502

    played_by(story, settings)


def test_a_store_that_cannot_be_read_is_an_error_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreadable(*_: object, owners_recorded: bool) -> str | None:
        raise ClientError(500, "what is stored cannot be read")

    monkeypatch.setattr(understanding, "locate_provider", unreadable)

    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        with pytest.raises(IndexError):
            await play.begin(b'{"model":"line","input":"x","previous_response_id":"resp_1"}')
        assert play.is_over and (play.client.status, b"cannot be read" in play.client.body) == (500, True)

    played_by(story, _line)


FOUND = ResolvedReferences(
    before=[Item("msg_1", b'{"type":"message","role":"user","content":"Once upon a time."}')],
    stored_weight=(1, 66),
    own=[b'{"type":"message","role":"user","content":"And?"}'],
    cut=frozenset({"input", "previous_response_id", "conversation"}),
    background=False,
)


@pytest.mark.parametrize("policy", ["fallback", "least-loss"])
def test_input_that_was_weighed_is_looked_up_once_for_all_targets(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RouteRule(when=RuleCondition(input_tokens_over=2000), targets=("chat/roomy",), weights=())
    line = RouteConfig(pattern="line", targets=("chat/served", "messages/served"), policy=policy, rules=(rule,))
    lookups = Lookups(monkeypatch, found=FOUND)

    async def story(service: Runtime) -> None:
        play = Played(service, protocol=RESPONSES)
        await play.begin(b'{"model":"line","input":"And?","previous_response_id":"resp_1"}')
        called: list[str] = []
        while not play.is_over:
            assert b"Once upon a time." in play.calls[-1].request.body
            called.append(play.attempt.target.provider.name)
            await play.fail(Unreachable("nobody is there"))
        assert sorted(called) == ["chat", "messages"] and len(lookups.targets) == 1

    played_by(story, lambda port: replace(settings_for(port), routes=(line,)))


def test_an_unknown_model_is_recorded_as_it_was_requested() -> None:
    async def story(service: Runtime) -> None:
        play = Played(service)
        with pytest.raises(IndexError):
            await play.begin(b'{"model":"nowhere/nothing","messages":[]}')
        assert play.is_over and play.client.status == 404
        assert (play.record.requested_model, play.record.provider, play.record.size) == ("nowhere/nothing", "", 41)

    played_by(story)
