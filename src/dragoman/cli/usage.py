"""`dragoman usage`: requests, tokens and cost in groups that add up to the total, from the record file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from dragoman.cli import documents
from dragoman.cli.formatting import counted, format_cost, tokens
from dragoman.cli.gateway_records import GatewayRecords, add_records, records_of_gateway
from dragoman.cli.parser import add_all_losses
from dragoman.cli.record_file import (
    Shown,
    as_json,
    assign,
    escaped,
    find_record_file,
    ingest,
    nothing_yet,
    now_in_micro,
)
from dragoman.cli.terminal import Column, OutputScreen, screen_of, table, wrapped
from dragoman.database_location import database_exists
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.records.export import CallId
    from dragoman.records.time_range import Period
    from dragoman.records.usage import Group, UsageFigures, UsageReport

_MICRO = 1_000_000
_USUAL = 100
_MAX_GROUPS = 10_000
_WIDE = 120
# Width that the number columns leave for names on a narrow terminal.
_FOR_NAMES = 26
# Columns of counts, and their figures. TTFT and DURATION follow on wide terminals.
_COUNTS = {
    "REQUESTS": "requests",
    "ERRORS": "errors",
    "INPUT": "input_tokens",
    "READ": "cache_read_tokens",
    "WRITE": "cache_write_tokens",
    "OUTPUT": "output_tokens",
    "THINKING": "thinking_tokens",
    "LOSSES": "losses",
}
_WIDE_NUMBERS = (*_COUNTS, "TTFT", "DURATION")
_NARROW_NUMBERS = ("REQUESTS", "ERRORS", "INPUT", "READ", "OUTPUT")
_UNKNOWN = "–"
_FORGOTTEN = "forgotten"
_LEGEND = (
    "INPUT includes tokens read from caches (READ) and written to them, OUTPUT includes "
    f"reasoning; {_UNKNOWN} is unknown, and ≥ marks a minimum."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "usage",
        help="show requests, tokens and cost",
        description=(
            "Show requests, tokens, cost, losses, errors and times of the gateway, from 15-minute "
            "rollups, which are retained for ever."
        ),
    )
    parser.add_argument(
        "--by",
        action="append",
        metavar="GROUP",
        help="key, model, provider, client, tag, tag:NAME, session, thread or day; several with commas (default: "
        "model)",
    )
    add_times(parser, "7d")
    parser.add_argument(
        "--ids",
        action="store_true",
        help="with --by provider: each call by the provider's own ID, to check its invoice",
    )
    amounts = parser.add_mutually_exclusive_group()
    amounts.add_argument(
        "-n",
        dest="most",
        type=int,
        metavar="N",
        help=(f"show the N most expensive groups and sum up the rest (default: {_USUAL} on a terminal, otherwise all)"),
    )
    amounts.add_argument("--all", action="store_true", help="all groups, also on a terminal")
    add_all_losses(parser, "counts of the table")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    forms.add_argument("--csv", action="store_true", help="CSV for spreadsheets, without the total")
    add_records(parser)
    parser.set_defaults(run=run)


def add_times(parser: argparse.ArgumentParser, since: str) -> None:
    parser.add_argument(
        "--since",
        default=since,
        metavar="WHEN",
        help=f"7d, 24h, 90m, today, a date, a date and time, or all (default: {since})",
    )
    parser.add_argument("--until", default="", metavar="WHEN", help="as --since; a date is included (default: now)")
    parser.add_argument(
        "--zone", metavar="NAME", help="time zone of days, such as Europe/Berlin or +05:30 (default: storage.time_zone)"
    )


def run(options: argparse.Namespace) -> int:
    from dragoman.records.export import calls
    from dragoman.records.time_range import BUCKET_SECONDS, period_of, zone_of
    from dragoman.records.usage import SESSION, THREAD, nothing, read_groups, usage
    from dragoman.store.record_queries import Exports
    from dragoman.store.record_tables import open_record_tables
    from dragoman.store.usage_queries import UsageQueries

    by = read_groups(options.by or ["model"])
    if options.ids and by != ("provider",):
        raise UsageError("--ids lists the calls of providers: use it with --by provider")
    if options.most is not None and options.most < 1:
        raise UsageError(f"-n: {options.most} is not a number of groups")
    screen = screen_of(sys.stdout, options.color)
    most = _USUAL if screen.terminal and not (options.all or options.json or options.csv) else None
    if options.most is not None:
        most = min(options.most, sys.maxsize)
    gateway = records_of_gateway(options)
    if gateway is not None:
        _write_report(options, screen, _of_gateway(gateway, options, by, most), lambda: iter(()))
        return gateway.status
    record_file, now = find_record_file(options), now_in_micro()
    zone = record_file.zone if options.zone is None else zone_of(options.zone)

    def period(first: int | None = None) -> Period:
        return period_of(zone, now // _MICRO, since=options.since, until=options.until, first=first)

    # Wrong arguments are reported before the records are read.
    period()
    status = ingest(record_file.database)
    if {SESSION, THREAD} & {*by}:
        whole = period(0)
        status = max(
            status, assign(record_file.database, Shown(since=whole.since * _MICRO, until=whole.until * _MICRO))
        )
    if not database_exists(record_file.database):
        documents.complain(nothing_yet(record_file.database))
        _write_report(options, screen, nothing(by, period()), lambda: iter(()))
        return status
    with closing(open_record_tables(record_file.database, read_only=True)) as tables:
        queries, exports = UsageQueries(tables.connection), Exports(tables.connection)
        with tables.reading():
            first = queries.first()
            # A failed ingestion was already reported.
            if first is None and not status:
                documents.complain(nothing_yet(record_file.database))
            report = usage(queries, by, period(None if first is None else first * BUCKET_SECONDS), most)
        report_period = report.period
        listed = partial(calls, exports, report_period.since * _MICRO, report_period.until * _MICRO)
        _write_report(options, screen, report, lambda: _complete(report, listed()))
    return status


def _of_gateway(
    gateway: GatewayRecords, options: argparse.Namespace, by: Sequence[str], most: int | None
) -> UsageReport:
    from dragoman.records.views.usage import UsageView, report_of

    if options.ids:
        raise UsageError("--ids reads the records of this machine: leave out --gateway")
    view = gateway.get(
        "/usage",
        UsageView,
        by=",".join(by),
        since=options.since,
        until=options.until,
        zone=options.zone,
        n=None if most is None else min(most, _MAX_GROUPS),
    )
    return report_of(view)


def _complete(report: UsageReport, calls: Iterator[tuple[CallId, ...]]) -> Iterator[CallId]:
    """The provider calls, and a note about calls that are no longer recorded."""
    rows = 0
    for each in calls:
        rows += 1
        yield from each
    total = report.total
    gone = total.requests + total.cancelled_requests + total.other_requests - rows
    if gone > 0:
        documents.complain(f"no full record of {counted(gone, 'request')} in that period: their IDs are not listed")


def _write_report(
    options: argparse.Namespace, screen: OutputScreen, report: UsageReport, calls: Callable[[], Iterator[CallId]]
) -> None:
    if options.json:
        document = escaped(report.encoded())
        documents.write_all(_with_calls(document, calls()) if options.ids else [document, b"\n"])
        return
    if options.csv:
        documents.write_all(_calls_as_csv(calls()) if options.ids else _as_csv(report))
        if report.rest is not None and not options.ids:
            documents.complain(f"{counted(report.rest.groups, 'more group')} not shown: -n is {options.most}")
        return
    documents.write_text("\n".join(as_text(report, screen, all_losses=options.all_losses)), screen)
    if options.ids:
        documents.write_text("\n".join(["", *_calls_as_text(calls(), screen)]), screen)


def _with_calls(document: bytes, calls: Iterator[CallId]) -> Iterator[bytes]:
    """One document, whose list of calls is written while they are read: there may be millions."""
    yield document[:-1] + b',"ids":['
    for at, call in enumerate(calls):
        yield (b"," if at else b"") + as_json(msgspec.to_builtins(call))
    yield b"]}\n"


def _calls_as_csv(calls: Iterator[CallId]) -> Iterator[bytes]:
    from dragoman.records.export import CallId, csv_line

    yield csv_line(CallId.__struct_fields__)
    for call in calls:
        yield csv_line(msgspec.structs.astuple(call))


def _as_csv(report: UsageReport) -> Iterator[bytes]:
    from dragoman.records.export import csv_line
    from dragoman.records.usage import UsageFigures

    yield csv_line((*report.names, *UsageFigures.__struct_fields__))
    for row in report.rows:
        yield csv_line(row)


def as_text(report: UsageReport, screen: OutputScreen, *, all_losses: bool = False) -> list[str]:
    """The groups and their total as a table; on a terminal with the period and a legend."""
    wide = not screen.terminal or screen.width >= _WIDE
    words = [name for word in report.by for name in (("session", word) if word == "thread" else (word,))]
    headings = [f"TAG:{word[4:]}" if word.startswith("tag:") else word.upper() for word in words]
    least = max(6, (_FOR_NAMES + 2) // len(headings) - 2)
    columns = [
        *(Column(heading=heading, least=10 if heading == "DAY" else least) for heading in headings),
        *(Column(heading=heading, right=True) for heading in (_WIDE_NUMBERS if wide else _NARROW_NUMBERS)),
        Column(heading="COST", right=True, least=10),
        Column(heading="MORE", below=True),
    ]

    def numbers(figures: UsageFigures, whose: Sequence[str]) -> list[str]:
        if all_losses:
            figures = msgspec.structs.replace(figures, losses=figures.losses + figures.bookkeeping_losses)
        return _numbers(figures, screen, whose, wide=wide)

    rows = [
        (*_cells_of(group, report.by), *numbers(group.figures, _whose(group, report.by))) for group in report.groups
    ]
    sums = [("total", report.total)]
    legend = [_LEGEND]
    if report.rest is not None:
        others = counted(report.rest.groups, "other")
        sums.insert(0, (others, report.rest.figures))
        legend.append(f"The {len(rows)} most expensive groups are shown, and {others} as one; --all shows each.")
    blank = [""] * (len(headings) - 1)
    rows += [(name, *blank, *numbers(figures, ())) for name, figures in sums]
    lines = table(screen, columns, rows)
    if not screen.terminal:
        return lines
    return [*wrapped(screen, _range(report.period)), "", *lines, "", *wrapped(screen, " ".join(legend))]


def _range(period: Period) -> str:
    begins, ends = (period.zone.local(moment) for moment in (period.since, period.until))
    zone = f"local time ({begins:%Z})" if period.zone.rules is None else period.zone.name
    widened = ", extended to full 15-minute buckets" if period.is_widened else ""
    return f"From {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M}, {zone}{widened}"


def _cells_of(group: Group, by: Sequence[str]) -> list[str]:
    names = group.names
    cells = []
    for word in by:
        cells.append(_name(names["session" if word == "thread" else word]))
        if word == "thread":
            labels = [str(names[name]) for name in ("thread_class", "label") if names[name]]
            cells.append(" ".join(labels) or _name(names["thread"]))
    return cells


def _name(value: str | int | None) -> str:
    return _FORGOTTEN if value is None else str(value) or _UNKNOWN


def _whose(group: Group, by: Sequence[str]) -> list[str]:
    """The key and the client of a session: two keys may each have one of the same name."""
    if not {"session", "thread"} & set(by):
        return []
    return [f"{name} {value}" for name in ("key", "client") if (value := group.names[name])]


def _numbers(figures: UsageFigures, screen: OutputScreen, whose: Sequence[str], *, wide: bool) -> list[str]:
    exact = not screen.terminal

    def count(number: int) -> str:
        return tokens(number, exact=exact)

    first = _seconds(figures.first_token_microseconds, figures.first_token_requests, exact=exact)
    duration = _seconds(figures.duration_microseconds, figures.requests, exact=exact)
    cells = [count(getattr(figures, name)) for heading, name in _COUNTS.items() if wide or heading in _NARROW_NUMBERS]
    cells += [first, duration] if wide else []
    more = [*(() if wide else _left_out(figures, first, duration, count)), *_rest(figures)]
    cost_text = cost(figures.cost_nano_usd, figures.unpriced_requests, exact=exact)
    return [*cells, cost_text, "; ".join([*whose, *more])]


def _left_out(figures: UsageFigures, first: str, duration: str, count: Callable[[int], str]) -> Iterator[str]:
    if figures.cache_write_tokens:
        yield f"{count(figures.cache_write_tokens)} written to caches"
    if figures.thinking_tokens:
        yield f"{count(figures.thinking_tokens)} thought"
    if figures.losses:
        yield counted(figures.losses, "loss", "losses")
    if figures.requests:
        yield f"{duration} s each" + (f", first content after {first} s" if figures.first_token_requests else "")


def _rest(figures: UsageFigures) -> Iterator[str]:
    if figures.cancelled_requests:
        yield f"{figures.cancelled_requests} cancelled"
    if figures.other_requests:
        yield counted(figures.other_requests, "other path")
    if figures.estimated_requests:
        yield f"{figures.estimated_requests} estimated"
    if figures.searches:
        yield counted(figures.searches, "search", "searches")


def _seconds(micro: int, count: int, *, exact: bool) -> str:
    if not count:
        return _UNKNOWN
    return f"{micro / count / _MICRO:.6f}" if exact else f"{micro / count / _MICRO:.1f}"


def cost(nano: int, unpriced: int, *, exact: bool = False) -> str:
    """A cost as far as known, and the number of unpriced requests: `≥ $1.92, 3 unpriced`."""
    if not unpriced:
        return format_cost(nano, 0, exact=exact)
    amount = format_cost(nano, unpriced, exact=exact) if nano else _UNKNOWN
    return f"{amount}, {unpriced} unpriced"


def _calls_as_text(calls: Iterator[CallId], screen: OutputScreen) -> Iterator[str]:
    columns = (
        Column(heading="PROVIDER", least=8),
        Column(heading="ITS ID", least=16),
        Column(heading="TIME"),
        Column(heading="STATUS", right=True),
        Column(heading="MODEL", below=True),
        Column(heading="EXCHANGE", below=True),
    )
    rows = (
        (call.provider, call.id or _UNKNOWN, call.time, str(call.status or _UNKNOWN), call.model, call.exchange)
        for call in calls
    )
    yield from table(screen, columns, list(rows))
