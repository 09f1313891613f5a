"""Target info: prices, sizes, cooldowns of keys and slots of targets. Unknown is None, and never free, endless or good.
Sizes are the configuration's, else the provider's list's, else the price book's; translation rules cap some."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence

from msgspec import Struct

from dragoman.gateway.admission import Admission
from dragoman.gateway.model_list_cache import ModelListCache, facts_of_rules
from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.prices.classes import STANDARD
from dragoman.prices.cost import estimate
from dragoman.prices.money import PER_MILLION, in_units
from dragoman.protocols.registry import codec_of
from dragoman.providers.provider import facts_of
from dragoman.routing.model_description import Price
from dragoman.routing.model_limits import LimitsOf, ModelLimits, combine_limits
from dragoman.routing.needs import BYTES_PER_TOKEN, Requirements
from dragoman.routing.rotation import Rotation
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.target import Target
from dragoman.rules.capabilities import capabilities_of

# Lines whose windows are remembered, and characters of their targets' names: some let clients name them.
_MAX_ROUTES = 4096
_MAX_TARGET_LENGTH = 512


class _RouteInfo(Struct, frozen=True, kw_only=True):
    """Metadata of the targets of a route; only the model lists of their providers can change it."""

    # The number of model lists at that time.
    changes: int
    # The context window of each target, and the size of text that fits them all.
    windows: list[int | None]
    room: float


class TargetInfo:
    """Metadata of the targets of one configuration. `wall` gives seconds since 1970."""

    def __init__(
        self,
        price_book: PriceBook,
        listed: ModelListCache,
        rotations: Mapping[str, Rotation],
        admission: Admission,
        wall: Callable[[], float],
    ) -> None:
        self._price_book = price_book
        self._listed = listed
        self._rotations = rotations
        self._admission = admission
        self._wall = wall
        # Context window and output limit of a target.
        self.sizes: LimitsOf = combine_limits(self._overridden, listed.facts_of, self._printed, facts_of_rules)
        # Metadata of routes, by the IDs of their targets.
        self._routes: dict[tuple[str, ...], _RouteInfo] = {}

    def windows(self, summary: RouteSummary) -> Sequence[int | None]:
        """The context windows of the targets of a route."""
        return self._route_info(summary).windows

    def are_all_available(self, summary: RouteSummary, size: int) -> bool:
        """Whether all providers of a route are free, and all targets have room for this many bytes."""
        info = self._routes.get(summary.ids)
        if info is None or info.changes != self._listed.changes:
            info = self._route_info(summary)
        return size <= info.room and not self._admission.busy(summary.providers)

    def _route_info(self, summary: RouteSummary) -> _RouteInfo:
        info = self._routes.get(summary.ids)
        if info is None or info.changes != self._listed.changes:
            windows = [self.window(target) for _, target, _, _ in summary.leaves]
            info = _RouteInfo(
                changes=self._listed.changes,
                windows=windows,
                room=min((window * BYTES_PER_TOKEN for window in windows if window is not None), default=math.inf),
            )
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            if max(map(len, summary.ids), default=0) <= _MAX_TARGET_LENGTH:
                self._routes[summary.ids] = info
        return info

    def window(self, target: Target) -> int | None:
        """The context window of a target."""
        return self.sizes(target).window

    def _overridden(self, target: Target) -> ModelLimits:
        override = self._price_book.override_of(target.provider.name, target.model)
        if override is None:
            return ModelLimits()
        return ModelLimits(window=override[1].context_window, cap=override[1].max_output_tokens)

    def _printed(self, target: Target) -> ModelLimits:
        entry = self._entry(target)
        return ModelLimits() if entry is None else ModelLimits(window=entry.context_window, cap=entry.max_output_tokens)

    def _entry(self, target: Target) -> ModelFacts | None:
        return facts_of(self._price_book, target.provider, target.model, self._wall())

    def cost(self, target: Target, requirements: Requirements, output: float) -> int | None:
        """The estimated cost of a request in nano-dollars, with this number of output tokens."""
        facts = self._entry(target)
        if facts is None:
            return None
        answered = min(int(output), requirements.request_features.max_output or int(output))
        cached = requirements.paid if requirements.warm == target.id else 0
        request_features = requirements.request_features
        # Input counts once, and each choice counts as output.
        tier = _tier(target, facts, request_features.tier) if request_features.tier else STANDARD
        return estimate(facts, requirements.paid, cached, answered * request_features.choices, tier).total

    def price(self, target: Target) -> Price | None:
        """The price of a target, for lists."""
        facts = self._entry(target)
        rates = None if facts is None else facts.rates
        if rates is None or rates.input is None or rates.output is None:
            return None
        return Price(input=in_units(rates.input, PER_MILLION), output=in_units(rates.output, PER_MILLION))

    def busy(self, summary: RouteSummary) -> Container[str]:
        """The providers of a route without a free slot."""
        return self._admission.busy(summary.providers)

    def wakes(self, target: Target) -> float | None:
        """When the first of its keys may be used, if all of them rest."""
        return self._rotations[target.provider.name].wakes(target.model)


def _tier(target: Target, facts: ModelFacts, requested_tier: str) -> str:
    """The tier to be billed, as the price book names it: unknown if the vendor has no price of it, "" elsewhere."""
    name = codec_of(target.endpoint.protocol).tiers.get(requested_tier, STANDARD)
    if name in facts.tiers:
        return name
    capabilities = capabilities_of(
        target.endpoint.protocol, target.model, target.provider.vendor_or_name, target.provider.capabilities
    )
    return name if capabilities.official else STANDARD
