"""`dragoman logs`: prints one line per exchange, with `-f` as they arrive; with an ID, everything recorded of one."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.cli import documents
from dragoman.cli.gateway_records import (
    GatewayRecords,
    add_records,
    clock_here,
    quoted_name,
    records_of_gateway,
)
from dragoman.cli.parser import UNREAD, add_all_losses
from dragoman.cli.record_file import (
    RecordFile,
    Shown,
    add_since,
    find_record_file,
    name_of,
    nothing_yet,
    now_in_micro,
    once,
    open_records,
    write_json,
    write_view,
)
from dragoman.cli.terminal import screen_of
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.records.exchanges import RecordedExchange
    from dragoman.records.views.exchanges import ExchangesView, ExchangeView
    from dragoman.store.record_queries import RecordFilter

_USUAL = 50
_AT_ONCE = 1000
# Interval of queries, in milliseconds.
_EVERY = 1000


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "logs",
        help="show requests, or everything recorded of one",
        description=(
            "Show the requests of the gateway, one line each, the latest last. With an ID, show "
            "everything recorded of that request: every attempt, every loss, and the cost."
        ),
    )
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="a request: the start of its ID, the provider's ID, or the response ID"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="continue with new requests")
    add_since(parser, "")
    parser.add_argument("--key", metavar="NAME", help="only this gateway key")
    parser.add_argument("--model", metavar="NAME", help="requested or served model; * matches any text")
    parser.add_argument("--session", metavar="ID", help="only this session, or the start of its ID")
    parser.add_argument("--thread", metavar="NUMBER", type=int, help="only this thread, as in `dragoman session`")
    parser.add_argument("--errors", action="store_true", help="only rejected, failed or crashed requests")
    add_all_losses(parser, "lines and the page of one")
    parser.add_argument("--contents", action="store_true", help="the stored bodies of the request with this ID")
    parser.add_argument("--ids", action="store_true", help="always with the ID of each request")
    parser.add_argument(
        "-n", dest="most", type=int, default=_USUAL, metavar="N", help=f"number of requests (default: {_USUAL})"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable: one JSON object per line")
    add_records(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if options.most < 0:
        raise UsageError(f"-n: {options.most} is not a number of requests")
    if options.id is not None and options.follow:
        raise UsageError("-f follows all requests; leave out the ID")
    gateway = records_of_gateway(options)
    if options.contents and (options.id is None or gateway is not None):
        raise UsageError("--contents needs the ID of a request, and the database of this machine")
    record_file = find_record_file(options) if gateway is None else clock_here()
    if options.id is not None:
        return _show(record_file, gateway, options)
    source = _FileSource(record_file, options) if gateway is None else _GatewaySource(gateway, options)
    write_exchange = _exchange_writer(record_file, options)
    number = _latest(source, options.most, write_exchange)
    return _follow(source, number, write_exchange) if options.follow else source.status


def _show(record_file: RecordFile, gateway: GatewayRecords | None, options: argparse.Namespace) -> int:
    from dragoman.cli.exchange_page import as_page
    from dragoman.records.views.exchanges import ExchangeView, exchange_of

    if gateway is None:
        view, status = _find(record_file, name_of(options.id) or "")
        if options.contents:
            return _show_contents(options, view.id)
    else:
        view = gateway.get(f"/exchanges/{quoted_name(options.id)}", ExchangeView)
        status = gateway.status
    if options.json:
        write_view(view)
    else:
        screen = screen_of(sys.stdout, options.color)
        lines = as_page(exchange_of(view), record_file, screen, all_losses=options.all_losses)
        documents.write_text("\n".join(lines), screen)
    return status


def _show_contents(options: argparse.Namespace, exchange: str) -> int:
    from dragoman.cli.contents_page import contents_document, contents_page, read_contents_of
    from dragoman.cli.trust import configured

    contents = read_contents_of(configured(options.config), exchange)
    if options.json:
        write_json(contents_document(contents))
    else:
        documents.write_text("\n".join(contents_page(contents)))
    return 0


def _find(record_file: RecordFile, text: str) -> tuple[ExchangeView, int]:
    from dragoman.records import exchanges
    from dragoman.records.ids import times_of
    from dragoman.records.journal_directory import directory_of
    from dragoman.records.views.exchanges import exchange_view

    times = times_of(text)
    # Stored responses are found by their threads.
    shown = Shown() if times is None else Shown(since=times[0], until=times[1] + 1)
    with open_records(record_file, shown=shown) as (tables, status):
        return exchange_view(exchanges.find(tables, text, directory_of(record_file.database))), status


class _FileSource:
    """The matching records of the database. `status` is not 0 once data was missing."""

    def __init__(self, record_file: RecordFile, options: argparse.Namespace) -> None:
        from dragoman.records.row_follower import RowFollower

        self._record_file = record_file
        wanted = self._filter(options)
        self._shown = Shown(since=wanted.since, key=wanted.key)
        self._follower = RowFollower(wanted)
        self.status = 0

    def latest(self, most: int) -> ExchangesView:
        with open_records(self._record_file, shown=self._shown) as (tables, self.status):
            batch = self._follower.begin(tables, most)
        if not self._follower.number and not self.status:
            documents.complain(nothing_yet(self._record_file.database))
        return _views(batch, self._follower.number)

    def after(self, number: int, complain: Callable[[str], None]) -> ExchangesView:
        with open_records(self._record_file, complain, self._shown) as (tables, _):
            batch = self._follower.read(tables, _AT_ONCE)
        return _views(batch, self._follower.number)

    def _filter(self, options: argparse.Namespace) -> RecordFilter:
        from dragoman.records.sessions import find
        from dragoman.store.record_queries import RecordFilter

        since = self._record_file.since(options.since, now_in_micro()) if options.since else 0
        session: int | None = None
        if options.session is not None:
            name, key = name_of(options.session) or "", name_of(options.key)
            with open_records(self._record_file, shown=Shown(session=name, key=key)) as (tables, _):
                session = find(tables, name, key).id
        return RecordFilter(
            since=since,
            key=name_of(options.key),
            model=name_of(options.model),
            errors=options.errors,
            session=session,
            thread=options.thread,
        )


class _GatewaySource:
    """The matching records of another gateway."""

    def __init__(self, gateway: GatewayRecords, options: argparse.Namespace) -> None:
        self._gateway = gateway
        self._options = options

    @property
    def status(self) -> int:
        return self._gateway.status

    def latest(self, most: int) -> ExchangesView:
        page = self._page(min(most, _AT_ONCE))
        views = page.exchanges
        while page.before is not None and len(views) < most:
            page = self._page(min(most - len(views), _AT_ONCE), before=page.before)
            views = [*page.exchanges, *views]
        return replace(page, exchanges=views)

    def after(self, number: int, complain: Callable[[str], None]) -> ExchangesView:
        self._gateway.complain = complain
        return self._page(_AT_ONCE, after=number)

    def _page(self, most: int, *, before: str | None = None, after: int | None = None) -> ExchangesView:
        from dragoman.records.views.exchanges import ExchangesView

        options = self._options
        return self._gateway.get(
            "/exchanges",
            ExchangesView,
            since=options.since,
            key=name_of(options.key),
            model=name_of(options.model),
            errors=options.errors,
            session=name_of(options.session),
            thread=options.thread,
            n=most,
            before=before,
            after=after,
        )


def _views(batch: list[RecordedExchange], after: int) -> ExchangesView:
    from dragoman.records.views.exchanges import ExchangesView, exchange_view

    return ExchangesView(exchanges=[exchange_view(each) for each in batch], before=None, after=after)


def _latest(source: _FileSource | _GatewaySource, most: int, write_exchange: Callable[[ExchangeView], None]) -> int:
    """Print the latest exchanges. Returns the number after which others follow."""
    page = source.latest(most)
    for each in page.exchanges:
        write_exchange(each)
    return page.after


def _follow(source: _FileSource | _GatewaySource, number: int, write_exchange: Callable[[ExchangeView], None]) -> int:
    """Print exchanges as they arrive, until the output pipe closes, or an interrupt."""
    from dragoman.launching.admin_client import AdminApiError, GatewayUnreachable
    from dragoman.store import StoreError

    complain = once(documents.complain)
    while not _is_unread():
        try:
            page = source.after(number, complain)
        except (StoreError, GatewayUnreachable, AdminApiError) as error:
            if isinstance(error, AdminApiError) and not error.is_temporary:
                raise
            # The query is repeated in the next second.
            complain(f"note: {error}")
            continue
        for each in page.exchanges:
            write_exchange(each)
        number = page.after
    return UNREAD


def _is_unread() -> bool:
    """Wait one second. Returns True if the output pipe is closed."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(_EVERY))


