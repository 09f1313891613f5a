"""Model names: the names that clients may use, and their metadata: routes of `[models]`, then `provider/model` as
configured or listed. Sizes are the least of all targets, rules included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

from msgspec.structs import replace

from dragoman.errors import NotPermitted
from dragoman.gateway.model_list_fetch import models_of
from dragoman.gateway.model_resolver import AbsentModel, UnknownModel
from dragoman.gateway.runtime import Runtime
from dragoman.identities.identity import Rights
from dragoman.identities.permissions import permits_provider
from dragoman.model.listing import ListedModel
from dragoman.providers.provider import Provider
from dragoman.routing.model_limits import smallest
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.rules.model_lists import restated

# The owner of names that belong to no provider.
_OWNER = "dragoman"

# The target or route of a name; None if that is nowhere, which its line alone is to blame for.
NamedRoute: TypeAlias = tuple[str, Route | None]


def names_of(runtime: Runtime, protocol: str, rights: Rights) -> list[NamedRoute]:
    """All permitted names without patterns, without doubles, in the order they are listed."""
    routes: dict[str, Route | None] = {}
    for name in runtime.routes.names():
        try:
            routes[name] = runtime.routes.route(name, protocol, rights)
        except (AbsentModel, NotPermitted):
            # No target is left for the name.
            continue
        except UnknownModel:
            routes[name] = None
    for provider in listed_providers(runtime, rights):
        endpoint = provider.endpoint_for(protocol)
        for model in models_of(runtime, provider):
            name = f"{provider.name}/{model}"
            if name not in routes and runtime.routes.permits(rights, name):
                # Thousands of them must not evict names of conversations from the cache, so they are not looked up.
                target = Target(provider=provider, endpoint=endpoint, model=model, strict=False)
                routes[name] = Route(name=name, members=(target,))
    return list(routes.items())


def listed_providers(runtime: Runtime, rights: Rights) -> list[Provider]:
    """The providers of lists: local servers only if they answered; echo only without another, unless it has a table."""
    settings = runtime.settings
    local = [provider for provider in settings.local.values() if models_of(runtime, provider)]
    return [provider for provider in settings.listed(local) if permits_provider(rights, provider.name)]


def route_of(runtime: Runtime, name: str, protocol: str, rights: Rights) -> Route | None:
    """The route of a permitted name, if it has one."""
    try:
        return runtime.routes.route(name, protocol, rights)
    except (NotPermitted, UnknownModel):
        return None


def providers_of(routes: Iterable[Route]) -> list[Provider]:
    """The providers of these routes, each once."""
    return list({target.provider.name: target.provider for route in routes for target in route.targets}.values())


def model_of(runtime: Runtime, name: str, route: Route | None) -> ListedModel:
    """A name in the form of model lists."""
    targets = route.targets if route is not None else ()
    listed = runtime.listed.model(targets[0]) if len(targets) == 1 else None
    is_own = any(target.id == name for target in targets)
    model = replace(
        listed or ListedModel(id=name),
        id=name,
        # A route is shown by its name, whatever its targets.
        title=listed.title if listed is not None and is_own else "",
        owner=(listed.owner if listed is not None and is_own else "")
        or (name.partition("/")[0] if "/" in name else _OWNER),
    )
    facts = smallest(map(runtime.target_info.sizes, targets))
    return restated(model, facts.window, facts.cap)


def models_of_all(runtime: Runtime, names: Iterable[NamedRoute]) -> list[ListedModel]:
    """Names in the form of model lists. Equal names of several providers get a prefix."""
    models = [model_of(runtime, *named) for named in names]
    titles = Counter(model.title for model in models)
    return [
        replace(model, title=f"{model.title} ({model.id})") if model.title and titles[model.title] > 1 else model
        for model in models
    ]
