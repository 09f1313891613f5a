"""What calls cost: by whose price, in which tier, with what ran beside them; and what is not known."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.gateway.observability.costs import UNREPORTED, Costs, record_calls
from dragoman.gateway.observability.record import Record
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras
from dragoman.model.response import Usage
from dragoman.prices.book import Override, PriceBook
from dragoman.prices.table import Rates, own_table
from dragoman.providers.provider import Endpoint, Provider
from dragoman.records.journal_entry import CallEntry, CostBreakdown, TokenCounts
from dragoman.routing.target import Target
from dragoman.wire.json import decode_object

NOW = 1_790_000_000.0
# Dollars for a million tokens, in pico-dollars for one.
DOLLAR = 1_000_000
PER_THOUSAND = 10**9


def costs(**prices: Override) -> Costs:
    return Costs(PriceBook(overrides={name.replace("__", "/"): each for name, each in prices.items()}), lambda: NOW)


def target(provider: str, model: str, **more: str) -> Target:
    endpoint = Endpoint(protocol="openai-chat", base_url="http://127.0.0.1/v1")
    made = replace(Provider(name=provider, endpoints=(endpoint,)), **more)
    return Target(provider=made, endpoint=endpoint, model=model, strict=False)


def usage(extras: str = "", **counts: int | str) -> Usage:
    fields = decode_object(extras) if extras else None
    told = None if fields is None else Extras(origin="x", fields=fields)
    return replace(Usage(extras=told), **counts)


OWN = Override(
    rates=Rates(
        input=3 * DOLLAR,
        output=15 * DOLLAR,
        cache_read=3 * DOLLAR // 10,
        cache_write=375 * DOLLAR // 100,
        cache_write_1h=6 * DOLLAR,
        search=10 * PER_THOUSAND,
    )
)


def test_every_class_is_paid_once() -> None:
    """By hand: 1,000 plain at $3, 2,000 read at $0.30, 400 written for 5 minutes at $3.75, 100 for an hour at $6."""
    counted = usage(
        '{"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":100}}',
        input=3500,
        output=200,
        cache_read=2000,
        cache_write=500,
        thinking=50,
        web_searches=2,
    )
    tokens, money = costs(p__m=OWN).spent(target("p", "m"), counted)
    assert tokens == TokenCounts(
        input=3500, cache_read=2000, cache_write=500, cache_write_1h=100, output=200, thinking=50, searches=2
    )
    assert money == CostBreakdown(
        input=3_000_000,
        output=3_000_000,
        cache_read=600_000,
        cache_write=1_500_000,
        cache_write_1h=600_000,
        search=20_000_000,
        version=own_table().version,
        entry="p/m",
    )
    assert money.total == 28_700_000


NAMES = {
    "as the answer says": ("gpt-5.1", "o3-2025-04-16", "openai/o3"),
    "as the family of what it says": ("unheard-of", "o4-mini-2025-04-16", "openai/o4-mini"),
    "as was asked": ("gpt-5.1", "a-secret-name", "openai/gpt-5.1"),
    "as was asked, where the answer says nothing": ("gpt-5.1", "", "openai/gpt-5.1"),
}


@pytest.mark.parametrize("case", NAMES)
def test_pitfall_414_the_record_says_whose_price_it_is(case: str) -> None:
    asked, answered_by, entry = NAMES[case]
    _, money = costs().spent(target("openai", asked), usage(input=10, output=10), answered_by)
    assert (money.entry, money.unpriced) == (entry, ())
    assert money.version == own_table().version


def test_pitfall_414_the_first_name_with_a_price_for_the_tier_counts() -> None:
    plain = Override(rates=Rates(input=DOLLAR, output=DOLLAR))
    tiered = Override(rates=Rates(input=DOLLAR, output=DOLLAR), tiers={"flex": Rates(input=DOLLAR // 2)})
    priced = costs(p__asked=tiered, **{"p__served-2026-01-01": plain, "p__served": tiered})
    served = usage(input=1000, output=0, service_tier="flex")
    _, by_family = priced.spent(target("p", "asked"), served, "served-2026-01-01")
    assert (by_family.entry, by_family.tier, by_family.input) == ("p/served", "flex", 500_000)
    _, without = costs(p__asked=plain).spent(target("p", "asked"), served, "served")
    assert without.unpriced == ("tier flex",)
    assert without.total == 0


def test_what_an_operator_says_of_the_asked_name_goes_before_the_book() -> None:
    free = Override(rates=Rates(input=0, output=0))
    priced = Costs(PriceBook(overrides={"openai/gpt-5.1": free}), lambda: NOW)
    _, money = priced.spent(target("openai", "gpt-5.1"), usage(input=10, output=10), "gpt-5.1-2025-11-13")
    assert (money.total, money.unpriced) == (0, ())


def test_pitfall_410_a_cloud_is_priced_by_the_name_that_says_the_region() -> None:
    answered, counted = "claude-opus-4-5-20251101", usage(input=1_000_000, output=0)
    totals = {
        region: costs()
        .spent(
            target("bedrock", f"{region}anthropic.claude-opus-4-5-20251101-v1:0", transport="bedrock"),
            counted,
            answered,
        )[1]
        .total
        for region in ("global.", "eu.")
    }
    assert totals["eu."] * 10 == totals["global."] * 11 > 0


def test_pitfall_407_408_the_served_tier_is_priced_unless_the_provider_does_not_know_it() -> None:
    own = Override(rates=Rates(input=DOLLAR, output=DOLLAR), tiers={"priority": Rates(input=2 * DOLLAR)})
    counted = usage(input=1000, output=0, service_tier="default")
    _, money = costs(p__m=own).spent(target("p", "m"), counted, "", "priority")
    assert (money.tier, money.input) == ("", 1_000_000)
    _, money = costs(p__m=own).spent(target("p", "m", vendor="codex"), counted, "", "priority")
    assert (money.tier, money.input) == ("priority", 2_000_000)


def test_pitfall_411_what_ran_beside_the_answer_is_counted_and_priced_by_its_own_model() -> None:
    adviser = Override(rates=Rates(input=10 * DOLLAR, output=10 * DOLLAR))
    counted = usage(
        '{"iterations":[{"type":"message","input_tokens":1000,"output_tokens":100},'
        '{"type":"compaction","input_tokens":5000,"output_tokens":50},'
        '{"type":"advisor_message","model":"wise","input_tokens":200,"output_tokens":20}]}',
        input=1000,
        output=100,
    )
    tokens, money = costs(p__m=OWN, p__wise=adviser).spent(target("p", "m"), counted)
    assert (tokens.input, tokens.output) == (6200, 170)
    assert money.input == 3_000_000 + 15_000_000 + 2_000_000
    assert money.output == 1_500_000 + 750_000 + 200_000


def test_pitfall_411_a_fallback_is_priced_as_the_model_that_answered() -> None:
    other = Override(rates=Rates(input=10 * DOLLAR, output=10 * DOLLAR))
    counted = usage('{"iterations":[{"type":"fallback_message","model":"other"}]}', input=1000, output=100)
    _, money = costs(p__m=OWN, p__other=other).spent(target("p", "m"), counted, "m")
    assert (money.input, money.output, money.entry) == (10_000_000, 1_000_000, "p/other")


UNKNOWN: Mapping[str, tuple[str, Usage, tuple[str, ...]]] = {
    "a model": ("nobody", usage(input=5, output=5), ("model",)),
    "a tier": ("m", usage(input=5, output=5, service_tier="ultrafast"), ("tier ultrafast",)),
    "a fast answer": ("m", usage('{"speed":"fast"}', input=5, output=5), ("tier speed-fast",)),
    "a lifetime of caches": (
        "m",
        usage(
            '{"input_tokens_details":{"cache_write_tokens_details":{"ttl_12h_tokens":5}}}',
            input=10,
            output=5,
            cache_write=5,
        ),
        ("cache_write_12h",),
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_pitfall_416_what_has_no_price_is_named_and_not_free(case: str) -> None:
    model, counted, unpriced = UNKNOWN[case]
    tokens, money = costs(p__m=OWN).spent(target("p", model), counted)
    assert money.unpriced == unpriced
    assert (tokens.input, tokens.output) == (counted.input, counted.output)


def test_pitfall_417_what_the_provider_says_stands_beside_ours() -> None:
    tokens, money = costs(p__m=OWN).spent(target("p", "m"), usage('{"cost":0.5}', input=1000, output=0))
    assert (money.input, money.reported) == (3_000_000, 500_000_000)
    assert tokens.input == 1000


@pytest.mark.parametrize(
    "counts",
    [
        {"input": 1 << 50},
        {"output": -5},
        {"input": 1 << 39},
        {"input": 10, "output": -3},
        {"input": -500, "output": 1000},
        {"input": 10, "cache_read": -5, "output": 3},
        {"input": 10, "cache_write": -5, "output": 3},
        {"input": 10, "output": 3, "thinking": -3},
        {"input": 10, "output": 3, "web_searches": -100},
        {"input": 10, "output": 3, "web_searches": 10**15},
    ],
    ids=str,
)
def test_counts_that_cannot_be_are_none(counts: dict[str, int]) -> None:
    dear = Override(rates=Rates(input=10**15, output=10**15))
    tokens, money = costs(p__m=dear).spent(target("p", "m"), replace(usage(), **counts))
    assert (tokens, money.total, money.unpriced) == (TokenCounts(), 0, ("counts",))


def test_an_answer_with_very_many_turns_is_not_priced_turn_by_turn() -> None:
    steps = ",".join(f'{{"type":"compaction","model":"m{number}","input_tokens":1}}' for number in range(1001))
    told = usage(f'{{"iterations":[{steps}],"cost":0.5}}', input=5, output=3)
    tokens, money = costs(p__m=OWN).spent(target("p", "m"), told)
    assert (tokens, money) == (TokenCounts(), CostBreakdown(unpriced=("counts",), reported=500_000_000))


def test_what_is_remembered_is_bounded_and_long_names_are_not() -> None:
    priced = costs(p__m=OWN)
    for number in range(5000):
        priced.spent(target("p", "m"), usage(input=1), f"name-{number}")
    priced.spent(target("p", "m"), usage(input=1), "x" * 10_000)
    assert len(priced._cached) <= 4096
    assert all(len(answered_by) <= 256 for _, answered_by, _ in priced._cached)


def attempt(
    money: CostBreakdown | None = None, tokens: TokenCounts | None = None, *, estimated: bool = False
) -> CallEntry:
    return CallEntry(provider="p", model="m", protocol="x", cost=money, tokens=tokens, estimated=estimated)


def totals(*attempts: CallEntry) -> Record:
    record = Record(id="req_1", client_protocol="x", path="/", started=0.0, time=0)
    record_calls(record, attempts)
    return record


def test_pitfall_425_an_exchange_is_the_sum_of_its_attempts() -> None:
    failed = attempt(CostBreakdown(input=5, entry="p/a", version="1"), TokenCounts(input=3), estimated=True)
    refused = attempt()
    unknown = attempt(UNREPORTED)
    answered = attempt(
        CostBreakdown(input=7, output=2, reported=9, entry="p/b", version="1"), TokenCounts(input=4, output=1)
    )
    record = totals(failed, refused, unknown, answered)
    assert record.attempts == (failed, refused, unknown, answered)
    assert record.tokens == TokenCounts(input=7, output=1)
    assert record.estimated is True
    assert record.cost == CostBreakdown(input=12, output=2, unpriced=("usage",), entry="p/b", version="1", reported=9)
    for attempts, tokens, cost in (
        ((refused,), None, None),
        ((refused, refused), None, None),
        ((answered,), answered.tokens, answered.cost),
        ((unknown, unknown), None, UNREPORTED),
    ):
        record = totals(*attempts)
        assert (record.attempts, record.tokens, record.estimated, record.cost) == (attempts, tokens, False, cost)


NOTHING_MORE: JsonObject = {
    "odd": 1,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    "prompt_tokens_details": {"audio_tokens": 0},
}
RATES = st.none() | st.integers(0, 40 * DOLLAR)
COUNTS = st.none() | st.integers(-2, 5) | st.integers(0, 1 << 37)


@given(
    name=st.sampled_from(["p/m", "q/m", "openai/gpt-5.4", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-pro"]),
    rates=st.builds(
        Rates,
        input=RATES,
        output=RATES,
        cache_read=RATES,
        cache_write=RATES,
        thinking=st.none() | RATES,
        request=RATES,
    ),
    counts=st.fixed_dictionaries(
        {"input": st.integers(-2, 1 << 37), "output": st.integers(-2, 1 << 37)},
        optional={name: COUNTS for name in ("cache_read", "cache_write", "thinking", "web_searches")},
    ),
    tier=st.sampled_from([None, "", "default", "priority", "flex"]),
)
def test_simple_prices_come_to_what_all_of_them_do(
    name: str, rates: Rates, counts: dict[str, int], tier: str | None
) -> None:
    """Whoever tells of runs, and be it of none, goes the long way."""
    door, asked = costs(p__m=Override(rates=rates, tiers={"flex": rates})), target(*name.split("/"))
    plain = replace(Usage(), service_tier=tier, **counts)
    expected = door.spent(asked, replace(plain, extras=Extras(origin="x", fields={"iterations": []})))
    assert door.spent(asked, plain) == expected
    assert door.spent(asked, replace(plain, extras=Extras(origin="x", fields=NOTHING_MORE))) == expected
