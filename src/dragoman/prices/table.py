"""Price table: the compiled price book, as table.json (written by `make prices`) and in updates. Providers and entries
are decoded on demand, because most of a book is never needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw, Struct

from dragoman.errors import DragomanError
from dragoman.wire.package_data import read_data

FORMAT = 1
# Higher prices (one thousand dollars per token) and larger windows are rejected as mistakes.
MAX_PRICE = 10**15
_MAX_TOKENS = 10**9
_LAST_DAY = 10**5
_MINUTES = 24 * 60

PriceAmount: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_PRICE)]
TokenLimit: TypeAlias = Annotated[int, Meta(ge=0, le=_MAX_TOKENS)]
# The period of a price: from a day on (days since 1970 in UTC), between two minutes of a day, or always.
DateRange: TypeAlias = int | tuple[int, int] | None
# A matching rule for names. Its first letter is its kind, see `_matcher` in `book.py`. Rules in a tuple must all match.
MatchRule: TypeAlias = str | tuple[str, ...]


class Rates(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """Pico-dollars per token of each class, per search and per request. None is unknown, 0 is free."""

    input: PriceAmount | None = None
    output: PriceAmount | None = None
    cache_read: PriceAmount | None = None
    # For five minutes, or the default lifetime if there is no choice.
    cache_write: PriceAmount | None = None
    cache_write_1h: PriceAmount | None = None
    # The price of reasoning if it differs from that of output, otherwise None.
    thinking: PriceAmount | None = None
    search: PriceAmount | None = None
    # None means that there is no such fee.
    request: PriceAmount | None = None


class PriceTier(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The rates of a request whose input, cache included, exceeds this number of tokens."""

    above: TokenLimit
    rates: Rates


class TieredRates(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    base: Rates
    steps: tuple[PriceTier, ...] = ()

    def rates_for(self, input_tokens: int) -> Rates:
        rates = self.base
        for step in self.steps:
            if input_tokens <= step.above:
                break
            rates = step.rates
        return rates


class DatedPrice(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The price in a period. The last matching price wins."""

    when: DateRange
    rates: TieredRates


class TierVariant(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """The rates of a service tier, which replace standard ones. The first matching variant wins."""

    tier: str
    when: DateRange
    rates: TieredRates


class ModelPricing(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    context_window: TokenLimit | None = None
    prices: tuple[DatedPrice, ...] = ()
    variants: tuple[TierVariant, ...] = ()
    # Token classes with prices of their own that the table does not have (sound, pictures).
    apart: tuple[str, ...] = ()


class PricedModel(Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    id: str
    rules: tuple[MatchRule, ...]
    facts: Raw


class ProviderPrices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models of one provider, in the order of matching."""

    models: tuple[PricedModel, ...]
    # Other providers whose models this provider also sells, at their standard prices.
    fallback: tuple[str, ...] = ()


class PriceBookTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A full price book: source, version, date (`YYYY-MM-DD`), and the prices of each provider."""

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    source: str
    version: str
    taken: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    providers: Mapping[str, Raw]

    @property
    def title(self) -> str:
        return f"{self.source} {self.version} of {self.taken}"


def read_table(data: bytes) -> PriceBookTable:
    """Decode a table. The entries of providers are not checked."""
    try:
        return msgspec.json.decode(data, type=PriceBookTable)
    except msgspec.MsgspecError as error:
        raise DragomanError(f"is no book of prices: {error}") from None


def read_provider_prices(raw: Raw) -> ProviderPrices:
    return msgspec.json.decode(raw, type=ProviderPrices)


def read_facts(raw: Raw) -> ModelPricing:
    return msgspec.json.decode(raw, type=ModelPricing)


@cache
def own_table() -> PriceBookTable:
    return read_table(read_data("dragoman.prices", "table.json"))


def check_table(table: PriceBookTable) -> None:
    for name, raw in table.providers.items():
        try:
            prices = read_provider_prices(raw)
            for row in prices.models:
                _check_row(row)
        except (msgspec.MsgspecError, ValueError) as error:
            raise DragomanError(f"is no book of prices: {name}: {error}") from None


def _check_row(row: PricedModel) -> None:
    facts = read_facts(row.facts)
    for when in (*(dated.when for dated in facts.prices), *(variant.when for variant in facts.variants)):
        if not all(0 <= part <= limit for part, limit in _parts(when)):
            raise ValueError(f"{row.id}: a time that is none")
    for tiered in (*(dated.rates for dated in facts.prices), *(variant.rates for variant in facts.variants)):
        above = [step.above for step in tiered.steps]
        if above != sorted(set(above)):
            raise ValueError(f"{row.id}: thresholds do not rise")
    for rule in rules_of(row.rules):
        if rule[:1] not in _KINDS or len(rule) > _MAX_RULE_LENGTH:
            raise ValueError(f"{row.id}: a rule that is not known")
        if rule[0] == REGEX and not _is_harmless(rule[1:]):
            raise ValueError(f"{row.id}: a pattern that is not taken from others")


def _parts(when: DateRange) -> Iterator[tuple[int, int]]:
    if isinstance(when, int):
        yield when, _LAST_DAY
    elif when is not None:
        yield from ((minute, _MINUTES) for minute in when)


def rules_of(rules: tuple[MatchRule, ...]) -> Iterator[str]:
    for rule in rules:
        if isinstance(rule, str):
            yield rule
        else:
            yield from rule


EQUALS, STARTS, ENDS, CONTAINS, REGEX = _KINDS = ("=", "^", "$", "*", "~")
_MAX_RULE_LENGTH = 200
# The prefix of rules for names without a certain word.
_LOOKING_AHEAD = "^(?!.*"


def _is_harmless(pattern: str) -> bool:
    """Whether matching a pattern takes time linear in the name, because the pattern repeats nothing."""
    if re.search(r"[*+]|\{\d*,|\\[1-9]|\(\?P|\(\?\(", pattern.removeprefix(_LOOKING_AHEAD)):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True
