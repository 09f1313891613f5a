"""Whom a count or a compaction goes to: where the conversation is, else to the window that it fills most."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway.exchange.fixed_target import filling, fixed_target
from dragoman.gateway.forwarding.client import ClientRequest
from dragoman.gateway.paths import api_path_of
from dragoman.gateway.stored_responses.exchange_storage import parse_request
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.prices.book import Override
from dragoman.routing.needs import Requirements
from tests.gateway.harness import MESSAGES, RESPONSES, Answer, House, Received, Reply, running, settings_for, whole
from tests.gateway.routed import target_of
from tests.gateway.says import question, tells, with_provider

TARGETS = ("chat/unknown", "messages/large", "responses/small", "all/tiny")
POLICIES = ("fallback", "fastest", "round-robin", "weighted")
LINES = tuple(
    RouteConfig(pattern=policy, targets=TARGETS, policy=policy, weights=(1,) * 4 if policy == "weighted" else ())
    for policy in POLICIES
)
WINDOWS = {
    "messages/large": Override(context_window=100_000),
    "responses/small": Override(context_window=1000),
    "all/tiny": Override(context_window=100),
}
COUNT = "/v1/messages/count_tokens"


def _lined(settings: Settings) -> Settings:
    return replace(settings, routes=(*settings.routes, *LINES), prices=WINDOWS)


def _fixed(house: House, name: str, text: str = "Hello.") -> str:
    path = api_path_of("/v1/messages")
    body = json.dumps({"model": name, "messages": [{"role": "user", "content": text}]}).encode()
    asked = ClientRequest(path, [], {})
    return house.run(fixed_target(house.app.runtime, asked, body, parse_request(body, path))).id


@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_goes_to_the_window_that_it_fills_most(policy: str) -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        for length, target in ((40, "all/tiny"), (2000, "responses/small"), (40_000, "messages/large")):
            assert _fixed(house, policy, "x" * length) == target
        # What fits nowhere goes to whoever may take it.
        assert _fixed(house, policy, "x" * 500_000) == "chat/unknown"


def test_a_picture_fills_no_window() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}}
    path = api_path_of("/v1/messages")
    body = json.dumps({"model": "fallback", "messages": [{"role": "user", "content": [picture]}]}).encode()
    with running((), lambda port: _lined(settings_for(port))) as house:
        asked = ClientRequest(path, [], {})
        assert house.run(fixed_target(house.app.runtime, asked, body, parse_request(body, path))).id == "all/tiny"


def test_what_overflows_goes_to_whoever_it_overflows_least() -> None:
    with running((), lambda port: _lined(settings_for(port))) as house:
        service = house.app.runtime
        fills = filling(Requirements(size=4_000_000), service.target_info.window)
        tiny, small, large, unknown = (
            fills(target_of(service.routes, name, MESSAGES))
            for name in ("all/tiny", "responses/small", "messages/large", "chat/unknown")
        )
        assert tiny < small < large < unknown == 0.0


def _led_to(told: Answer) -> str:
    """Who answered."""
    assert told.status == 200, told.body
    return (told.header("x-dragoman-route") or "").partition(";")[0]


def _falls_to(model: str, reply: Reply) -> Callable[[Received], Reply]:
    """Providers of which one alone answers."""

    def script(received: Received) -> Reply:
        if received.target == COUNT:
            return whole({"input_tokens": 7})
        return reply if received.json()["model"] == model else whole({"error": {"message": "No."}}, 500)

    return script


def test_a_conversation_is_counted_where_it_is() -> None:
    script = _falls_to("large", tells(MESSAGES))
    with running(script, with_provider(_lined, counts_tokens=True)) as house:

        def counted(line: str, **headers: str) -> str:
            return _led_to(house.post(COUNT, {**question(MESSAGES, MESSAGES), "model": line}, **headers))

        assert counted("fallback", x_dragoman_session="one") == "all/tiny"
        asked = {**question(MESSAGES, MESSAGES), "model": "fallback"}
        assert house.post("/v1/messages", asked, x_dragoman_session="one").status == 200
        assert counted("fallback", x_dragoman_session="one") == "messages/large"
        assert counted("fallback", x_dragoman_session="two") == "all/tiny"
        # A line on which conversations do not stay has no place for them.
        assert counted("round-robin", x_dragoman_session="one") == "all/tiny"


def test_a_count_takes_no_turn_and_rolls_no_dice() -> None:
    with running(lambda received: whole({"input_tokens": 7}), with_provider(_lined, counts_tokens=True)) as house:
        service = house.app.runtime

        def thrown() -> float:
            raise AssertionError("nothing is left to chance here")

        service.routing_state.rng = thrown
        for line in ("round-robin", "weighted", "fastest"):
            asked = {**question(MESSAGES, MESSAGES), "model": line}
            routes = {house.post(COUNT, asked).header("x-dragoman-route") for _ in range(3)}
            assert routes == {"all/tiny; protocol=anthropic-messages"}
        route = service.routes.route("round-robin", MESSAGES, ALL_RIGHTS)
        assert (
            service.routing_state.glance(route, Requirements(size=100), service.target_info).order[0].id
            == "chat/unknown"
        )


def test_a_conversation_is_compacted_where_it_is() -> None:
    script = _falls_to("large", tells(MESSAGES, "They met."))
    body = {"model": "fallback", "input": [{"role": "user", "content": "When do we meet?"}]}
    with running(script, with_provider(_lined)) as house:
        made = house.post("/v1/responses", body)
        assert made.status == 200, made.body
        told = house.post("/v1/responses/compact", body)
        assert (told.status, told.json()["object"]) == (200, "response.compaction")
        assert house.provider.received[-1].json()["model"] == "large"


@pytest.mark.parametrize("path", ["/v1/responses/input_tokens", "/v1/responses/compact"])
def test_what_a_provider_keeps_is_counted_and_compacted_there(path: str) -> None:
    compacted = {"id": "resp_c", "object": "response.compaction", "output": [], "usage": {}, "created_at": 1}

    def script(received: Received) -> Reply:
        return tells(RESPONSES) if received.target == "/v1/responses" else whole({**compacted, "input_tokens": 7})

    with running(script, with_provider(_lined, counts_tokens=True)) as house:
        made = house.post("/v1/responses", {"model": "responses/small", "input": "Hello."})
        assert made.status == 200, made.body
        body = {"model": "fallback", "input": "And now?"}
        assert _led_to(house.post(path, body)) == "all/tiny"
        assert _led_to(house.post(path, {**body, "previous_response_id": made.json()["id"]})) == "responses/small"
        received = house.provider.received[-1]
        assert (received.target, received.json()["previous_response_id"]) == (path, made.json()["id"])
        # What nobody knows is told, and nobody is asked.
        asked = len(house.provider.received)
        assert house.post(path, {**body, "previous_response_id": "resp_of_nobody"}).status == 400
        assert len(house.provider.received) == asked
