"""Price book: looks up the prices of a provider's model at a time, with the operator's overrides. The price is None if
there is no entry or no price, or if the provider charges by other units. No model gets the price of a similar one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.prices.table import (
    EQUALS,
    DatedPrice,
    DateRange,
    MatchRule,
    ModelPricing,
    PriceBookTable,
    PricedModel,
    PriceTier,
    ProviderPrices,
    Rates,
    TieredRates,
    own_table,
    read_facts,
    read_provider_prices,
)

# Providers of the catalogue with another name in the price table; "" for providers that do not charge by the token.
_TABLE_NAMES = {
    "xai": "x-ai",
    "moonshot": "moonshotai",
    "moonshot-cn": "moonshotai",
    "kimi-coding": "",
    "zai-coding": "",
    "zhipu": "zhipuai",
    "minimax-cn": "minimax",
    "bedrock": "aws",
    "vertex": "google",
    "azure-anthropic": "azure",
}
_PREFIXES = {"google": ("models/", "google/", "anthropic/", "publishers/")}
# Providers whose regional endpoints cost more than their list price (pitfall 410).
_REGIONAL = frozenset({"vertex"})
_EVERYWHERE = ("", "global")
_MAX_NAME_LENGTH = 256
_MAX_CACHED = 4096
_DAY, _MINUTE = 86400, 60
_ALWAYS = float("inf")


class ModelFacts(Struct, frozen=True, kw_only=True):
    """Prices and limits of a model at a provider, within a period (Unix seconds)."""

    # The entry as `provider/model`, and the key of the override; "" if there is none.
    entry: str = ""
    override: str = ""
    standard: TieredRates | None = None
    tiers: Mapping[str, TieredRates] = {}
    context_window: int | None = None
    max_output_tokens: int | None = None
    # Token classes with prices of their own that the book does not have.
    apart: tuple[str, ...] = ()
    since: float = -_ALWAYS
    until: float = _ALWAYS

    @property
    def rates(self) -> Rates | None:
        """The rates of a short request in the standard tier."""
        return self.standard.base if self.standard is not None else None


class Override(Struct, frozen=True, kw_only=True):
    """An operator's override of a model. None means as in the price book."""

    rates: Rates = Rates()
    tiers: Mapping[str, Rates] = {}
    context_window: int | None = None
    max_output_tokens: int | None = None

    @property
    def has_prices(self) -> bool:
        return self.rates != Rates() or bool(self.tiers)


