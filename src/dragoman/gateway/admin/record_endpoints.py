"""Record endpoints: usage, exchanges, sessions, threads and live activity, with the queries of the commands. A key with
the role `client` gets its own records: its name is a condition of every query, and the ID of another key's record gives
the same response as an unknown one. Below `/me`, the same holds for every key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Raw, Struct

from dragoman.database_location import DatabaseLocation
from dragoman.errors import UsageError
from dragoman.gateway.admin.framework import AdminCall, AdminEndpoint, AdminError, Nothing, endpoint, of_calling_key
from dragoman.identities.identity import CLIENT
from dragoman.records import exchanges, live_view, sessions
from dragoman.records.deferred_assignment import assign_scope_in, assign_session_in
from dragoman.records.exchanges import AmbiguousName, NotRecorded
from dragoman.records.ids import times_of
from dragoman.records.journal_directory import directory_of
from dragoman.records.time_range import BUCKET_SECONDS, Period, Zone, period_of, zone_of
from dragoman.records.usage import SESSION, THREAD, UsageReport, read_groups, usage
from dragoman.records.views.cursors import format_cursor, read_cursor
from dragoman.records.views.exchanges import ExchangesView, ExchangeView, exchange_view
from dragoman.records.views.live import LiveSnapshotView, snapshot_view
from dragoman.records.views.sessions import (
    SessionsView,
    SessionView,
    ThreadPageView,
    session_view,
    sessions_view,
    thread_page_view,
)
from dragoman.records.views.usage import UsageView
from dragoman.store.identities import Identities
from dragoman.store.record_queries import KeyScope, RecordFilter
from dragoman.store.record_tables import RecordTables
from dragoman.store.session_queries import SessionQueries
from dragoman.store.unassigned import RowScope
from dragoman.store.usage_queries import UsageQueries

_MICRO = 1_000_000
MAX_GROUPS = 10_000
_MAX_EXCHANGES, _MAX_SESSIONS = 1000, 200
_USUAL = 50
# Seconds to wait for the ingest thread. Later entries are missing from the response.
CATCH_UP_SECONDS = 2.0
# Headers of incomplete responses: exchanges without a session yet, and the reason why the latest entries are missing.
UNASSIGNED, INCOMPLETE = b"x-dragoman-unassigned", b"x-dragoman-incomplete"
_NUMBER = (1 << 63) - 1
Assign = Callable[[RecordTables], int]


class UsageParameters(Struct, frozen=True, kw_only=True):
    """`by` is key, model, provider, client, tag, tag:NAME, session, thread or day, several with commas. `since` and
    `until` are 7d, 24h, 90m, today, a date, or a date and time; `since` also `all`. `n` is the number of groups, the
    most expensive first; the others are one."""

    by: str = "model"
    since: str = "7d"
    until: str = ""
    zone: str | None = None
    n: Annotated[int, Meta(ge=1, le=MAX_GROUPS)] | None = None


class ExchangesParameters(Struct, frozen=True, kw_only=True):
    """The latest `n` exchanges, or those `before` a cursor, or those recorded `after` a number. `model` was requested
    or served, with `*` for anything; `errors` are those refused, failed or crashed."""

    since: str = ""
    key: str | None = None
    model: str | None = None
    session: str | None = None
    thread: Annotated[int, Meta(ge=0, le=_NUMBER)] | None = None
    errors: bool = False
    n: Annotated[int, Meta(ge=0, le=_MAX_EXCHANGES)] = _USUAL
    before: str | None = None
    after: Annotated[int, Meta(ge=0, le=_NUMBER)] | None = None


class SessionsParameters(Struct, frozen=True, kw_only=True):
    """`all` adds the tree of each session; `before` is `next` of the page before."""

    since: str = "1d"
    key: str | None = None
    all: bool = False
    n: Annotated[int, Meta(ge=1, le=_MAX_SESSIONS)] = _USUAL
    before: str | None = None


class SessionParameters(Struct, frozen=True, kw_only=True):
    """`key` says whose it is, where two keys have a session of the same id."""

    key: str | None = None


class LiveParameters(Struct, frozen=True, kw_only=True):
    """Activity by thread, or by requested model."""

    by: Literal["thread", "model"] = "thread"


async def show_usage(call: AdminCall, parameters: UsageParameters) -> Raw:
    """Requests, tokens and cost in groups that add up to the total."""
    now, scope = call.services.now() // _MICRO, scope_of(call)
    try:
        by = read_groups([parameters.by])
        zone = zone_of_call(call) if parameters.zone is None else zone_of(parameters.zone)
        whole = period_of(zone, now, since=parameters.since, until=parameters.until, first=0)
    except UsageError as error:
        raise unreadable(error) from None
    most = MAX_GROUPS if parameters.n is None else parameters.n

    def report(tables: RecordTables) -> Raw:
        queries = UsageQueries(tables.connection, scope)
        first = queries.first()
        begins = None if first is None else first * BUCKET_SECONDS
        try:
            period: Period = period_of(zone, now, since=parameters.since, until=parameters.until, first=begins)
        except UsageError as error:
            # "all" begins with the first record, which may be later than the end.
            raise unreadable(error) from None
        found: UsageReport = usage(queries, by, period, most)
        return Raw(found.encoded())

    assign = _assign_times(scope, None, whole.since * _MICRO, whole.until * _MICRO)
    return await _query(call, report, assign if {SESSION, THREAD} & {*by} else None)


async def list_exchanges(call: AdminCall, parameters: ExchangesParameters) -> Raw:
    """Exchanges, the latest last, by pages."""
    scope = scope_of(call)
    since = since_of(call, parameters.since) if parameters.since else 0
    before = cursor_of(parameters.before)
    most, named = parameters.n, parameters.session

    def listed(tables: RecordTables) -> ExchangesView:
        session = None if named is None else sessions.find(tables, named, parameters.key, scope).id
        wanted = RecordFilter(
            since=since,
            key=parameters.key,
            model=parameters.model,
            errors=parameters.errors,
            session=session,
            thread=parameters.thread,
            before=before,
        )
        newest = exchanges.newest(tables)
        if parameters.after is not None:
            # The number falls if exchanges were erased.
            batch = exchanges.after(tables, min(parameters.after, newest), wanted, most, scope)
            last = batch[-1].number if most and len(batch) == most else newest
            return _page(batch, before=None, after=last, call=call)
        batch = exchanges.latest(tables, wanted, most + 1, scope)
        has_more, batch = len(batch) > most, batch[-most:] if most else []
        page_begin = format_cursor(batch[0].entry.time, batch[0].number) if batch and has_more else None
        return _page(batch, before=page_begin, after=newest, call=call)

    assign = (
        _assign_times(scope, parameters.key, since) if named is None else _assign_session(scope, parameters.key, named)
    )
    return await _query(call, listed, assign)


async def show_exchange(call: AdminCall, _: Nothing) -> Raw:
    """One exchange, by the start of its ID, the provider's ID, or the response ID."""
    text, scope, path = name_in_path(call, "id"), scope_of(call), records_of(call)

    def found(tables: RecordTables) -> ExchangeView:
        exchange = exchanges.find(tables, text, directory_of(path), scope)
        return exchange_view(exchange, for_client=call.is_client)

    # Stored responses are found by their threads.
    times = times_of(text)
    assign = _assign_times(scope, None) if times is None else _assign_times(scope, None, times[0], times[1] + 1)
    return await _query(call, found, assign)


