"""What tokens cost."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.prices.classes import STANDARD, TokenClasses
from dragoman.prices.cost import Cost, cost_of, estimate, price
from dragoman.prices.table import PriceTier, Rates, TieredRates

NOW = datetime.datetime(2026, 11, 16, 12, tzinfo=datetime.UTC).timestamp()
BOOK = PriceBook()
RATES = Rates(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000, cache_write_1h=6_000_000)
LONG = Rates(input=6_000_000, output=22_500_000, cache_read=600_000, cache_write=7_500_000, cache_write_1h=12_000_000)
FACTS = ModelFacts(entry="p/m", standard=TieredRates(base=RATES, steps=(PriceTier(above=200_000, rates=LONG),)))

COUNTS = st.integers(0, 10**9)
AMOUNTS = st.none() | st.integers(0, 10**12)


def facts_of(**rates: int) -> ModelFacts:
    return ModelFacts(entry="p/m", standard=TieredRates(base=Rates(**rates)))


def test_each_class_has_its_rate() -> None:
    told = Usage(input=1000 + 200 + 30, cache_read=200, cache_write=30, output=40)
    cost = cost_of(FACTS, told)
    assert cost == Cost(input=3_000_000, cache_read=60_000, cache_write=112_500, output=600_000, entry="p/m")
    assert cost.total == 3_772_500


@pytest.mark.parametrize(
    ("tokens", "rate", "nano"), [(1, 499, 0), (1, 500, 1), (3, 500, 2), (1, 1499, 1), (1, 1500, 2)]
)
def test_a_class_is_rounded_once_half_up(tokens: int, rate: int, nano: int) -> None:
    assert cost_of(facts_of(input=rate), Usage(input=tokens)).total == nano


@given(
    counts=st.tuples(*[COUNTS] * 7),
    rates=st.tuples(*[AMOUNTS] * 8),
    step=st.integers(0, 10**9),
)
def test_the_total_is_the_sum_of_the_classes_or_unknown(
    counts: tuple[int, ...], rates: tuple[int | None, ...], step: int
) -> None:
    fields = dict(zip(Rates.__struct_fields__, rates, strict=True))
    ladder = TieredRates(base=Rates(), steps=(PriceTier(above=step, rates=Rates(**fields)),))
    plain, read, written, hour, output, searches, thinking = counts
    tokens = TokenClasses(
        input=plain,
        cache_read=read,
        cache_write=written,
        cache_write_1h=hour,
        output=output,
        thinking=min(thinking, output),
        searches=searches,
    )
    cost = price(ModelFacts(standard=ladder), tokens, STANDARD)
    if cost.unpriced:
        assert cost.total is None
    else:
        assert None not in cost.classes
        assert cost.total == sum(amount or 0 for amount in cost.classes)
        exact = sum(
            count * (rate or 0)
            for count, rate in (
                (tokens.input, fields["input"]),
                (tokens.cache_read, fields["cache_read"]),
                (tokens.cache_write, fields["cache_write"]),
                (tokens.cache_write_1h, fields["cache_write_1h"]),
                (tokens.output - (tokens.thinking if fields["thinking"] is not None else 0), fields["output"]),
                (tokens.thinking, fields["thinking"]),
                (tokens.searches, fields["search"]),
                (1, fields["request"]),
            )
        )
        if tokens.total_input > step:
            assert abs(cost.total * 1000 - exact) <= 8 * 500


def test_thinking_is_output_unless_it_has_a_price() -> None:
    told = Usage(output=100, thinking=60)
    assert cost_of(facts_of(output=1000), told).total == 100
    cost = cost_of(facts_of(output=1000, thinking=2000), told)
    assert (cost.output, cost.thinking) == (40, 120)


def test_a_fee_for_each_request() -> None:
    assert cost_of(facts_of(input=0, request=12_000_000_000), Usage(input=5)).total == 12_000_000


def test_an_estimate_is_priced_by_the_same_function() -> None:
    told = Usage(input=1000, cache_read=400, output=50)
    assert estimate(FACTS, 1000, 400, 50) == cost_of(FACTS, told)
    # A cache that nobody prices is not counted upon.
    assert estimate(facts_of(input=1000, output=1000), 1000, 400, 50).total == 1050
    assert estimate(FACTS, 100, 400, 0).input == 0


def test_pitfall_369_416_an_unknown_price_is_unknown_and_never_0() -> None:
    assert cost_of(None, Usage(input=1)).total is None
    assert estimate(None, 1, 0, 1).total is None
    without = ModelFacts(entry="p/m", context_window=1000)
    assert cost_of(without, Usage()).total is None
    assert cost_of(without, Usage(input=1)).unpriced == ("model",)
    # What was declared to be free is free.
    assert cost_of(facts_of(input=0, output=0), Usage(input=9, output=9)).total == 0


@pytest.mark.parametrize(
    ("told", "missing"),
    [
        (Usage(input=9, cache_read=1), "cache_read"),
        (Usage(input=9, cache_write=1), "cache_write"),
        (Usage(output=1), "output"),
        (Usage(web_searches=1), "search"),
    ],
)
def test_pitfall_406_a_class_without_a_rate_is_not_derived_from_another(told: Usage, missing: str) -> None:
    cost = cost_of(facts_of(input=1000), told)
    assert cost.total is None and cost.unpriced == (missing,)
    assert cost.input is not None


def test_pitfall_391_every_road_gives_the_same_price() -> None:
    facts = BOOK.find("openai", "gpt-5.1", NOW)
    assert facts is not None
    for count in (0, 1, 999, 270_000, 300_000):
        known = cost_of(facts, Usage(input=count, cache_read=count // 2, output=count // 3))
        assert known.total == estimate(facts, count, count // 2, count // 3).total
        again = TokenClasses(input=count - count // 2, cache_read=count // 2, output=count // 3)
        assert known == price(facts, again, STANDARD)


def test_pitfall_402_above_the_threshold_the_whole_request_costs_more() -> None:
    cost = cost_of(FACTS, Usage(input=200_001, output=100))
    assert (cost.input, cost.output) == (200_001 * 6_000, 100 * 22_500)


@pytest.mark.parametrize(("plain", "read", "is_long"), [(150_000, 50_000, False), (150_000, 50_001, True)])
def test_pitfall_403_the_threshold_is_for_all_input_and_strictly_above(plain: int, read: int, is_long: bool) -> None:
    cost = cost_of(FACTS, Usage(input=plain + read, cache_read=read))
    rates = LONG if is_long else RATES
    assert rates.input is not None and rates.cache_read is not None
    assert cost.input == plain * rates.input // 1000
    assert cost.cache_read == (read * rates.cache_read + 500) // 1000


def test_pitfall_403_thresholds_are_data() -> None:
    thresholds = {
        step.above for _, facts in BOOK.entries(NOW) if facts.standard is not None for step in facts.standard.steps
    }
    assert thresholds > {100_000, 128_000, 200_000, 256_000, 272_000}


def with_extras(fields: JsonObject, **counts: int) -> Usage:
    return Usage(extras=Extras(origin="x", fields=fields), **counts)  # type: ignore[arg-type]  # counts alone


def test_pitfall_404_an_hour_costs_what_an_hour_does() -> None:
    split: JsonObject = {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}
    cost = cost_of(FACTS, with_extras({"cache_creation": split}, input=100, cache_write=100))
    assert (cost.input, cost.cache_write, cost.cache_write_1h) == (0, 225_000, 240_000)
    unknown = cost_of(facts_of(input=1, cache_write=1), with_extras({"cache_creation": split}, input=100))
    assert unknown.unpriced == ("cache_write_1h",)


def test_pitfall_405_a_lifetime_without_a_price_is_unpriced() -> None:
    details: JsonObject = {"cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 30}}
    cost = cost_of(FACTS, with_extras({"input_tokens_details": details}, input=100, cache_write=40))
    assert cost.unpriced == ("cache_write_12h",) and cost.total is None
    assert (cost.input, cost.cache_write) == (60 * 3000, 10 * 3750)
    usual: JsonObject = {"cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 0}}
    assert cost_of(FACTS, with_extras({"input_tokens_details": usual}, input=10, cache_write=10)).total == 37_500


def test_tokens_of_sound_are_priced_as_others_unless_they_have_a_price_of_their_own() -> None:
    told = with_extras({"prompt_tokens_details": {"audio_tokens": 5}}, input=10)
    assert cost_of(FACTS, told).total == 30_000
    apart = ModelFacts(standard=FACTS.standard, apart=("input_audio",))
    assert cost_of(apart, told).unpriced == ("input_audio",)


def test_pitfall_407_a_tier_without_a_price_is_not_the_standard_one() -> None:
    facts = BOOK.find("openai", "gpt-5.1", NOW)
    assert facts is not None
    told = {
        tier: cost_of(facts, Usage(input=1000, service_tier=tier)).total for tier in ("default", "flex", "priority")
    }
    assert told == {"default": 1_250_000, "flex": 625_000, "priority": 2_500_000}
    assert cost_of(facts, Usage(input=1000, service_tier="fast")).total == 2_500_000
    cost = cost_of(facts, Usage(input=1000, service_tier="scale"))
    assert cost.total is None and cost.unpriced == ("tier scale",)


def test_pitfall_409_fast_mode_is_unpriced_unless_an_override_prices_it() -> None:
    facts = BOOK.find("anthropic", "claude-opus-5", NOW)
    assert facts is not None
    fast = with_extras({"speed": "fast"}, input=1000)
    assert cost_of(facts, Usage(input=1000)).total == 5_000_000
    assert cost_of(facts, fast).total is None
    dear = ModelFacts(standard=FACTS.standard, tiers={"speed-fast": TieredRates(base=Rates(input=30_000_000))})
    assert cost_of(dear, fast).total == 30_000_000


def test_pitfall_411_what_ran_beside_is_priced_by_its_own_model() -> None:
    iterations: JsonObject = {
        "iterations": [
            {"type": "message", "input_tokens": 10, "output_tokens": 0},
            {"type": "compaction", "input_tokens": 100, "output_tokens": 0},
            {"type": "advisor_message", "model": "wise", "input_tokens": 7, "output_tokens": 0},
        ]
    }
    told = with_extras(iterations, input=10)
    known = {"wise": facts_of(input=1000)}
    facts = facts_of(input=2000, request=5000)
    cost = cost_of(facts, told, find=known.get)
    assert (cost.input, cost.request) == (10 * 2 + 100 * 2 + 7, 5)
    assert cost_of(facts, told).total is None
    served: JsonObject = {"iterations": [{"type": "fallback_message", "model": "wise"}]}
    assert cost_of(facts, with_extras(served, input=10), find=known.get).total == 10


def test_pitfall_413_searches_are_paid_each_once() -> None:
    facts = BOOK.find("anthropic", "claude-opus-5", NOW)
    assert facts is not None
    assert cost_of(facts, Usage(web_searches=3)).search == 30_000_000
    assert cost_of(facts, Usage(web_searches=0)).search == 0
