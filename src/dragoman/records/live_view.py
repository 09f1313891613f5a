"""Live view: open exchanges, from journals, and the last minute, from rows. An opened exchange is open while a worker
holds its journal. Journals are read on from the last offset."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dragoman.database_location import DatabaseLocation
from dragoman.records.journal_directory import directory_of, journals_in
from dragoman.records.journal_entry import ANSWERED, CANCELLED, CONVERSATION, JournalEntry
from dragoman.records.journal_reader import read_update
from dragoman.records.thread_status import Opened, ThreadStatus, status_of
from dragoman.store.migrations.sqlite import MEASURES
from dragoman.store.record_queries import WRONG, KeyScope, RecordFilter, RecordQueries
from dragoman.store.record_tables import RecordTables
from dragoman.store.records import RecordRow
from dragoman.store.session_queries import LastExchange, SessionFigures, SessionQueries
from dragoman.store.session_tables import SessionRow, ThreadRow

MINUTE = 60_000_000
# Age in microseconds up to which exchanges are searched for recent ends: one that ended in the last minute may have
# taken a while.
_LOOKED_BACK = 30 * MINUTE
_AT_ONCE = 10_000


class OpenExchanges:
    """Open exchanges in the journals of a directory."""

    def __init__(self, database: DatabaseLocation) -> None:
        self._directory = directory_of(database)
        self._followed: dict[str, _Followed] = {}

    def look(self) -> list[JournalEntry]:
        """The open exchanges, in the order in which they began."""
        journals = journals_in(self._directory)
        names = {journal.name for journal in journals}
        self._followed = {name: each for name, each in self._followed.items() if name in names}
        for journal in journals:
            self._followed.setdefault(journal.name, _Followed()).read_on(journal)
        opened: dict[str, JournalEntry] = {}
        for each in self._followed.values():
            opened.update(each.opened)
        # An exchange that a journal carried over may be finalized in the next one.
        for each in self._followed.values():
            for name in each.finalized:
                opened.pop(name, None)
        return sorted(opened.values(), key=lambda entry: (entry.time, entry.id))


class _Followed:
    """One journal, as far as it was read."""

    __slots__ = ("_at", "finalized", "opened")

    def __init__(self) -> None:
        self._at = 0
        self.opened: dict[str, JournalEntry] = {}
        # Exchanges whose opening entry was not read: it may be in an earlier journal.
        self.finalized: set[str] = set()

    def read_on(self, journal: Path) -> None:
        try:
            descriptor = os.open(journal, os.O_RDONLY)
        except FileNotFoundError:
            # Another process has ingested it.
            self.opened.clear()
            return
        try:
            while True:
                update = read_update(descriptor, self._at)
                if update.end == self._at:
                    return
                self._at = update.end
                self.opened.update(update.opened)
                for name in update.finalized:
                    self.opened.pop(name, None)
                    self.finalized.add(name)
        finally:
            os.close(descriptor)


class SessionPlace(Struct, frozen=True):
    """Session and thread of an open exchange, as far as known before it is finalized."""

    session: SessionRow | None = None
    thread: ThreadRow | None = None


def places_of(
    tables: RecordTables, opened: Iterable[JournalEntry], scope: KeyScope | None = None
) -> dict[str, SessionPlace]:
    """Sessions and threads of open exchanges by ID: named by clients, and known."""
    queries = SessionQueries(tables.connection, scope)
    # Many are open in few sessions.
    sessions: dict[tuple[str, str], SessionRow | None] = {}
    threads: dict[int, list[ThreadRow]] = {}
    places: dict[str, SessionPlace] = {}

    def called(key: str, name: str) -> SessionRow | None:
        if (key, name) not in sessions:
            rows = queries.named(name, key, 1) if name else []
            sessions[key, name] = next((row for row in rows if row.name == name), None)
        return sessions[key, name]

    for entry in opened:
        facts = entry.facts
        session, name = called(entry.key, facts.session), facts.thread
        if session is None and facts.parent:
            # Some clients give agents sessions of their own, which are threads of another one.
            session, name = called(entry.key, facts.parent), facts.session
        thread: ThreadRow | None = None
        if session is not None:
            if session.id not in threads:
                threads[session.id] = [row for row, _ in queries.threads(session.id)]
            named = [row for row in threads[session.id] if name and row.name == name]
            main = [row for row in threads[session.id] if not name and row.kind == "main"]
            thread = next(reversed(named or main), None)
        places[entry.id] = SessionPlace(session, thread)
    return places


def _owned(entries: list[JournalEntry], scope: KeyScope | None) -> list[JournalEntry]:
    """The entries in a scope."""
    if scope is None:
        return entries
    return [entry for entry in entries if entry.key == scope.key]


def latest_by(
    opened: Iterable[JournalEntry], places: Mapping[str, SessionPlace], number: Callable[[SessionPlace], int]
) -> dict[int, int]:
    """When the latest open exchange began, by the number of a session or a thread; 0 is none."""
    latest: dict[int, int] = {}
    for entry in opened:
        of = number(places.get(entry.id, SessionPlace()))
        if of and entry.kind == CONVERSATION:
            latest[of] = max(latest.get(of, 0), entry.time)
    return latest


def opened_now(tables: RecordTables, database: DatabaseLocation, scope: KeyScope | None = None) -> Opened:
    """Where something is open, and since when."""
    entries = _owned(OpenExchanges(database).look(), scope)
    places = places_of(tables, entries, scope)
    return Opened(
        sessions=latest_by(entries, places, session_number), threads=latest_by(entries, places, thread_number)
    )


def session_number(place: SessionPlace) -> int:
    """The number of a place's session; 0 is none."""
    return 0 if place.session is None else place.session.id


