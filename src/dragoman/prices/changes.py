"""Changes: in what a new book differs from the present one, for whoever is to agree to it.

A model is compared by its name, as it is looked up: an entry that takes another's names away is a change of price.
All its prices count, those of tiers and of other days as well, by their bounds; and those of each tier by themselves,
where what is steep would hide between the bounds of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.prices.book import Book
from dragoman.prices.table import Ladder, ModelPricing, PriceBookTable, Rates, read_facts, read_shelf

# A price that falls below this part of itself, or rises above this many times itself, is asked about.
_STEEP = 10
# How what is paid without any tier is called.
_STANDARD = "standard"


class Bounds(Struct, frozen=True, kw_only=True):
    """The lowest and the highest of a model's rates for one class, in pico-dollars."""

    low: int
    high: int


class Change(Struct, frozen=True, kw_only=True):
    """One class of one model; None is that there is no price."""

    # As `shelf/model`.
    entry: str
    # The name of the class, as in `Rates`.
    member: str
    before: Bounds | None
    after: Bounds | None
    # The tier that it is about; "" is all of them.
    tier: str = ""

    @property
    def is_steep(self) -> bool:
        """Whether somebody should look twice."""
        before, after = self.before, self.after
        if before is None or after is None:
            return False
        return _is_steep(before.low, after.low) or _is_steep(before.high, after.high)


def _is_steep(before: int, after: int) -> bool:
    return after * _STEEP < before or after > before * _STEEP


class Changes(Struct, frozen=True, kw_only=True):
    """All differences between two books: entries that are new or gone, and rates that are others."""

    new: tuple[str, ...]
    gone: tuple[str, ...]
    rates: tuple[Change, ...]

    @property
    def steep(self) -> tuple[Change, ...]:
        """Those that are to be agreed to."""
        return tuple(change for change in self.rates if change.is_steep)


def compare(before: PriceBookTable, after: PriceBookTable) -> Changes:
    """What would change for whoever uses `before`."""
    old, new = dict(_entries(before)), dict(_entries(after))
    book = Book(lambda: after)
    rates: list[Change] = []
    for (shelf, model), facts in old.items():
        row = book.row_of(shelf, model)
        if row is not None:
            rates += _differences(f"{shelf}/{model}", facts, read_facts(row.facts))
    return Changes(
        new=tuple("/".join(key) for key in new if key not in old),
        gone=tuple("/".join(key) for key in old if book.row_of(*key) is None),
        rates=tuple(rates),
    )


def _entries(table: PriceBookTable) -> Iterator[tuple[tuple[str, str], ModelPricing]]:
    """Every model as it is found by its name; one that nobody finds is none."""
    book = Book(lambda: table)
    for shelf, raw in table.providers.items():
        for row in read_shelf(raw).models:
            found = book.row_of(shelf, row.id)
            if found is not None:
                yield (shelf, row.id), read_facts(found.facts)


def _differences(entry: str, before: ModelPricing, after: ModelPricing) -> Iterator[Change]:
    old, new = _ladders(before), _ladders(after)
    every = list(_changes(entry, "", chain(*old.values()), chain(*new.values())))
    yield from every
    told = {change.member for change in every if change.is_steep}
    for tier in (name for name in old if name in new):
        for change in _changes(entry, tier, old[tier], new[tier]):
            if change.is_steep and change.member not in told:
                yield change


def _changes(entry: str, tier: str, before: Iterable[Ladder], after: Iterable[Ladder]) -> Iterator[Change]:
    old, new = _bounds(before), _bounds(after)
    for member in Rates.__struct_fields__:
        if old.get(member) != new.get(member):
            yield Change(entry=entry, member=member, before=old.get(member), after=new.get(member), tier=tier)


def _ladders(facts: ModelPricing) -> dict[str, list[Ladder]]:
    """The rates of each tier, those of all days."""
    found = {_STANDARD: [dated.ladder for dated in facts.prices]}
    for variant in facts.variants:
        found.setdefault(variant.tier, []).append(variant.ladder)
    return found


def _bounds(ladders: Iterable[Ladder]) -> dict[str, Bounds]:
    bounds: dict[str, Bounds] = {}
    for ladder in ladders:
        for rates in (ladder.base, *(step.rates for step in ladder.steps)):
            for member, rate in named(rates).items():
                if rate is not None:
                    known = bounds.get(member, Bounds(low=rate, high=rate))
                    bounds[member] = Bounds(low=min(known.low, rate), high=max(known.high, rate))
    return bounds


def named(rates: Rates) -> dict[str, int | None]:
    """The rates by the names of their classes."""
    return asdict(rates)
