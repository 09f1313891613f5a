"""The published collection, compiled."""

from __future__ import annotations

import datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import DragomanError
from dragoman.prices.price_source import days_of, read_source, round_price
from dragoman.prices.table import Rates, read_facts, read_provider_prices


def compiled(**model: object) -> tuple[tuple[object, ...], object]:
    """The rules and the facts of one model."""
    entry = {"id": "m", "match": {"equals": "m"}, **model}
    data = msgspec.json.encode([{"id": "p", "name": "P", "models": [entry]}])
    (row,) = read_provider_prices(read_source(data, "1", "2026-01-01").providers["p"]).models
    return row.rules, msgspec.json.decode(msgspec.json.encode(read_facts(row.facts)))


def test_dollars_for_a_million_are_pico_dollars_for_one() -> None:
    _, facts = compiled(prices={"input_mtok": 1.25, "output_mtok": "10", "web_searches_kcount": 35}, context_window=9)
    rates = [1_250_000, 10_000_000, None, None, None, None, 35 * 10**9, None]
    assert facts == [9, [[None, [rates, []]]], [], []]


def test_a_threshold_makes_whole_rates() -> None:
    tiered = {"base": 1, "tiers": [{"start": 20, "price": 3}, {"start": 10, "price": 2}]}
    _, facts = compiled(prices={"input_mtok": tiered, "output_mtok": 5})
    tail = [None] * 6
    steps = [[10, [2_000_000, 5_000_000, *tail]], [20, [3_000_000, 5_000_000, *tail]]]
    assert facts == [None, [[None, [[1_000_000, 5_000_000, *tail], steps]]], [], []]


def test_times_and_tiers() -> None:
    _, facts = compiled(
        prices=[
            {"prices": {"input_mtok": 1}},
            {"constraint": {"start_date": "1970-01-03"}, "prices": {"input_mtok": 2}},
            {"constraint": {"start_time": "00:30:00Z", "end_time": "16:30:00+00:00"}, "prices": {"input_mtok": 3}},
        ],
        price_variants=[
            {"when": {"service_tier": "flex"}, "prices": {"input_mtok": 0.5}},
            {"when": {"route": "somewhere"}, "prices": {"input_mtok": 9}},
        ],
    )
    assert isinstance(facts, list)
    assert [when for when, _ in facts[1]] == [None, 2, [30, 990]]
    assert [tier for tier, _, _ in facts[2]] == ["flex"]


def test_a_model_without_a_price_has_none() -> None:
    assert compiled(prices={}) == ((), [None, [], [], []])
    assert compiled(prices={"input_mtok": None}) == ((), [None, [], [], []])


def test_other_classes_of_tokens_are_named() -> None:
    _, facts = compiled(prices={"input_mtok": 1, "input_audio_mtok": 9, "audio_hours": 2})
    assert isinstance(facts, list) and facts[3] == ["input_audio"]


def test_conditions_become_rules() -> None:
    rules, _ = compiled(
        match={"or": [{"equals": "M"}, {"starts_with": "A-"}, {"ends_with": "z"}, {"regex": r"^x-\d$"}]}
    )
    assert rules == ("=m", "^a-", "$z", r"~^x-\d$")
    rules, _ = compiled(match={"and": [{"contains": "a"}, {"or": [{"contains": "b"}, {"contains": "c"}]}]})
    assert rules == (("*a", "*b"), ("*a", "*c"))


@pytest.mark.parametrize(
    "model",
    [
        {"prices": {"input_mtok": -1}},
        {"prices": {"input_mtok": "NaN"}},
        {"prices": {"input_mtok": "dear"}},
        {"prices": 7},
        {"match": {"sounds_like": "m"}},
        {"match": {"and": [{"or": [{"equals": str(n)} for n in range(99)]}] * 9}},
        {"prices": [{"constraint": {"start_date": "soon"}, "prices": {"input_mtok": 1}}]},
        {"prices": [{"constraint": {"start_date": "2026-13-01"}, "prices": {"input_mtok": 1}}]},
        {"prices": [{"constraint": {"start_time": "25:00", "end_time": "26:00"}, "prices": {"input_mtok": 1}}]},
        {"prices": [{"constraint": {"start_time": "01:00+02:00", "end_time": "02:00"}, "prices": {"input_mtok": 1}}]},
        {"prices": [{"constraint": {}, "prices": {"input_mtok": 1}}]},
        {"prices": [{"prices": {"input_mtok": 1}}, {"prices": {}}]},
    ],
)
def test_pitfall_456_what_cannot_be_understood_is_refused(model: dict[str, object]) -> None:
    with pytest.raises(DragomanError, match="is no collection of prices"):
        compiled(**model)


@given(st.dates(min_value=datetime.date(1970, 1, 1), max_value=datetime.date(2200, 12, 31)))
def test_days_are_counted_as_calendars_do(day: datetime.date) -> None:
    assert days_of(day.isoformat()) == (day - datetime.date(1970, 1, 1)).days


@given(st.decimals(min_value=0, max_value=10**6, places=9))
def test_what_costs_something_never_becomes_free(amount: Decimal) -> None:
    rounded = round_price(amount, "input")
    assert (rounded == 0) == (amount == 0)
    assert abs(rounded - amount) <= Decimal("0.5") or (amount < 1 and rounded == 1)


def test_the_rates_are_those_of_the_table() -> None:
    assert Rates.__struct_fields__[:2] == ("input", "output")