async def list_sessions(call: AdminCall, parameters: SessionsParameters) -> Raw:
    """Sessions, the latest first, by pages."""
    scope, now, path = scope_of(call), call.services.now(), records_of(call)
    since, before = since_of(call, parameters.since), cursor_of(parameters.before)

    def listed(tables: RecordTables) -> SessionsView:
        opened = live_view.opened_now(tables, path, scope)
        page = sessions.listing(tables, since, parameters.key, parameters.n, opened, now, before=before, scope=scope)
        details = {
            line.session.id: sessions.session_detail(tables, line.session, opened, now, fold=False, scope=scope)
            for line in page.lines
            if parameters.all
        }
        return sessions_view(page, details, since, now)

    return await _query(call, listed, _assign_times(scope, parameters.key, since))


async def show_session(call: AdminCall, parameters: SessionParameters) -> Raw:
    """One session with the tree of its threads, by the start of its ID."""
    text, scope, now, path = name_in_path(call, "id"), scope_of(call), call.services.now(), records_of(call)

    def found(tables: RecordTables) -> SessionView:
        opened = live_view.opened_now(tables, path, scope)
        session = sessions.find(tables, text, parameters.key, scope)
        return session_view(sessions.session_detail(tables, session, opened, now, fold=False, scope=scope))

    return await _query(call, found, _assign_session(scope, parameters.key, text))


