"""Names that clients may use, and what lists of models tell of them."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from dragoman.gateway.model_names import model_of, models_of_all, names_of, providers_of, route_of
from dragoman.gateway.runtime import Runtime
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.listing import ListedModel
from tests.gateway.harness import CHAT, House, running, settings_for


def lines(port: int) -> Settings:
    """Lines of all kinds."""
    routes = (
        RouteConfig(pattern="mine", targets=("chat/served",)),
        RouteConfig(pattern="messages/served", targets=("chat/served", "all/served")),
        RouteConfig(pattern="x-*", targets=("chat/*",)),
        RouteConfig(pattern="nowhere", targets=("echo/text@nobody",)),
    )
    return replace(settings_for(port), routes=routes)


def told(house: House, name: str, listed: ListedModel | None = None) -> ListedModel:
    """What is told of a name, after the provider listed a model."""
    service: Runtime = house.app.runtime
    if listed is not None:
        service.listed.put(service.settings.providers["chat"], [listed], 1.0)
    return model_of(service, name, route_of(service, name, CHAT, ALL_RIGHTS))


def test_lines_come_first_and_none_comes_twice() -> None:
    with running((), lines) as house:
        names = [name for name, _ in names_of(house.app.runtime, CHAT, ALL_RIGHTS)]
    assert names[:5] == ["mine", "messages/served", "nowhere", "chat/served", "responses/served"]
    assert len(names) == len(set(names))


def test_a_line_that_leads_nowhere_spoils_nothing() -> None:
    with running((), lines) as house:
        assert dict(names_of(house.app.runtime, CHAT, ALL_RIGHTS))["nowhere"] is None
        assert told(house, "nowhere") == ListedModel(id="nowhere", owner="dragoman")


def test_a_line_keeps_its_own_name_and_owner_whatever_its_one_target_is_called() -> None:
    listed = ListedModel(id="served", title="Served", owner="them", created=5, window=9)
    with running((), lines) as house:
        assert told(house, "mine", listed) == ListedModel(id="mine", owner="dragoman", created=5, window=9)
        assert told(house, "chat/served") == replace(listed, id="chat/served")
        assert told(house, "messages/served") == ListedModel(id="messages/served", owner="messages", window=9)


def test_what_several_providers_call_alike_is_told_apart() -> None:
    with running((), lines) as house:
        service = house.app.runtime
        providers = service.settings.providers
        for name, title in (("chat", "Same"), ("responses", "Same"), ("all", "Other")):
            service.listed.put(providers[name], [ListedModel(id="served", title=title)], 1.0)
        models = models_of_all(service, names_of(service, CHAT, ALL_RIGHTS))
    assert [model.title for model in models if model.title] == [
        "Same (chat/served)",
        "Same (responses/served)",
        "Other",
    ]


def test_each_provider_is_found_once() -> None:
    with running((), lines) as house:
        service = house.app.runtime
        routes = [service.routes.route(name, CHAT, ALL_RIGHTS) for name in ("mine", "messages/served")]
        assert [provider.name for provider in providers_of(routes)] == ["chat", "all"]
