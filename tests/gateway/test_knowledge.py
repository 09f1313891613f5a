"""What a configuration knows of its targets: what is unknown stays unknown."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.model.signs import Signs
from dragoman.prices.book import Override
from dragoman.prices.table import Rates
from dragoman.routing.needs import Needs
from tests.gateway.harness import CHAT, running, settings_for

# Pico-dollars for a token: a dollar and ten for a million.
PRICED = Override(rates=Rates(input=1_000_000, output=10_000_000, cache_read=100_000), window=1000)


def _priced(settings: Settings) -> Settings:
    return replace(settings, prices={"chat/m": PRICED})


def test_a_price_is_that_of_this_request() -> None:
    with running((), lambda port: _priced(settings_for(port))) as house:
        service = house.app.service
        known, target = service.knowledge, service.routes.target("chat/m", CHAT)
        needs = Needs(size=4000)
        assert known.cost(target, needs, 100.0) == 1000 * 1000 + 100 * 10_000
        # What may be answered is a limit, and a warm cache costs less.
        capped = replace(needs, signs=Signs(most_output=10))
        assert known.cost(target, capped, 100.0) == 1000 * 1000 + 10 * 10_000
        assert known.cost(target, replace(needs, warm=target.id), 100.0) == 1000 * 100 + 100 * 10_000
        # Media are no text, and not for nothing.
        shown = Needs(size=4000 + 300_000, signs=Signs(media=300_000))
        assert known.cost(target, shown, 100.0) == 1300 * 1000 + 100 * 10_000
        assert known.window(target) == 1000


def test_what_is_unknown_is_not_free() -> None:
    with running() as house:
        service = house.app.service
        target = service.routes.target("chat/nobody-knows-it", CHAT)
        assert service.knowledge.cost(target, Needs(size=4000), 100.0) is None
        assert service.knowledge.window(target) is None


def test_keys_that_rest_and_places_are_known() -> None:
    with running() as house:
        service = house.app.service
        target = service.routes.target("chat/m", CHAT)
        assert service.knowledge.free(target)
        assert service.knowledge.wakes(target) is None
        rotation = service.rotation(target.provider)
        for key in target.provider.keys:
            rotation.cool(key, 60.0, target.model)
        wakes = service.knowledge.wakes(target)
        assert wakes is not None and wakes > service.clock()
