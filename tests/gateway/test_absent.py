"""Providers that are absent: whom the others' requests go to, and what is refused (decision 29)."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Missing, RouteConfig, RouteRule, Settings
from dragoman.errors import ConfigError
from dragoman.gateway.model_resolver import AbsentModel, ModelResolver
from dragoman.gateway.workers.protection import judged, protection_of
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.routing.route import RuleCondition
from tests.gateway.harness import CHAT, House, running, settings_for
from tests.gateway.routed import target_of
from tests.gateway.says import tells

GONE = Missing(
    left_out="providers.gone",
    key="providers.gone.api_key",
    problem="the environment variable GONE_KEY is not set",
    remedy="export GONE_KEY=…",
    variable="GONE_KEY",
    line=7,
)
UNSEEN = replace(GONE, key="models.smart[0]", has_table=False)
LINES = (
    RouteConfig(pattern="first", targets=("gone/m", "chat/m")),
    RouteConfig(pattern="alone", targets=("gone/m",)),
    RouteConfig(pattern="around", targets=("alone", "chat/m")),
    RouteConfig(pattern="again", targets=("alone",)),
    RouteConfig(pattern="split", targets=("gone/m", "chat/m", "messages/m"), weights=(5, 2, 1), policy="weighted"),
    RouteConfig(pattern="wild-*", targets=("gone/*-large", "chat/*")),
    RouteConfig(pattern="gone/same", targets=("gone/same", "chat/same")),
    RouteConfig(
        pattern="by-rule", targets=("chat/m",), rules=(RouteRule(when=RuleCondition(tools=True), targets=("gone/m",)),)
    ),
    RouteConfig(
        pattern="but-rule", targets=("gone/m",), rules=(RouteRule(when=RuleCondition(tools=True), targets=("chat/m",)),)
    ),
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def settings_with(port: int, lines: tuple[RouteConfig, ...] = LINES, missing: Missing = GONE) -> Settings:
    given = settings_for(port)
    defaults = (RouteConfig(pattern="gone-*", targets=("gone/*",)),)
    return replace(given, routes=lines, defaults=defaults, absent={"gone": missing}, missing=(missing,))


def routes(missing: Missing = GONE, lines: tuple[RouteConfig, ...] = LINES) -> ModelResolver:
    return ModelResolver(settings_with(1, lines, missing))


def request_of(model: str, **more: object) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": "Hello."}], **more}


@pytest.mark.parametrize(
    ("name", "targets", "missed"),
    [
        ("first", ["chat/m"], ("gone/m",)),
        ("around", ["chat/m"], ("gone/m",)),
        ("split", ["chat/m", "messages/m"], ("gone/m",)),
        ("wild-x", ["chat/wild-x"], ("gone/x-large",)),
        ("gone/same", ["chat/same"], ("gone/same",)),
        ("by-rule", ["chat/m"], ("gone/m",)),
        ("but-rule", ["chat/m"], ("gone/m",)),
    ],
)
def test_the_others_of_a_line_are_used(name: str, targets: list[str], missed: tuple[str, ...]) -> None:
    route = routes().route(name, CHAT, ALL_RIGHTS)
    assert [target.id for target in route.targets] == targets
    assert route.missed == missed


def test_weights_stay_with_their_targets() -> None:
    assert routes().route("split", CHAT, ALL_RIGHTS).weights == (2, 1)


@pytest.mark.parametrize("name", ["alone", "again", "gone/any", "gone-x"])
def test_a_name_with_nobody_left_is_refused_and_says_who_is_missing(name: str) -> None:
    with pytest.raises(AbsentModel, match="gone is not set up here") as caught:
        routes().route(name, CHAT, ALL_RIGHTS)
    assert caught.value.providers == ("gone",)


def test_one_without_a_table_is_behind_a_line_of_its_name() -> None:
    lines = (
        RouteConfig(pattern="gone/*", targets=("chat/*",)),
        RouteConfig(pattern="smart", targets=("gone/x", "messages/x")),
    )
    found = routes(UNSEEN, lines)
    assert target_of(found, "gone/x", CHAT).id == "chat/x"
    assert [target.id for target in found.route("smart", CHAT, ALL_RIGHTS).targets] == ["chat/x", "messages/x"]
    tabled = routes(GONE, lines)
    assert [target.id for target in tabled.route("smart", CHAT, ALL_RIGHTS).targets] == ["messages/x"]
    with pytest.raises(AbsentModel):
        target_of(tabled, "gone/x", CHAT)


def test_embeddings_of_a_line_whose_rule_alone_is_left_have_nobody() -> None:
    with pytest.raises(AbsentModel):
        routes().alike("but-rule", CHAT, ALL_RIGHTS)


def test_clients_are_refused_with_a_404_and_others_are_served() -> None:
    with running([tells(CHAT)] * 2, settings_with) as house:
        assert post(house, "first") == 200
        assert house.provider.received[0].json()["model"] == "m"
        for name in ("alone", "gone/any", "gone-x"):
            assert post(house, name) == 404
        assert post(house, "by-rule") == 200
        assert len(house.provider.received) == 2


def post(house: House, model: str) -> int:
    return house.post("/v1/chat/completions", request_of(model)).status


def test_a_rule_with_nobody_left_leads_nowhere_else() -> None:
    with running([tells(CHAT)], settings_with) as house:
        told = house.post("/v1/chat/completions", request_of("by-rule", tools=[TOOL]))
        assert told.status == 400
        assert "gone/m: its provider is not configured" in told.body.decode()
        assert not house.provider.received
        assert house.post("/v1/chat/completions", request_of("but-rule", tools=[TOOL])).status == 200


def test_route_shows_who_is_left_out() -> None:
    with running((), settings_with) as house:
        told = house.post("/route?model=first", request_of("first")).json()
        assert told["chosen"] == "chat/m"
        assert told["candidates"][-1] == {  # type: ignore[index]
            "target": "gone/m",
            "place": None,
            "health": "absent",
            "left_out": {"filter": "absent", "why": "its provider is not configured"},
        }


def test_lists_have_only_names_that_lead_somewhere() -> None:
    with running((), settings_with) as house:
        listed = [model["id"] for model in json.loads(house.get("/v1/models").body)["data"]]
        assert {"first", "around", "split"} <= set(listed)
        assert not {"alone", "again"} & set(listed)
        told = [name["name"] for name in json.loads(house.get("/model-names").body)["names"]]
        assert "gone-*" not in told


def test_a_path_of_a_provider_that_is_not_there_is_refused() -> None:
    with running((), settings_with) as house:
        assert house.post("/v1/files", b"", x_dragoman_provider="gone").status == 404


def test_a_reload_that_would_lose_a_provider_is_not_applied() -> None:
    before = settings_for(1)
    missing = replace(GONE, key="providers.chat.api_key")
    after = replace(before, absent={"chat": missing}, file="dragoman.toml")
    with pytest.raises(ConfigError, match=r"dragoman\.toml:7: providers\.chat\.api_key: .*GONE_KEY is not set"):
        judged(protection_of(before), before, after)
    # One that was not there before is no loss.
    assert judged(protection_of(before), before, replace(after, absent={"gone": GONE})).absent == {"gone": GONE}
