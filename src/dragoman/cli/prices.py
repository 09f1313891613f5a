"""`dragoman prices`: lists prices and limits of models. `dragoman prices update` replaces the price book."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from dragoman.cli import documents
from dragoman.cli.terminal import Column, OutputScreen, printable, progress, table, wrapped
from dragoman.cli.trust import configured
from dragoman.config.config_file import write_atomically
from dragoman.config.prices import MAX_PRICE_BOOK_BYTES, dollars, price_book_of
from dragoman.config.settings import Settings
from dragoman.errors import DragomanError, Unreachable, UsageError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.prices.changes import Bounds, Change, Changes, compare, named
from dragoman.prices.price_source import read_source
from dragoman.prices.table import PriceBookTable, Rates, TieredRates, check_table, own_table, read_table
from dragoman.providers.provider import facts_of

UPDATE = "prices update"
_RATES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_NUMBERS = ("INPUT", "OUTPUT", "READ", "WRITE", "1H", "WINDOW", "CAP")
_COLUMNS = (
    Column(heading="MODEL", least=20),
    *(Column(heading=heading, right=True) for heading in _NUMBERS),
    Column(heading="MORE", below=True),
)
_LEGEND = "US dollars per million tokens; READ, WRITE and 1H concern caches; ? is unknown, not free."
NOTHING_FOUND = 1


class PriceLine(Struct, frozen=True, kw_only=True):
    name: str
    facts: ModelFacts


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "prices",
        help="show or update prices and limits of models",
        description=(
            "Show the price book, with the overrides of the configuration. `dragoman prices update` replaces it."
        ),
    )
    parser.add_argument(
        "pattern",
        nargs="?",
        default="",
        metavar="PATTERN|update",
        help="a part of provider/model, or a pattern with * (default: all)",
    )
    parser.add_argument("--config", metavar="FILE", help="the file to read instead of the default one")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    parser.set_defaults(run=run)
    # A command of its own, so that each help lists only its options.
    new = commands.add_parser(
        UPDATE,
        prog=f"dragoman {UPDATE}",
        description=(
            "Replace the price book with the published one, or with a file or URL. Shows the "
            "changes, and asks before a large price change."
        ),
    )
    new.add_argument("--from", dest="source", default=PUBLISHED, metavar="FILE|URL", help="file or URL (https)")
    new.add_argument("--yes", action="store_true", help="agree to large price changes")
    new.add_argument("--dry-run", action="store_true", help="only show what would change")
    new.add_argument("--config", metavar="FILE", help="the file to read instead of the default one")
    new.set_defaults(run=run_update)


def run(options: argparse.Namespace) -> int:
    settings = configured(options.config)
    book = price_book_of(settings, documents.complain)
    lines = list(lines_of(settings, book, options.pattern, time.time()))
    documents.show(options, _as_json(book, lines), partial(as_table, book, lines))
    return 0 if lines else NOTHING_FOUND


def run_update(options: argparse.Namespace) -> int:
    settings = configured(options.config)
    return update(settings, options.source, agreed=options.yes, dry=options.dry_run)


def lines_of(settings: Settings, book: PriceBook, pattern: str, now: float) -> Iterator[PriceLine]:
    """The matches of a pattern: a target as it would be priced, overrides, and entries of the price book."""
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
    """The lines as a table; on a terminal with the price book's title and a legend."""
    title = printable(book.table.title)
    if not lines:
        return f"{title}: no entry matches"
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
    """Facts without a column: source, fees, other lengths and tiers."""
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
    models: list[JsonValue] = [
        {
            "name": line.name,
            "entry": line.facts.entry or None,
            "override": line.facts.override or None,
            "window": line.facts.context_window,
            "output_cap": line.facts.max_output_tokens,
            "prices": _tiered_rates_as_json(line.facts.standard) if line.facts.standard is not None else None,
            "tiers": {tier: _tiered_rates_as_json(rates) for tier, rates in line.facts.tiers.items()},
        }
        for line in lines
    ]
    return {"book": {"source": table.source, "version": table.version, "taken": table.taken}, "models": models}


def _tiered_rates_as_json(tiered_rates: TieredRates) -> JsonObject:
    prices = _rates_as_json(tiered_rates.base)
    if tiered_rates.steps:
        prices["above"] = [{"input_tokens": step.above, **_rates_as_json(step.rates)} for step in tiered_rates.steps]
    return prices


def _rates_as_json(rates: Rates) -> JsonObject:
    """The known rates, in dollars as strings, because they are exact."""
    prices: JsonObject = {}
    for member, rate in named(rates).items():
        if rate is not None:
            name = f"per_{member}" if member in ("search", "request") else member
            prices[name] = dollars(name, rate)
    return prices


# The published collection from which the price book of a release is made.
PUBLISHED = "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json"
_CONNECT_TIMEOUT, _TOTAL_TIMEOUT = 10.0, 60.0
_MAX_LINES = 40
REFUSED = 1


