"""`dragoman session`: one session as the tree of its threads, with what each came to, alone and with its children."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.cli import documents, formatting
from dragoman.cli.parser import add_all_losses
from dragoman.cli.record_file import (
    RecordFile,
    add_config,
    looked_into,
    name_of,
    now_in_micro,
    recorded,
    shown,
    write_json,
)
from dragoman.cli.sessions import (
    STATES,
    figures_as_json,
    link_of,
    session_members,
    state_of,
    troubles_of,
    with_all_losses,
)
from dragoman.cli.terminal import Column, OutputScreen, printable, screen_of, table, wrapped
from dragoman.model.jsonvalue import JsonObject, JsonValue

if TYPE_CHECKING:
    from dragoman.records.sessions import SessionDetail
    from dragoman.records.thread_tree import ThreadNode
    from dragoman.store.session_queries import SessionFigures
    from dragoman.store.session_tables import ThreadRow

# Deeper threads are not moved further to the right: their depth is said.
_DEEPEST = 8
_NUMBER = Column(heading="#", right=True)
_NUMBERS = tuple(Column(heading=heading, right=True) for heading in ("TURNS", "TOKENS", "OWN", "WITH CHILDREN"))
_STATE = Column(heading="STATE", styles=STATES)
_COLUMNS = (
    _NUMBER,
    Column(heading="THREAD", least=18),
    Column(heading="MODEL", least=10),
    _STATE,
    *_NUMBERS,
    Column(heading="MORE", below=True),
)
# Where there is no room for it, what a thread is doing is said only if that is of note.
_WIDE = 100
_OF_NOTE = frozenset(STATES)
# Programs get everything in a column of its own.
_WHOLE = (
    _NUMBER,
    *(Column(heading=heading) for heading in ("PARENT", "DEPTH", "CLASS", "LABEL", "NAME", "MODEL")),
    _STATE,
    *_NUMBERS,
    *(Column(heading=heading) for heading in ("LOSSES", "ERRORS", "WINDOWS", "RULE", "SURE", "MARK")),
)
_MARKS = {"missing": "parent not known", "cut": "in a circle of parents, cut here"}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "session",
        help="show a session with its threads",
        description="One session: the tree of its threads with class, model, turns, tokens and money, each alone and "
        "with all that it began. Titles and other small calls are folded by class, unless --all.",
    )
    parser.add_argument("id", metavar="ID", help="its id, or how that begins")
    parser.add_argument("--key", metavar="NAME", help="whose it is, where two keys have the same id")
    parser.add_argument("--all", action="store_true", help="every thread on a line of its own")
    parser.add_argument("--json", action="store_true", help="for programs")
    add_all_losses(parser, "counts of the page")
    add_config(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show the tree."""
    from dragoman.records import live_view, sessions

    kept = recorded(options)
    now = now_in_micro()
    screen = screen_of(sys.stdout, options.color)
    fold = not options.all and not options.json and screen.terminal
    with looked_into(kept) as (tables, status):
        opened = live_view.opened_now(tables, kept.path)
        session = sessions.find(tables, name_of(options.id) or "", name_of(options.key))
        found = sessions.whole(tables, session, opened, now, fold=fold)
    if options.all_losses and not options.json:
        found = with_all_losses(found)
    if options.json:
        write_json(_as_json(found))
    elif screen.terminal:
        documents.say("\n".join(_as_text(found, kept, screen, now)), screen)
    else:
        documents.say(
            "\n".join(table(screen, _WHOLE, [_whole_row(node, found, now) for node in found.tree.nodes])), screen
        )
    return status


def _as_text(found: SessionDetail, kept: RecordFile, screen: OutputScreen, now: int) -> Iterator[str]:
    for line in _head(found, kept, now):
        yield from wrapped(screen, printable(line))
    yield ""
    if screen.width >= _WIDE:
        yield from table(screen, _COLUMNS, list(_rows(found, now, wide=True)))
    else:
        columns = tuple(column for column in _COLUMNS if column is not _STATE)
        yield from table(screen, columns, list(_rows(found, now, wide=False)))
    if found.tree.circles:
        yield ""
        threads = formatting.counted(found.tree.circles, "thread")
        yield from wrapped(screen, f"The parents of {threads} lead back to themselves; such circles are cut.")


