"""`dragoman prices`: what is known of models, and `dragoman prices update`, which replaces the book."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import time
from collections.abc import Iterator

from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.price_update import PUBLISHED, update
from dragoman.cli.terminal import Column, OutputScreen, printable, screen_of, table, wrapped
from dragoman.cli.trust import file_to_read
from dragoman.config.load import read_settings
from dragoman.config.prices import dollars, price_book_of
from dragoman.config.settings import Settings
from dragoman.model.jsonvalue import JsonObject
from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.prices.changes import named
from dragoman.prices.table import Rates, TieredRates
from dragoman.providers.catalogue import catalogue
from dragoman.providers.price_lookup import facts_of
from dragoman.wire.json import encode_text

UPDATE = "prices update"
_RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_NUMBERS = ("INPUT", "OUTPUT", "READ", "WRITE", "1H", "WINDOW", "CAP")
_COLUMNS = (
    Column(heading="MODEL", least=20),
    *(Column(heading=heading, right=True) for heading in _NUMBERS),
    Column(heading="MORE", below=True),
)
_LEGEND = "US dollars for a million tokens; READ, WRITE and 1H are of caches; ? is not known, which is not free."
NOTHING_FOUND = 1


class PriceLine(Struct, frozen=True, kw_only=True):
    """One model under a name."""

    name: str
    facts: ModelFacts


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "prices",
        help="show what models cost and take, or update that",
        description="The book of prices, with what the configuration overrides. `dragoman prices update` replaces it.",
    )
    parser.add_argument(
        "pattern",
        nargs="?",
        default="",
        metavar="PATTERN|update",
        help="a part of provider/model, or a pattern with *; all if left out",
    )
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the one that would be found")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    parser.set_defaults(run=run)
    # A command of its own, so that the help of each lists what works with it.
    new = commands.add_parser(
        UPDATE,
        prog=f"dragoman {UPDATE}",
        description="Replace the book of prices with what is published, or with a file or address: it shows what "
        "changes, and asks before a price changes steeply.",
    )
    new.add_argument("--from", dest="source", default=PUBLISHED, metavar="FILE|URL", help="where it is (https)")
    new.add_argument("--yes", action="store_true", help="agree to prices that change steeply")
    new.add_argument("--dry-run", action="store_true", help="show what would change, and leave it at that")
    new.add_argument("--config", metavar="FILE", help="the file to read instead of the one that would be found")
    new.set_defaults(run=run_update)


def run(options: argparse.Namespace) -> int:
    """Show the book."""
    settings = read_settings(file_to_read(options.config), os.environ, catalogue())
    book = price_book_of(settings, documents.complain)
    lines = list(lines_of(settings, book, options.pattern, time.time()))
    if options.json:
        documents.write(encode_text(_as_json(book, lines)).encode() + b"\n")
    else:
        screen = screen_of(sys.stdout, options.color)
        documents.write_text(as_table(book, lines, screen), screen)
    return 0 if lines else NOTHING_FOUND


def run_update(options: argparse.Namespace) -> int:
    """Replace the book."""
    settings = read_settings(file_to_read(options.config), os.environ, catalogue())
    return update(settings, options.source, agreed=options.yes, dry=options.dry_run)


def lines_of(settings: Settings, book: PriceBook, pattern: str, now: float) -> Iterator[PriceLine]:
    """What a pattern means: a target as it would be priced, overrides, and entries of the book."""
    wanted = pattern.lower()
    listed: set[str] = set()
    for target in dict.fromkeys((pattern, *settings.prices)):
        name, slash, model = target.partition("/")
        if slash and (target == pattern or _fits(target, wanted)):
            provider = settings.providers.get(name)
            facts = facts_of(book, provider, model, now) if provider else book.find(name, model, now)
            if facts is not None:
                listed.add(target)
                yield PriceLine(name=target, facts=facts)
    for _, facts in book.entries(now):
        if facts.entry not in listed and _fits(facts.entry, wanted):
            yield PriceLine(name=facts.entry, facts=facts)


def _fits(name: str, wanted: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), wanted) if "*" in wanted else wanted in name.lower()


def as_table(book: PriceBook, lines: list[PriceLine], screen: OutputScreen) -> str:
    """The lines as a table, for people with the book that they are from and what the columns mean."""
    title = printable(book.table.title)
    if not lines:
        return f"{title}: nothing is known by that name"
    rows = table(screen, _COLUMNS, [_row(line, screen) for line in lines])
    return "\n".join([title, "", *rows, "", *wrapped(screen, _LEGEND)] if screen.terminal else rows)


def _row(line: PriceLine, screen: OutputScreen) -> tuple[str, ...]:
    facts = line.facts
    rates = named(facts.rates or Rates())
    amounts = [_amount(member, rates[member]) for member in _RATES]
    form = "{:,}" if screen.terminal else "{}"
    sizes = [form.format(size) if size is not None else "?" for size in (facts.context_window, facts.max_output_tokens)]
    return line.name, *amounts, *sizes, "; ".join(_more(line))


def _amount(member: str, rate: int | None) -> str:
    return "?" if rate is None else dollars(member, rate)


def _more(line: PriceLine) -> Iterator[str]:
    """What has no column: where it is from, fees, other lengths and tiers."""
    facts = line.facts
    if facts.entry and facts.entry != line.name:
        yield f"is {facts.entry}"
    if facts.override:
        yield f"override {facts.override}"
    rates = facts.rates or Rates()
    for member, rate in (("thinking", rates.thinking), ("request", rates.request), ("search", rates.search)):
        if rate is not None:
            yield f"{member} {dollars(member if member == 'thinking' else f'per_{member}', rate)}"
    for step in facts.standard.steps if facts.standard is not None else ():
        yield f"above {step.above:,}: {_amount('input', step.rates.input)}, {_amount('output', step.rates.output)}"
    if facts.tiers:
        yield f"tiers {', '.join(facts.tiers)}"


def _as_json(book: PriceBook, lines: list[PriceLine]) -> JsonObject:
    table = book.table
    return {
        "book": {"source": table.source, "version": table.version, "taken": table.taken},
        "models": [_line_as_json(line) for line in lines],
    }


def _line_as_json(line: PriceLine) -> JsonObject:
    facts = line.facts
    return {
        "name": line.name,
        "entry": facts.entry or None,
        "override": facts.override or None,
        "window": facts.context_window,
        "output_cap": facts.max_output_tokens,
        "prices": _tiered_rates_as_json(facts.standard) if facts.standard is not None else None,
        "tiers": {tier: _tiered_rates_as_json(rates) for tier, rates in facts.tiers.items()},
    }


def _tiered_rates_as_json(tiered_rates: TieredRates) -> JsonObject:
    prices = _rates_as_json(tiered_rates.base)
    if tiered_rates.steps:
        prices["above"] = [{"input_tokens": step.above, **_rates_as_json(step.rates)} for step in tiered_rates.steps]
    return prices


def _rates_as_json(rates: Rates) -> JsonObject:
    """The rates that are known, in dollars as texts, since they are exact."""
    prices: JsonObject = {}
    for member, rate in named(rates).items():
        if rate is not None:
            name = f"per_{member}" if member in ("search", "request") else member
            prices[name] = dollars(name, rate)
    return prices
