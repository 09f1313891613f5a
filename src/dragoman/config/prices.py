"""Prices: `[prices."provider/model"]`, what an operator knows better than the book, and which book that is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path

from msgspec import Struct

from dragoman.config import values
from dragoman.config.discovery import ECHO
from dragoman.config.nearest_name import nearest
from dragoman.config.settings import Settings
from dragoman.config.tables import ConfigTable
from dragoman.config.toml_lines import dotted
from dragoman.config.values import ValueType
from dragoman.errors import DragomanError
from dragoman.prices import table
from dragoman.prices.book import Override, PriceBook
from dragoman.prices.changes import named
from dragoman.prices.money import PER_MILLION, PER_PIECE, in_units
from dragoman.prices.table import Rates, check_table, own_table, read_table
from dragoman.providers.provider import facts_of

PRICE_BOOK_NAME = "prices.json"
MAX_PRICE_BOOK_BYTES = 8 * 10**6
# Maximum ratio between an override and the price book, beyond which it is taken for a mistake: a price per token is off
# by a million.
_FAR = 50
_MAX_DOLLARS = 10**6
_MAX_TOKENS = 10**9
_FREE = Override(rates=Rates(input=0, output=0, cache_read=0, cache_write=0, cache_write_1h=0, search=0))


class PriceTable(Struct, frozen=True, kw_only=True):
    """Price and limits of a model that is missing or wrong in the price book (`dragoman prices`). The name is
    `provider/model`, with the provider's name in this file. `*` at the end matches any rest. Prices are in US dollars,
    as numbers or strings. Missing keys have the value of the price book, and 0 is free. If the table has a price, only
    the service tiers in `tiers` have prices."""

    # Per million input tokens that were not read from a cache.
    input: int | None = None
    # Per million output tokens, including reasoning.
    output: int | None = None
    # Per million tokens read from a cache.
    cache_read: int | None = None
    # Per million tokens written to a cache, for five minutes or the provider's usual time.
    cache_write: int | None = None
    # Per million tokens written to a cache for one hour.
    cache_write_1h: int | None = None
    # Per request, in addition to tokens.
    per_request: int | None = None
    # Per web search.
    per_search: int | None = None
    # Context window in tokens, input and output together.
    context_window: int | None = None
    # Maximum output tokens of a response.
    max_output_tokens: int | None = None
    # The same prices for service tiers, by name (`priority`, `flex`, `batch`, `speed-fast`, `geo-us`). Missing prices
    # are those of the model.
    tiers: dict[str, Rates] | None = None


def _price(unit: int) -> Callable[[object], int]:
    """A reader of dollars, as pico-dollars for one."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise values.mismatch(value, "a price in US dollars")
        try:
            # The shortest text of a float is the one that was written.
            dollars = Decimal(str(value).strip())
        except InvalidOperation:
            raise values.invalid(f"expected a price in US dollars, got {values.quoted(str(value))}") from None
        if not dollars.is_finite() or dollars.is_signed() or dollars > _MAX_DOLLARS:
            raise values.invalid(
                f"expected a price from 0 to {_MAX_DOLLARS} US dollars, got {values.quoted(str(value))}"
            )
        amount = dollars * unit
        if amount != amount.to_integral_value():
            places = len(str(unit)) - 1
            raise values.invalid(f"expected a price with at most {places} decimals, got {values.quoted(str(value))}")
        return int(amount)

    return read


def _million(example: str) -> ValueType[int]:
    return ValueType(type_name="US dollars for a million tokens", example=example, read=_price(PER_MILLION))


def _unit_price(example: str) -> ValueType[int]:
    return ValueType(type_name="US dollars", example=example, read=_price(PER_PIECE))


def _tokens(example: int) -> ValueType[int]:
    return ValueType(type_name="integer, in tokens", example=str(example), read=values.integer(1, _MAX_TOKENS))


# Members of an override that are rates, by their names in the table of rates.
_RATES: dict[str, tuple[str, ValueType[int]]] = {
    "input": ("input", _million("1.25")),
    "output": ("output", _million("10")),
    "cache_read": ("cache_read", _million("0.125")),
    "cache_write": ("cache_write", _million('"1.5625"')),
    "cache_write_1h": ("cache_write_1h", _million("2.5")),
    "per_request": ("request", _unit_price("0.005")),
    "per_search": ("search", _unit_price("0.01")),
}


def _tiers(value: object) -> dict[str, Rates]:
    if not isinstance(value, dict):
        raise values.mismatch(value, "a table of tiers")
    if not value or "" in value:
        raise values.invalid(f"expected tiers by their names, got {'one without' if value else 'an empty table'}")
    tiers = {}
    for tier, prices in value.items():
        if not isinstance(prices, dict):
            raise values.mismatch(prices, f"a table of prices for {values.quoted(tier)}")
        unknown = [name for name in prices if name not in _RATES]
        if unknown:
            raise values.invalid(
                f"{values.quoted(tier)} has {values.quoted(unknown[0])}, which is no price",
                f"known are {', '.join(_RATES)}",
            )
        tiers[tier] = Rates(**{_RATES[name][0]: _RATES[name][1].read(price) for name, price in prices.items()})
    return tiers


