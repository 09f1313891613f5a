"""Live view: `dragoman top --json` and `/admin/v1/live` as one document, and back to a snapshot. Members are added, and
never renamed."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from dragoman.records.exchanges import instant
from dragoman.records.live_view import MINUTE, Activity, LiveSnapshot, SessionPlace
from dragoman.records.usage import UsageFigures
from dragoman.records.views.exchanges import (
    SessionNameView,
    ThreadNameView,
    micro_of,
    session_name_view,
    session_row,
    thread_name_view,
    thread_row,
)
from dragoman.records.views.sessions import figures_view, session_figures, since_view, status_of_view

_SECONDS = MINUTE // 1_000_000


class ActivityView(UsageFigures, frozen=True, kw_only=True):
    """One thread, or one requested model: its status, its open exchanges, and the figures of a minute."""

    key: str
    client: str
    session: SessionNameView | None
    thread: ThreadNameView | None
    requested_model: str
    target: str
    state: str
    state_since: str | None
    open: int


class LiveSnapshotView(Struct, frozen=True, kw_only=True):
    """All that goes on at a moment, with the figures of the last `seconds`."""

    time: str
    seconds: int
    open: int
    total: UsageFigures
    rows: list[ActivityView]


def snapshot_view(snapshot: LiveSnapshot) -> LiveSnapshotView:
    """A snapshot as programs get it."""
    return LiveSnapshotView(
        time=instant(snapshot.now),
        seconds=_SECONDS,
        open=snapshot.opened,
        total=figures_view(snapshot.total),
        rows=[_activity_view(activity) for activity in snapshot.activities],
    )


def snapshot_of(view: LiveSnapshotView) -> LiveSnapshot:
    """The snapshot that a view was made of."""
    return LiveSnapshot(
        now=micro_of(view.time),
        opened=view.open,
        activities=tuple(map(_activity_of, view.rows)),
        total=session_figures(view.total),
    )


def _activity_view(activity: Activity) -> ActivityView:
    place, status = activity.place, activity.status
    return ActivityView(
        key=activity.key,
        client=activity.client,
        session=session_name_view(place.session),
        thread=thread_name_view(place.thread),
        requested_model=activity.requested_model,
        target=activity.target,
        state=status.state,
        state_since=since_view(status),
        open=activity.opened,
        **asdict(figures_view(activity.figures)),
    )


def _activity_of(view: ActivityView) -> Activity:
    return Activity(
        key=view.key,
        client=view.client,
        requested_model=view.requested_model,
        target=view.target,
        place=SessionPlace(session_row(view.session), thread_row(view.thread)),
        status=status_of_view(view.state, view.state_since),
        opened=view.open,
        figures=session_figures(view),
    )
