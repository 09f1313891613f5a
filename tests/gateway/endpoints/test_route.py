"""`POST /route`: a decision in words and numbers, made by the functions that make it, and nothing comes of it."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.route import RuleCondition
from tests.gateway.harness import (
    CHAT,
    MESSAGES,
    PATHS,
    PROTOCOLS,
    PROVIDER_KEY,
    RESPONSES,
    House,
    running,
    settings_for,
)
from tests.gateway.says import tells

KEY, OTHER = "sesame-open-the-gate", "another-key-of-this-gateway"
SECRET = "The raven's name is Huckebein."
LINES = (
    RouteConfig(pattern="two", targets=("chat/m", "messages/m")),
    RouteConfig(pattern="pair", targets=("chat/m", "chat/n")),
    RouteConfig(pattern="cheap", targets=("chat/dear", "messages/m", "responses/m"), policy="cheapest", max_cost=10**9),
    RouteConfig(pattern="turns", targets=("chat/m", "messages/m"), policy="round-robin"),
    RouteConfig(pattern="split", targets=("chat/m", "messages/m"), weights=(1, 5), policy="weighted"),
    RouteConfig(
        pattern="ruled",
        targets=("chat/m",),
        rules=(RouteRule(when=RuleCondition(key="key1"), targets=("messages/m",), weights=()),),
    ),
)
# Pico-dollars for a token.
PRICES = {
    "chat/dear": Override(rates=Rates(input=10**9, output=10**9), context_window=1000),
    "messages/m": Override(rates=Rates(input=10**6, output=10**6), context_window=200_000),
}


def settings_with(port: int, keys: tuple[str, ...] = ()) -> Settings:
    return replace(settings_for(port, keys=keys, rights=ALL_RIGHTS), routes=LINES, prices=PRICES)


def request_of(model: str = "two", **more: object) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": SECRET}], **more}


def asked(house: House, model: str, query: str = "", body: object = None, **headers: str) -> dict[str, object]:
    told = house.post(f"/route?model={model}{query}", request_of() if body is None else body, **headers)
    assert told.status == 200, told.body
    found = told.json()
    assert isinstance(found, dict)
    return dict(found)


def rows(told: dict[str, object]) -> list[dict[str, object]]:
    found = told["candidates"]
    assert isinstance(found, list)
    return found


def test_it_tells_candidates_and_why_and_asks_nobody() -> None:
    with running((), settings_with) as house:
        told = asked(house, "two")
        assert (told["route"], told["policy"], told["chosen"]) == ("two", "fallback", "chat/m")
        assert (told["why"], told["because"]) == ("policy", "it is the first target of the route")
        assert told["client_protocol"] == CHAT
        first, second = rows(told)
        assert (first["target"], first["place"], first["nano_dollars"], first["speed"]) == ("chat/m", 1, None, None)
        assert (second["target"], second["place"], second["window"]) == ("messages/m", 2, 200_000)
        # Whether the policy asks for it or not.
        assert isinstance(second["nano_dollars"], int) and isinstance(second["losses"], int)
        assert isinstance(second["bookkeeping_losses"], int)
        assert not house.provider.received


def test_the_request_is_never_written_down() -> None:
    with running((), settings_with) as house:
        asked(house, "two")
        broken = house.post("/route?model=two&protocol=openai-chat", b'{"messages": "' + SECRET.encode())
        assert broken.status == 400
        assert house.post(f"/route?model={SECRET.replace(' ', '+')}", request_of()).status == 404
        assert "Huckebein" not in house.log.getvalue()


def test_what_filters_left_out_is_told_with_the_reason() -> None:
    with running((), settings_with) as house:
        told = asked(house, "cheap", body=request_of(messages=[{"role": "user", "content": "word " * 4000}]))
        assert (told["chosen"], told["because"]) == ("messages/m", "it is the only target left")
        left = {row["target"]: row["left_out"] for row in rows(told)}
        assert left == {
            "messages/m": None,
            "chat/dear": {"filter": "window", "why": "its window is too small"},
            "responses/m": {"filter": "unknown_cost", "why": "its price is unknown, and there is a max_cost"},
        }
        assert [row["target"] for row in rows(told)] == ["messages/m", "chat/dear", "responses/m"]


def test_what_refers_to_a_kept_file_has_one_target_alone() -> None:
    kept = [{"type": "file", "file": {"file_id": "file-1"}}, {"type": "text", "text": SECRET}]
    with running((), settings_with) as house:
        told = asked(house, "pair", body=request_of(messages=[{"role": "user", "content": kept}]))
        assert [row["place"] for row in rows(told)] == [1, None]


@pytest.mark.parametrize("client", PROTOCOLS)
def test_who_asks_in_vain_is_told_which_filter_left_out_which_target(client: str) -> None:
    long = "word " * 200_000
    body: dict[str, object] = {"model": "cheap", "max_tokens": 9, "messages": [{"role": "user", "content": long}]}
    if client == RESPONSES:
        body = {"model": "cheap", "input": long}
    with running((), lambda port: replace(settings_with(port), prices={"chat/dear": PRICES["chat/dear"]})) as house:
        told = house.post(PATHS[client], body)
        assert told.status == 400
        error = told.json()["error"]
        assert isinstance(error, dict)
        assert error["message"] == (
            "no target of `cheap` can take this request: chat/dear: its window is too small; messages/m: its price is "
            "unknown, and there is a max_cost; responses/m: its price is unknown, and there is a max_cost"
        )
        assert asked(house, "cheap", f"&protocol={client}", body)["because"] == "no target can be called"


def test_speed_and_health_are_those_of_the_gateway() -> None:
    with running((), settings_with) as house:
        traffic = house.app.runtime.routing_state
        now = traffic.clock()
        traffic.speeds.record_response("messages/m", 100, now - 30.0, seconds=2.0, tokens=100.0, first=0.5)
        traffic.health.record("chat/m", AttemptOutcome.CONNECTION_LOST, now, now - 1.0)
        traffic.clock = lambda: now + 3.0
        told = asked(house, "two")
        assert told["chosen"] == "messages/m"
        assert told["because"] == "it is the first target of the route that is neither left out nor deprioritized"
        first, second = rows(told)
        speed = first["speed"]
        assert isinstance(speed, dict)
        assert (speed["first_token"], speed["tokens_per_second"], speed["samples"]) == (0.5, 50.0, 1)
        assert 30.0 <= speed["age"] < 60.0
        assert (second["health"], second["deprioritized"]) == (
            "suspect",
            {"cause": "suspect", "why": "failed 3 s ago"},
        )
        for begun in range(5):
            traffic.health.record("chat/m", AttemptOutcome.CONNECTION_LOST, now + begun / 100, now + begun / 100)
        quick = rows(asked(house, "two"))[1]
        why = "in cooldown: called if all others fail"
        assert (quick["left_out"], quick["deprioritized"]) == (None, {"cause": "cooldown", "why": why})
        traffic.health.reset("chat/m", now)
        traffic.health.record("chat/m", AttemptOutcome.FIRST_BYTE_TIMEOUT, now + 20.0, now)
        resting = rows(asked(house, "two"))[1]
        assert (resting["health"], resting["left_out"]) == ("cooldown", None)
        assert resting["deprioritized"] == {"cause": "cooldown", "why": why}
        # A name without a choice is asked however its target stands.
        alone = asked(house, "chat/m")
        assert (alone["chosen"], alone["because"]) == ("chat/m", "the name has no other target")


def test_one_that_has_only_just_come_back_is_told_as_what_most_requests_find() -> None:
    with running((), settings_with) as house:
        traffic = house.app.runtime.routing_state
        now = traffic.clock()
        for _ in range(5):
            traffic.health.record("chat/m", AttemptOutcome.CONNECTION_LOST, now, now)
        permit = traffic.health.take_permit("chat/m", now, 10.0)
        traffic.health.record("chat/m", AttemptOutcome.ANSWERED, now, now, permit=permit)
        told = asked(house, "two")
        assert told["chosen"] == "messages/m"
        why = "slow start after a cooldown: it gets a part of the requests"
        assert rows(told)[1]["deprioritized"] == {"cause": "slow_start", "why": why}


def test_no_dice_are_rolled_no_turn_is_taken_and_no_conversation_is_kept_alive() -> None:
    with running(lambda _: tells(CHAT), settings_with) as house:
        traffic = house.app.runtime.routing_state

        def chance() -> float:
            raise AssertionError("dice were rolled")

        traffic.rng = chance
        assert {str(asked(house, "turns")["chosen"]) for _ in range(3)} == {"chat/m"}
        told = asked(house, "split")
        assert "no dice are rolled" in str(told["because"])
        assert house.app.runtime.metrics.snapshot().in_flight == 0


def test_a_conversation_is_found_where_it_is_by_its_own_key_alone() -> None:
    with running(lambda _: tells(MESSAGES), lambda port: settings_with(port, (KEY, OTHER))) as house:
        traffic = house.app.runtime.routing_state
        now = traffic.clock()
        for begun in range(5):
            traffic.health.record("chat/m", AttemptOutcome.CONNECTION_LOST, now + begun / 100, now + begun / 100)
        assert house.post(PATHS[CHAT], request_of(), authorization=f"Bearer {KEY}").status == 200
        traffic.health.reset("chat/m", now)
        mine = asked(house, "two", authorization=f"Bearer {KEY}")
        assert (mine["chosen"], mine["why"]) == ("messages/m", "pinned")
        for query, key in (("", OTHER), ("&key=key0", OTHER), ("&key=key1", KEY)):
            assert asked(house, "two", query, authorization=f"Bearer {key}")["why"] == "policy", query


def test_rules_are_asked_as_for_the_key_that_is_named() -> None:
    with running((), lambda port: settings_with(port, (KEY, OTHER))) as house:
        assert asked(house, "ruled", authorization=f"Bearer {KEY}")["chosen"] == "chat/m"
        told = asked(house, "ruled", "&key=key1", authorization=f"Bearer {KEY}")
        assert (told["chosen"], told["rules"]) == ("messages/m", ["ruled#0"])


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ("model=nobody/nothing", request_of(), 404),
        ("model=two", {"what": "is this"}, 400),
        ("model=two&protocol=telegraph", request_of(), 400),
        ("model=two", b"{", 400),
        ("", {"messages": [], "model": ""}, 400),
    ],
)
def test_what_cannot_be_understood_is_told(query: str, body: object, status: int) -> None:
    with running((), settings_with) as house:
        told = house.post(f"/route?{query}", body)
        assert told.status == status
        assert json.loads(told.body)["error"]["message"]


def test_it_is_guarded_as_the_status_is() -> None:
    with running((), settings_with) as house:
        assert house.get("/route").status == 405
        assert house.post("/route?model=two", request_of(), x_forwarded_for="203.0.113.9").status == 403
        assert house.post("/route?model=two", request_of(), origin="https://evil.example").status == 403
    with running((), lambda port: settings_with(port, (KEY,))) as house:
        assert house.post("/route?model=two", request_of()).status == 401
        told = house.post("/route?model=two", request_of(), authorization=f"Bearer {KEY}", via="1.1 proxy")
        assert told.status == 200
        assert KEY.encode() not in told.body and PROVIDER_KEY.encode() not in told.body
