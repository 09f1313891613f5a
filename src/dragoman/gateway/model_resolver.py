"""Model resolver: the targets of a name. It looks for the name in `[models]`, for `provider/model`, for the pattern of
`[models]` with the longest literal prefix, then for what the catalogue serves. Routes are resolved down to targets at
once. Every look-up states the rights of its gateway key: here a name becomes a route, so here they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import TypeVar

from msgspec.structs import replace

from dragoman.config.nesting import Patterns
from dragoman.config.settings import Missing, RouteConfig, Settings
from dragoman.errors import DragomanError, NotPermitted
from dragoman.gateway.advice import Advice, nearest, printable, without_key
from dragoman.gateway.claude_names import SUFFIX, lookup_name
from dragoman.identities.identity import ALL_RIGHTS, Rights
from dragoman.identities.key_text import without_key_texts
from dragoman.identities.permissions import has_lists, limits_models, permits_model
from dragoman.model.losses import strictest
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.providers.catalogue import CatalogueEntry, aliased, catalogue
from dragoman.providers.provider import Provider, split_protocol
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import Route, RoutingRule
from dragoman.routing.target import Target, printable_model_name

K = TypeVar("K")
# Maximum cached names, and their maximum length: a name comes from outside and may be as large as a body.
_MAX_CACHED_ROUTES = 4096
_MAX_NAME_LENGTH = 256
# Maximum names that are compared with an unknown one.
_MAX_COMPARED = 500
# Lists of providers whose routes are cached; keys with the same list share them.
_MAX_NARROWED = 256


class UnknownModel(DragomanError):
    """An unknown model name; the message has the nearest names, or an advice for the operator."""

    def __init__(self, message: str | Advice) -> None:
        self.advice = message if isinstance(message, Advice) else Advice(operator=message, client=message)
        super().__init__(self.advice.operator)


class AbsentModel(UnknownModel):
    """A model name whose providers lack something; `Settings.absent` has the missing item."""

    def __init__(self, name: str, providers: Iterable[str], absent: Mapping[str, Missing]) -> None:
        self.providers = tuple(dict.fromkeys(providers))
        are = "is" if len(self.providers) == 1 else "are"
        message = f"the model {printable(name)} cannot be asked: {', '.join(self.providers)} {are} not set up here"
        lacks = "; ".join(f"{lack.problem} ({lack.remedy})" for each in self.providers if (lack := absent.get(each)))
        super().__init__(
            Advice(operator=f"{message}: {lacks}" if lacks else message, client=message, is_permanent=True)
        )


class _RouteIndex:
    """Lines by their names and patterns."""

    def __init__(self, route_configs: Iterable[RouteConfig]) -> None:
        self._all = {route_config.pattern: route_config for route_config in route_configs}
        self.exact = {name: route_config for name, route_config in self._all.items() if "*" not in name}
        self._patterns = Patterns(self._all)

    def named(self, name: str) -> RouteConfig | None:
        """The route of a name: its own, else that of the pattern with the longest literal prefix."""
        route_config = self.exact.get(name)
        if route_config is None:
            pattern = self._patterns.match(name)
            route_config = None if pattern is None else self._all[pattern]
        return route_config


class ModelResolver:
    """The names of one configuration; `stores_responses` if there is a store. `providers` are those of a gateway key:
    targets of all others are left out."""

    def __init__(
        self, settings: Settings, *, stores_responses: bool = False, providers: tuple[str, ...] | None = None
    ) -> None:
        self._settings = settings
        self._all_providers = self._providers = settings.callable
        self._withheld: frozenset[str] = frozenset()
        if providers is not None:
            self._providers = {name: each for name, each in settings.callable.items() if name in providers}
            self._withheld = frozenset({*settings.callable, *settings.absent}.difference(providers))
        self._local = settings.local
        self._absent = settings.absent
        self._discover = settings.server.discover
        self._stores_responses = stores_responses
        # Resolvers for the lists of providers of gateway keys.
        self._narrowed: dict[tuple[str, ...], ModelResolver] = {}
        self._routes = _RouteIndex(settings.routes)
        self._defaults = _RouteIndex(settings.defaults)
        # Routes of names for clients of a protocol; and by the value of rights, the routes that they permit.
        self._cache: dict[tuple[str, str], Route] = {}
        self._permitted: dict[tuple[str, str, Rights], Route] = {}
        # The model list of a provider, if it was requested.
        self.listed: Callable[[Provider], Iterable[str]] = lambda provider: ()
        # The ids of targets that the configuration spells out, as they are and as they are shown.
        self.spelled = frozenset(_spelled(settings))

    def route(self, name: str, protocol: str, rights: Rights) -> Route:
        """Resolve a model name for a client of a protocol, by the rights of its gateway key."""
        route = self._permitted.get((name, protocol, rights))
        if route is None:
            if not self.permits(rights, name):
                raise _not_permitted(name)
            resolver = self if rights.providers is None else self._narrowed_to(rights.providers)
            route = resolver._routed(name, protocol, rights)
            _remember(self._permitted, name, (name, protocol, rights), route)
        return route

    def permits(self, rights: Rights, name: str) -> bool:
        """Whether a key's list of models permits what a name is dispatched as."""
        if not limits_models(rights):
            return True
        names = self._matched(name)
        if all(permits_model(rights, each) for each in names):
            return True
        return len(names) == 1 and any(permits_model(rights, each) for each in self._aliases(names[0]))

    def leads_to(self, name: str, target: str, protocol: str, rights: Rights) -> bool:
        """Whether a permitted name leads to a target, by its id."""
        try:
            return any(each.id == target for each in self.route(name, protocol, rights).targets)
        except (NotPermitted, UnknownModel):
            return False

    def _matched(self, name: str) -> tuple[str, ...]:
        """The names of which a key's list must permit each: the one that is looked up, and without `[1m]` and the
        protocol, which choose no model. A name with them that a route has without them must be permitted as written:
        it goes another way than that route."""
        return self._dispatched(name if name in self._routes.exact else lookup_name(name))

    def _dispatched(self, name: str) -> tuple[str, ...]:
        """The same of a name that `_find` looks for; the cases are its own."""
        if name in self._routes.exact:
            return (name,)
        first, slash, rest = name.partition("/")
        provider = self._all_providers.get(first) if slash and rest else None
        if provider is not None:
            plain = f"{first}/{_split(provider, rest.removesuffix(SUFFIX))[0]}"
            return (name, plain) if plain in self._routes.exact else (plain,)
        if self._routes.named(name) is None and self._defaults.named(name) is None:
            own = self._without_alias(name)
            if own is not None:
                return self._dispatched(own)
        plain = split_protocol(name.removesuffix(SUFFIX))[0]
        return (name,) if plain == name else (name, plain)

    def _aliases(self, name: str) -> Iterator[str]:
        """The other names by which the model of a provider can be requested."""
        first, _, rest = name.partition("/")
        entry = catalogue().get(first)
        for alias in () if entry is None or name in self._routes.exact else entry.aliases:
            other = f"{alias}/{rest}"
            if alias not in self._all_providers and self._dispatched(other) == (name,):
                yield other

    def _narrowed_to(self, providers: tuple[str, ...]) -> ModelResolver:
        """The same names without the targets of all providers but these."""
        narrowed = self._narrowed.get(providers)
        if narrowed is None:
            if len(self._narrowed) >= _MAX_NARROWED:
                self._narrowed.clear()
            narrowed = ModelResolver(self._settings, stores_responses=self._stores_responses, providers=providers)
            narrowed.listed = self.listed
            self._narrowed[providers] = narrowed
        return narrowed

    def _routed(self, name: str, protocol: str, rights: Rights) -> Route:
        cached = self._cache.get((name, protocol))
        if cached is None:
            if without_key_texts(name) != name:
                # It would be in the records as the model of the target.
                raise UnknownModel("the model is the text of a gateway key; send that as Authorization: Bearer")
            try:
                cached = self._find(name if name in self._routes.exact else lookup_name(name), protocol)
            except AbsentModel:
                raise
            except UnknownModel:
                if has_lists(rights):
                    raise self._unknown_among(rights, name) from None
                raise
            _remember(self._cache, name, (name, protocol), cached)
        return cached

    def fixed(
        self, name: str, protocol: str, rights: Rights, pinned: str | None, fills: Callable[[Target], float]
    ) -> Target:
        """The target of a name without random choice and turns: the one with the affinity's ID, else the one that is
        filled most by `fills`, the share of a target's window; ties in order."""
        route = self.route(name, protocol, rights)
        only = route.only
        if only is not None:
            return only
        targets = (*_members(route), *route.targets)
        for target in targets:
            if target.id == pinned:
                return target
        return max(targets, key=fills)

    def alike(self, name: str, protocol: str, rights: Rights) -> tuple[Target, ...]:
        """The targets of a name that serve the same model as its first one, in order; rules choose none of them."""
        route = self.route(name, protocol, rights)
        members = tuple(_members(route))
        if not members:
            raise self._no_target(name, route)
        return tuple(member for member in members if member.model == members[0].model)

    def names(self) -> list[str]:
        """The names without patterns, for listings."""
        return list(self._routes.exact)

    def _no_target(self, name: str, route: Route) -> DragomanError:
        """The error about a route without targets: their providers are not there, or not for this key."""
        absent = [provider for provider in map(_provider_of, route.missed) if provider not in self._withheld]
        return AbsentModel(name, absent, self._absent) if absent or not route.missed else _not_permitted(name)

    def _find(self, name: str, protocol: str) -> Route:
        route_config = self._routes.exact.get(name)
        if route_config is None:
            first, slash, rest = name.partition("/")
            if slash and rest and first in self._providers:
                return Route(name=name, members=(self._target(name, first, rest, protocol),))
            if slash and rest and first in self._all_providers:
                raise _not_permitted(name)
            if slash and rest and self._is_absent(first, self._routes.named(name)):
                raise _not_permitted(name) if first in self._withheld else AbsentModel(name, [first], self._absent)
            route_config = self._routes.named(name) or self._defaults.named(name)
        if route_config is None:
            own = self._without_alias(name)
            if own is None:
                raise self._unknown(name)
            return self._find(own, protocol)
        route = self._resolved(route_config, name, protocol)
        if not route.targets:
            raise self._no_target(name, route)
        if self._stores_responses and len(route.targets) > 1:
            # Any target can continue it.
            route = self._resolved(route_config, name, protocol, stored=True)
        return route

    def _resolved(self, route_config: RouteConfig, name: str, protocol: str, *, stored: bool = False) -> Route:
        """A line, with everything that it leads to, for a name that matches it."""

        def filled_with(texts: tuple[str, ...], weights: tuple[int, ...]) -> Route:
            """The route with its targets, without absent ones."""
            members = [self._member(route_config, text, name, protocol, stored=stored) for text in texts]
            there = [place for place, member in enumerate(members) if _has_targets(member)]
            return replace(
                own,
                members=tuple(member for member in members if not isinstance(member, str) and _has_targets(member)),
                weights=tuple(weights[place] for place in there) if weights else (),
                absent=tuple(name for member in members for name in _missed(member)),
            )

        def leads(texts: tuple[str, ...], weights: tuple[int, ...]) -> Route:
            route = filled_with(texts, weights)
            if len(texts) == 1 and len(route.members) == 1 and isinstance(only := route.members[0], Route):
                # Another name for a line is that line.
                return only
            return route

        own = Route(
            name=route_config.pattern,
            members=(),
            policy=route_config.policy,
            strict=route_config.strict,
            sticky=POLICIES[route_config.policy].sticky if route_config.sticky is None else route_config.sticky,
            retries=route_config.retries or 0,
            first_byte=route_config.first_byte,
            max_cost=route_config.max_cost,
            fallback_on_refusal=route_config.fallback_on_refusal or False,
        )
        if not route_config.rules:
            return replace(leads(route_config.targets, route_config.weights), name=route_config.pattern)
        rules = tuple(RoutingRule(when=rule.when, to=leads(rule.targets, rule.weights)) for rule in route_config.rules)
        return replace(filled_with(route_config.targets, route_config.weights), rules=rules)

    def _is_absent(self, provider: str, route_config: RouteConfig | None) -> bool:
        """Whether a name means a provider that is not there; one without a table only if no line has the name."""
        missing = self._absent.get(provider)
        return missing is not None and (missing.has_table or route_config is None)

    def _member(
        self, route_config: RouteConfig, text: str, name: str, protocol: str, *, stored: bool
    ) -> Target | Route | str:
        """The member of a route: a provider's model, its ID alone if it is absent, or another route."""
        provider, slash, model = text.partition("/")
        if slash and model and provider in self._providers:
            target = self._target(name, provider, filled(route_config.pattern, model, name), protocol)
            return (
                replace(target, strict=route_config.strict, stored_here=stored)
                if route_config.strict or stored
                else target
            )
        if slash and model and provider in self._all_providers:
            # It is left out by the key's list of providers.
            return f"{provider}/{filled(route_config.pattern, model, name)}"
        other = self._routes.named(text)
        if slash and model and self._is_absent(provider, other if other is not route_config else None):
            return f"{provider}/{filled(route_config.pattern, model, name)}"
        if other is None:
            raise self._unknown(text)
        return self._resolved(_within(route_config, other), text, protocol, stored=stored)

    def _target(self, name: str, provider: str, model: str, protocol: str) -> Target:
        model_name, addressed = _addressed(self._providers[provider], model.removesuffix(SUFFIX))
        if not model_name:
            raise self._unknown(name)
        return Target(provider=addressed, endpoint=addressed.endpoint_for(protocol), model=model_name, strict=False)

    def _without_alias(self, name: str) -> str | None:
        """A name with the provider that its alias means: one that can be called, else one whose key is missing."""
        first, slash, rest = name.partition("/")
        entries = aliased(first) if slash and rest else ()
        for providers in (self._all_providers, self._absent):
            for listing in entries:
                if listing.name in providers:
                    return f"{listing.name}/{rest}"
        return None

    def _unknown_among(self, rights: Rights, name: str) -> UnknownModel:
        """The error about a name that leads nowhere, for a key that may know of some names only."""
        near = nearest(name, (each for each in self._compared() if self._is_permitted(rights, each)))
        hint = f"did you mean {', '.join(near)}?" if near else "see /v1/models"
        return UnknownModel(f"the model {printable(name)} is not known here; {hint}")

    def _is_permitted(self, rights: Rights, name: str) -> bool:
        try:
            return self.permits(rights, name) and bool(self._routed(name, PROTOCOL_NAMES[0], ALL_RIGHTS).targets)
        except (NotPermitted, UnknownModel):
            return False

    def _unknown(self, name: str) -> UnknownModel:
        advice = self._missing(name)
        if advice is not None:
            return UnknownModel(advice)
        near = nearest(name, self._compared())
        first, slash, rest = name[:200].partition("/")
        did_you_mean = get_close_matches(first, self._providers, n=1)
        if slash and rest and did_you_mean and did_you_mean[0] != first:
            # A provider's name with a typing error; its models need not be listed.
            near = [f"{did_you_mean[0]}/{printable(rest)[1:-1]}"]
        hint = (
            f"did you mean {', '.join(near)}?"
            if near
            else "use provider/model with one of the providers: " + ", ".join(self._offered())
        )
        return UnknownModel(f"the model {printable(name)} is not known here; {hint}")

    def _compared(self) -> Iterable[str]:
        """The names that one is compared with that leads nowhere."""
        listed = (f"{provider}/{model}" for provider, model in self._listed())
        return islice((*self._routes.exact, *listed), _MAX_COMPARED)

    def _missing(self, name: str) -> Advice | None:
        """The remedy for a name of a known provider that is not configured."""
        first, slash, rest = name.partition("/")
        named = catalogue().get(first) or next(iter(aliased(first)), None)
        listing = named if slash and rest else named or _serving(name)
        if listing is None or listing.name in self._providers:
            return None
        advice = without_key(listing.name, listing.env, discover=self._discover)
        if slash or named:
            return advice
        whose = f"{printable(name)} is a model of {listing.name}, and "
        return replace(advice, operator=whose + advice.operator, client=whose + advice.client)

    def _offered(self) -> Iterable[str]:
        """The providers to name in an error. Local servers without a table are named if they listed models."""
        for name, provider in self._providers.items():
            if name not in self._local or any(True for _ in self.listed(provider)):
                yield name

    def _listed(self) -> Iterable[tuple[str, str]]:
        for provider in self._providers.values():
            for model in self.listed(provider) if provider.models is None else provider.models:
                yield provider.name, model


