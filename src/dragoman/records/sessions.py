"""Recorded sessions as a list, and one of them by its name, with its tree of threads."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from dragoman.records.exchanges import AmbiguousName, NotRecorded
from dragoman.records.thread_status import Opened, ThreadStatus, status_of
from dragoman.records.thread_tree import Tree, tree_of
from dragoman.store.record_queries import KeyScope
from dragoman.store.record_tables import RecordTables
from dragoman.store.records import BUCKET_MICROSECONDS
from dragoman.store.session_queries import SessionFigures, SessionQueries
from dragoman.store.session_tables import SessionRow

# Maximum matches that are shown for an ambiguous text.
_SEVERAL = 5
# The class of threads that others began; in a session of an agent, the main one is it.
_AGENT = "subagent"
_MAIN = "main"


class SessionLine(Struct, frozen=True, kw_only=True):
    """One session in a list, with all its threads."""

    session: SessionRow
    # The session that it continues or was forked from; None if nothing.
    origin: SessionRow | None
    status: ThreadStatus
    # The last activity of the session or one of its agents.
    last: int
    # All of its threads and of those of its agents, and those among them that are agents.
    threads: int
    agents: int
    figures: SessionFigures


class SessionList(Struct, frozen=True, kw_only=True):
    """Sessions active since a time, newest first, whether there are more, and requests without one."""

    lines: tuple[SessionLine, ...]
    more: bool
    # The time and the number of the last one of this page; None if there is no other page.
    next: tuple[int, int] | None
    without: SessionFigures


class SessionDetail(Struct, frozen=True, kw_only=True):
    """One session: its origin, its tree, and the status of each thread."""

    session: SessionRow
    origin: SessionRow | None
    tree: Tree
    # As a whole, and by thread.
    status: ThreadStatus
    statuses: Mapping[int, ThreadStatus]
    # When its last exchange ended, in microseconds.
    ended: int
    agents: int


def listing(
    tables: RecordTables,
    since: int,
    key: str | None,
    most: int,
    opened: Opened,
    now: int,
    *,
    before: tuple[int, int] | None = None,
    scope: KeyScope | None = None,
) -> SessionList:
    """Sessions active since a time, newest first, up to the last one of a page."""
    queries = SessionQueries(tables.connection, scope)
    rows = queries.newest(since, key, most + 1, before)
    more, rows = len(rows) > most, rows[:most]
    numbers = [row.id for row in rows]
    below = queries.below(numbers)
    # The usage of sessions of agents belongs to the session that started them.
    root = {number: number for number in numbers} | {child.id: of for of in below for child in below[of]}
    totals: dict[int, SessionFigures] = {}
    threads: dict[int, int] = {}
    agents: dict[int, int] = {}
    for each in queries.by_class(sorted(root)):
        of = root[each.session]
        totals[of] = totals.get(of, SessionFigures()) + each.figures
        threads[of] = threads.get(of, 0) + each.threads
        if each.kind == _AGENT or (each.kind == _MAIN and each.session != of):
            agents[of] = agents.get(of, 0) + each.threads
    statuses = _statuses(queries, root, opened, now)
    origins = queries.of(row.origin for row in rows if row.origin)
    lines = [
        SessionLine(
            session=_with_origin(row, origins, scope),
            origin=origins.get(row.origin),
            status=statuses[row.id],
            last=max([row.last, *(child.last for child in below.get(row.id, ()))]),
            threads=threads.get(row.id, 0),
            agents=agents.get(row.id, 0),
            figures=totals.get(row.id, SessionFigures()),
        )
        for row in rows
    ]
    is_of_all = key is None and scope is None
    without = queries.without_session(since // BUCKET_MICROSECONDS) if is_of_all else SessionFigures()
    page_end = (rows[-1].last, rows[-1].id) if more else None
    return SessionList(lines=tuple(lines), more=more, next=page_end, without=without)


def _with_origin(row: SessionRow, origins: Mapping[int, SessionRow], scope: KeyScope | None) -> SessionRow:
    """A session without the number of its origin if that is in no scope of its reader."""
    return replace(row, origin=0) if scope is not None and row.origin not in origins else row


def _statuses(queries: SessionQueries, root: Mapping[int, int], opened: Opened, now: int) -> dict[int, ThreadStatus]:
    """The status of sessions with their agents: an open exchange in any of them, else that of the main thread."""
    began: dict[int, int] = {}
    for number, time in opened.sessions.items():
        of = root.get(number, 0)
        began[of] = max(began.get(of, 0), time)
    roots = sorted(set(root.values()))
    speaking = {thread.session: thread for thread in queries.main_threads(roots)}
    last = queries.last_exchanges(speaking.values())
    statuses: dict[int, ThreadStatus] = {}
    for number in roots:
        thread = speaking.get(number)
        kind, exchange = ("", None) if thread is None else (thread.kind, last.get(thread.id))
        statuses[number] = status_of(kind, exchange, began.get(number, 0), now)
    return statuses


def find(tables: RecordTables, text: str, key: str | None = None, scope: KeyScope | None = None) -> SessionRow:
    """The session with this name, or the only one whose name begins with it."""
    rows = SessionQueries(tables.connection, scope).named(text, key, _SEVERAL + 1) if text else []
    if not rows:
        raise NotRecorded(f"there is no session {text!r}", "`dragoman sessions` lists the latest")
    if len(rows) == 1:
        return rows[0]
    if len({row.name for row in rows}) == 1:
        keys = ", ".join(row.key or '""' for row in rows[:_SEVERAL])
        raise AmbiguousName(f"{len(rows)} keys have a session {text!r}: say whose with --key ({keys})")
    names = ", ".join(row.name for row in rows[:_SEVERAL])
    more = " and more" if len(rows) > _SEVERAL else ""
    raise AmbiguousName(f"{text!r} is the beginning of several sessions: {names}{more}")


def session_detail(
    tables: RecordTables,
    session: SessionRow,
    opened: Opened,
    now: int,
    *,
    fold: bool = True,
    scope: KeyScope | None = None,
) -> SessionDetail:
    """A session with all its threads and those of its agents."""
    queries = SessionQueries(tables.connection, scope)
    children = queries.below([session.id]).get(session.id, [])
    numbers = [session.id, *(child.id for child in children)]
    rows = queries.threads(*numbers)
    threads = [thread for thread, _ in rows]
    elsewhere = queries.thread_rows(thread.parent for thread in threads if thread.parent)
    last = queries.last_exchanges(threads)
    ends = [each.time + each.took for each in last.values()]
    origins = queries.of([session.origin])
    return SessionDetail(
        session=_with_origin(session, origins, scope),
        origin=origins.get(session.origin),
        tree=tree_of(rows, fold=fold, elsewhere=elsewhere),
        status=_statuses(queries, dict.fromkeys(numbers, session.id), opened, now)[session.id],
        statuses={
            thread.id: status_of(thread.kind, last.get(thread.id), opened.threads.get(thread.id, 0), now)
            for thread in threads
        },
        ended=max([session.last, *ends]),
        agents=sum(
            thread.kind == _AGENT or (thread.kind == _MAIN and thread.session != session.id) for thread in threads
        ),
    )
