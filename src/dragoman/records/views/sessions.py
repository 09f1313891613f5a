"""Session views: `dragoman sessions --json`, `dragoman session --json` and their endpoints as documents, and back.
Members are added, and never renamed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict, astuple, replace

from dragoman.records.exchanges import instant
from dragoman.records.sessions import SessionDetail, SessionLine, SessionList
from dragoman.records.thread_status import ThreadStatus
from dragoman.records.thread_tree import MISSING, ThreadNode, tree_of
from dragoman.records.usage import UsageFigures, figures_of
from dragoman.records.views.cursors import format_cursor, read_cursor
from dragoman.records.views.exchanges import SessionNameView, ThreadNameView, micro_of, name_view_of, row_of
from dragoman.store.session_queries import SessionFigures
from dragoman.store.session_tables import SessionRow, ThreadRow

_UNCACHED = UsageFigures.__struct_fields__.index("uncached_input_tokens")


class ThreadView(ThreadNameView, frozen=True, kw_only=True):
    """One thread in the tree of a session. `mark` is the reason why it hangs below the session, not below its parent;
    `own` are its figures, `total` those with all threads below it."""

    session_number: int
    model: str
    parent: int | None
    depth: int
    mark: str
    segments: int
    started: str
    last: str
    state: str
    state_since: str | None
    own: UsageFigures
    total: UsageFigures


class SessionLineView(UsageFigures, frozen=True, kw_only=True):
    """One session in a list, with the figures of all its threads; the list with `all` has their tree."""

    id: str
    number: int
    key: str
    client: str
    started: str
    last: str
    state: str
    state_since: str | None
    link: str
    origin: str | None
    origin_number: int | None
    threads: int
    agents: int
    tree: list[ThreadView] | UnsetType = UNSET


class SessionsView(Struct, frozen=True, kw_only=True):
    """Sessions since a time, the latest first. `next` is the parameter `before` of the next page; null if there is
    none. `no_session` are the figures of exchanges without a session."""

    since: str
    until: str
    sessions: list[SessionLineView]
    more: bool
    next: str | None
    no_session: UsageFigures


class SessionStateView(Struct, frozen=True, kw_only=True):
    """One session, the session that it continues, and its state."""

    id: str
    number: int
    key: str
    client: str
    started: str
    last: str
    state: str
    state_since: str | None
    link: str
    origin: str | None
    origin_number: int | None


class SessionView(SessionStateView, frozen=True, kw_only=True):
    """One session with the tree of its threads, parents before children."""

    agents: int
    wall_microseconds: int
    model_microseconds: int
    total: UsageFigures
    circles: int
    threads: list[ThreadView]


class ThreadPageView(ThreadView, frozen=True, kw_only=True):
    """One thread, and the session that it is in."""

    session: SessionNameView


def figures_view(figures: SessionFigures) -> UsageFigures:
    """Figures by the names that `dragoman usage` has."""
    return figures_of(astuple(figures))


def session_figures(view: UsageFigures) -> SessionFigures:
    """The figures that a view was made of."""
    values = [getattr(view, name) for name in UsageFigures.__struct_fields__]
    return SessionFigures(*values[:_UNCACHED], *values[_UNCACHED + 1 :])


def sessions_view(listing: SessionList, details: Mapping[int, SessionDetail], since: int, now: int) -> SessionsView:
    """A list of sessions; those with details have their trees."""
    return SessionsView(
        since=instant(since),
        until=instant(now),
        sessions=[_line_view(line, details.get(line.session.id)) for line in listing.lines],
        more=listing.more,
        next=None if listing.next is None else format_cursor(*listing.next),
        no_session=figures_view(listing.without),
    )


def listing_of(view: SessionsView) -> tuple[SessionList, dict[int, SessionDetail]]:
    """The list that a view was made of, and the details of the sessions with trees."""
    listing = SessionList(
        lines=tuple(map(_line_of, view.sessions)),
        more=view.more,
        next=None if view.next is None else read_cursor(view.next),
        without=session_figures(view.no_session),
    )
    details = {line.number: _line_detail(line, line.tree) for line in view.sessions if line.tree is not UNSET}
    return listing, details


def session_view(detail: SessionDetail) -> SessionView:
    """A session whose tree is not folded."""
    return SessionView(
        **asdict(_state_view(detail.session, detail.origin, detail.status, detail.ended)),
        agents=detail.agents,
        wall_microseconds=detail.ended - detail.session.started,
        model_microseconds=detail.tree.total.took,
        total=figures_view(detail.tree.total),
        circles=detail.tree.circles,
        threads=thread_views(detail),
    )


def detail_of(view: SessionView, *, fold: bool = False) -> SessionDetail:
    """The session that a view was made of."""
    return _detail(view, view.threads, view.agents, fold=fold)


def thread_views(detail: SessionDetail) -> list[ThreadView]:
    """The threads of a session whose tree is not folded, parents before children."""
    return [thread_view(node, detail.statuses[node.thread.id]) for node in detail.tree.nodes]


def thread_view(node: ThreadNode, status: ThreadStatus) -> ThreadView:
    """One thread of a tree."""
    thread = node.thread
    return ThreadView(
        **asdict(name_view_of(thread)),
        session_number=thread.session,
        model=thread.model,
        parent=thread.parent or None,
        depth=node.depth,
        mark=node.parent_issue,
        segments=thread.windows,
        started=instant(thread.started),
        last=instant(thread.last),
        state=status.state,
        state_since=since_view(status),
        own=figures_view(node.own),
        total=figures_view(node.total),
    )


def thread_page_view(detail: SessionDetail, number: int) -> ThreadPageView:
    """The thread with a number, which the session has."""
    session = detail.session
    (view,) = (view for view in thread_views(detail) if view.number == number)
    names = SessionNameView(id=session.name, key=session.key, client=session.client)
    return ThreadPageView(**asdict(view), session=names)


def since_view(status: ThreadStatus) -> str | None:
    """Since when a state lasts; None if that is not known."""
    return instant(status.since) if status.since else None


def status_of_view(state: str, since: str | None) -> ThreadStatus:
    """The state that a view was made of."""
    return ThreadStatus(state, 0 if since is None else micro_of(since))


def _line_view(line: SessionLine, detail: SessionDetail | None) -> SessionLineView:
    return SessionLineView(
        **asdict(_state_view(line.session, line.origin, line.status, line.last)),
        threads=line.threads,
        agents=line.agents,
        tree=UNSET if detail is None else thread_views(detail),
        **asdict(figures_view(line.figures)),
    )


def _state_view(session: SessionRow, origin: SessionRow | None, status: ThreadStatus, last: int) -> SessionStateView:
    return SessionStateView(
        id=session.name,
        number=session.id,
        key=session.key,
        client=session.client,
        started=instant(session.started),
        last=instant(last),
        state=status.state,
        state_since=since_view(status),
        link=session.link,
        origin=None if origin is None else origin.name,
        origin_number=session.origin or None,
    )


def _line_of(view: SessionLineView) -> SessionLine:
    return SessionLine(
        session=_session_row(view),
        origin=_origin_row(view),
        status=status_of_view(view.state, view.state_since),
        last=micro_of(view.last),
        threads=view.threads,
        agents=view.agents,
        figures=session_figures(view),
    )


def _line_detail(view: SessionLineView, tree: list[ThreadView]) -> SessionDetail:
    return _detail(view, tree, view.agents, fold=False)


def _detail(
    view: SessionLineView | SessionView, threads: list[ThreadView], agents: int, *, fold: bool
) -> SessionDetail:
    rows = sorted(((_thread_row(thread), session_figures(thread.own)) for thread in threads), key=_began)
    # Parents that are in none of these sessions, but known.
    elsewhere = {thread.parent for thread in threads if thread.parent is not None and thread.mark != MISSING}
    return SessionDetail(
        session=_session_row(view),
        origin=_origin_row(view),
        tree=tree_of(rows, fold=fold, elsewhere=elsewhere),
        status=status_of_view(view.state, view.state_since),
        statuses={thread.number: status_of_view(thread.state, thread.state_since) for thread in threads},
        ended=micro_of(view.last),
        agents=agents,
    )


def _began(row: tuple[ThreadRow, SessionFigures]) -> tuple[int, int]:
    return row[0].started, row[0].id


def _session_row(view: SessionLineView | SessionView) -> SessionRow:
    return SessionRow(
        id=view.number,
        key=view.key,
        name=view.id,
        client=view.client,
        origin=view.origin_number or 0,
        link=view.link,
        started=micro_of(view.started),
        last=micro_of(view.last),
    )


def _origin_row(view: SessionLineView | SessionView) -> SessionRow | None:
    if view.origin is None:
        return None
    return SessionRow(
        id=view.origin_number or 0, key="", name=view.origin, client="", origin=0, link="", started=0, last=0
    )


def _thread_row(view: ThreadView) -> ThreadRow:
    return replace(
        row_of(view),
        session=view.session_number,
        model=view.model,
        parent=view.parent or 0,
        windows=view.segments,
        started=micro_of(view.started),
        last=micro_of(view.last),
    )