PRICE: dict[str, ValueType[object]] = {
    **{name: kind for name, (_, kind) in _RATES.items()},
    "context_window": _tokens(400_000),
    "max_output_tokens": _tokens(128_000),
    "tiers": ValueType(
        type_name="table of tables of prices", example="{ flex = { input = 0.625, output = 5 } }", read=_tiers
    ),
}


def read_overrides(
    section: ConfigTable, providers: Collection[str], catalogue: Collection[str], local: Collection[str] = ()
) -> dict[str, Override]:
    """The overrides of the file, by `provider/model`; a provider of the catalogue need not be set up. Those of `local`
    may not run, and are not suggested."""
    overrides = {}
    offered = ", ".join(name for name in providers if name not in local)
    for name, price_table in section.tables().items():
        provider, slash, model = name.partition("/")
        if not (slash and provider and model) or "*" in name[:-1] or not values.is_model(name):
            section.complain(name, "expected provider/model", _naming_remedy(name, price_table))
            continue
        if provider not in providers and provider not in catalogue:
            close = nearest(provider, providers) or nearest(provider, catalogue)
            hint = f"known are {offered}; others are added with [providers.{dotted((provider,))}]"
            remedy = hint if close is None else f"did you mean {dotted((f'{close}/{model}',))}?"
            section.complain(name, f"names the provider {values.quoted(provider)}, which is not known", remedy)
        price_table.refuse_others(PRICE)
        entry = price_table.fill(PriceTable, PRICE)
        overrides[name] = Override(
            rates=Rates(**{rate: getattr(entry, member) for member, (rate, _) in _RATES.items()}),
            tiers=entry.tiers or {},
            context_window=entry.context_window,
            max_output_tokens=entry.max_output_tokens,
        )
    return overrides


def _naming_remedy(name: str, price_table: ConfigTable) -> str:
    """The right name of a misnamed price table."""
    inner = next(
        (other for other, value in price_table.values.items() if isinstance(value, dict) and other != "tiers"), None
    )
    if "/" in name:
        return 'example: [prices."openai/gpt-5.1"]'
    if inner is None:
        return f'write whose model it is, for example [prices."openai/{name}"]'
    # Without quotes, `gpt-5.1` is a table in a table to TOML.
    intended = f"openai/{name}.{inner}" if inner[:1].isdigit() else f"{name}/{inner}"
    return f'write both in one pair of quotes, for example [prices."{intended}"]'


def price_book_of(settings: Settings, warn: Callable[[str], None]) -> PriceBook:
    """The price book of these settings, read on first use; `warn` gets the reason if an update is not used."""

    def source() -> table.PriceBookTable:
        own = own_table()
        try:
            updated = read_price_book(Path(settings.price_book_path)) if settings.price_book_path else None
        except DragomanError as error:
            warn(f"{settings.price_book_path} {error}: the prices of this release are used (dragoman prices update)")
            return own
        # Of the same day it is the user's decision that counts.
        return own if updated is None or updated.taken < own.taken else updated

    # The embedded provider runs in this process and is free, whatever the price book contains.
    free = {f"{ECHO}/*": _FREE} if ECHO in settings.providers else {}
    return PriceBook(source, {**free, **settings.prices})


def read_price_book(path: Path) -> table.PriceBookTable | None:
    """An updated book; None if there is none."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_PRICE_BOOK_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DragomanError(f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_PRICE_BOOK_BYTES:
        raise DragomanError(f"is larger than {MAX_PRICE_BOOK_BYTES} bytes")
    book = read_table(data)
    check_table(book)
    return book


def override_warnings(settings: Settings, book: PriceBook, now: float) -> Iterator[str]:
    """Overrides that look like mistakes: far from the price book, or for an unknown provider."""
    plain = PriceBook(lambda: book.table)
    for key, override in settings.prices.items():
        name, _, model = key.partition("/")
        provider = settings.providers.get(name)
        if provider is None:
            yield f"prices.{dotted((key,))} is of the provider {values.quoted(name)}, which is not set up"
            continue
        facts = facts_of(plain, provider, model, now)
        if facts is not None and facts.rates is not None:
            book_rates, override_rates = _by_name(facts.rates), _by_name(override.rates)
            for member in _far(override_rates, book_rates):
                ours, theirs = dollars(member, override_rates[member] or 0), dollars(member, book_rates[member] or 0)
                yield (
                    f"prices.{dotted((key, member))} is {ours}, and {theirs} in the price book: "
                    "prices are US dollars for a million tokens, and for one request or search"
                )


def _far(override_rates: Mapping[str, int | None], book_rates: Mapping[str, int | None]) -> Iterator[str]:
    for member, ours in override_rates.items():
        theirs = book_rates[member]
        # A price of zero is intended.
        if ours and theirs and not theirs <= ours * _FAR <= theirs * _FAR * _FAR:
            yield member


def _by_name(rates: Rates) -> dict[str, int | None]:
    """The rates by the members of an override."""
    amounts = named(rates)
    return {member: amounts[name] for member, (name, _) in _RATES.items()}


def dollars(member: str, amount: int) -> str:
    """An amount of pico-dollars as it is written in an override."""
    unit = PER_PIECE if member.startswith("per_") else PER_MILLION
    return in_units(amount, unit)
