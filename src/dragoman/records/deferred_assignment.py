"""Deferred assignment: the second stage of ingestion, which gives rows their sessions and threads (decision 44).
`DeferredAssigner` makes one step in one transaction; `assign_scope` is called by commands for the rows that they
show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import msgspec

from dragoman.database_location import DatabaseLocation, is_persistent
from dragoman.records.ids import times_of
from dragoman.records.journal_entry import JournalEntry
from dragoman.records.rows import facts_of
from dragoman.records.thread_assignment import ThreadAssigner
from dragoman.sessions.assign import SYNTHETIC_PREFIX
from dragoman.sessions.facts import ExchangeFacts
from dragoman.sessions.relations import relations_of, session_relation, sought_relations
from dragoman.store.record_queries import RecordQueries
from dragoman.store.record_tables import RecordTables, open_record_tables
from dragoman.store.session_queries import SessionQueries
from dragoman.store.unassigned import RowScope, UnassignedRow

# Rows with which a step starts, and its maximum with all connected rows.
STEP_ROWS, _MAX_STEP_ROWS = 100, 400
# Newest rows that a command assigns, and its maximum with all connected rows.
SHOWN_ROWS, _MAX_SHOWN_ROWS = 1000, 5000
_decode_facts = msgspec.json.Decoder(ExchangeFacts).decode


class DeferredAssigner:
    """Assigns rows in steps. `assigned` counts them."""

    def __init__(self, tables: RecordTables) -> None:
        self._tables = tables
        self.assigned = 0

    def assign_oldest(self, most: int = STEP_ROWS) -> int:
        """Assign some of the rows that were ingested first; give how many, 0 if none is left."""
        tables = self._tables
        # A step without work takes no lock.
        with tables.reading():
            if not tables.unassigned.oldest(1) and not tables.unassigned.has_stray_relations():
                return 0
        return self._step(lambda: tables.unassigned.oldest(most))

    def assign_rows(self, numbers: Sequence[int]) -> int:
        """Assign rows, as far as they are unassigned and a step holds them; give how many."""
        return self._step(lambda: self._tables.unassigned.present(numbers))

    def assign_related(self, relations: Sequence[int]) -> int:
        """Assign the first rows with some relations; give how many, 0 if none is left."""
        return self._step(lambda: self._tables.unassigned.related(relations, STEP_ROWS))

    def _step(self, select: Callable[[], list[int]]) -> int:
        """One transaction, which holds the write lock while it selects: no row is assigned twice."""
        tables = self._tables
        with tables.transaction():
            numbers = select()
            if not numbers:
                tables.unassigned.remove_stray_relations()
                return 0
            rows = self._connected(numbers)
            assigner = ThreadAssigner(tables.sessions)
            entries = [entry for _, entry in rows]
            assigner.expect(entries)
            places = [(assigner.assign_thread(entry), number) for number, entry in rows]
            assigner.finish()
            tables.unassigned.assign(
                [(place.session, place.thread, number) for place, number in places],
                [(relation, number) for number, entry in rows for relation in relations_of(entry.facts)],
            )
        self.assigned += len(rows)
        return len(rows)

    def _connected(self, numbers: Sequence[int]) -> list[tuple[int, JournalEntry]]:
        """Rows with all that relations connect with them, the first ingested of them, in that order."""
        unassigned = self._tables.unassigned
        found: dict[int, JournalEntry] = {}
        followed: set[int] = set()
        added = list(numbers)
        while added:
            found |= {row.number: _entry_of(row) for row in unassigned.rows(added)}
            if len(found) > _MAX_STEP_ROWS:
                break
            relations = {relation for number in added for relation in sought_relations(found[number].facts)} - followed
            followed |= relations
            related = unassigned.related(sorted(relations), _MAX_STEP_ROWS)
            added = list(dict.fromkeys(number for number in related if number not in found))
        return sorted(found.items(), key=lambda row: row[0])[:_MAX_STEP_ROWS]


def assign_scope(database: DatabaseLocation, scope: RowScope) -> int:
    """Assign the latest rows of a scope in the file; give how many are left in it."""
    if not is_persistent(database) or not _count(database, scope):
        return 0
    with closing(_opened(database)) as tables:
        return assign_scope_in(tables, scope)


def assign_scope_in(tables: RecordTables, scope: RowScope) -> int:
    """The same in an open file."""
    assigner = DeferredAssigner(tables)
    with tables.reading():
        numbers = tables.unassigned.newest(scope, SHOWN_ROWS)
    for at in range(0, len(numbers), STEP_ROWS):
        while assigner.assigned < _MAX_SHOWN_ROWS and assigner.assign_rows(numbers[at : at + STEP_ROWS]):
            """A step may hold fewer rows."""
    with tables.reading():
        return tables.unassigned.count(scope)


def assign_session(database: DatabaseLocation, text: str, key: str | None) -> int:
    """Assign the rows of the sessions that a text names, as `sessions.find` reads it; give how many are left."""
    if not is_persistent(database) or not _count(database, RowScope()):
        return 0
    with closing(_opened(database)) as tables:
        return assign_session_in(tables, text, key)


def assign_session_in(tables: RecordTables, text: str, key: str | None) -> int:
    """The same in an open file."""
    with tables.reading():
        if not tables.unassigned.oldest(1):
            return 0
        relations = _relations_of_sessions(tables, text, key)
    assigner = DeferredAssigner(tables)
    while assigner.assigned < _MAX_SHOWN_ROWS and assigner.assign_related(relations):
        """Until none is left."""
    with tables.reading():
        return len(tables.unassigned.related(relations, SHOWN_ROWS))


def assign_all(tables: RecordTables, key: str, session: int) -> None:
    """Assign every row of a gateway key or, if it is not 0, of a session, before it is erased."""
    assigner = DeferredAssigner(tables)
    if not tables.unassigned.oldest(1):
        return
    if session:
        row = tables.sessions.session_of(session)
        relations = [] if row is None else _relations_of_sessions(tables, row.name, row.key)
        while assigner.assign_related(relations):
            """Until none is left."""
        return
    while numbers := tables.unassigned.newest(RowScope(key=key), STEP_ROWS):
        assigner.assign_rows(numbers)


def _relations_of_sessions(tables: RecordTables, text: str, key: str | None) -> list[int]:
    """The relations by which rows belong to sessions: names, and how the histories of their threads begin. A session
    that is called after an exchange may not be there before that is assigned."""
    queries, relations = SessionQueries(tables.connection), {session_relation(text)}
    rows = queries.named(text, key, SHOWN_ROWS) if text else []
    for thread, _ in queries.threads(*[row.id for row in rows]):
        stored = tables.sessions.thread_of(thread.id)
        if stored is not None:
            relations.update(relations_of(_decode_facts(stored.facts)))
    relations.update(session_relation(row.name) for row in rows)
    times = times_of(text.removeprefix(SYNTHETIC_PREFIX)) if text.startswith(SYNTHETIC_PREFIX) else None
    if times is not None:
        begun = RecordQueries(tables.connection).between(text.removeprefix(SYNTHETIC_PREFIX), *times, SHOWN_ROWS)
        for row in begun:
            relations.update(relations_of(facts_of(row.details)))
    return sorted(relations)


def _opened(database: DatabaseLocation) -> RecordTables:
    """The file, for steps that need not be on the disk at once: one that a power failure takes back is made again."""
    tables = open_record_tables(database)
    tables.connection.set_durable(False)
    return tables


def _count(database: DatabaseLocation, scope: RowScope) -> int:
    """The number of rows in a scope, by a read-only connection."""
    with closing(open_record_tables(database, read_only=True)) as tables, tables.reading():
        return tables.unassigned.count(scope)


def _entry_of(row: UnassignedRow) -> JournalEntry:
    """An exchange as far as its assignment depends on it."""
    return JournalEntry(
        row.id,
        row.time,
        row.outcome,
        row.kind,
        row.key,
        row.client,
        requested_model=row.requested_model,
        model=row.model,
        facts=facts_of(row.details),
    )