class PriceBook:
    """A price table with overrides. It is loaded on first use, and lookups are cached."""

    def __init__(
        self, source: Callable[[], PriceBookTable] = own_table, overrides: Mapping[str, Override] | None = None
    ) -> None:
        self._source = source
        self._overrides = dict(overrides or {})
        self._patterns = sorted((key for key in self._overrides if key.endswith("*")), key=len, reverse=True)
        self._loaded: PriceBookTable | None = None
        self._indexes: dict[str, _PriceIndex | None] = {}
        self._cache: dict[tuple[str, str, str, str], tuple[ModelFacts | None, float, float]] = {}

    @property
    def table(self) -> PriceBookTable:
        if self._loaded is None:
            self._loaded = self._source()
        return self._loaded

    def find(self, label: str, model: str, now: float, *, name: str = "", region: str = "") -> ModelFacts | None:
        """Find a model's entry at a time (Unix seconds), or None. `label` is the provider's vendor in the table; `name`
        is its name in overrides, if different."""
        key = (label, model, name, region)
        cached = self._cache.get(key)
        if cached is not None and cached[1] <= now < cached[2]:
            return cached[0]
        facts = self._find(label, model, now, name or label, region)
        since, until = (facts.since, facts.until) if facts is not None else (-_ALWAYS, _ALWAYS)
        if len(self._cache) >= _MAX_CACHED:
            self._cache.clear()
        self._cache[key] = facts, since, until
        return facts

    def entries(self, now: float) -> Iterator[tuple[str, ModelFacts]]:
        """Yield every entry of the table with its provider, without overrides."""
        for provider in self.table.providers:
            index = self._index(provider)
            if index is not None:
                for row in index.models:
                    yield provider, _facts_at(f"{provider}/{row.id}", read_facts(row.facts), now)

    def find_model(self, provider: str, model: str) -> PricedModel | None:
        index = self._index(provider)
        return index.find_model(model.lower()) if index is not None else None

    def override_of(self, name: str, model: str) -> tuple[str, Override] | None:
        target = f"{name}/{model}"
        if target in self._overrides:
            return target, self._overrides[target]
        for pattern in self._patterns:
            if target.startswith(pattern[:-1]):
                return pattern, self._overrides[pattern]
        return None

    def _find(self, label: str, model: str, now: float, name: str, region: str) -> ModelFacts | None:
        if len(model) > _MAX_NAME_LENGTH:
            return None
        facts = self._in_table((name, label), model, now)
        if facts is not None and region not in _EVERYWHERE and (name in _REGIONAL or label in _REGIONAL):
            facts = replace(facts, standard=None, tiers={})
        override = self.override_of(name, model)
        if override is None:
            return facts
        return _overridden(facts or ModelFacts(), *override)

    def _in_table(self, names: Iterable[str], model: str, now: float) -> ModelFacts | None:
        for name in names:
            table_name = _TABLE_NAMES.get(name, name)
            index = self._index(table_name)
            if index is not None:
                for wanted in _spellings(table_name, model.lower()):
                    facts = self._facts_with_fallback(table_name, index, wanted, now)
                    if facts is not None:
                        return facts
                return None
            if not table_name:
                return None
        return None

    def _facts_with_fallback(self, name: str, index: _PriceIndex, model: str, now: float) -> ModelFacts | None:
        row = index.find_model(model)
        if row is not None:
            return _facts_at(f"{name}/{row.id}", read_facts(row.facts), now)
        for other in index.fallback:
            fallback = self._index(other)
            row = fallback.find_model(model) if fallback is not None else None
            if row is not None:
                # The tiers of another provider do not apply here.
                return _facts_at(f"{other}/{row.id}", replace(read_facts(row.facts), variants=()), now)
        return None

    def _index(self, name: str) -> _PriceIndex | None:
        if name not in self._indexes:
            raw = self.table.providers.get(name) if name else None
            if raw is None:
                # Provider names come from a configuration, so the cache stays small.
                return None
            self._indexes[name] = _PriceIndex(read_provider_prices(raw))
        return self._indexes[name]


class _PriceIndex:
    """The models of a provider, indexed: exact names first, other rules in their order."""

    def __init__(self, prices: ProviderPrices) -> None:
        self.models = prices.models
        self.fallback = prices.fallback
        self._exact: dict[str, int] = {}
        self._rules: list[tuple[int, Callable[[str], bool]]] = []
        for place, row in enumerate(prices.models):
            for rule in row.rules or (EQUALS + row.id.lower(),):
                if isinstance(rule, str) and rule[0] == EQUALS:
                    self._exact.setdefault(rule[1:], place)
                else:
                    self._rules.append((place, _matcher(rule)))

    def find_model(self, model: str) -> PricedModel | None:
        first = self._exact.get(model, len(self.models))
        for place, matches in self._rules:
            if place >= first:
                break
            if matches(model):
                return self.models[place]
        return self.models[first] if first < len(self.models) else None


def _matcher(rule: MatchRule) -> Callable[[str], bool]:
    if not isinstance(rule, str):
        parts = [_matcher(part) for part in rule]
        return lambda name: all(matches(name) for matches in parts)
    text = rule[1:]
    match rule[0]:
        case "=":
            return lambda name: name == text
        case "^":
            return lambda name: name.startswith(text)
        case "$":
            return lambda name: name.endswith(text)
        case "*":
            return lambda name: text in name
    pattern = re.compile(text)
    return lambda name: pattern.search(name) is not None


