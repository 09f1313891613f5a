"""`dragoman sessions`: lists the sessions, the latest first, each with all its threads on one line."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from dragoman.cli import documents, formatting
from dragoman.cli.gateway_records import GatewayRecords, add_records, clock_here, records_of_gateway
from dragoman.cli.parser import add_all_losses
from dragoman.cli.record_file import (
    RecordFile,
    Shown,
    add_since,
    as_cell,
    find_record_file,
    name_of,
    now_in_micro,
    open_records,
    write_view,
)
from dragoman.cli.terminal import GREEN, RED, YELLOW, Column, OutputScreen, screen_of, table, wrapped
from dragoman.errors import UsageError

if TYPE_CHECKING:
    from dragoman.records.sessions import SessionDetail, SessionLine, SessionList
    from dragoman.records.thread_status import ThreadStatus
    from dragoman.records.views.sessions import SessionLineView, SessionsView
    from dragoman.store.session_queries import SessionFigures
    from dragoman.store.session_tables import SessionRow

_SINCE = "1d"
_USUAL = 50
_PAGE = 200
# The minimum width for all columns.
_WIDE = 120
# Names are shortened as long as they are unique, to at least this many characters.
_LEAST_NAME = 13
STATES = {
    "streaming": GREEN,
    "running tools": GREEN,
    "tool results overdue": GREEN,
    "failed": RED,
    "stalled": YELLOW,
    "disconnected": YELLOW,
}
_NUMBERS = {
    name: Column(heading=name, right=True) for name in ("TURNS", "AGENTS", "TOKENS", "COST", "LOSSES", "ERRORS")
}
# The width of "waiting for user 20h", which narrow terminals break into two lines.
STATE = Column(heading="STATE", least=20, styles=STATES)
NARROW_STATE = Column(heading="STATE", least=12, styles=STATES)
_SESSION, _KEY, _CLIENT, _STARTED, _LAST = (
    Column(heading="SESSION", least=_LEAST_NAME),
    Column(heading="KEY", least=6),
    Column(heading="CLIENT", least=8),
    Column(heading="STARTED"),
    Column(heading="LAST"),
)
_MORE = Column(heading="MORE", below=True)
_WIDE_COLUMNS = (_SESSION, _KEY, _CLIENT, _STARTED, _LAST, STATE, *_NUMBERS.values(), _MORE)
_NARROW_NUMBERS = (_NUMBERS[name] for name in ("TURNS", "TOKENS", "COST"))
_NARROW_COLUMNS = (_SESSION, _CLIENT, _STARTED, NARROW_STATE, *_NARROW_NUMBERS, _MORE)
_LINKS = {"continues": "continues", "fork": "forked from", "subagent": "agent of"}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "sessions",
        help="list sessions with their state and cost",
        description=(
            "List the sessions of clients, the latest first: what each is doing, and its totals with "
            "all agents over its lifetime. `dragoman session ID` shows one."
        ),
    )
    add_since(parser, _SINCE)
    parser.add_argument("--key", metavar="NAME", help="only this gateway key")
    parser.add_argument("--all", action="store_true", help="include the threads of each")
    parser.add_argument(
        "-n", dest="most", type=int, default=_USUAL, metavar="N", help=f"number of sessions (default: {_USUAL})"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    add_all_losses(parser, "counts of the table")
    add_records(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from dragoman.records.views.exchanges import micro_of
    from dragoman.records.views.sessions import listing_of

    if options.most < 1:
        raise UsageError(f"-n: {options.most} is not a number of sessions")
    gateway = records_of_gateway(options)
    record_file = find_record_file(options) if gateway is None else clock_here()
    if gateway is None:
        view, status = _of_file(options, record_file)
    else:
        view, status = _of_gateway(options, gateway), gateway.status
    if options.json:
        write_view(view)
        return status
    since, now = micro_of(view.since), micro_of(view.until)
    listing, details = listing_of(view)
    screen = screen_of(sys.stdout, options.color)
    if not listing.lines and screen.terminal:
        when = f"{record_file.day(since)} {record_file.clock(since)}"
        lines = wrapped(screen, f"No session since {when}; try --since 30d.")
        documents.write_text("\n".join(lines), screen)
        return status
    if options.all_losses:
        each = tuple(replace(line, figures=all_lost(line.figures)) for line in listing.lines)
        listing = replace(listing, lines=each, without=all_lost(listing.without))
        details = {number: with_all_losses(detail) for number, detail in details.items()}
    documents.write_text("\n".join(_as_text(listing, details, record_file, screen, now)), screen)
    return status


def _of_file(options: argparse.Namespace, record_file: RecordFile) -> tuple[SessionsView, int]:
    from dragoman.records import live_view, sessions
    from dragoman.records.views.sessions import sessions_view

    now = now_in_micro()
    since, key = record_file.since(options.since, now), name_of(options.key)
    with open_records(record_file, shown=Shown(since=since, key=key)) as (tables, status):
        opened = live_view.opened_now(tables, record_file.database)
        listing = sessions.listing(tables, since, key, options.most, opened, now)
        details = {
            line.session.id: sessions.session_detail(tables, line.session, opened, now, fold=False)
            for line in listing.lines
            if options.all
        }
    return sessions_view(listing, details, since, now), status


def _of_gateway(options: argparse.Namespace, gateway: GatewayRecords) -> SessionsView:
    from dragoman.records.views.sessions import SessionsView

    lines: list[SessionLineView] = []
    before: str | None = None
    while True:
        page = gateway.get(
            "/sessions",
            SessionsView,
            since=options.since,
            key=name_of(options.key),
            all=options.all,
            n=min(options.most - len(lines), _PAGE),
            before=before,
        )
        lines += page.sessions
        before = page.next
        if before is None or len(lines) >= options.most:
            return replace(page, sessions=lines)


def _as_text(
    listing: SessionList, details: dict[int, SessionDetail], record_file: RecordFile, screen: OutputScreen, now: int
) -> Iterator[str]:
    wide = not screen.terminal or screen.width >= _WIDE
    names = _names([line.session for line in listing.lines]) if screen.terminal else {}
    several = len({line.session.key for line in listing.lines}) > 1
    rows: list[tuple[str, ...]] = []
    for line in listing.lines:
        row = _row(
            line, names.get(line.session.id, line.session.name), record_file, screen, now, wide=wide, whose=several
        )
        rows.append(row)
        if line.session.id in details:
            rows += _threads(details[line.session.id], record_file, screen, now, wide=wide)
    if any(msgspec.structs.astuple(listing.without)):
        rows.append(_cells("no session", listing.without, exact=not screen.terminal, wide=wide))
    yield from table(screen, _WIDE_COLUMNS if wide else _NARROW_COLUMNS, rows)
    if listing.more and screen.terminal:
        yield ""
        yield from wrapped(screen, f"There are more; -n {2 * len(listing.lines)} shows twice as many.")


def _row(
    line: SessionLine, name: str, record_file: RecordFile, screen: OutputScreen, now: int, *, wide: bool, whose: bool
) -> tuple[str, ...]:
    """A session. Its key is shown only if there are several."""
    session = line.session
    exact = not screen.terminal
    return _cells(
        as_cell(name, full=exact),
        line.figures,
        exact=exact,
        wide=wide,
        key=as_cell(session.key, full=exact) if wide or whose else "",
        client=as_cell(session.client, full=exact),
        times=[_when(time, record_file, now, exact=exact) for time in (session.started, line.last)],
        state=state_of(line.status, now),
        agents=line.agents,
        more=link_of(session, line.origin),
    )


def _threads(
    detail: SessionDetail, record_file: RecordFile, screen: OutputScreen, now: int, *, wide: bool
) -> Iterator[tuple[str, ...]]:
    exact = not screen.terminal
    for node in detail.tree.nodes:
        thread = node.thread
        # Many threads are named after their class.
        name = thread.label or (thread.name if thread.name != thread.kind else "")
        words = f"{as_cell(thread.kind, full=exact)} {as_cell(name, full=exact)}".strip()
        yield _cells(
            "  " * (node.depth + 1) + words,
            node.own,
            exact=exact,
            wide=wide,
            times=[_when(time, record_file, now, exact=exact) for time in (thread.started, thread.last)],
            state=state_of(detail.statuses[thread.id], now),
        )


def _cells(
    name: str,
    figures: SessionFigures,
    *,
    exact: bool,
    wide: bool,
    key: str = "",
    client: str = "",
    times: Sequence[str] = ("", ""),
    state: str = "",
    agents: int | str = "",
    more: str = "",
) -> tuple[str, ...]:
    """One row. Values whose column was left out are added as text, unless zero."""
    tokens = formatting.tokens(figures.input + figures.output, exact=exact)
    cost = formatting.format_cost(figures.cost, figures.unpriced, exact=exact)
    turns = str(figures.requests)
    if wide:
        numbers = (turns, str(agents), tokens, cost, str(figures.losses), str(figures.errors))
        return (name, key, client, *times, state, *numbers, more)
    counted = formatting.counted(agents, "agent") if isinstance(agents, int) and agents else ""
    remarks = ", ".join(filter(None, (more, counted, *troubles_of(figures), key and f"key {key}")))
    return (name, client, times[0], state, turns, tokens, cost, remarks)


def _when(micro: int, record_file: RecordFile, now: int, *, exact: bool) -> str:
    return f"{record_file.day(micro)} {record_file.clock(micro)}" if exact else record_file.moment(micro, now)


def _names(rows: Sequence[SessionRow]) -> dict[int, str]:
    """Prefixes of names that distinguish these sessions."""
    ordered = sorted({row.name for row in rows})
    least: dict[str, int] = dict.fromkeys(ordered, _LEAST_NAME)
    for one, other in itertools.pairwise(ordered):
        common = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
        for name in (one, other):
            least[name] = max(least[name], common + 1)
    return {row.id: row.name[: least[row.name]] for row in rows}


def state_of(status: ThreadStatus, now: int) -> str:
    from dragoman.records.thread_status import format_status

    return format_status(status, now)


def all_lost(figures: SessionFigures) -> SessionFigures:
    return replace(figures, losses=figures.losses + figures.bookkeeping)


def with_all_losses(detail: SessionDetail) -> SessionDetail:
    """A session whose figures include bookkeeping."""
    tree = detail.tree
    nodes = tuple(replace(node, own=all_lost(node.own), total=all_lost(node.total)) for node in tree.nodes)
    return replace(detail, tree=replace(tree, nodes=nodes, total=all_lost(tree.total)))


def troubles_of(figures: SessionFigures) -> Iterable[str]:
    """Problems, if any, and unknown parts."""
    if figures.losses:
        yield formatting.counted(figures.losses, "loss", "losses")
    if figures.errors:
        yield formatting.counted(figures.errors, "error")
    if figures.unpriced:
        yield f"{formatting.counted(figures.unpriced, 'call')} unpriced"
    if figures.cancelled:
        yield f"{figures.cancelled} cancelled"


def link_of(session: SessionRow, origin: SessionRow | None) -> str:
    if not session.origin:
        return ""
    name = f"session {session.origin}, which was erased" if origin is None else as_cell(origin.name)
    return f"{_LINKS.get(session.link, as_cell(session.link))} {name}"
