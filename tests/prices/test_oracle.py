"""The package that the table is compiled from is the oracle: names, dates, tiers, thresholds and every class."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache

import pytest
from genai_prices import Usage as PackageUsage
from genai_prices import types
from genai_prices.data_snapshot import DataSnapshot, get_snapshot

from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.prices.classes import STANDARD, TokenClasses
from dragoman.prices.cost import price

BOOK = PriceBook()
FIRST, LAST = datetime(2024, 6, 1, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC)
TIERS_SINCE = datetime(2026, 10, 10, tzinfo=UTC)
TIERS = {
    STANDARD: None,
    "priority": {"service_tier": "priority"},
    "flex": {"service_tier": "flex"},
    "fast": {"service_tier": "fast"},
    "batch": {"processing": "batch"},
}
# The package's names of the classes.
KEYS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
    "thinking": "output_reasoning_mtok",
    "search": "web_searches_kcount",
    "request": "requests_kcount",
}
NANO = Decimal(10**9)


@cache
def package() -> DataSnapshot:
    return get_snapshot()


def texts_of(clause: object) -> Iterator[str]:
    """The texts that a condition of the package is about."""
    if isinstance(clause, types.ClauseOr | types.ClauseAnd):
        for part in clause.or_ if isinstance(clause, types.ClauseOr) else clause.and_:
            yield from texts_of(part)
    elif not isinstance(clause, types.ClauseRegex):
        yield from vars(clause).values()


@cache
def names() -> tuple[tuple[str, str], ...]:
    """Provider and name of a model, in every spelling that the package has a condition for."""
    return tuple(
        (provider.id, name)
        for provider in package().providers
        for model in provider.models
        for name in dict.fromkeys((model.id, *texts_of(model.match)))
    )


@cache
def names_with_tiers() -> tuple[tuple[str, str], ...]:
    """Those of the providers that have prices for tiers."""
    return tuple((provider, name) for provider, name in names() if provider in ("openai", "google", "anthropic"))


def a_moment(dice: random.Random) -> datetime:
    """Any, and as often one since tiers have had prices."""
    first = dice.choice((FIRST, TIERS_SINCE))
    return first + dice.random() * (LAST - first)


def a_name(dice: random.Random) -> tuple[str, str]:
    provider, name = dice.choice(names() if dice.random() < 0.8 else names_with_tiers())
    match dice.randrange(12):
        case 0:
            return provider, f"{name}-20251211"
        case 1:
            return provider, f"{name}-2026-03-01"
        case 2:
            return provider, name.upper()
        case 3:
            return dice.choice(("azure", "google", "aws", "openrouter")), name
        case 4:
            return dice.choice(("anthropic", "openai")), dice.choice(("claude-opus-5", "gpt-5.1", "o4-mini"))
    return provider, name


def a_count(dice: random.Random) -> int:
    if dice.random() < 0.3:
        return 0
    return int(10 ** dice.uniform(0, 6))


def some_tokens(dice: random.Random) -> TokenClasses:
    output = a_count(dice)
    plain, read, written, hour = (a_count(dice) for _ in range(4))
    if dice.random() < 0.3:
        # Near the thresholds that exist.
        edge = dice.choice((32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288))
        read, written, hour = (count % (edge // 3) for count in (read, written, hour))
        plain = edge - read - written - hour + dice.choice((-1, 0, 1))
    return TokenClasses(
        input=plain,
        cache_read=read,
        cache_write=written,
        cache_write_1h=hour,
        output=output,
        thinking=dice.randint(0, output),
        searches=dice.choice((0, 0, 1, 7)),
    )


def usage_of(tokens: TokenClasses) -> PackageUsage:
    return PackageUsage(
        input_tokens=tokens.total_input,
        cache_read_tokens=tokens.cache_read,
        cache_write_tokens=tokens.cache_write + tokens.cache_write_1h,
        cache_write_1h_tokens=tokens.cache_write_1h,
        output_tokens=tokens.output,
        output_reasoning_tokens=tokens.thinking,
        web_searches=tokens.searches,
    )


def is_whole(amount: Decimal, unit: int) -> bool:
    return amount * unit == int(amount * unit)


def check_classes(
    facts: ModelFacts, tokens: TokenClasses, tier: str, prices: types.ModelPrice
) -> tuple[int | None, Decimal]:
    """Each class is the package's to one nano-dollar, and unknown where the package has no price.

    Gives the total, and how far that may be off.
    """
    off = Decimal(0)
    cost = price(facts, tokens, tier)
    thinking = tokens.thinking if prices.output_reasoning_mtok is not None else 0
    counts = {
        "input": tokens.input,
        "output": tokens.output - thinking,
        "cache_read": tokens.cache_read,
        "cache_write": tokens.cache_write,
        "cache_write_1h": tokens.cache_write_1h,
        "thinking": thinking,
        "search": tokens.searches,
        "request": 1,
    }
    amounts = dict(zip(("input", "output", *list(KEYS)[2:]), cost.classes, strict=True))
    for name, count in counts.items():
        stored = getattr(prices, KEYS[name])
        per = 10**6 if KEYS[name].endswith("_mtok") else 10**3
        amount = amounts[name]
        if stored is None:
            assert amount == (0 if not count or name == "request" else None), name
            continue
        exact = types.calc_unit_price(stored, count, tokens.total_input, per) * NANO
        assert amount is not None, name
        # A few rates are thirds of a pico-dollar, and ours are whole ones.
        rate = types.calc_unit_price(stored, 1, tokens.total_input, per)
        slack = Decimal("0.5") if is_whole(rate, 10**12) else 1 + count * Decimal("0.0005")
        assert abs(amount - exact) <= slack, (name, amount, exact)
        off += slack
    return cost.total, off


@pytest.mark.parametrize("cases", [3_000, pytest.param(12_000, marks=pytest.mark.nightly)])
def test_the_table_agrees_with_the_package_on_random_requests(cases: int) -> None:
    dice = random.Random(25)
    seen: Counter[str] = Counter()
    while seen["priced"] < cases:
        provider_id, name = a_name(dice)
        moment = a_moment(dice)
        tokens, tier = some_tokens(dice), dice.choice((STANDARD, *TIERS))
        facts = BOOK.find(provider_id, name, moment.timestamp())
        try:
            provider, model = package().find_provider_model(name, None, provider_id, None)
        except LookupError:
            # A prefix that is taken off here is no entry there.
            assert facts is None or "/" in name
            seen["unknown"] += 1
            continue
        assert facts is not None
        assert facts.entry.partition("/")[2] == model.id
        assert facts.context_window == model.context_window
        told = model.get_prices(moment)
        if not any(value is not None for value in vars(told).values()):
            assert facts.standard is None
            seen["without a price"] += 1
            continue
        if tier not in facts.tiers and tier != STANDARD:
            # There the standard price is told instead, and here none.
            own = any(model is each for each in provider.models)
            active = [
                variant
                for variant in model.price_variants or ()
                if variant.when == TIERS[tier] and (variant.constraint is None or variant.constraint.active(moment))
            ]
            assert not active or not own
            assert price(facts, tokens, tier).total is None
            seen["without the tier"] += 1
            tier = STANDARD
        asked = package().calc(
            usage_of(tokens), name, provider_id, None, moment, TIERS[tier] or {"service_tier": "default"}
        )
        total, off = check_classes(facts, tokens, tier, asked.model_price)
        if total is not None:
            assert abs(total - asked.total_price * NANO) <= off
            seen["whole"] += 1
        seen["priced"] += 1
        seen[f"tier {tier}"] += 1
    assert min(seen[f"tier {tier}"] for tier in TIERS) > 20
    assert seen["unknown"] > 50 and seen["without a price"] > 50 and seen["whole"] > cases // 12


def test_176_models_without_a_price_are_unknown_and_not_free() -> None:
    unknown = 0
    for provider in package().providers:
        for model in provider.models:
            if isinstance(model.prices, types.ModelPrice) and not vars(model.prices):
                facts = BOOK.find(provider.id, model.id, LAST.timestamp())
                assert facts is not None
                if facts.entry == f"{provider.id}/{model.id}":
                    unknown += 1
                    assert facts.rates is None
                    assert price(facts, TokenClasses(input=1), STANDARD).total is None
    assert unknown > 160


@pytest.mark.parametrize("shelf", ["openai", "google"])
def test_the_word_fast_costs_what_priority_does(shelf: str) -> None:
    """So that one of them may stand for both."""
    for row_shelf, facts in BOOK.entries(LAST.timestamp()):
        if row_shelf == shelf and "fast" in facts.tiers:
            assert facts.tiers["fast"] == facts.tiers["priority"], facts.entry