def thread_number(place: SessionPlace) -> int:
    """The number of a place's thread; 0 is none."""
    return 0 if place.thread is None else place.thread.id


class LastMinute:
    """The exchanges that were settled in the last minute."""

    def __init__(self, scope: KeyScope | None = None) -> None:
        self._scope = scope
        self._rows: list[RecordRow] = []
        self._number: int | None = None

    def look(self, tables: RecordTables, now: int) -> list[RecordRow]:
        """Exchanges that were finalized in the last minute, as far as they are in the database."""
        queries = RecordQueries(tables.connection, self._scope)
        if self._number is None:
            self._number = queries.newest()
            self._rows.extend(reversed(queries.latest(RecordFilter(since=now - _LOOKED_BACK), _AT_ONCE)))
        while rows := queries.after(self._number, RecordFilter(), _AT_ONCE):
            self._number = rows[-1].number
            self._rows.extend(rows)
        self._rows = [row for row in self._rows if row.time + row.took > now - MINUTE]
        # Sessions may have been assigned since the rows were read.
        assigned = queries.places(row.number for row in self._rows if not row.session)
        for at, row in enumerate(self._rows):
            if row.number in assigned:
                session, thread = assigned[row.number]
                self._rows[at] = replace(row, session=session, thread=thread)
        return self._rows


def looked_back(now: int) -> int:
    """Since when exchanges are looked at, in microseconds."""
    return now - _LOOKED_BACK


class Activity(Struct, frozen=True, kw_only=True):
    """An active thread, or a requested model: its open requests, and the totals of the last minute."""

    key: str
    client: str
    requested_model: str
    target: str
    place: SessionPlace
    status: ThreadStatus
    opened: int
    figures: SessionFigures


class LiveSnapshot(Struct, frozen=True, kw_only=True):
    """The live view at one moment: open exchanges first, then the most expensive."""

    now: int
    opened: int
    activities: tuple[Activity, ...]
    total: SessionFigures


class LiveView:
    """The live view, refreshed repeatedly: by thread, or by model."""

    def __init__(self, database: DatabaseLocation, *, by_model: bool = False, scope: KeyScope | None = None) -> None:
        self._opened = OpenExchanges(database)
        self._minute = LastMinute(scope)
        self._by_model = by_model
        self._scope = scope

    def look(self, tables: RecordTables, now: int) -> LiveSnapshot:
        opened = _owned(self._opened.look(), self._scope)
        rows = self._minute.look(tables, now)
        places = places_of(tables, opened, self._scope)
        queries = SessionQueries(tables.connection, self._scope)
        sessions = queries.of(row.session for row in rows)
        threads = queries.thread_rows(row.thread for row in rows)
        groups: dict[Hashable, _Group] = {}
        for row in rows:
            place = SessionPlace(sessions.get(row.session), threads.get(row.thread))
            groups.setdefault(self._group(row, place), _Group(row, place)).add_finalized(row)
        for entry in opened:
            place = places[entry.id]
            groups.setdefault(self._group(entry, place), _Group(entry, place)).add_open(entry)
        activities = [group.to_activity(now) for group in groups.values()]
        activities.sort(
            key=lambda each: (each.opened, each.figures.cost, each.figures.requests, each.status.since), reverse=True
        )
        total = sum((activity.figures for activity in activities), SessionFigures())
        return LiveSnapshot(now=now, opened=len(opened), activities=tuple(activities), total=total)

    def _group(self, of: RecordRow | JournalEntry, place: SessionPlace) -> Hashable:
        if self._by_model:
            return _requested_model(of), of.provider, of.model
        return of.key, session_number(place), thread_number(place), "" if place.session else of.client


class _Group:
    """One entry of the view while it is built."""

    __slots__ = ("_figures", "_last", "_latest", "_of", "_opened", "_place")

    def __init__(self, of: RecordRow | JournalEntry, place: SessionPlace) -> None:
        self._of = of
        self._place = place
        self._figures = SessionFigures()
        self._last: LastExchange | None = None
        self._latest = 0
        self._opened = 0

    def add_finalized(self, row: RecordRow) -> None:
        self._of = row
        self._figures += figures_of(row)
        last = self._last
        if row.kind == CONVERSATION and (last is None or row.time + row.took >= last.time + last.took):
            self._last = LastExchange(row.thread, row.time, row.took, row.outcome, row.stop)

    def add_open(self, entry: JournalEntry) -> None:
        self._of = entry
        self._opened += 1
        self._latest = max(self._latest, entry.time)

    def to_activity(self, now: int) -> Activity:
        of, place = self._of, self._place
        kind = "" if place.thread is None else place.thread.kind
        return Activity(
            key=of.key,
            client=of.client,
            requested_model=_requested_model(of),
            target=f"{of.provider}/{of.model}" if of.provider else "",
            place=place,
            status=status_of(kind, self._last, self._latest, now),
            opened=self._opened,
            figures=self._figures,
        )


def figures_of(row: RecordRow) -> SessionFigures:
    """The contribution of one row to totals."""
    talk, wrong = row.kind == CONVERSATION, row.outcome in WRONG
    counts = talk and (wrong or row.outcome == ANSWERED)
    first = row.first or 0
    measures = (
        *(counts, talk and wrong, talk and row.outcome == CANCELLED, not talk),
        # Rows and sums call these alike.
        *(getattr(row, name) or 0 for name in MEASURES[4:14]),
        *(row.took if counts else 0, first if counts else 0, counts and first > 0, row.bookkeeping),
    )
    return SessionFigures(*map(int, measures))


def _requested_model(of: RecordRow | JournalEntry) -> str:
    return of.requested_model if isinstance(of, JournalEntry) else of.asked
