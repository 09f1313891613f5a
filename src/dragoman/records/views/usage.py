"""Usage view: `dragoman usage --json` and `/admin/v1/usage` as one document, and back to a report."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from dragoman.records.time_range import Period, Zone, zone_of
from dragoman.records.usage import ONE_TAG, OtherGroups, UsageFigures, UsageReport, names_of

_LOCAL = "local"


class UsageRow(UsageFigures, frozen=True, kw_only=True):
    """One group: its names, and its figures. A forgotten session or thread has null names."""

    day: str | UnsetType = UNSET
    key: str | UnsetType | None = UNSET
    model: str | UnsetType = UNSET
    provider: str | UnsetType = UNSET
    client: str | UnsetType | None = UNSET
    # All tags as one text, and the values of the tags that it is grouped by.
    tag: str | UnsetType = UNSET
    tags: dict[str, str] | UnsetType = UNSET
    session: str | UnsetType | None = UNSET
    session_id: int | UnsetType | None = UNSET
    thread: str | UnsetType | None = UNSET
    thread_id: int | UnsetType | None = UNSET
    thread_class: str | UnsetType | None = UNSET
    label: str | UnsetType | None = UNSET


class OtherGroupsView(UsageFigures, frozen=True, kw_only=True):
    """All groups beyond the requested number, as one."""

    groups: int = 0


class UsageView(Struct, frozen=True, kw_only=True):
    """Figures of a period in groups that add up to the total. `widened` states whether the period was extended to whole
    15-minute buckets."""

    since: str
    until: str
    zone: str
    widened: bool = False
    by: list[str]
    rows: list[UsageRow]
    rest: OtherGroupsView | UnsetType = UNSET
    total: UsageFigures


def report_of(view: UsageView) -> UsageReport:
    """The report that a view was made of."""
    zone = Zone(name=_LOCAL, rules=None) if view.zone == _LOCAL else zone_of(view.zone)
    since, until = (int(datetime.fromisoformat(text).timestamp()) for text in (view.since, view.until))
    names = names_of(view.by)
    figures = UsageFigures.__struct_fields__
    rows = [_named(row) for row in view.rows]
    rest = view.rest
    return UsageReport(
        period=Period(
            zone=zone,
            since=since,
            until=until,
            requested_since=since + view.widened,
            requested_until=until,
        ),
        by=tuple(view.by),
        names=names,
        rows=[tuple(row[name] for name in (*names, *figures)) for row in rows],
        total=view.total,
        rest=None if rest is UNSET else OtherGroups(rest.groups, msgspec.convert(asdict(rest), UsageFigures)),
    )


def _named(row: UsageRow) -> dict[str, str | int | None]:
    """The members of a row by the names of the groups."""
    tags = {} if row.tags is UNSET else row.tags
    return {**asdict(row), **{f"{ONE_TAG}{name}": value for name, value in tags.items()}}
