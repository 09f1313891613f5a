"""Key patterns: which entries in the lists of gateway keys match no name of the configuration, as after a route was
renamed. Such a key may use less than its list states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from dragoman.config.nearest_name import nearest
from dragoman.config.settings import Settings
from dragoman.providers.catalogue import aliased, catalogue


class ConfiguredPatterns:
    """The names of models and providers that clients of one configuration may use."""

    def __init__(self, settings: Settings) -> None:
        providers = {*settings.callable, *settings.absent}
        names = [route.pattern for route in (*settings.routes, *settings.defaults)]
        if settings.server.discover:
            # The gateway may have other environment variables than this command.
            providers |= {*catalogue()}
            names += [pattern for entry in catalogue().values() for pattern in entry.serves]
        self._providers = providers
        self._names = tuple(dict.fromkeys((*names, *(f"{provider}/*" for provider in providers))))
        self._exact = [route.pattern for route in settings.routes if "*" not in route.pattern]
        self._is_matched = cache(self._matches)

    def warnings(
        self, name: str, models: tuple[str, ...] | None, providers: tuple[str, ...] | None, *, has_hints: bool = True
    ) -> Iterator[str]:
        """Problems of a key's lists, in sentences. Hints have names that are in none of the lists."""
        for pattern in models or ():
            if not self._is_matched(pattern):
                hint = _hint(pattern, self._exact) if has_hints else ""
                yield f"the key {name} may use {pattern}, which matches no model name{hint}"
        for provider in providers or ():
            if provider not in self._providers:
                hint = _hint(provider, self._providers) if has_hints else ""
                yield f"the key {name} may use the provider {provider}, which does not exist{hint}"

    def _matches(self, pattern: str) -> bool:
        provider, slash, model = pattern.partition("/")
        others = [f"{entry.name}/{model}" for entry in aliased(provider)] if slash else []
        return any(overlap(each, name) for each in (pattern, *others) for name in self._names)


def _hint(text: str, names: Iterable[str]) -> str:
    close = nearest(text, names)
    return f"; did you mean {close}?" if close else ""


def overlap(one: str, other: str) -> bool:
    """Whether a text can match two patterns, in which `*` is any text. The work grows with the product of their
    lengths."""
    seen: set[tuple[int, int]] = set()
    states = [(0, 0)]
    while states:
        at, behind = state = states.pop()
        if state in seen:
            continue
        seen.add(state)
        if at == len(one) and behind == len(other):
            return True
        first, second = one[at : at + 1], other[behind : behind + 1]
        if first == "*":
            states += [(at + 1, behind), (at, behind + 1)] if second else [(at + 1, behind)]
        if second == "*":
            states += [(at, behind + 1), (at + 1, behind)] if first else [(at, behind + 1)]
        if first and first == second:
            states.append((at + 1, behind + 1))
    return False
