"""`dragoman logs`: the exchanges, a line each, as they come with `-f`; with an id all that is known of one."""

from __future__ import annotations

import argparse
import os
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman.cli import documents
from dragoman.cli.parser import UNREAD, add_all_losses
from dragoman.cli.record_file import (
    RecordFile,
    Shown,
    add_config,
    add_since,
    find_record_file,
    name_of,
    nothing_yet,
    now_in_micro,
    once,
    open_records,
    write_view,
)
from dragoman.cli.terminal import screen_of
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.records.exchanges import RecordedExchange
    from dragoman.store.record_queries import RecordFilter

_USUAL = 50
# So many are asked for at a time while they come.
_AT_ONCE = 1000
# How often they are asked for, in milliseconds.
_EVERY = 1000


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "logs",
        help="show the exchanges, or all that is known of one",
        description="The exchanges that went through the gateway, one line each, the latest last. With an id, all that "
        "is known of that one: every attempt, every loss, and what it cost.",
    )
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="an exchange: its id or how that begins, the provider's, or the answer's"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="go on with those that come")
    add_since(parser, "")
    parser.add_argument("--key", metavar="NAME", help="of this gateway key alone")
    parser.add_argument("--model", metavar="NAME", help="asked for or served; * stands for anything")
    parser.add_argument("--session", metavar="ID", help="of this session alone, or of one whose id begins so")
    parser.add_argument(
        "--thread", metavar="NUMBER", type=int, help="of this thread alone, as `dragoman session` has it"
    )
    parser.add_argument("--errors", action="store_true", help="those that were refused, failed or crashed")
    add_all_losses(parser, "lines and the page of one")
    parser.add_argument("--ids", action="store_true", help="with the id of each, however little room there is")
    parser.add_argument("-n", dest="most", type=int, default=_USUAL, metavar="N", help=f"how many (default: {_USUAL})")
    parser.add_argument("--json", action="store_true", help="machine-readable: one JSON object per line")
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show what is asked for."""
    if options.most < 0:
        raise UsageError(f"-n: {options.most} is no number of exchanges")
    if options.id is not None and options.follow:
        raise UsageError("-f follows all exchanges; leave out the id")
    record_file = find_record_file(options)
    if options.id is not None:
        return _show(record_file, options)
    write_exchange = _exchange_writer(record_file, options)
    wanted = _wanted(record_file, options)
    number, status = _latest(record_file, wanted, options.most, write_exchange)
    return _follow(record_file, wanted, number, write_exchange) if options.follow else status


def _show(record_file: RecordFile, options: argparse.Namespace) -> int:
    from dragoman.cli.exchange_page import as_page
    from dragoman.records import exchanges
    from dragoman.records.ids import times_of
    from dragoman.records.journal_directory import directory_of
    from dragoman.records.views.exchanges import exchange_view

    text = name_of(options.id) or ""
    times = times_of(text)
    # Stored responses are found by their threads.
    shown = Shown() if times is None else Shown(since=times[0], until=times[1] + 1)
    with open_records(record_file, shown=shown) as (tables, status):
        exchange = exchanges.find(tables, text, directory_of(record_file.path))
    if options.json:
        write_view(exchange_view(exchange))
    else:
        screen = screen_of(sys.stdout, options.color)
        documents.write_text("\n".join(as_page(exchange, record_file, screen, all_losses=options.all_losses)), screen)
    return status


def _wanted(record_file: RecordFile, options: argparse.Namespace) -> RecordFilter:
    from dragoman.records.sessions import find
    from dragoman.store.record_queries import RecordFilter

    since = record_file.since(options.since, now_in_micro()) if options.since else 0
    session: int | None = None
    if options.session is not None:
        name, key = name_of(options.session) or "", name_of(options.key)
        with open_records(record_file, shown=Shown(session=name, key=key)) as (tables, _):
            session = find(tables, name, key).id
    return RecordFilter(
        since=since,
        key=name_of(options.key),
        model=name_of(options.model),
        errors=options.errors,
        session=session,
        thread=options.thread,
    )


def _shown(wanted: RecordFilter) -> Shown:
    return Shown(since=wanted.since, key=wanted.key)


def _latest(
    record_file: RecordFile, wanted: RecordFilter, most: int, write_exchange: Callable[[RecordedExchange], None]
) -> tuple[int, int]:
    """Tell the latest; give the number behind which others come, and the status."""
    from dragoman.records import exchanges

    with open_records(record_file, shown=_shown(wanted)) as (tables, status):
        number = exchanges.newest(tables)
        batch = exchanges.latest(tables, wanted, most)
    if not number and not status:
        documents.complain(nothing_yet(record_file.path))
    for each in batch:
        write_exchange(each)
    return max([number, *(each.row.number for each in batch)]), status


def _follow(
    record_file: RecordFile, wanted: RecordFilter, number: int, write_exchange: Callable[[RecordedExchange], None]
) -> int:
    """Tell those that come, until nobody reads it any more, or an interrupt."""
    from dragoman.records import exchanges
    from dragoman.store import StoreError

    complain = once(documents.complain)
    while not _is_unread():
        try:
            with open_records(record_file, complain, _shown(wanted)) as (tables, _):
                # Fewer than there were if some were forgotten.
                newest = exchanges.newest(tables)
                batch = exchanges.after(tables, min(number, newest), wanted, _AT_ONCE)
        except StoreError as error:
            # The next second is soon enough.
            complain(f"note: {error}")
            continue
        for each in batch:
            write_exchange(each)
        number = batch[-1].row.number if len(batch) == _AT_ONCE else max([newest, *(each.row.number for each in batch)])
    return UNREAD


def _is_unread() -> bool:
    """Wait a second, or until whoever reads the standard output has gone."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(_EVERY))


def _exchange_writer(record_file: RecordFile, options: argparse.Namespace) -> Callable[[RecordedExchange], None]:
    """What tells one exchange."""
    if options.json:
        from dragoman.records.views.exchanges import exchange_view

        return lambda exchange: write_view(exchange_view(exchange))
    from dragoman import terminal
    from dragoman.gateway.observability.log_columns import LogColumns
    from dragoman.gateway.observability.record import LogDetails
    from dragoman.records.exchanges import entry_of

    screen = terminal.screen_of(sys.stdout, os.environ, options.color)
    columns = LogColumns(screen, all_losses=options.all_losses)
    looked_at = screen.columns() is not None
    last_day = [record_file.day(now_in_micro())]

    def write_exchange(exchange: RecordedExchange) -> None:
        day, clock = record_file.day(exchange.ended), record_file.clock(exchange.ended)
        if looked_at and day != last_day[0]:
            # A line has the time of day alone.
            last_day[0] = day
            documents.write(f"{day}\n".encode())
        when = clock if looked_at else f"{day} {clock}"
        log_details = LogDetails(exchange.row.address, exchange.row.path, exchange.details.refusal)
        line = columns.exchange(entry_of(exchange), log_details, f"{when} {exchange.row.id}" if options.ids else when)
        documents.write(line.encode("utf-8", "backslashreplace") + b"\n")

    return write_exchange
