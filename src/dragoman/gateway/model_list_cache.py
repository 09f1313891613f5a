"""Model list cache: what providers listed, and until when it is fresh. A stale list still knows sizes best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from dragoman.model.listing import ListedModel
from dragoman.providers.provider import Provider
from dragoman.routing.model_limits import ModelLimits
from dragoman.routing.target import Target
from dragoman.rules.capabilities import capabilities_of

# A prefix of listed names that some servers accept with and without it.
_NAME_PREFIX = "models/"


class CachedModelList(Struct, frozen=True, kw_only=True):
    """The models of one provider, by their names."""

    provider: Provider
    until: float
    models: Mapping[str, ListedModel]


class ModelListCache:
    """The lists of all providers; unchanged providers keep theirs from the `former` cache."""

    def __init__(self, providers: Mapping[str, Provider], former: ModelListCache | None = None) -> None:
        former_lists = former._lists if former is not None else {}
        # Number of list updates.
        self.changes = 0
        self._lists: dict[str, CachedModelList] = {
            name: cached for name, cached in former_lists.items() if providers.get(name) == cached.provider
        }

    def of(self, provider: Provider) -> CachedModelList | None:
        return self._lists.get(provider.name)

    def put(self, provider: Provider, models: Iterable[ListedModel], until: float) -> CachedModelList:
        """Cache the list of a provider until it is due again."""
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
    """The output limit of a target by the capability rules."""
    capabilities = capabilities_of(
        target.endpoint.protocol, target.model, target.provider.vendor_or_name, target.provider.capabilities
    )
    return ModelLimits(cap=capabilities.max_output)