def _exchange_writer(record_file: RecordFile, options: argparse.Namespace) -> Callable[[ExchangeView], None]:
    if options.json:
        return write_view
    from dragoman import terminal
    from dragoman.gateway.observability.log_columns import LogColumns
    from dragoman.gateway.observability.record import LogDetails
    from dragoman.records.exchanges import logged_entry
    from dragoman.records.views.exchanges import exchange_of

    screen = terminal.screen_of(sys.stdout, os.environ, options.color)
    columns = LogColumns(screen, all_losses=options.all_losses)
    looked_at = screen.columns() is not None
    last_day = [record_file.day(now_in_micro())]

    def write_exchange(view: ExchangeView) -> None:
        exchange = exchange_of(view)
        day, clock = record_file.day(exchange.ended), record_file.clock(exchange.ended)
        if looked_at and day != last_day[0]:
            # A line contains only the time of day.
            last_day[0] = day
            documents.write(f"{day}\n".encode())
        when = clock if looked_at else f"{day} {clock}"
        entry = logged_entry(exchange.entry)
        log_details = LogDetails(entry.address, entry.path, entry.refusal)
        line = columns.exchange(entry, log_details, f"{when} {entry.id}" if options.ids else when)
        documents.write(line.encode("utf-8", "backslashreplace") + b"\n")

    return write_exchange