def _remember(cache: dict[K, Route], name: str, key: K, route: Route) -> None:
    if len(name) <= _MAX_NAME_LENGTH:
        if len(cache) >= _MAX_CACHED_ROUTES:
            cache.clear()
        cache[key] = route


def _addressed(provider: Provider, model: str) -> tuple[str, Provider]:
    """Model and provider of `model@protocol`: the provider has that endpoint alone. Echo's models have no `@`, so an
    unknown protocol is a slip there; without one it speaks the protocol that it prefers, so that translation can be
    seen."""
    model_name, wanted = _split(provider, model)
    if provider.transport == "echo":
        wanted = wanted or provider.protocols[0]
    if not wanted:
        return model_name, provider
    endpoints = tuple(endpoint for endpoint in provider.endpoints if endpoint.protocol == wanted)
    if not endpoints:
        raise UnknownModel(
            f"{provider.name} does not speak {printable(wanted)}; it speaks {', '.join(provider.protocols)}"
        )
    return model_name, replace(provider, endpoints=endpoints)


def _split(provider: Provider, model: str) -> tuple[str, str]:
    """Model and protocol of `model@protocol` at a provider."""
    if provider.transport == "echo":
        name, _, protocol = model.partition("@")
        return name, protocol
    return split_protocol(model)