def _head(found: SessionDetail, kept: RecordFile, now: int) -> Iterator[str]:
    """What the session is, and what all of it came to."""
    session, total = found.session, found.tree.total
    of = f" of {shown(session.client)}" if session.client else ""
    yield f"Session {shown(session.name)}{of}" + (f", key {shown(session.key)}" if session.key else "")
    yield (
        f"started {kept.day(session.started)} {kept.moment(session.started, session.started)}, "
        f"last {kept.moment(found.ended, session.started)}: {state_of(found.standing, now)}"
    )
    if session.origin:
        yield link_of(session, found.origin)
    agents = sum(thread.kind == "subagent" for node in found.tree.nodes for thread in node.threads)
    words = [
        formatting.counted(total.requests, "turn"),
        formatting.counted(agents, "agent") if agents else "",
        _tokens(total),
    ]
    words += [formatting.money(total.cost, total.unpriced), *troubles_of(total)]
    yield ", ".join(word for word in words if word)
    duration = formatting.span(found.ended - session.started)
    yield f"{duration} from first to last, {formatting.span(total.took)} of model time"


def _tokens(total: SessionFigures) -> str:
    fresh = total.input - total.cache_read - total.cache_write
    parts = (
        f"{formatting.tokens(fresh)} fresh",
        f"{formatting.tokens(total.cache_read)} read from caches",
        f"{formatting.tokens(total.cache_write)} written to caches",
        f"{formatting.tokens(total.output)} out",
    )
    return f"{formatting.tokens(total.input + total.output)} tokens ({', '.join(parts)})"


def _rows(found: SessionDetail, now: int, *, wide: bool) -> Iterator[tuple[str, ...]]:
    """Threads as they are drawn: what hangs below what is seen from the lines before them."""
    going_on: list[bool] = []
    for node in found.tree.nodes:
        del going_on[node.depth :]
        guides = _guides(going_on, node)
        going_on.append(not node.last)
        standing = found.standings[node.thread.id]
        state = "" if node.is_fold else state_of(standing, now)
        noted = [state] if state and not wide and standing.state in _OF_NOTE else []
        yield (
            "" if node.is_fold else str(node.thread.id),
            guides + _called(node),
            shown(node.thread.model),
            *([state] if wide else []),
            str(node.own.requests),
            formatting.tokens(node.own.input + node.own.output),
            formatting.money(node.own.cost, node.own.unpriced),
            formatting.money(node.whole.cost, node.whole.unpriced),
            ", ".join([*noted, *_more(node)]),
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
        return f"{shown(thread.kind)} × {len(node.threads)}"
    return f"{shown(thread.kind)} {shown(thread.label)}".strip()


def _more(node: ThreadNode) -> Iterator[str]:
    """What else there is to say of a thread."""
    if node.mark:
        yield _MARKS[node.mark]
    if node.is_uncertain:
        yield f"uncertain: {_rule(node.thread)}"
    windows = max(thread.windows for thread in node.threads)
    if windows > 1:
        yield f"{windows} windows"
    yield from troubles_of(node.own)


def _rule(thread: ThreadRow) -> str:
    return f"by rule {shown(thread.rule)} ({thread.sure}%)"


def _whole_row(node: ThreadNode, found: SessionDetail, now: int) -> tuple[str, ...]:
    """Everything of a thread, exactly."""
    thread = node.thread
    return (
        str(thread.id),
        str(thread.parent),
        str(node.depth),
        thread.kind,
        thread.label,
        thread.name,
        thread.model,
        state_of(found.standings[thread.id], now),
        str(node.own.requests),
        str(node.own.input + node.own.output),
        formatting.money(node.own.cost, node.own.unpriced, exact=True),
        formatting.money(node.whole.cost, node.whole.unpriced, exact=True),
        str(node.own.losses),
        str(node.own.errors),
        str(thread.windows),
        thread.rule,
        str(thread.sure),
        node.mark,
    )


def _as_json(found: SessionDetail) -> JsonObject:
    told = session_members(found.session, found.origin, found.standing, found.ended)
    return told | {
        "agents": found.agents,
        "wall_microseconds": found.ended - found.session.started,
        "model_microseconds": found.tree.total.took,
        "total": figures_as_json(found.tree.total),
        "circles": found.tree.circles,
        "threads": threads_as_json(found),
    }


def threads_as_json(found: SessionDetail) -> JsonValue:
    """The threads of a session, parents before children, none of them folded."""
    from dragoman.records.exchanges import instant, thread_as_json

    told: list[JsonValue] = []
    for node in found.tree.nodes:
        thread, standing = node.thread, found.standings[node.thread.id]
        told.append(
            {
                **thread_as_json(thread),
                "session_number": thread.session,
                "model": thread.model,
                "parent": thread.parent or None,
                "depth": node.depth,
                "mark": node.mark,
                "windows": thread.windows,
                "started": instant(thread.started),
                "last": instant(thread.last),
                "state": standing.state,
                "state_since": instant(standing.since) if standing.since else None,
                "own": figures_as_json(node.own),
                "with_children": figures_as_json(node.whole),
            }
        )
    return told