async def show_thread(call: AdminCall, _: Nothing) -> Raw:
    """One thread of a session, by its number."""
    text, scope, now, path = name_in_path(call, "id"), scope_of(call), call.services.now(), records_of(call)
    missing = AdminError(404, f"there is no thread {text!r}", "a session lists its threads with their numbers")
    if not (text.isascii() and text.isdigit() and len(text) < len(str(_NUMBER))):
        raise missing
    number = int(text)

    def found(tables: RecordTables) -> ThreadPageView:
        queries = SessionQueries(tables.connection, scope)
        thread = queries.thread_rows([number]).get(number)
        session = None if thread is None else queries.of([thread.session]).get(thread.session)
        if session is None:
            raise missing
        opened = live_view.opened_now(tables, path, scope)
        detail = sessions.session_detail(tables, session, opened, now, fold=False, scope=scope)
        return thread_page_view(detail, number)

    return await _query(call, found, None)


async def show_live(call: AdminCall, parameters: LiveParameters) -> Raw:
    """Open exchanges, and the figures of the last minute."""
    scope, path = scope_of(call), records_of(call)
    by_model = parameters.by == "model"

    def look(tables: RecordTables) -> LiveSnapshotView:
        return snapshot_view(live_view.LiveView(path, by_model=by_model, scope=scope).look(tables, call.services.now()))

    return await _query(call, look, _assign_times(scope, None, live_view.looked_back(call.services.now())))


_LISTS: tuple[AdminEndpoint, ...] = (
    endpoint("GET", "/usage", CLIENT, "requests, tokens and cost in groups", show_usage, UsageParameters, UsageView),
    endpoint("GET", "/exchanges", CLIENT, "exchanges, newest last", list_exchanges, ExchangesParameters, ExchangesView),
    endpoint("GET", "/sessions", CLIENT, "sessions, newest first", list_sessions, SessionsParameters, SessionsView),
)
RECORD_ENDPOINTS: tuple[AdminEndpoint, ...] = (
    *_LISTS,
    *map(of_calling_key, _LISTS),
    endpoint("GET", "/exchanges/{id}", CLIENT, "one exchange", show_exchange, Nothing, ExchangeView),
    endpoint(
        "GET", "/sessions/{id}", CLIENT, "one session with its threads", show_session, SessionParameters, SessionView
    ),
    endpoint("GET", "/threads/{id}", CLIENT, "one thread by its number", show_thread, Nothing, ThreadPageView),
    endpoint(
        "GET",
        "/live",
        CLIENT,
        "open exchanges, and totals of the last minute",
        show_live,
        LiveParameters,
        LiveSnapshotView,
    ),
)


def now_in_micro() -> int:
    return time.time_ns() // 1000


def records_of(call: AdminCall) -> DatabaseLocation:
    """The database of the records, or an error if none are recorded."""
    storage = call.runtime.settings.storage
    if not storage.is_persistent:
        raise AdminError(404, "storage.path names no file: nothing is recorded", "name a file in storage.path")
    return storage.location


