"""`dragoman top`: live view of open requests, active threads and totals of the last minute."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from dragoman.cli import documents, formatting
from dragoman.cli.gateway_records import GatewayRecords, add_records, clock_here, records_of_gateway
from dragoman.cli.parser import DONE
from dragoman.cli.record_file import (
    RecordFile,
    Shown,
    as_cell,
    find_record_file,
    now_in_micro,
    open_records,
    write_view,
)
from dragoman.cli.sessions import NARROW_STATE, state_of
from dragoman.cli.terminal import Column, OutputScreen, printable, screen_of, table, wrapped
from dragoman.terminal import Choice, cut, is_dumb

if TYPE_CHECKING:
    from dragoman.records.live_view import Activity, LiveSnapshot

    # Returns the present view. Problems go to a function.
    Look = Callable[[Callable[[str], None]], tuple[LiveSnapshot, int]]

THREAD, MODEL = "thread", "model"
_EVERY = 1.0
# The shown part of a session's name, by which `dragoman session` identifies it.
_NAME = 13
_NUMBERS = tuple(Column(heading=heading, right=True) for heading in ("OPEN", "TURNS", "TOKENS", "COST", "ERRORS"))
_THREADS = (
    Column(heading="SESSION", least=13),
    Column(heading="THREAD", least=10),
    Column(heading="MODEL", least=10),
    NARROW_STATE,
    *_NUMBERS,
)
# The minimum width for a column with the model.
_WIDE = 100
_MODELS = (Column(heading="REQUESTED", least=10), Column(heading="TARGET", least=14), NARROW_STATE, *_NUMBERS)
# Control sequences: https://man7.org/linux/man-pages/man4/console_codes.4.html
_BEGIN, _END = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "top",
        help="watch the running requests",
        description=(
            "Show open requests, active threads and totals of the last minute. On a terminal the "
            "page is redrawn each second until an interrupt; elsewhere it is printed once."
        ),
    )
    parser.add_argument("--once", action="store_true", help="print one page and end")
    parser.add_argument("--by", choices=(THREAD, MODEL), default=THREAD, help="one line per thread, or per model")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON): one page")
    add_records(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from dragoman.records.views.live import snapshot_view

    gateway = records_of_gateway(options)
    record_file = find_record_file(options) if gateway is None else clock_here()
    look = _file_reader(record_file, options.by) if gateway is None else _gateway_reader(gateway, options.by)
    screen = screen_of(sys.stdout, options.color)
    if options.json:
        present, status = look(documents.complain)
        write_view(snapshot_view(present))
        return status
    if options.once or not screen.terminal or is_dumb(os.environ):
        present, status = look(documents.complain)
        documents.write_text("\n".join(page(present, options.by, record_file, screen)), screen)
        return status
    _draw(record_file, look, options.by, options.color)
    return DONE


def _file_reader(record_file: RecordFile, by: str) -> Look:
    """Reads the database repeatedly."""
    from dragoman.records.live_view import LiveView, looked_back

    live_view = LiveView(record_file.database, by_model=by == MODEL)

    def look(complain: Callable[[str], None]) -> tuple[LiveSnapshot, int]:
        with open_records(record_file, complain, Shown(since=looked_back(now_in_micro()))) as (tables, status):
            return live_view.look(tables, now_in_micro()), status

    return look


def _gateway_reader(gateway: GatewayRecords, by: str) -> Look:
    """Queries a gateway repeatedly. Returns the last view while the gateway does not respond."""
    from dragoman.launching.admin_client import AdminApiError, GatewayUnreachable
    from dragoman.records.views.live import LiveSnapshotView, snapshot_of

    seen: list[LiveSnapshot] = []

    def look(complain: Callable[[str], None]) -> tuple[LiveSnapshot, int]:
        gateway.complain = complain
        try:
            seen[:] = [snapshot_of(gateway.get("/live", LiveSnapshotView, by=by))]
        except (GatewayUnreachable, AdminApiError) as error:
            if not seen or (isinstance(error, AdminApiError) and not error.is_temporary):
                raise
            complain(str(error))
        return seen[0], gateway.status

    return look


def _draw(record_file: RecordFile, look: Look, by: str, colour: Choice) -> None:
    """Draw the page each second, on the alternate screen, until an interrupt. Then the former screen returns."""
    signal.signal(signal.SIGTERM, _end)
    try:
        documents.write(_BEGIN.encode())
        while True:
            # The window may have changed its size.
            screen = screen_of(sys.stdout, colour)
            notes: list[str] = []
            lines = list(page(look(notes.append)[0], by, record_file, screen))
            lines = [*lines[:1], *(cut(printable(note), screen.width) for note in notes), *lines[1:]]
            lines = lines[: max(os.get_terminal_size(sys.stdout.fileno()).lines, 3)]
            drawn = f"{_REST_OF_LINE}\r\n".join(lines)
            documents.write(screen.encode(f"{_HOME}{drawn}{_REST_OF_LINE}{_REST_OF_SCREEN}"))
            time.sleep(_EVERY)
    finally:
        documents.write(_END.encode())


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def page(present: LiveSnapshot, by: str, record_file: RecordFile, screen: OutputScreen) -> Iterator[str]:
    """One page: a line of totals, and a line for each active thread or model."""
    total, exact = present.total, not screen.terminal
    words = [
        f"{present.opened} open",
        formatting.counted(total.requests, "turn"),
        f"{formatting.tokens(total.input + total.output, exact=exact)} tokens",
        formatting.format_cost(total.cost, total.unpriced, exact=exact),
        formatting.counted(total.errors, "error"),
    ]
    yield from wrapped(
        screen, f"{record_file.clock(present.now)}  {words[0]}; in the last minute {', '.join(words[1:])}"
    )
    yield ""
    if not present.activities:
        yield "No request in the last minute."
        return
    if by == MODEL:
        rows = [
            (
                *(as_cell(name, full=exact) for name in (each.requested_model, each.target)),
                *_numbers(each, present.now, exact),
            )
            for each in present.activities
        ]
        yield from table(screen, _MODELS, rows)
        return
    named = [(*_names(activity, exact), *_numbers(activity, present.now, exact)) for activity in present.activities]
    if exact or screen.width >= _WIDE:
        yield from table(screen, _THREADS, named)
    else:
        yield from table(screen, (*_THREADS[:2], *_THREADS[3:]), [(*row[:2], *row[3:]) for row in named])


def _names(activity: Activity, exact: bool) -> tuple[str, str, str]:
    session, thread = activity.place.session, activity.place.thread
    model = as_cell(activity.target or activity.requested_model, full=exact) or "-"
    if session is None:
        return "no session", as_cell(activity.client, full=exact) or "-", model
    kind, label = ("-", "") if thread is None else (thread.kind, thread.label)
    called = f"{as_cell(kind, full=exact)} {as_cell(label, full=exact)}".strip()
    return as_cell(session.name if exact else session.name[:_NAME], full=exact), called, model


def _numbers(activity: Activity, now: int, exact: bool) -> tuple[str, ...]:
    figures = activity.figures
    return (
        state_of(activity.status, now),
        str(activity.opened),
        str(figures.requests),
        formatting.tokens(figures.input + figures.output, exact=exact),
        formatting.format_cost(figures.cost, figures.unpriced, exact=exact),
        str(figures.errors),
    )
