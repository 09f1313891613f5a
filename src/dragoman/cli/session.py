"""`dragoman session`: shows one session as a tree of threads, with the usage of each, alone and with its children."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.cli import documents, formatting
from dragoman.cli.gateway_records import GatewayRecords, add_records, clock_here, quoted_name, records_of_gateway
from dragoman.cli.parser import add_all_losses
from dragoman.cli.record_file import (
    RecordFile,
    Shown,
    as_cell,
    find_record_file,
    name_of,
    now_in_micro,
    open_records,
    write_view,
)
from dragoman.cli.sessions import (
    STATE,
    STATES,
    link_of,
    state_of,
    troubles_of,
    with_all_losses,
)
from dragoman.cli.terminal import Column, OutputScreen, printable, screen_of, table, wrapped

if TYPE_CHECKING:
    from dragoman.records.sessions import SessionDetail
    from dragoman.records.thread_tree import ThreadNode
    from dragoman.records.views.sessions import SessionView
    from dragoman.store.session_queries import SessionFigures

# Deeper threads are not indented further: their depth is shown as a number.
_DEEPEST = 8
_NUMBER = Column(heading="#", right=True)
_NUMBERS = tuple(Column(heading=heading, right=True) for heading in ("TURNS", "TOKENS", "OWN", "TOTAL"))
_COLUMNS = (
    _NUMBER,
    Column(heading="THREAD", least=18),
    Column(heading="MODEL", least=10),
    STATE,
    *_NUMBERS,
    Column(heading="MORE", below=True),
)
# On narrow terminals, the status of a thread is shown only if it is notable.
_WIDE = 100
_NOTABLE = frozenset(STATES)
_FULL_COLUMNS = (
    _NUMBER,
    *(Column(heading=heading) for heading in ("PARENT", "DEPTH", "CLASS", "LABEL", "NAME", "MODEL")),
    STATE,
    *_NUMBERS,
    *(Column(heading=heading) for heading in ("LOSSES", "ERRORS", "SEGMENTS", "RULE", "SURE", "MARK")),
)
_MARKS = {"missing": "parent unknown", "cut": "in a cycle of parents, cut here"}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "session",
        help="show a session with its threads",
        description=(
            "Show one session as a tree of its threads with class, model, turns, tokens and cost, "
            "each alone and with its children. Titles and other small calls are folded by class, "
            "unless --all."
        ),
    )
    parser.add_argument("id", metavar="ID", help="its ID, or the start of it")
    parser.add_argument("--key", metavar="NAME", help="the gateway key, if two keys have sessions with the same ID")
    parser.add_argument("--all", action="store_true", help="every thread on a line of its own")
    parser.add_argument("--json", action="store_true", help="machine-readable (JSON)")
    add_all_losses(parser, "counts of the page")
    add_records(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from dragoman.records.views.sessions import detail_of, session_view

    now = now_in_micro()
    screen = screen_of(sys.stdout, options.color)
    fold = not options.all and not options.json and screen.terminal
    gateway = records_of_gateway(options)
    if gateway is None:
        record_file = find_record_file(options)
        detail, status = _of_file(options, record_file, now, fold=fold)
    else:
        record_file = clock_here()
        detail = detail_of(_of_gateway(options, gateway), fold=fold)
        status = gateway.status
    if options.all_losses and not options.json:
        detail = with_all_losses(detail)
    if options.json:
        write_view(session_view(detail))
    elif screen.terminal:
        documents.write_text("\n".join(_as_text(detail, record_file, screen, now)), screen)
    else:
        rows = [_full_row(node, detail, now) for node in detail.tree.nodes]
        documents.write_text("\n".join(table(screen, _FULL_COLUMNS, rows)), screen)
    return status


def _of_file(
    options: argparse.Namespace, record_file: RecordFile, now: int, *, fold: bool
) -> tuple[SessionDetail, int]:
    from dragoman.records import live_view, sessions

    name, key = name_of(options.id) or "", name_of(options.key)
    with open_records(record_file, shown=Shown(session=name, key=key)) as (tables, status):
        opened = live_view.opened_now(tables, record_file.database)
        session = sessions.find(tables, name, key)
        return sessions.session_detail(tables, session, opened, now, fold=fold), status


def _of_gateway(options: argparse.Namespace, gateway: GatewayRecords) -> SessionView:
    from dragoman.records.views.sessions import SessionView

    return gateway.get(f"/sessions/{quoted_name(options.id)}", SessionView, key=name_of(options.key))


def _as_text(detail: SessionDetail, record_file: RecordFile, screen: OutputScreen, now: int) -> Iterator[str]:
    for line in _head(detail, record_file, now):
        yield from wrapped(screen, printable(line))
    yield ""
    if screen.width >= _WIDE:
        yield from table(screen, _COLUMNS, list(_rows(detail, now, wide=True)))
    else:
        columns = tuple(column for column in _COLUMNS if column is not STATE)
        yield from table(screen, columns, list(_rows(detail, now, wide=False)))
    if detail.tree.circles:
        yield ""
        threads = formatting.counted(detail.tree.circles, "thread")
        yield from wrapped(screen, f"The parents of {threads} form cycles, which are cut.")


def _head(detail: SessionDetail, record_file: RecordFile, now: int) -> Iterator[str]:
    session, total = detail.session, detail.tree.total
    of = f" of {as_cell(session.client)}" if session.client else ""
    yield f"Session {as_cell(session.name)}{of}" + (f", key {as_cell(session.key)}" if session.key else "")
    yield (
        f"started {record_file.day(session.started)} {record_file.moment(session.started, session.started)}, "
        f"last {record_file.moment(detail.ended, session.started)}: {state_of(detail.status, now)}"
    )
    if session.origin:
        yield link_of(session, detail.origin)
    agents = sum(thread.kind == "subagent" for node in detail.tree.nodes for thread in node.threads)
    words = [
        formatting.counted(total.requests, "turn"),
        formatting.counted(agents, "agent") if agents else "",
        _tokens(total),
    ]
    words += [formatting.format_cost(total.cost, total.unpriced), *troubles_of(total)]
    yield ", ".join(word for word in words if word)
    duration = formatting.span(detail.ended - session.started)
    yield f"{duration} from first to last, {formatting.span(total.took)} of model time"


def _tokens(total: SessionFigures) -> str:
    uncached = total.input - total.cache_read - total.cache_write
    words = ("uncached", "read from caches", "written to caches", "out")
    counts = (uncached, total.cache_read, total.cache_write, total.output)
    parts = ", ".join(f"{formatting.tokens(count)} {word}" for count, word in zip(counts, words, strict=True))
    return f"{formatting.tokens(total.input + total.output)} tokens ({parts})"


def _rows(detail: SessionDetail, now: int, *, wide: bool) -> Iterator[tuple[str, ...]]:
    going_on: list[bool] = []
    for node in detail.tree.nodes:
        del going_on[node.depth :]
        guides = _guides(going_on, node)
        going_on.append(not node.last)
        status = detail.statuses[node.thread.id]
        state = "" if node.is_fold else state_of(status, now)
        notable = [state] if state and not wide and status.state in _NOTABLE else []
        yield (
            "" if node.is_fold else str(node.thread.id),
            guides + _called(node),
            as_cell(node.thread.model),
            *([state] if wide else []),
            str(node.own.requests),
            formatting.tokens(node.own.input + node.own.output),
            formatting.format_cost(node.own.cost, node.own.unpriced),
            formatting.format_cost(node.total.cost, node.total.unpriced),
            ", ".join([*notable, *_more(node)]),
        )


def _guides(going_on: list[bool], node: ThreadNode) -> str:
    if not node.depth:
        return ""
    if node.depth > _DEEPEST:
        return f"{'   ' * _DEEPEST}({node.depth} deep) "
    return "".join("│  " if goes_on else "   " for goes_on in going_on[1:]) + ("└─ " if node.last else "├─ ")


def _called(node: ThreadNode) -> str:
    thread = node.thread
    if node.is_fold:
        return f"{as_cell(thread.kind)} × {len(node.threads)}"
    return f"{as_cell(thread.kind)} {as_cell(thread.label)}".strip()


def _more(node: ThreadNode) -> Iterator[str]:
    if node.parent_issue:
        yield _MARKS[node.parent_issue]
    if node.is_uncertain:
        yield f"uncertain: by rule {as_cell(node.thread.rule)} ({node.thread.sure}%)"
    segments = max(thread.windows for thread in node.threads)
    if segments > 1:
        yield f"{segments} segments"
    yield from troubles_of(node.own)


def _full_row(node: ThreadNode, detail: SessionDetail, now: int) -> tuple[str, ...]:
    thread = node.thread
    figures = (node.own, node.total)
    costs = [formatting.format_cost(each.cost, each.unpriced, exact=True) for each in figures]
    cells = (
        *(thread.id, thread.parent, node.depth, thread.kind, thread.label, thread.name, thread.model),
        *(state_of(detail.statuses[thread.id], now), node.own.requests, node.own.input + node.own.output, *costs),
        *(node.own.losses, node.own.errors, thread.windows, thread.rule, thread.sure, node.parent_issue),
    )
    return tuple(map(str, cells))