def scope_of(call: AdminCall) -> KeyScope | None:
    """The key whose rows may be read; None for all."""
    return KeyScope(call.name) if call.is_client else None


def zone_of_call(call: AdminCall) -> Zone:
    return zone_of(call.runtime.settings.storage.time_zone)


def since_of(call: AdminCall, text: str) -> int:
    """The start of the period that a parameter `since` means, in microseconds."""
    try:
        now = call.services.now() // _MICRO
        return period_of(zone_of_call(call), now, since=text, first=0).requested_since * _MICRO
    except UsageError as error:
        raise unreadable(error) from None


def cursor_of(text: str | None) -> tuple[int, int] | None:
    """The position that a parameter `before` means."""
    try:
        return None if text is None else read_cursor(text)
    except UsageError as error:
        raise unreadable(error) from None


def name_in_path(call: AdminCall, name: str) -> str:
    """A path parameter, decoded."""
    return unquote(call.path[name], errors="replace")


def unreadable(error: UsageError) -> AdminError:
    """The error for an invalid parameter. The original error may name it like the option of a command."""
    return AdminError(400, str(error).removeprefix("--"), "see /admin/v1/openapi.json")


def _page(batch: list[exchanges.RecordedExchange], *, before: str | None, after: int, call: AdminCall) -> ExchangesView:
    views = [exchange_view(exchange, for_client=call.is_client) for exchange in batch]
    return ExchangesView(exchanges=views, before=before, after=after)


def _assign_times(scope: KeyScope | None, key: str | None, since: int = 0, until: int = _NUMBER) -> Assign:
    """Assigns the sessions of the rows in a period."""
    key = key if scope is None else scope.key
    return partial(assign_scope_in, scope=RowScope(since=since, until=until, key=key))


def _assign_session(scope: KeyScope | None, key: str | None, text: str) -> Assign:
    """Assigns the rows of the sessions that a text names."""
    return partial(assign_session_in, text=text, key=key if scope is None else scope.key)


async def _query(call: AdminCall, query: Callable[[RecordTables], Struct | Raw], assign: Assign | None) -> Raw:
    """Run a query and encode its result in its thread. Journals are ingested first, and the shown rows assigned to
    sessions."""
    path = records_of(call)

    def encoded(tables: RecordTables) -> Raw:
        _require_name(call, tables)
        return Raw(msgspec.json.encode(query(tables)))

    try:
        return await call.services.queries.run(path, call.name, encoded, partial(_catch_up, call, assign))
    except NotRecorded as error:
        raise AdminError(404, error.problem, error.remedy) from None
    except AmbiguousName as error:
        raise AdminError(409, str(error), "give more of the id") from None


def _require_name(call: AdminCall, tables: RecordTables) -> None:
    """Reject a client whose name belongs to another owner: records are stored by name, and may be the other owner's."""
    identity = call.identity
    if identity is None or not call.is_client:
        return
    owner = Identities(tables.connection).owner_of(identity.name)
    if owner not in (None, identity.owner):
        remedy = f"set owner in [keys.{identity.name}] to the first hash of the key, or give the key another name"
        raise AdminError(403, "records under the name of this key are those of another key", remedy)


async def _catch_up(call: AdminCall, assign: Assign | None) -> None:
    """Have the ingest thread read the journals. Headers report what is missing."""
    result = call.runtime.usage_recorder.catch_up(assign)
    if result is None:
        return
    try:
        caught_up = await asyncio.wait_for(asyncio.wrap_future(result), CATCH_UP_SECONDS)
    except TimeoutError:
        call.headers.append((INCOMPLETE, b"ingestion takes longer"))
        return
    if caught_up.problem:
        call.headers.append((INCOMPLETE, b"ingestion fails: see the gateway's log"))
    if caught_up.left:
        call.headers.append((UNASSIGNED, str(caught_up.left).encode()))
