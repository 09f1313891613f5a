"""In what one book differs from another."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.prices.changes import Bounds, Change, compare, named
from dragoman.prices.table import FORMAT, PriceBookTable, Rates, own_table, read_table


def table(*models: list[object]) -> PriceBookTable:
    shelves = {"p": {"models": models}}
    book = {"format": FORMAT, "source": "t", "version": "1", "taken": "2026-01-01", "providers": shelves}
    return read_table(msgspec.json.encode(book))


def priced(name: str, *rates: int, rules: tuple[str, ...] = ()) -> list[object]:
    return [name, rules, [None, [[None, [rates]]]]]


def test_the_same_book_has_no_changes() -> None:
    changes = compare(own_table(), own_table())
    assert (changes.new, changes.removed, changes.rates) == ((), (), ())


def test_entries_come_and_go() -> None:
    changes = compare(table(priced("a", 1), priced("b", 1)), table(priced("b", 2), priced("c", 1)))
    assert (changes.new, changes.removed) == (("p/c",), ("p/a",))
    one, two = Bounds(low=1, high=1), Bounds(low=2, high=2)
    assert changes.rates == (Change(entry="p/b", member="input", before=one, after=two),)
    assert not changes.large


@pytest.mark.parametrize(
    ("before", "after", "is_steep"),
    [(100, 10, False), (100, 9, True), (100, 0, True), (100, 1000, False), (100, 1001, True), (0, 1, True)],
)
def test_pitfall_456_a_steep_change_is_to_be_agreed_to(before: int, after: int, is_steep: bool) -> None:
    changes = compare(table(priced("a", before)), table(priced("a", after)))
    assert bool(changes.large) is is_steep


def test_an_entry_that_takes_the_names_of_others_is_a_change_of_their_price() -> None:
    changes = compare(table(priced("a", 1000)), table(priced("free", 1, rules=("^",)), priced("a", 1000)))
    (change,) = changes.large
    assert (change.entry, change.after) == ("p/a", Bounds(low=1, high=1))


def test_prices_of_tiers_and_of_other_days_count() -> None:
    later: list[object] = ["a", [], [None, [[None, [[1000]]], [40000, [[1]]]]]]
    assert compare(table(priced("a", 1000)), table(later)).large
    tier: list[object] = ["a", [], [None, [[None, [[1000]]]], [["flex", None, [[1]]]]]]
    assert compare(table(priced("a", 1000)), table(tier)).large


def tiered(standard: int, flex: int) -> list[object]:
    return ["a", [], [None, [[None, [[standard]]]], [["flex", None, [[flex]]]]]]


@pytest.mark.parametrize(
    ("before", "after", "tier"),
    [
        # Half of it is what another tier costs.
        (tiered(1000, 500), tiered(90, 500), "standard"),
        (tiered(1000, 500), tiered(60, 60), ""),
        (tiered(100, 1000), tiered(100, 90), "flex"),
        (tiered(100, 1000), tiered(1001, 1000), "standard"),
        (tiered(1000, 99), tiered(99, 1000), "standard"),
    ],
)
def test_pitfall_456_what_changes_steeply_does_not_hide_behind_another_tier(
    before: list[object], after: list[object], tier: str
) -> None:
    steep = compare(table(before), table(after)).large
    assert steep and steep[0].tier == tier


def test_pitfall_456_what_changes_steeply_does_not_hide_behind_another_day() -> None:
    before: list[object] = ["a", [], [None, [[None, [[20]]], [40000, [[300]]]]]]
    after: list[object] = ["a", [], [None, [[None, [[20]]], [40000, [[25]]]]]]
    (change,) = compare(table(before), table(after)).large
    assert (change.before, change.after) == (Bounds(low=20, high=300), Bounds(low=20, high=25))


def test_a_price_that_is_not_known_any_more_is_no_cheap_one() -> None:
    (change,) = compare(table(priced("a", 1000)), table(["a", [], []])).rates
    assert change.after is None and not change.is_large


def test_every_class_has_its_name() -> None:
    assert tuple(named(Rates())) == Rates.__struct_fields__
