"""`usage`: recorded exchanges over HTTP, by the queries of the commands. A key with the role `client` gets its own."""

from __future__ import annotations

import time
from typing import Annotated

from msgspec import Meta, Raw, Struct

from dragoman.errors import UsageError
from dragoman.gateway.admin.framework import AdminCall, AdminError
from dragoman.records.time_range import BUCKET_SECONDS, Period, Zone, period_of, zone_of
from dragoman.records.usage import UsageReport, read_groups, usage
from dragoman.store import MEMORY
from dragoman.store.record_queries import KeyScope
from dragoman.store.record_tables import RecordTables
from dragoman.store.usage_queries import UsageQueries

_MICRO = 1_000_000
MAX_GROUPS = 10_000


class UsageParameters(Struct, frozen=True, kw_only=True):
    """`by` is key, model, provider, client, tag, tag:NAME, session, thread or day, several with commas. `since` and
    `until` are 7d, 24h, 90m, today, a date, or a date and time; `since` also `all`. `n` is the number of groups, the
    most expensive first; the others are one."""

    by: str = "model"
    since: str = "7d"
    until: str = ""
    zone: str | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_GROUPS)] | None = None


async def show_usage(call: AdminCall, parameters: UsageParameters) -> Raw:
    """Requests, tokens and cost in groups that add up to the total."""
    path, now = records_of(call), call.services.now() // _MICRO
    try:
        by = read_groups([parameters.by])
        zone = zone_of_call(call) if parameters.zone is None else zone_of(parameters.zone)
        period_of(zone, now, since=parameters.since, until=parameters.until)
    except UsageError as error:
        raise unreadable(error) from None
    most = MAX_GROUPS if parameters.n is None else parameters.n
    scope = scope_of(call)

    def report(tables: RecordTables) -> bytes:
        queries = UsageQueries(tables.connection, scope)
        first = queries.first()
        begins = None if first is None else first * BUCKET_SECONDS
        period: Period = period_of(zone, now, since=parameters.since, until=parameters.until, first=begins)
        found: UsageReport = usage(queries, by, period, most)
        return found.encoded()

    return Raw(await call.services.queries.run(path, call.name, report))


def now_in_micro() -> int:
    """The time it is, in microseconds."""
    return time.time_ns() // 1000


def records_of(call: AdminCall) -> str:
    """The file of the records; an error where none are recorded."""
    storage = call.runtime.settings.storage
    if not storage.path or storage.path == MEMORY:
        raise AdminError(404, "storage.path names no file: nothing is recorded", "name a file in storage.path")
    return storage.path


def scope_of(call: AdminCall) -> KeyScope | None:
    """Whose rows may be read; None for all."""
    return KeyScope(call.name) if call.is_client else None


def zone_of_call(call: AdminCall) -> Zone:
    """The zone of the gateway's days."""
    return zone_of(call.runtime.settings.storage.time_zone)


def unreadable(error: UsageError) -> AdminError:
    """A parameter that cannot be understood."""
    return AdminError(400, str(error), "see /admin/v1/openapi.json")
