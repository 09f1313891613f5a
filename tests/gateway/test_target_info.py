"""What a configuration knows of its targets: what is unknown stays unknown."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.listing import ListedModel
from dragoman.model.request_features import RequestFeatures
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.needs import Requirements
from dragoman.routing.route import Route
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES, running, settings_for
from tests.gateway.routed import target_of

# Pico-dollars for a token: a dollar and ten for a million.
PRICED = Override(rates=Rates(input=1_000_000, output=10_000_000, cache_read=100_000), context_window=1000)


def _priced(settings: Settings) -> Settings:
    return replace(settings, prices={"chat/m": PRICED})


def test_a_price_is_that_of_this_request() -> None:
    with running((), lambda port: _priced(settings_for(port))) as house:
        service = house.app.runtime
        known, target = service.target_info, target_of(service.routes, "chat/m", CHAT)
        needs = Requirements(size=4000)
        assert known.cost(target, needs, 100.0) == 1000 * 1000 + 100 * 10_000
        # What may be answered is a limit, and a warm cache costs less.
        capped = replace(needs, request_features=RequestFeatures(max_output=10))
        assert known.cost(target, capped, 100.0) == 1000 * 1000 + 10 * 10_000
        assert known.cost(target, replace(needs, warm=target.id), 100.0) == 1000 * 100 + 100 * 10_000
        # Media are no text, and not for nothing.
        shown = Requirements(size=4000 + 300_000, request_features=RequestFeatures(media=300_000))
        assert known.cost(target, shown, 100.0) == 1300 * 1000 + 100 * 10_000
        assert known.window(target) == 1000


def test_what_is_unknown_is_not_free() -> None:
    with running() as house:
        service = house.app.runtime
        target = target_of(service.routes, "chat/nobody-knows-it", CHAT)
        assert service.target_info.cost(target, Requirements(size=4000), 100.0) is None
        assert service.target_info.window(target) is None


def test_keys_that_rest_and_places_are_known() -> None:
    with running() as house:
        service = house.app.runtime
        target = target_of(service.routes, "chat/m", CHAT)
        outline = service.routes.route("chat/m", CHAT, ALL_RIGHTS).summary
        health = service.routing_state.health
        assert not service.target_info.busy(outline) and health.are_healthy(outline.subjects)
        assert service.target_info.wakes(target) is None
        rotation = service.rotation(target.provider)
        for key in target.provider.keys:
            rotation.cool(key, 60.0, target.model)
        wakes = service.target_info.wakes(target)
        assert wakes is not None and wakes > service.clock()
        assert not health.are_healthy(outline.subjects)


def test_each_of_several_answers_is_paid() -> None:
    with running((), lambda port: _priced(settings_for(port))) as house:
        service = house.app.runtime
        target = target_of(service.routes, "chat/m", CHAT)
        asked = Requirements(size=4000, request_features=RequestFeatures(choices=3))
        assert service.target_info.cost(target, asked, 100.0) == 1000 * 1000 + 3 * 100 * 10_000


# Half the price, and twice.
TIERS = {
    "flex": Rates(input=500_000, output=5_000_000),
    "priority": Rates(input=2_000_000, output=20_000_000),
    "speed-fast": Rates(input=6_000_000, output=60_000_000),
}
USUAL = 1000 * 1000 + 100 * 10_000


def _tiered(port: int) -> Settings:
    settings = settings_for(port)
    label = {MESSAGES: "anthropic", CHAT: "openai", RESPONSES: "openai"}
    official = {
        name: replace(provider, vendor=label[provider.endpoints[0].protocol])
        for name, provider in settings.providers.items()
        if name in ("chat", "messages", "responses")
    }
    tiered = replace(PRICED, tiers=TIERS)
    prices = {f"{name}/tiered": tiered for name in official} | {f"{name}/gpt-5.1": PRICED for name in official}
    prices |= {"all/gpt-5.1": PRICED, "messages/claude-opus-4-6": PRICED}
    return replace(settings, providers={**settings.providers, **official}, prices=prices)


@pytest.mark.parametrize(
    ("model", "protocol", "tier", "cost"),
    [
        ("chat/tiered", CHAT, "flex", USUAL // 2),
        ("chat/tiered", CHAT, "priority", USUAL * 2),
        ("chat/tiered", CHAT, "fast", USUAL * 2),
        ("responses/tiered", RESPONSES, "priority", USUAL * 2),
        ("responses/tiered", MESSAGES, "speed-fast", USUAL * 2),
        ("messages/tiered", MESSAGES, "speed-fast", USUAL * 6),
        # What one vendor calls its tiers is not passed on to another.
        ("messages/tiered", CHAT, "priority", USUAL),
        ("chat/tiered", CHAT, "of somebody else", USUAL),
        # A tier without a price is unknown, but for one that is never dearer.
        ("chat/gpt-5.1", CHAT, "priority", None),
        ("chat/gpt-5.1", CHAT, "flex", USUAL),
        ("messages/claude-opus-4-6", MESSAGES, "speed-fast", None),
        # Nobody else knows the word.
        ("all/gpt-5.1", CHAT, "priority", USUAL),
    ],
)
def test_pitfall_407_a_request_is_estimated_at_the_tier_that_it_asks_for(
    model: str, protocol: str, tier: str, cost: int | None
) -> None:
    with running((), _tiered) as house:
        service = house.app.runtime
        target = target_of(service.routes, model, protocol)
        asked = Requirements(size=4000, request_features=RequestFeatures(tier=tier), protocol=protocol)
        assert service.target_info.cost(target, asked, 100.0) == cost


def test_windows_are_those_of_the_latest_lists() -> None:
    with running((), lambda port: _priced(settings_for(port))) as house:
        service = house.app.runtime
        outline = Route(
            name="line", members=(*(target_of(service.routes, f"chat/{name}", CHAT) for name in "ml"),)
        ).summary
        assert service.target_info.windows(outline) == [1000, None]
        for window in (9000, 8000):
            models = [ListedModel(id=name, window=window) for name in "ml"]
            service.listed.put(outline.leaves[0][1].provider, models, 0.0)
            assert service.target_info.windows(outline) == [1000, window]


def test_windows_of_names_that_clients_make_up_are_not_remembered_without_end() -> None:
    with running() as house:
        service = house.app.runtime
        for name in (*(f"chat/{number}" for number in range(5000)), f"chat/{'x' * 5000}"):
            assert service.target_info.windows(service.routes.route(name, CHAT, ALL_RIGHTS).summary) == [None]
        remembered = service.target_info._routes
        assert 0 < len(remembered) <= 4096 and max(len(name) for names in remembered for name in names) <= 512
