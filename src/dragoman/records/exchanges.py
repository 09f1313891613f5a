"""Recorded requests as a list, as they arrive, or one by any of its IDs, with details."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import DragomanError
from dragoman.records.digest_key import NAME as SECRET
from dragoman.records.digest_key import key_of, secret_in
from dragoman.records.ids import exchange_of, times_of
from dragoman.records.journal_entry import CRASHED, JournalEntry, TokenCounts
from dragoman.records.record_fields import COLUMN_FIELDS
from dragoman.records.rows import details_of, facts_of, is_unpriced
from dragoman.rules.ids import object_ids
from dragoman.rules.timestamps import format_instant
from dragoman.sessions.assign import response_of
from dragoman.sessions.relations import response_relation
from dragoman.store.record_queries import KeyScope, RecordFilter, RecordQueries
from dragoman.store.record_tables import RecordTables
from dragoman.store.records import RecordRow
from dragoman.store.session_queries import SessionQueries
from dragoman.store.session_tables import SessionRow, ThreadRow
from dragoman.wire.history_digest import digest

# Maximum matches that are shown for an ambiguous text.
_SEVERAL = 5
_ANY = (1 << 63) - 1
_MICRO = 1_000_000


class NotRecorded(DragomanError):
    """There is no record of this name, or none that may be read."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}; {remedy}")


class AmbiguousName(DragomanError):
    """Several records have this name, or names that begin so."""


class RecordedExchange(Struct, frozen=True, kw_only=True):
    """One exchange: its entry, its totals when it was recorded, and where it belongs; None if that is nowhere."""

    entry: JournalEntry
    # Nano-dollars of what has a price, and whether there was more.
    cost: int
    unpriced: bool
    # The number of its row.
    number: int = 0
    session: SessionRow | None = None
    thread: ThreadRow | None = None

    @property
    def ended(self) -> int:
        """When it was settled, in microseconds."""
        return self.entry.time + self.entry.duration

    @property
    def speed(self) -> float | None:
        """Tokens in a second between the first content and the end; None for a response that was not streamed."""
        entry = self.entry
        output = 0 if entry.tokens is None else entry.tokens.output
        return speed_of(output, entry.first_content, entry.duration) if entry.stream else None


def unrecorded(entry: JournalEntry) -> RecordedExchange:
    """An exchange that has no row yet."""
    return RecordedExchange(
        entry=entry, cost=0 if entry.cost is None else entry.cost.total, unpriced=is_unpriced(entry)
    )


def logged_entry(entry: JournalEntry) -> JournalEntry:
    """An entry as the gateway's log has it: a crashed worker left no failure."""
    return replace(entry, failure=CRASHED) if entry.outcome == CRASHED and not entry.failure else entry


def entry_of(row: RecordRow) -> JournalEntry:
    """The entry that a row was made of."""
    members = {field.name: getattr(row, field.column) for field in COLUMN_FIELDS}
    members |= {"stream": bool(row.stream), "estimated": bool(row.estimated), "first_content": row.first or 0}
    if row.input is not None or row.output is not None:
        # Counts and columns have the same names.
        members["tokens"] = TokenCounts(*(getattr(row, name) or 0 for name in TokenCounts.__struct_fields__))
    return replace(details_of(row.details), **members)


def speed_of(output: int, first: int, ended: int) -> float | None:
    """Tokens in a second, without the time that passed before the first of them; None if it cannot be computed."""
    if not first or output < 2 or ended <= first:
        return None
    return (output - 1) * _MICRO / (ended - first)


def uncached_input_of(tokens: TokenCounts) -> int:
    """Uncached input: neither read from a cache nor written to one; the three add up to the input."""
    return max(tokens.input - tokens.cache_read - tokens.cache_write, 0)


def latest(
    tables: RecordTables, wanted: RecordFilter, most: int, scope: KeyScope | None = None
) -> list[RecordedExchange]:
    """The latest matching requests, in the order in which they began."""
    return _build_exchanges(tables, reversed(RecordQueries(tables.connection, scope).latest(wanted, most)))


def newest(tables: RecordTables) -> int:
    """The number of the newest record."""
    return RecordQueries(tables.connection).newest()


def after(
    tables: RecordTables, number: int, wanted: RecordFilter, most: int, scope: KeyScope | None = None
) -> list[RecordedExchange]:
    """Requests that were recorded after a number, in that order."""
    return _build_exchanges(tables, RecordQueries(tables.connection, scope).after(number, wanted, most))


def find(
    tables: RecordTables, text: str, directory: Path | None = None, scope: KeyScope | None = None
) -> RecordedExchange:
    """The exchange with this id or prefix of its id, or with this id of the provider's or of its response. A translated
    response has its provider's id with another prefix, or one made of the exchange's; a stored one has its own, found
    by a digest with the secret of `directory`."""
    queries = RecordQueries(tables.connection, scope)
    rows: list[RecordRow] = []
    for id_prefix in (text, exchange_of(text)):
        times = times_of(id_prefix)
        if times is not None and not rows:
            rows = queries.between(id_prefix, *times, _SEVERAL + 1)
    if not rows and text:
        rows = queries.anywhere(text, _SEVERAL + 1, object_ids(text))
    if not rows and text and directory is not None:
        rows = _find_stored_response(tables, text, directory, scope)
    if not rows:
        raise NotRecorded(f"there is no exchange {text!r}", "`dragoman logs` lists the latest")
    if len(rows) > 1:
        names = ", ".join(row.id for row in rows[:_SEVERAL])
        more = " and more" if len(rows) > _SEVERAL else ""
        raise AmbiguousName(f"{text!r} means several exchanges: {names}{more}")
    return _build_exchanges(tables, rows)[0]


def _find_stored_response(tables: RecordTables, text: str, directory: Path, scope: KeyScope | None) -> list[RecordRow]:
    """The exchange whose response is stored under an ID; records have only a digest of it, by which a conversation
    continues."""
    try:
        if not (directory / SECRET).exists():
            return []
        secret = secret_in(directory)
    except OSError as error:
        raise DragomanError(f"{text!r} cannot be looked for among answers that are kept: {error}") from None
    queries, records = SessionQueries(tables.connection), RecordQueries(tables.connection, scope)
    keys = {*queries.with_sessions(), *tables.unassigned.keys()} if scope is None else {scope.key}
    for key in sorted(keys):
        named = digest(key_of(secret, key), "response", text)
        rows = records.numbered(tables.unassigned.related([response_relation(named)], _SEVERAL))
        heads = tables.sessions.heads([response_of(named)])
        for thread in queries.thread_rows(number for _, number, _, _ in heads).values():
            rows += records.latest(RecordFilter(session=thread.session, thread=thread.id), _ANY)
        for row in rows:
            if facts_of(row.details).answer_id == named:
                return [row]
    return []


def _build_exchanges(tables: RecordTables, rows: Iterable[RecordRow]) -> list[RecordedExchange]:
    """Rows with the sessions and threads that they belong to."""
    rows = list(rows)
    queries = SessionQueries(tables.connection)
    sessions = queries.of(row.session for row in rows if row.session)
    threads = queries.thread_rows(row.thread for row in rows if row.thread)
    return [
        RecordedExchange(
            entry=entry_of(row),
            cost=row.cost,
            unpriced=bool(row.unpriced),
            number=row.number,
            session=sessions.get(row.session),
            thread=threads.get(row.thread),
        )
        for row in rows
    ]


def instant(micro: int) -> str:
    """A time in UTC, to the microsecond."""
    seconds, rest = divmod(micro, _MICRO)
    return f"{format_instant(seconds)[:-1]}.{rest:06d}Z"
