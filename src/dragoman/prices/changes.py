"""Price changes between two price books. Large changes need a confirmation. Models are compared by look-up, so an entry
that takes over another's names counts as a change. All prices count, including those of tiers and other days, by their
lowest and highest rate. Tiers also count one by one, because bounds could hide a large change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.prices.book import PriceBook
from dragoman.prices.table import ModelPricing, PriceBookTable, Rates, TieredRates, read_facts, read_provider_prices

# A price that falls below this fraction, or rises above this multiple, needs a confirmation.
_LARGE_FACTOR = 10
_STANDARD = "standard"


class Bounds(Struct, frozen=True, kw_only=True):
    """The lowest and the highest rate of a model for one token class, in pico-dollars."""

    low: int
    high: int


class Change(Struct, frozen=True, kw_only=True):
    """The change of one token class of one model. None means no price."""

    entry: str
    member: str
    before: Bounds | None
    after: Bounds | None
    tier: str = ""

    @property
    def is_large(self) -> bool:
        before, after = self.before, self.after
        if before is None or after is None:
            return False
        return _is_large(before.low, after.low) or _is_large(before.high, after.high)


def _is_large(before: int, after: int) -> bool:
    return after * _LARGE_FACTOR < before or after > before * _LARGE_FACTOR


class Changes(Struct, frozen=True, kw_only=True):
    """All differences between two books: new entries, removed entries, and changed rates."""

    new: tuple[str, ...]
    removed: tuple[str, ...]
    rates: tuple[Change, ...]

    @property
    def large(self) -> tuple[Change, ...]:
        return tuple(change for change in self.rates if change.is_large)


def compare(before: PriceBookTable, after: PriceBookTable) -> Changes:
    """Return the changes for a user of `before`."""
    old, new = dict(_entries(before)), dict(_entries(after))
    book = PriceBook(lambda: after)
    rates: list[Change] = []
    for (provider, model), facts in old.items():
        row = book.find_model(provider, model)
        if row is not None:
            rates += _differences(f"{provider}/{model}", facts, read_facts(row.facts))
    return Changes(
        new=tuple("/".join(key) for key in new if key not in old),
        removed=tuple("/".join(key) for key in old if book.find_model(*key) is None),
        rates=tuple(rates),
    )


def _entries(table: PriceBookTable) -> Iterator[tuple[tuple[str, str], ModelPricing]]:
    book = PriceBook(lambda: table)
    for provider, raw in table.providers.items():
        for row in read_provider_prices(raw).models:
            priced = book.find_model(provider, row.id)
            if priced is not None:
                yield (provider, row.id), read_facts(priced.facts)


def _differences(entry: str, before: ModelPricing, after: ModelPricing) -> Iterator[Change]:
    old, new = _rates_by_tier(before), _rates_by_tier(after)
    every = list(_changes(entry, "", chain(*old.values()), chain(*new.values())))
    yield from every
    large_members = {change.member for change in every if change.is_large}
    for tier in (name for name in old if name in new):
        for change in _changes(entry, tier, old[tier], new[tier]):
            if change.is_large and change.member not in large_members:
                yield change


def _changes(entry: str, tier: str, before: Iterable[TieredRates], after: Iterable[TieredRates]) -> Iterator[Change]:
    old, new = _bounds(before), _bounds(after)
    for member in Rates.__struct_fields__:
        if old.get(member) != new.get(member):
            yield Change(entry=entry, member=member, before=old.get(member), after=new.get(member), tier=tier)


def _rates_by_tier(facts: ModelPricing) -> dict[str, list[TieredRates]]:
    by_tier = {_STANDARD: [dated.rates for dated in facts.prices]}
    for variant in facts.variants:
        by_tier.setdefault(variant.tier, []).append(variant.rates)
    return by_tier


def _bounds(tiers: Iterable[TieredRates]) -> dict[str, Bounds]:
    bounds: dict[str, Bounds] = {}
    for tiered in tiers:
        for rates in (tiered.base, *(step.rates for step in tiered.steps)):
            for member, rate in named(rates).items():
                if rate is not None:
                    previous = bounds.get(member, Bounds(low=rate, high=rate))
                    bounds[member] = Bounds(low=min(previous.low, rate), high=max(previous.high, rate))
    return bounds


def named(rates: Rates) -> dict[str, int | None]:
    return asdict(rates)
