"""The table of names: sizes, capabilities, patterns, and the names that nobody lists."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, RouteRule, Settings
from dragoman.gateway.model_directory import fits, look_up, names_table, search
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.listing import ListedModel
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.model_description import DescribedName, DescribedTarget, Price
from dragoman.routing.route import RuleCondition
from dragoman.rules.capabilities import CapabilityRow
from tests.gateway.harness import CHAT, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import with_provider


def lines(port: int) -> Settings:
    """A line of two targets, one of them without pictures and reasoning, and a pattern."""
    made = settings_for(port)
    rows = (CapabilityRow(protocol=CHAT, changes={"images": False, "reasons": False}),)
    routes = (
        RouteConfig(pattern="both", targets=("chat/small", "messages/claude-opus-5"), policy="cheapest"),
        RouteConfig(pattern="x-*", targets=("chat/*",)),
    )
    defaults = (RouteConfig(pattern="gpt-*", targets=("responses/*",)),)
    providers = {**made.providers, "chat": replace(made.providers["chat"], capabilities=rows)}
    prices = {"chat/small": Override(rates=Rates(input=3_000_000, output=15_000_000))}
    return replace(made, routes=routes, defaults=defaults, providers=providers, prices=prices)


def found(house: House, match: str = "") -> dict[str, DescribedName]:
    """The names that are found, in their order."""
    return {name.name: name for name in search(house.app.runtime, CHAT, ALL_RIGHTS, match)}


def test_a_name_has_the_sizes_of_the_smallest_and_what_any_target_can() -> None:
    with running((), lines) as house:
        service = house.app.runtime
        service.listed.put(service.settings.providers["chat"], [ListedModel(id="small", window=9, cap=4)], 1.0)
        price = Price(input="3", output="15")
        (both,) = look_up(service, CHAT, ALL_RIGHTS, ["both", "no-such-name"])
    assert both == DescribedName(
        name="both",
        policy="cheapest",
        targets=(
            DescribedTarget(target="chat/small", provider_protocol=CHAT, window=9, output_cap=4, price=price),
            DescribedTarget(target="messages/claude-opus-5", provider_protocol="anthropic-messages", output_cap=128000),
        ),
        window=9,
        output_cap=4,
        capabilities={"tools": True, "images": True, "documents": True, "thinking": True, "structured": True},
    )


def test_what_is_not_known_of_an_ability_is_said_to_be_unknown() -> None:
    with running((), lines) as house:
        names = found(house)
    assert names["chat/served"].capabilities == {
        "tools": True,
        "images": False,
        "documents": None,
        "thinking": False,
        "structured": True,
    }
    assert names["all/served"].capabilities["thinking"] is None


def test_patterns_come_last_with_what_they_lead_to() -> None:
    with running((), lines) as house:
        names = found(house)
    assert next(iter(names)) == "both"
    assert list(names)[-2:] == ["x-*", "gpt-*"]
    assert names["gpt-*"] == DescribedName(
        name="gpt-*", policy="fallback", targets=(DescribedTarget(target="responses/*"),)
    )


def test_a_pattern_is_told_once_with_what_its_rules_lead_to() -> None:
    rule = RouteRule(when=RuleCondition(tools=True), targets=("chat/small", "messages/*"))
    own = RouteConfig(pattern="gpt-*", targets=("messages/*",), rules=(rule,))

    def ruled(port: int) -> Settings:
        made = lines(port)
        return replace(made, routes=(own, *made.routes))

    with running((), ruled) as house:
        names = search(house.app.runtime, CHAT, ALL_RIGHTS, "gpt-*")
    assert [name.name for name in names] == ["gpt-*"]
    assert [target.target for target in names[0].targets] == ["messages/*", "chat/small"]


@pytest.mark.parametrize(
    ("match", "names"),
    [
        ("both", ["both"]),
        ("SERVED", ["messages/served", "chat/served", "responses/served", "all/served"]),
        ("chat/*", ["chat/served"]),
        ("b?th", ["both"]),
        ("gpt-5", ["gpt-5"]),
        ("x-y", ["x-y"]),
        ("chat/other", ["chat/other"]),
        ("chat/serve", ["chat/served"]),
        ("no-such-name", []),
    ],
)
def test_names_are_chosen_by_a_pattern_or_a_part_of_them(match: str, names: list[str]) -> None:
    with running((), lines) as house:
        assert list(found(house, match)) == names


def test_everything_fits_nothing() -> None:
    assert fits("any", "")


def listing(received: Received) -> Reply:
    """A provider that lists one model, but not to everybody."""
    if "limit" in received.target:
        return whole({}, 500)
    return whole({"data": [{"id": "m", "context_length": 9}]})


@pytest.mark.parametrize("live", [True, False])
def test_a_configuration_that_nobody_serves_is_read_and_its_providers_asked_if_that_is_wished(live: bool) -> None:
    with running(listing, with_provider(models=None)) as house:
        settings = house.app.runtime.settings
        names, failed = asyncio.run(names_table(settings, "*/m", live=live))
        (of_one,), _ = asyncio.run(names_table(settings, names=["chat/m"], live=live))
    assert [(name.name, name.window) for name in names] == live * [("chat/m", 9), ("responses/m", 9)]
    assert failed == (dict.fromkeys(["messages", "all"], "it answered 500") if live else {})
    assert of_one.window == (9 if live else None)