def _not_permitted(name: str) -> NotPermitted:
    return NotPermitted(printable(name), param="model")


def _serving(name: str) -> CatalogueEntry | None:
    """Whose a bare name is, by the catalogue."""
    matches = (each for each in catalogue().values() for served in each.serves if _fits(served, name))
    return next(matches, None)


def _fits(served: str, name: str) -> bool:
    return name.startswith(served[:-1]) if served.endswith("*") else name == served


def _spelled(settings: Settings) -> Iterator[str]:
    for route_config in settings.routes:
        for text in (*route_config.targets, *(text for rule in route_config.rules for text in rule.targets)):
            if "*" not in text:
                name, _, written = text.partition("/")
                model = split_protocol(written)[0]
                yield from (f"{name}/{model}", f"{name}/{printable_model_name(model)}")
    for provider in settings.providers.values():
        yield from (f"{provider.name}/{model}" for model in provider.models or ())
    yield from settings.prices


def filled(pattern: str, model: str, name: str) -> str:
    """The model that a target gives for a name: `*` alone is the whole name (`"claude-*" = "anthropic/*"`) without the
    directories of the pattern (`"local/*" = "local/*"`); in any other model `*` is what it matched. A protocol
    (`"gpt-*" = "openai/*@openai-chat"`) stays."""
    before, star, after = pattern.partition("*")
    written, protocol = split_protocol(model)
    if written == "*":
        return name[before.rfind("/") + 1 :] + (f"@{protocol}" if protocol else "")
    return model.replace("*", name[len(before) : len(name) - len(after)] if star else name, 1)