# A date without hyphens at the end of a name.
_COMPACT_DATE = re.compile(r"-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


def _spellings(provider: str, model: str) -> Iterator[str]:
    yield model
    dated = _COMPACT_DATE.sub(r"-\1-\2-\3", model)
    if dated != model:
        yield dated
    for prefix in _PREFIXES.get(provider, ()):
        if model.startswith(prefix):
            yield model.rpartition("/")[2]


def _facts_at(entry: str, facts: ModelPricing, now: float) -> ModelFacts:
    since, until = _span((*(item.when for item in facts.prices), *(item.when for item in facts.variants)), now)
    standard = _holding(facts.prices, now)
    tiers: dict[str, TieredRates] = {}
    if standard is not None:
        for variant in reversed(facts.variants):
            if _holds(variant.when, now):
                # The first variant of a tier wins, so variants are applied in reverse.
                tiers[variant.tier] = overlay(tiers.get(variant.tier, standard), variant.rates)
    return ModelFacts(
        entry=entry,
        standard=standard,
        tiers=tiers,
        context_window=facts.context_window,
        apart=facts.apart,
        since=since,
        until=until,
    )


def _holding(prices: tuple[DatedPrice, ...], now: float) -> TieredRates | None:
    """The last price that is valid, otherwise the first one."""
    for dated in reversed(prices):
        if _holds(dated.when, now):
            return dated.rates
    return prices[0].rates if prices else None


def _holds(when: DateRange, now: float) -> bool:
    if when is None:
        return True
    if isinstance(when, int):
        return now >= when * _DAY
    start, end = when
    minute = now % _DAY / _MINUTE
    return start <= minute < end if start <= end else minute >= start or minute < end


def _span(whens: Iterable[DateRange], now: float) -> tuple[float, float]:
    """The period around a time in which no price changes."""
    since, until = -_ALWAYS, _ALWAYS
    midnight = now - now % _DAY
    for when in whens:
        if when is None:
            continue
        if isinstance(when, int):
            edges: tuple[float, ...] = (when * _DAY,)
        else:
            edges = tuple(midnight + day * _DAY + minute * _MINUTE for minute in when for day in (-1, 0, 1))
        for edge in edges:
            if edge <= now:
                since = max(since, edge)
            else:
                until = min(until, edge)
    return since, until


def overlay(below: TieredRates, above: TieredRates) -> TieredRates:
    """Combine tiered rates: rates of `above` where it has any, else those of `below`."""
    thresholds = sorted({step.above for tiered in (below, above) for step in tiered.steps})
    return TieredRates(
        base=_over(below.base, above.base),
        steps=tuple(
            PriceTier(above=threshold, rates=_over(below.rates_for(threshold + 1), above.rates_for(threshold + 1)))
            for threshold in thresholds
        ),
    )


def _over(below: Rates, above: Rates) -> Rates:
    return Rates(
        input=below.input if above.input is None else above.input,
        output=below.output if above.output is None else above.output,
        cache_read=below.cache_read if above.cache_read is None else above.cache_read,
        cache_write=below.cache_write if above.cache_write is None else above.cache_write,
        cache_write_1h=below.cache_write_1h if above.cache_write_1h is None else above.cache_write_1h,
        thinking=below.thinking if above.thinking is None else above.thinking,
        search=below.search if above.search is None else above.search,
        request=below.request if above.request is None else above.request,
    )


def _overridden(facts: ModelFacts, key: str, override: Override) -> ModelFacts:
    """Apply an operator's override. If it has prices, the tiers of the price book are removed."""
    standard, tiers = facts.standard, facts.tiers
    if override.has_prices:
        standard = overlay(standard or TieredRates(base=Rates()), TieredRates(base=override.rates))
        tiers = {tier: overlay(standard, TieredRates(base=rates)) for tier, rates in override.tiers.items()}
    return replace(
        facts,
        override=key,
        standard=standard,
        tiers=tiers,
        context_window=facts.context_window if override.context_window is None else override.context_window,
        max_output_tokens=facts.max_output_tokens if override.max_output_tokens is None else override.max_output_tokens,
    )