def update(settings: Settings, source: str, *, agreed: bool, dry: bool = False) -> int:
    """Replace the price book with one from a file or a URL. `agreed` confirms large changes, `dry` only shows them."""
    if not settings.price_book_path:
        raise DragomanError(
            "cannot store a price book without a home directory (set HOME or XDG_STATE_HOME to an absolute path)"
        )
    data = _fetched(source)
    try:
        # A compiled table, or the collection that tables are made of.
        today = time.strftime("%Y-%m-%d", time.gmtime())
        book = read_table(data) if data.lstrip()[:1] == b"{" else read_source(data, "published", today)
        check_table(book)
    except DragomanError as error:
        raise DragomanError(f"{source} {error}") from None
    if book.taken < own_table().taken:
        raise DragomanError(f"{source} is of {book.taken}, older than the book of this release ({own_table().taken})")
    present = price_book_of(settings, documents.complain).table
    changes = compare(present, book)
    documents.write_text("\n".join(map(printable, _change_lines(present, book, changes))))
    if dry:
        return 0
    if changes.large and not agreed and not _confirm(len(changes.large)):
        documents.complain("the price book was not changed (--yes agrees to large changes)")
        return REFUSED
    write_atomically(Path(settings.price_book_path), msgspec.json.encode(book))
    documents.write_text(printable(f"kept in {settings.price_book_path}"))
    return 0


def _fetched(source: str) -> bytes:
    scheme, separator, _ = source.partition("://")
    if not separator:
        with Path(source).open("rb") as file:
            data = file.read(MAX_PRICE_BOOK_BYTES + 1)
    elif scheme.lower() == "https":
        with progress() as show_step:
            show_step(f"fetching {source} …")
            data = asyncio.run(_fetch(source))
    else:
        clear = "prices must not be fetched in clear text"
        raise UsageError(f"--from: {source} is not an https:// URL: {clear}")
    if len(data) > MAX_PRICE_BOOK_BYTES:
        raise DragomanError(f"{source} is larger than {MAX_PRICE_BOOK_BYTES} bytes")
    return data


async def _fetch(url: str) -> bytes:
    # Imported here, because only a download needs the client.
    from dragoman.http.client import HttpClient
    from dragoman.http.upstream_call import UpstreamRequest

    client = HttpClient(connect_timeout=_CONNECT_TIMEOUT)
    try:
        async with asyncio.timeout(_TOTAL_TIMEOUT):
            call = client.open(UpstreamRequest(method="GET", url=url, headers=[(b"accept", b"application/json")]))
            try:
                await call.head()
                if call.status != 200:
                    raise DragomanError(f"{url} answered {call.status}")
                return await call.read(MAX_PRICE_BOOK_BYTES)
            finally:
                call.close()
    except TimeoutError:
        raise DragomanError(f"{url} did not respond in time") from None
    except Unreachable as error:
        # The error's own remedy names a provider, which does not apply here.
        remedy = "download it in another way, and name the file with --from"
        raise DragomanError(f"cannot reach {url}: {error} ({remedy})") from None
    except ValueError as error:
        raise DragomanError(f"cannot call {url}: {error}") from None
    finally:
        await client.close()


def _change_lines(present: PriceBookTable, book: PriceBookTable, changes: Changes) -> list[str]:
    """The changes, large ones first, in a limited number of lines."""
    lines = [f"from {present.title}", f"to   {book.title}"]
    steep = [f"! {_describe(change)}" for change in changes.large]
    others = [f"  {_describe(change)}" for change in changes.rates if not change.is_large]
    for title, entries in (("gone", changes.removed), ("new", changes.new)):
        others += [f"  {entry} is {title}" for entry in entries]
    room = max(_MAX_LINES - len(steep), 0)
    lines += [*steep, *others[:room]]
    if len(others) > room:
        lines.append(f"  and {len(others) - room} more")
    if not steep and not others:
        lines.append("  no price changes")
    return lines


def _describe(change: Change) -> str:
    tier = f" ({change.tier})" if change.tier else ""
    before, after = _bounds_text(change, change.before), _bounds_text(change, change.after)
    return f"{change.entry} {change.member}{tier} {before} → {after}"


def _bounds_text(change: Change, bounds: Bounds | None) -> str:
    if bounds is None:
        return "unknown"
    member = f"per_{change.member}" if change.member in ("search", "request") else change.member
    low, high = dollars(member, bounds.low), dollars(member, bounds.high)
    return low if low == high else f"{low}–{high}"


def _confirm(steep: int) -> bool:
    """Ask for confirmation. Without a terminal the result is False."""
    if not documents.may_ask():
        return False
    prices = "one price" if steep == 1 else f"{steep} prices"
    documents.prompt(f"Let {prices} fall below a tenth or rise above ten times their present values?")
    return documents.is_yes(sys.stdin.readline())
