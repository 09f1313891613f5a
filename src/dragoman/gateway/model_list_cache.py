"""Model list cache: what providers listed, and until when it is fresh. A stale list still knows sizes best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.model.listing import ListedModel
from dragoman.providers.provider import Provider
from dragoman.routing.model_limits import ModelLimits
from dragoman.routing.target import Target
from dragoman.rules.capabilities import capabilities_of

# What some servers put before each name of their list, and take with or without it.
_NAME_PREFIX = "models/"


class CachedModelList(Struct, frozen=True, kw_only=True):
    """The models of one provider, by their names."""

    provider: Provider
    until: float
    models: Mapping[str, ListedModel]


class ModelListCache:
    """The lists of all providers; those who are still what they were are taken over from `former` ones."""

    def __init__(self, providers: Mapping[str, Provider], former: ModelListCache | None = None) -> None:
        former_lists = former._lists if former is not None else {}
        # How often anything was listed.
        self.changes = 0
        self._lists: dict[str, CachedModelList] = {
            name: cached for name, cached in former_lists.items() if providers.get(name) == cached.provider
        }

    def of(self, provider: Provider) -> CachedModelList | None:
        return self._lists.get(provider.name)

    def put(self, provider: Provider, models: Iterable[ListedModel], until: float) -> CachedModelList:
        """Keep what a provider listed, until it is to be asked again."""
        self.changes += 1
        listed = {model.id: model for model in models}
        cached = self._lists[provider.name] = CachedModelList(provider=provider, until=until, models=listed)
        return cached

    def model(self, target: Target) -> ListedModel | None:
        cached = self._lists.get(target.provider.name)
        if cached is None:
            return None
        return cached.models.get(target.model) or cached.models.get(_NAME_PREFIX + target.model)

    def facts_of(self, target: Target) -> ModelLimits:
        """The sizes that its provider listed."""
        model = self.model(target)
        return ModelLimits() if model is None else ModelLimits(window=model.window, cap=model.cap)


def facts_of_rules(target: Target) -> ModelLimits:
    """What the rules of translation know of a target: its output cap."""
    capabilities = capabilities_of(
        target.endpoint.protocol, target.model, target.provider.vendor_or_name, target.provider.capabilities
    )
    return ModelLimits(cap=capabilities.max_output)
