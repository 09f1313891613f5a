"""Model directory: every name with its metadata, for `dragoman models` and launches: names of `[models]`,
`provider/model` of all providers, then patterns of `[models]` and of the catalogue."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from dragoman.config.settings import RouteConfig, Settings, Storage
from dragoman.gateway.model_list_fetch import refresh_lists
from dragoman.gateway.model_names import NamedRoute, names_of, providers_of, route_of
from dragoman.gateway.observability.logs import Log
from dragoman.gateway.observability.metrics import Metrics
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.stored_state import StoredState
from dragoman.identities.identity import ALL_RIGHTS, Rights
from dragoman.identities.permissions import permits_model, permits_provider
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.routing.model_description import CAPABILITIES, DescribedName, DescribedTarget
from dragoman.routing.model_limits import ModelLimits, smallest
from dragoman.routing.target import Target
from dragoman.rules.capabilities import capabilities_of

_WILD = frozenset("*?[")


async def names_table(
    settings: Settings, match: str = "", names: Sequence[str] = (), *, live: bool = False
) -> tuple[list[DescribedName], dict[str, str]]:
    """The names of a configuration without a gateway, and providers that failed to list models (only if `live`)."""
    log = Log(io.StringIO())
    runtime = Runtime(settings, Metrics(), log, StoredState(Storage(store_responses=False), log))
    protocol, rights = PROTOCOL_NAMES[0], ALL_RIGHTS
    try:
        failed = await refresh_lists(runtime, settings.callable.values()) if live else {}
        return (
            look_up(runtime, protocol, rights, names) if names else search(runtime, protocol, rights, match)
        ), failed
    finally:
        await runtime.close()


def look_up(runtime: Runtime, protocol: str, rights: Rights, names: Iterable[str]) -> list[DescribedName]:
    """Metadata of these names, without names that lead nowhere."""
    return [described(runtime, (name, route)) for name in names if (route := route_of(runtime, name, protocol, rights))]


async def refresh_lists_for(runtime: Runtime, protocol: str, rights: Rights, names: Iterable[str]) -> None:
    """Request the model lists of all providers to which these names may lead."""
    routes = (route_of(runtime, name, protocol, rights) for name in names)
    await refresh_lists(runtime, providers_of(route for route in routes if route is not None), sizes=True)


def search(runtime: Runtime, protocol: str, rights: Rights, match: str = "") -> list[DescribedName]:
    """Metadata of all names that match a pattern or contain this text."""
    listed = names_of(runtime, protocol, rights)
    matches = [named for named in listed if fits(named[0], match)]
    if match and not _WILD.intersection(match) and match not in dict(listed):
        route = route_of(runtime, match, protocol, rights)
        if route is not None and (not matches or route.targets[0].id != match):
            # A name that is not listed, but has a route.
            matches.insert(0, (match, route))
    route_configs = {route_config.pattern: route_config for route_config in runtime.settings.routes}
    for route_config in runtime.settings.defaults:
        if route_config.targets[0].partition("/")[0] in runtime.settings.providers:
            # The configuration's own word goes first.
            route_configs.setdefault(route_config.pattern, route_config)
    wild = [
        _pattern(route_config, rights)
        for pattern, route_config in route_configs.items()
        if "*" in pattern and fits(pattern, match) and permits_model(rights, pattern)
    ]
    return [*(described(runtime, named) for named in matches), *(each for each in wild if each.targets)]


def fits(name: str, match: str) -> bool:
    """Whether a name is meant: by a pattern as shells know it, or by a part of it."""
    name, match = name.lower(), match.lower()
    return fnmatchcase(name, match) if _WILD.intersection(match) else match in name


def described(runtime: Runtime, named: NamedRoute) -> DescribedName:
    name, route = named
    if route is None:
        return DescribedName(name=name)
    targets = route.targets
    facts = [runtime.target_info.sizes(target) for target in targets]
    least = smallest(facts)
    return DescribedName(
        name=name,
        policy=route.policy,
        targets=tuple(_target(runtime, target, limits) for target, limits in zip(targets, facts, strict=True)),
        window=least.window,
        output_cap=least.cap,
        capabilities=_together(map(_able, targets)),
    )


def _target(runtime: Runtime, target: Target, facts: ModelLimits) -> DescribedTarget:
    return DescribedTarget(
        target=f"{target.provider.name}/{target.printable_model}",
        provider_protocol=target.endpoint.protocol,
        window=facts.window,
        output_cap=facts.cap,
        price=runtime.target_info.price(target),
        health=runtime.health_of(target),
    )


def _pattern(route_config: RouteConfig, rights: Rights) -> DescribedName:
    """A pattern, with as many targets as names that match; targets of its rules are included."""
    texts = dict.fromkeys((*route_config.targets, *(text for rule in route_config.rules for text in rule.targets)))
    targets = tuple(DescribedTarget(target=text) for text in texts if permits_provider(rights, text.partition("/")[0]))
    return DescribedName(name=route_config.pattern, policy=route_config.policy, targets=targets)


def _able(target: Target) -> dict[str, bool | None]:
    """The capabilities of a target; None if unknown."""
    capabilities = capabilities_of(
        target.endpoint.protocol, target.model, target.provider.vendor_or_name, target.provider.capabilities
    )
    # A vendor's own service accepts documents. For others, that is usually unknown.
    able = {"documents": True if capabilities.official else None, "thinking": capabilities.reasons}
    return {word: False if word in target.denies else able.get(word, True) for word in CAPABILITIES}


def _together(targets: Iterable[dict[str, bool | None]]) -> dict[str, bool | None]:
    """The capabilities of a name: a request that needs one goes to a target that has it."""
    each = list(targets)
    known = {word: {able[word] for able in each} for word in CAPABILITIES}
    return {word: True if True in values else None if None in values else False for word, values in known.items()}
