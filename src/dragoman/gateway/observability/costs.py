"""Usage and cost of the calls of an exchange, by the price book of one configuration. The price is that of the
response's model name, else of its family (without a date), else of the requested name; the first that has a price for
the served tier, and the record names that entry. The requested name goes first if an operator set its price, and at
clouds whose names carry the region. A model without a price has no cost, and is named beside the known cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import astuple, replace

from dragoman.gateway.observability.record import Record
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.response import Usage
from dragoman.prices import classes
from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.prices.classes import STANDARD, has_details, has_runs, has_too_many_runs, runs_of, tier_of, tokens_of
from dragoman.prices.cost import CLASSES, PICO, Cost, cost_of, price, tiered_rates_of
from dragoman.prices.reported_cost import MEMBERS, reported_cost_of
from dragoman.providers.provider import Provider, facts_of
from dragoman.records.journal_entry import CallEntry, CostBreakdown, TokenCounts
from dragoman.routing.target import Target

# Unreported usage.
UNREPORTED = CostBreakdown(unpriced=("usage",))
# The amounts of a model without a price, and the empty usage.
_UNKNOWN, _NOTHING = (None,) * len(CLASSES), (0,) * len(CLASSES)
# Maximum cached prices, and maximum length of a cached name, because some come from outside.
_MAX_CACHED_PRICES = 4096
_MAX_NAME_LENGTH = 256
# Above any real call, in tokens and nano-dollars: a provider may report anything, and totals must hold it.
_MAX_TOKENS = 1 << 36
_MAX_SEARCHES = 1 << 20
_MAX_COST = 10**14
_REGIONAL = frozenset({"bedrock", "vertex"})
# Usage outside the response, and the reported cost.
_OTHERS = frozenset({"iterations", *MEMBERS})
_HALF = PICO // 2
# A day, or the like, at the end of a name.
_find_date = re.compile(r"[-@:](?:20\d{2}-?[01]\d-?[0-3]\d|latest)$").search


class _Simple(Struct, frozen=True, gc=False):
    """Prices of input, output and cached input, up to a number of tokens; most calls need no others."""

    input: int
    output: int
    cache_read: int | None
    cache_write: int | None
    # Of input and output together: more has prices of its own, or costs more than is recorded.
    max_tokens: int
    # Additions to the amounts: unpriced parts, and the source of the prices.
    unpriced: tuple[str, ...]
    version: str
    entry: str
    tier: str

    def spent(self, usage: Usage) -> tuple[TokenCounts, CostBreakdown] | None:
        """Tokens and cost of usage without details; None if these are not so simple."""
        total, output, thinking = usage.input, usage.output, usage.thinking or 0
        read, written = usage.cache_read or 0, usage.cache_write or 0
        plain = total - read - written
        if usage.web_searches or total + output > self.max_tokens or not 0 <= thinking <= output or plain < 0:
            return None
        cache_read_cost = cache_write_cost = 0
        # As `nano`, which would be a call for each.
        if read:
            if read < 0 or self.cache_read is None:
                return None
            cache_read_cost = (read * self.cache_read + _HALF) // PICO
        if written:
            if written < 0 or self.cache_write is None:
                return None
            cache_write_cost = (written * self.cache_write + _HALF) // PICO
        input_cost = (plain * self.input + _HALF) // PICO
        output_cost = (output * self.output + _HALF) // PICO
        breakdown = CostBreakdown(
            input_cost,
            output_cost,
            cache_read_cost,
            cache_write_cost,
            0,
            0,
            0,
            0,
            self.unpriced,
            self.version,
            self.entry,
            self.tier,
        )
        return TokenCounts(total, read, written, 0, output, thinking), breakdown


class _CachedPrices(Struct, frozen=True):
    """The prices of a target for a time range, if they are simple."""

    facts: ModelFacts | None
    since: float
    until: float
    simple: _Simple | None


class Costs:
    """Prices by one book. `wall` gives seconds since 1970."""

    def __init__(self, price_book: PriceBook, wall: Callable[[], float]) -> None:
        self._price_book = price_book
        self._wall = wall
        # Prices of a target, by its ID, the response model and the tier, and their end.
        self._cached: dict[tuple[str, str, str], _CachedPrices] = {}

    def spent(
        self, target: Target, usage: Usage, response_model: str = "", requested_tier: str = ""
    ) -> tuple[TokenCounts, CostBreakdown]:
        """Tokens and cost of a call with reported usage; `response_model` is the model that the answer names."""
        tier = tier_of(usage, requested_tier, target.provider.vendor_or_name if requested_tier else "")
        now = self._wall()
        cached = self._cached.get((target.id, response_model, tier))
        if cached is None or not cached.since <= now < cached.until:
            cached = self._look_up(target, response_model, tier, now)
        if cached.simple is not None and (usage.extras is None or _has_no_cost_details(usage.extras.fields)):
            spent = cached.simple.spent(usage)
            if spent is not None:
                return spent
        return self._detailed(cached.facts, target.provider, usage, tier, now)

    def _detailed(
        self, facts: ModelFacts | None, provider: Provider, usage: Usage, tier: str, now: float
    ) -> tuple[TokenCounts, CostBreakdown]:
        """The same for usage with details, or with prices that are not simple."""
        if has_runs(usage):
            if has_too_many_runs(usage):
                return TokenCounts(), CostBreakdown(unpriced=("counts",), reported=reported_cost_of(usage))
            cost = cost_of(facts, usage, tier, find=lambda model: facts_of(self._price_book, provider, model, now))
            tokens = added([_tokens(tokens_of(usage)), *(_tokens(run.tokens) for run in runs_of(usage))])
        else:
            counted = tokens_of(usage)
            cost = price(facts, counted, tier)
            tokens = _tokens(counted)
        breakdown = self._breakdown(cost, reported_cost_of(usage))
        if not _can_be(tokens) or breakdown.total > _MAX_COST:
            return TokenCounts(), CostBreakdown(unpriced=("counts",), reported=breakdown.reported)
        return tokens, breakdown

    def unreported(self, target: Target) -> CostBreakdown:
        """The cost of a call without reported usage: unknown, unless the target is free."""
        facts = self._look_up(target, "", STANDARD, self._wall()).facts
        rates = None if facts is None else facts.rates
        if rates is None or rates.input is None or rates.output is None or any(astuple(replace(rates, request=None))):
            return UNREPORTED
        return self._breakdown(price(facts, classes.TokenClasses(), STANDARD), None)

    def _breakdown(self, cost: Cost, reported: int | None) -> CostBreakdown:
        amounts = astuple(cost)[: len(CLASSES)]
        if amounts == _UNKNOWN:
            amounts = _NOTHING
        elif None in amounts:
            amounts = tuple([amount or 0 for amount in amounts])
        return CostBreakdown(*(*amounts, cost.unpriced, self._version(cost), cost.entry, cost.tier, reported))

    def _version(self, cost: Cost) -> str:
        return self._price_book.table.version if cost.entry else ""

    def _look_up(self, target: Target, response_model: str, tier: str, now: float) -> _CachedPrices:
        """The prices of a response in the price book, which are cached."""
        facts, since, until = self._find(target, response_model, tier, now)
        fresh = _CachedPrices(facts, since, until, self._simple(facts, tier))
        if len(self._cached) >= _MAX_CACHED_PRICES:
            self._cached.clear()
        if len(target.id) + len(response_model) <= _MAX_NAME_LENGTH:
            self._cached[target.id, response_model, tier] = fresh
        return fresh

    def _simple(self, facts: ModelFacts | None, tier: str) -> _Simple | None:
        ladder, cost = tiered_rates_of(facts, tier), price(facts, classes.TokenClasses(), tier)
        version = self._version(cost)
        if ladder is None:
            return _Simple(0, 0, 0, 0, _MAX_TOKENS, cost.unpriced, version, cost.entry, tier)
        rates = ladder.base
        if rates.input is None or rates.output is None or rates.thinking is not None or rates.request:
            return None
        read, written = rates.cache_read, rates.cache_write
        # Each of the four amounts is rounded up by less than one.
        affordable = (_MAX_COST - 4) * PICO // max(rates.input, rates.output, read or 0, written or 0, 1)
        max_tokens = min(ladder.steps[0].above if ladder.steps else _MAX_TOKENS, affordable, _MAX_TOKENS)
        return _Simple(rates.input, rates.output, read, written, max_tokens, (), version, cost.entry, tier)

    def _find(
        self, target: Target, response_model: str, tier: str, now: float
    ) -> tuple[ModelFacts | None, float, float]:
        provider, candidates = target.provider, [ModelFacts()]
        since, until = candidates[0].since, candidates[0].until
        for name in self._names(provider, target.model, response_model[:_MAX_NAME_LENGTH]):
            facts = facts_of(self._price_book, provider, name, now)
            if facts is not None:
                since, until = max(since, facts.since), min(until, facts.until)
                candidates.append(facts)
        priced = [facts for facts in candidates if facts.standard is not None]
        fitting = [facts for facts in priced if tier == STANDARD or tier in facts.tiers]
        chosen = next(iter(fitting or priced or candidates[1:]), None)
        return chosen, since, until

    def _names(self, provider: Provider, requested_model: str, response_model: str) -> Iterator[str]:
        """The names by which the price is looked for, in their order, each once."""
        family = _find_date(response_model)
        names = [response_model, response_model[: family.start()] if family is not None else "", requested_model]
        own = self._has_own_price(provider, requested_model) and not self._has_own_price(provider, response_model)
        if own or provider.transport in _REGIONAL:
            names.insert(0, requested_model)
        yield from dict.fromkeys(name for name in names if name)

    def _has_own_price(self, provider: Provider, model: str) -> bool:
        override = self._price_book.override_of(provider.name, model)
        return override is not None and override[1].has_prices


def _has_no_cost_details(fields: JsonObject) -> bool:
    """Whether no member other than the totals affects the cost."""
    return _OTHERS.isdisjoint(fields) and not has_details(fields)


def _can_be(tokens: TokenCounts) -> bool:
    """Whether a call may have used this much: a missing count is not compensated by another one."""
    if min(astuple(tokens)) < 0 or tokens.searches > _MAX_SEARCHES:
        return False
    return tokens.input + tokens.output <= _MAX_TOKENS


def _tokens(counted: classes.TokenClasses) -> TokenCounts:
    """Disjoint classes as they are accounted for: what caches took is of the input, whatever its lifetime."""
    written = counted.cache_write + counted.cache_write_1h
    if counted.others:
        written += sum(count for name, count in counted.others.items() if name.startswith("cache_write"))
    return TokenCounts(
        counted.input + counted.cache_read + written,
        counted.cache_read,
        written,
        counted.cache_write_1h,
        counted.output,
        counted.thinking,
        counted.searches,
    )


def added(tokens: Iterable[TokenCounts]) -> TokenCounts:
    """Several counts together."""
    total = TokenCounts()
    for each in tokens:
        total = TokenCounts(
            total.input + each.input,
            total.cache_read + each.cache_read,
            total.cache_write + each.cache_write,
            total.cache_write_1h + each.cache_write_1h,
            total.output + each.output,
            total.thinking + each.thinking,
            total.searches + each.searches,
        )
    return total


def record_calls(record: Record, attempts: tuple[CallEntry, ...]) -> None:
    """Record the calls of an exchange, and their total tokens and cost."""
    record.attempts = attempts
    if len(attempts) == 1:
        one = attempts[0]
        record.tokens, record.estimated, record.cost = one.tokens, one.estimated, one.cost
        return
    spent = [attempt for attempt in attempts if attempt.cost is not None or attempt.tokens is not None]
    if spent:
        tokens = [attempt.tokens for attempt in spent if attempt.tokens is not None]
        record.tokens = added(tokens) if tokens else None
        record.estimated = any(attempt.estimated for attempt in spent)
        record.cost = _summed([attempt.cost for attempt in spent if attempt.cost is not None])


def _summed(costs: list[CostBreakdown]) -> CostBreakdown | None:
    """The sum of several costs. The source of prices is that of the last priced one."""
    if not costs:
        return None
    last = next((money for money in reversed(costs) if money.entry), costs[-1])
    reported = [money.reported for money in costs if money.reported is not None]
    return CostBreakdown(
        input=sum(money.input for money in costs),
        output=sum(money.output for money in costs),
        cache_read=sum(money.cache_read for money in costs),
        cache_write=sum(money.cache_write for money in costs),
        cache_write_1h=sum(money.cache_write_1h for money in costs),
        thinking=sum(money.thinking for money in costs),
        search=sum(money.search for money in costs),
        request=sum(money.request for money in costs),
        unpriced=tuple(dict.fromkeys(name for money in costs for name in money.unpriced)),
        version=last.version,
        entry=last.entry,
        tier=last.tier,
        reported=sum(reported) if reported else None,
    )