def _within(outer: RouteConfig, inner: RouteConfig) -> RouteConfig:
    """A nested route: missing members are inherited; both may reject and limit."""
    limits = [limit for limit in (outer.max_cost, inner.max_cost) if limit is not None]
    return replace(
        inner,
        strict=strictest(outer.strict, inner.strict),
        sticky=outer.sticky if inner.sticky is None else inner.sticky,
        retries=outer.retries if inner.retries is None else inner.retries,
        first_byte=outer.first_byte if inner.first_byte is None else inner.first_byte,
        max_cost=min(limits, default=None),
        fallback_on_refusal=outer.fallback_on_refusal
        if inner.fallback_on_refusal is None
        else inner.fallback_on_refusal,
    )


def _has_targets(member: Target | Route | str) -> bool:
    return isinstance(member, Target) or (isinstance(member, Route) and bool(member.targets))


def _missed(member: Target | Route | str) -> tuple[str, ...]:
    """The part that is skipped with a member, or an absent target."""
    if isinstance(member, Route):
        return () if member.targets else member.missed
    return () if isinstance(member, Target) else (member,)


def _provider_of(target: str) -> str:
    return target.partition("/")[0]


def _members(route: Route) -> Iterator[Target]:
    """The targets of a route without its rules, in order. Targets with weight 0 come last."""
    weights = route.weights or (1,) * len(route.members)
    for _, member in sorted(zip(weights, route.members, strict=True), key=lambda entry: entry[0] == 0):
        if isinstance(member, Target):
            yield member
        else:
            yield from _members(member)
