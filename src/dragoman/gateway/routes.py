"""Routes: which provider and model a name means.

In this order: the name itself in `[models]`, `provider/model` of a configured provider, the pattern of `[models]` with
the longest literal prefix, and last what the catalogue says its providers serve.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from dragoman.config.settings import Route, Settings
from dragoman.errors import DragomanError
from dragoman.protocols.registry import PROTOCOLS
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.target import Target

# How many names are kept, and how long they may be: a name comes from outside and may be as large as a body.
_KNOWN_LIMIT = 4096
_KNOWN_LENGTH = 256
_NEAREST = 3
_SPOKEN = tuple(codec.name for codec in PROTOCOLS)


class UnknownModel(DragomanError):
    """A model name that leads nowhere; the words name the nearest ones."""


class Routes:
    """The names of one configuration."""

    def __init__(self, settings: Settings) -> None:
        self._providers = settings.providers
        self._exact = {route.pattern: route for route in settings.routes if "*" not in route.pattern}
        self._patterns = _longest_first(settings.routes)
        self._defaults = _longest_first(settings.defaults)
        self._plain_defaults = {route.pattern: route for route in settings.defaults if "*" not in route.pattern}
        self._known: dict[tuple[str, str], Target] = {}

    def target(self, name: str, protocol: str) -> Target:
        """Find the target of a model's name for a client of a protocol."""
        known = self._known.get((name, protocol))
        if known is None:
            known = self._find(name, protocol)
            if len(name) <= _KNOWN_LENGTH:
                if len(self._known) >= _KNOWN_LIMIT:
                    self._known.clear()
                self._known[name, protocol] = known
        return known

    def names(self) -> list[str]:
        """The names without patterns, for listings."""
        return list(self._exact)

    def _find(self, name: str, protocol: str) -> Target:
        route = self._exact.get(name)
        if route is None:
            first, slash, rest = name.partition("/")
            if slash and rest and first in self._providers:
                route = Route(pattern=name, provider=first, model=rest)
        if route is None:
            route = _matching(self._patterns, name) or self._plain_defaults.get(name) or _matching(self._defaults, name)
        if route is None or not (model := filled(route, name)):
            raise UnknownModel(self._unknown(name))
        provider = self._providers[route.provider]
        model, endpoint = self._endpoint(provider, model, protocol)
        if not model:
            raise UnknownModel(self._unknown(name))
        return Target(provider=provider, endpoint=endpoint, model=model, strict=route.strict)

    def _endpoint(self, provider: Provider, model: str, protocol: str) -> tuple[str, Endpoint]:
        if provider.transport != "echo":
            return model, provider.endpoint_for(protocol)
        # The embedded provider speaks the protocol that the name asks for, so that translation can be seen.
        model, _, wanted = model.partition("@")
        for endpoint in provider.endpoints:
            if endpoint.protocol == wanted:
                return model, endpoint
        if wanted:
            raise UnknownModel(f"{provider.name} does not speak {shown(wanted)}; it speaks {', '.join(_SPOKEN)}")
        return model, provider.endpoints[0]

    def _unknown(self, name: str) -> str:
        known = [*self._exact, *(f"{name}/{model}" for name, model in self._listed())]
        near = get_close_matches(name[:200], known, n=_NEAREST, cutoff=0.5)
        first, slash, rest = name[:200].partition("/")
        meant = get_close_matches(first, self._providers, n=1)
        if slash and rest and meant and meant[0] != first:
            # A provider's name with a slip in it; what it serves need not be listed.
            near = [f"{meant[0]}/{shown(rest)[1:-1]}"]
        hint = (
            f"did you mean {', '.join(near)}?"
            if near
            else "use provider/model with one of the providers: " + ", ".join(self._providers)
        )
        return f"the model {shown(name)} is not known here; {hint}"

    def _listed(self) -> Iterable[tuple[str, str]]:
        for provider in self._providers.values():
            for model in provider.models or ():
                yield provider.name, model


def shown(name: str) -> str:
    """A name from outside, as it may stand in a message: short and on one line."""
    printable = "".join(character if character.isprintable() else "?" for character in name[:120])
    return f"`{printable}`"


def filled(route: Route, name: str) -> str:
    """The model that a route gives for a name.

    A target that is `*` alone is the name as the provider knows it: all of it (`"claude-*" = "anthropic/*"`), but for
    the directories that the pattern spells out (`"local/*" = "local/*"`). In any other target `*` is what it matched.
    """
    before, star, after = route.pattern.partition("*")
    if route.model == "*":
        return name[before.rfind("/") + 1 :]
    return route.model.replace("*", name[len(before) : len(name) - len(after)] if star else name, 1)


def _longest_first(routes: Iterable[Route]) -> list[tuple[str, str, Route]]:
    """Patterns as prefix and suffix, the most particular first."""
    found = []
    for route in routes:
        before, star, after = route.pattern.partition("*")
        if star:
            found.append((before, after, route))
    return sorted(found, key=lambda entry: (-len(entry[0]), -len(entry[1])))


def _matching(patterns: list[tuple[str, str, Route]], name: str) -> Route | None:
    for before, after, route in patterns:
        if len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after):
            return route
    return None
