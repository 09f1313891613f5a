"""Price source: compiles the public price collection https://github.com/pydantic/genai-prices into a price table. Rates
are dollars per million tokens, or per thousand searches or requests. Other rates are left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.prices.table import (
    CONTAINS,
    ENDS,
    EQUALS,
    FORMAT,
    MAX_PRICE,
    REGEX,
    STARTS,
    PriceBookTable,
    Rates,
    read_table,
)

SOURCE = "genai-prices"
# Pico-dollars per token at one dollar per million tokens, and per piece at one dollar per thousand.
_OF_MILLION, _OF_THOUSAND = 10**6, 10**9
_CLASSES = {
    "input_mtok": ("input", _OF_MILLION),
    "output_mtok": ("output", _OF_MILLION),
    "cache_read_mtok": ("cache_read", _OF_MILLION),
    "cache_write_mtok": ("cache_write", _OF_MILLION),
    "cache_write_1h_mtok": ("cache_write_1h", _OF_MILLION),
    "output_reasoning_mtok": ("thinking", _OF_MILLION),
    "web_searches_kcount": ("search", _OF_THOUSAND),
    "requests_kcount": ("request", _OF_THOUSAND),
}
_TOKENS = "_mtok"
_TIERS = ("service_tier", "processing")
_USUAL = "default"
# Overflow gives infinity, which is rejected as a price, instead of an arithmetic error.
_UNTRAPPED = Context(traps=[])
_MAX_RULES = 200


class Clause(Struct, frozen=True, kw_only=True):
    starts_with: str | None = None
    ends_with: str | None = None
    contains: str | None = None
    regex: str | None = None
    equals: str | None = None
    either: tuple[Clause, ...] | None = msgspec.field(default=None, name="or")
    every: tuple[Clause, ...] | None = msgspec.field(default=None, name="and")


class SourceTier(Struct, frozen=True, kw_only=True):
    """The price of requests with more input."""

    start: int
    price: Decimal


class Steps(Struct, frozen=True, kw_only=True):
    """A price that depends on the length of the input."""

    base: Decimal
    tiers: tuple[SourceTier, ...]


Prices = Mapping[str, Decimal | Steps | None]


class Constraint(Struct, frozen=True, kw_only=True):
    """The period of a price: from a day on, or between two times of each day."""

    start_date: str | None = None
    start_time: str | None = None
    end_time: str | None = None


class Conditional(Struct, frozen=True, kw_only=True):
    prices: Prices
    constraint: Constraint | None = None


class SourceVariant(Struct, frozen=True, kw_only=True):
    when: Mapping[str, str]
    prices: Prices
    constraint: Constraint | None = None


class SourceModel(Struct, frozen=True, kw_only=True):
    id: str
    match: Clause
    prices: Prices | tuple[Conditional, ...] = ()
    context_window: int | None = None
    price_variants: tuple[SourceVariant, ...] | None = None


class SourceProvider(Struct, frozen=True, kw_only=True):
    id: str
    models: tuple[SourceModel, ...] = ()
    fallback_model_providers: tuple[str, ...] | None = None


def read_source(data: bytes, version: str, taken: str) -> PriceBookTable:
    """Read published prices into a table. Errors describe the problem."""
    try:
        providers = msgspec.json.decode(data, type=tuple[SourceProvider, ...])
        return compile_table(providers, version, taken)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DragomanError(f"is no collection of prices: {error}") from None


def compile_table(providers: Iterable[SourceProvider], version: str, taken: str) -> PriceBookTable:
    """Compile a table. The same collection gives the same bytes."""
    prices = {provider.id: _provider_prices(provider) for provider in providers}
    book = {"format": FORMAT, "source": SOURCE, "version": version, "taken": taken, "providers": prices}
    return read_table(msgspec.json.encode(book))


def _provider_prices(provider: SourceProvider) -> dict[str, object]:
    prices: dict[str, object] = {"models": [_row(model) for model in provider.models]}
    if provider.fallback_model_providers:
        prices["fallback"] = list(provider.fallback_model_providers)
    return prices


def _row(model: SourceModel) -> list[object]:
    rules = [rule[0] if len(rule) == 1 else rule for rule in _alternatives(model.match)]
    if len(rules) > _MAX_RULES:
        raise ValueError(f"{model.id} is matched by too many rules")
    conditional = model.prices if isinstance(model.prices, tuple) else (Conditional(prices=model.prices),)
    priced = [(_when(entry.constraint), entry.prices) for entry in conditional if _has_price(entry.prices)]
    if priced and len(priced) < len(conditional):
        # A time without a price between priced times would be unpriced without a warning.
        raise ValueError(f"{model.id} has a price at times only")
    prices = [[when, _tiered_rates(entry)] for when, entry in priced]
    variants = [
        [tier, _when(variant.constraint), _tiered_rates(variant.prices)]
        for variant in model.price_variants or ()
        for tier in _tier(variant.when)
        if tier != _USUAL or _has_price(variant.prices)
    ]
    apart = sorted({name for entry in conditional for name in _apart(entry.prices)})
    facts: list[object] = [model.context_window, prices, variants, apart]
    return [model.id, [] if rules == [EQUALS + model.id] else rules, _trimmed(facts)]


def _trimmed(members: list[object]) -> list[object]:
    while members and members[-1] in (None, []):
        members.pop()
    return members


def _alternatives(clause: Clause) -> list[list[str]]:
    """Convert a clause to alternatives, each a list of conditions that must all hold."""
    for kind, text in (
        (EQUALS, clause.equals),
        (STARTS, clause.starts_with),
        (ENDS, clause.ends_with),
        (CONTAINS, clause.contains),
    ):
        if text is not None:
            return [[kind + text.lower()]]
    if clause.regex is not None:
        return [[REGEX + clause.regex]]
    if clause.either is not None:
        return [rule for part in clause.either for rule in _alternatives(part)]
    if clause.every is None:
        raise ValueError("a condition that is not known")
    # Limited: an entry with more combinations is rejected.
    products = itertools.islice(itertools.product(*map(_alternatives, clause.every)), _MAX_RULES + 1)
    return [[rule for part in parts for rule in part] for parts in products]


def _has_price(prices: Prices) -> bool:
    return any(price is not None for price in prices.values())


def _tier(when: Mapping[str, str]) -> Iterator[str]:
    """The tier of a variant. Variants for other kinds of requests are ignored."""
    if len(when) == 1:
        ((key, value),) = when.items()
        if key in _TIERS:
            yield value


def _apart(prices: Prices) -> Iterator[str]:
    for name, price in prices.items():
        if price is not None and name not in _CLASSES and name.endswith(_TOKENS):
            yield name.removesuffix(_TOKENS)


def _tiered_rates(prices: Prices) -> list[object]:
    """Rates for each threshold that any token class has."""
    class_prices = {name: price for name, price in prices.items() if price is not None and name in _CLASSES}
    thresholds = sorted(
        {step.start for price in class_prices.values() if isinstance(price, Steps) for step in price.tiers}
    )
    steps = [[above, _rates(class_prices, above + 1)] for above in thresholds]
    return [_rates(class_prices, 0), steps] if steps else [_rates(class_prices, 0)]


def _rates(prices: Mapping[str, Decimal | Steps], input_tokens: int) -> list[object]:
    amounts: dict[str, int] = {}
    for name, price in prices.items():
        member, unit = _CLASSES[name]
        amounts[member] = round_price(_UNTRAPPED.multiply(_at(price, input_tokens), Decimal(unit)), name)
    return _trimmed([amounts.get(name) for name in Rates.__struct_fields__])


def _at(price: Decimal | Steps, input_tokens: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    amount = price.base
    for step in sorted(price.tiers, key=lambda step: step.start):
        if input_tokens > step.start:
            amount = step.price
    return amount


def round_price(amount: Decimal, name: str) -> int:
    """Round pico-dollars half up: some rates are thirds, and some have noise after their digits."""
    # Checked before the digits of the amount are built: there may be a billion of them.
    if not amount.is_finite() or not 0 <= amount <= MAX_PRICE:
        raise ValueError(f"{name} is no price, from 0 to {MAX_PRICE // 10**12} dollars for one")
    # A price above zero never becomes free.
    return max(int(amount.to_integral_value(ROUND_HALF_UP)), int(amount > 0))


def _when(constraint: Constraint | None) -> object:
    if constraint is None:
        return None
    if constraint.start_date is not None:
        return days_of(constraint.start_date)
    if constraint.start_time is None or constraint.end_time is None:
        raise ValueError("a time that is not known")
    return [_minute(constraint.start_time), _minute(constraint.end_time)]


def days_of(date: str) -> int:
    """The days from 1970-01-01 to a date, `YYYY-MM-DD`."""
    year, month, day = map(int, date.split("-"))
    if not (1970 <= year <= 2200 and 1 <= month <= 12 and 1 <= day <= 31):
        raise ValueError(f"{date} is no date")
    # Years begin in March here, so that the leap day is the last day of a year.
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    days = year * 365 + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1
    return days - _EPOCH


_EPOCH = 719468


def _minute(time: str) -> int:
    """The minute of the day in UTC. Other time zones and seconds are rejected."""
    clock = time.removesuffix("Z").removesuffix("+00:00")
    hours, minutes, *seconds = map(int, clock.split(":"))
    if any(seconds) or not (0 <= hours < 24 and 0 <= minutes < 60):
        raise ValueError(f"{time} is no minute of a day in UTC")
    return hours * 60 + minutes
