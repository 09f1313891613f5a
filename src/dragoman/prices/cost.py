"""Cost of tokens in nano-dollars, for records, budgets and routing. Each token class is rounded once, half up, and the
total is the sum of the classes. If a class has tokens and no known rate, it and the total are unknown: a missing price
never makes a response cheap."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from dragoman.model.response import Usage
from dragoman.prices.book import ModelFacts
from dragoman.prices.classes import STANDARD, TokenClasses, has_runs, runs_of, server_of, tier_of, tokens_of
from dragoman.prices.table import TieredRates

PICO = 1000
_NEVER_MORE_EXPENSIVE = frozenset({"flex", "batch"})
CLASSES = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "thinking", "search", "request")
Find: TypeAlias = Callable[[str], ModelFacts | None]


class Cost(Struct, frozen=True):
    """Cost by token class in nano-dollars, in the order of the rates. None if the price of used tokens is unknown."""

    input: int | None = 0
    output: int | None = 0
    cache_read: int | None = 0
    cache_write: int | None = 0
    cache_write_1h: int | None = 0
    thinking: int | None = 0
    search: int | None = 0
    request: int | None = 0
    # The source of the prices: entry and tier of the price book.
    entry: str = ""
    tier: str = STANDARD
    unpriced: tuple[str, ...] = ()

    @property
    def total(self) -> int | None:
        return None if self.unpriced else sum(amount or 0 for amount in self.classes)

    @property
    def classes(self) -> tuple[int | None, ...]:
        return (
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.cache_write_1h,
            self.thinking,
            self.search,
            self.request,
        )


def cost_of(
    facts: ModelFacts | None, usage: Usage, tier: str | None = None, *, find: Find = lambda model: None
) -> Cost:
    """The cost of a response. `tier` overrides the usage's tier. `find` looks up other models that ran during it."""
    tier = tier_of(usage) if tier is None else tier
    if not has_runs(usage):
        return price(facts, tokens_of(usage), tier)
    server = server_of(usage)
    if server:
        facts = find(server)
    cost = price(facts, tokens_of(usage), tier)
    for run in runs_of(usage):
        cost = _sum(cost, price(find(run.model) if run.model else facts, run.tokens, tier))
    return cost


def estimate(
    facts: ModelFacts | None, input_tokens: int, cached_tokens: int, output_tokens: int, tier: str = STANDARD
) -> Cost:
    """The approximate cost of a request. `cached_tokens` are part of the input, and cost as much if caching has no
    price. A tier that is never more expensive costs the standard price if it has none of its own."""
    if tier in _NEVER_MORE_EXPENSIVE and (facts is None or tier not in facts.tiers):
        tier = STANDARD
    rates = facts.rates if facts is not None else None
    cached = min(cached_tokens, input_tokens) if rates is not None and rates.cache_read is not None else 0
    return price(facts, TokenClasses(input=input_tokens - cached, cache_read=cached, output=output_tokens), tier)


def price(facts: ModelFacts | None, tokens: TokenClasses, tier: str) -> Cost:
    if facts is None or facts.standard is None:
        return _unpriced(facts, tier, "model")
    tiered = tiered_rates_of(facts, tier)
    if tiered is None:
        return _unpriced(facts, tier, f"tier {tier}")
    rates = tiered.rates_for(tokens.total_input) if tiered.steps else tiered.base
    thinking = tokens.thinking if rates.thinking is not None else 0
    # Most usages have only input, output and cached input. This fast path saves time on the event loop.
    amounts = (
        _amount(tokens.input, rates.input),
        _amount(tokens.output - thinking, rates.output),
        _amount(tokens.cache_read, rates.cache_read) if tokens.cache_read else 0,
        _amount(tokens.cache_write, rates.cache_write) if tokens.cache_write else 0,
        _amount(tokens.cache_write_1h, rates.cache_write_1h) if tokens.cache_write_1h else 0,
        _amount(thinking, rates.thinking) if thinking else 0,
        _amount(tokens.searches, rates.search) if tokens.searches else 0,
        _amount(tokens.requests, rates.request) if rates.request else 0,
    )
    missing: tuple[str, ...] = ()
    if None in amounts or tokens.others:
        missing = tuple(name for name, amount in zip(CLASSES, amounts, strict=True) if amount is None)
        missing += tuple(name for name, count in tokens.others.items() if count and _is_apart(name, facts))
    return Cost(*amounts, facts.entry or facts.override, tier, missing)


def tiered_rates_of(facts: ModelFacts | None, tier: str) -> TieredRates | None:
    if facts is None or facts.standard is None:
        return None
    return facts.standard if tier == STANDARD else facts.tiers.get(tier)


def nano(count: int, rate: int) -> int:
    """Multiply a count by a rate in pico-dollars. The result is in nano-dollars, rounded half up."""
    return (count * rate + PICO // 2) // PICO


def _is_apart(name: str, facts: ModelFacts) -> bool:
    """Whether a token class has another price than the class that contains it."""
    return name.startswith("cache_write") or name in facts.apart


def _amount(count: int, rate: int | None) -> int | None:
    if not count:
        return 0
    return None if rate is None else nano(count, rate)


def _unpriced(facts: ModelFacts | None, tier: str, what: str) -> Cost:
    entry = "" if facts is None else facts.entry or facts.override
    return Cost(None, None, None, None, None, None, None, None, entry, tier, (what,))


def _sum(one: Cost, other: Cost) -> Cost:
    return Cost(
        input=_plus(one.input, other.input),
        output=_plus(one.output, other.output),
        cache_read=_plus(one.cache_read, other.cache_read),
        cache_write=_plus(one.cache_write, other.cache_write),
        cache_write_1h=_plus(one.cache_write_1h, other.cache_write_1h),
        thinking=_plus(one.thinking, other.thinking),
        search=_plus(one.search, other.search),
        request=_plus(one.request, other.request),
        entry=one.entry,
        tier=one.tier,
        unpriced=tuple(dict.fromkeys((*one.unpriced, *other.unpriced))),
    )


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
