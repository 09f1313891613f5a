"""Recorded requests as a list, as they arrive, or one by any of its IDs, with details."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict, astuple

from dragoman.errors import DragomanError
from dragoman.records.digest_key import NAME as SECRET
from dragoman.records.digest_key import key_of, secret_in
from dragoman.records.ids import exchange_of, times_of
from dragoman.records.journal_entry import CostBreakdown, JournalEntry, TokenCounts
from dragoman.records.rows import RecordDetails, details_of, facts_of
from dragoman.rules.ids import object_ids
from dragoman.rules.timestamps import format_instant
from dragoman.sessions.assign import response_of
from dragoman.sessions.relations import response_relation
from dragoman.store.record_queries import KeyScope, RecordFilter, RecordQueries
from dragoman.store.record_tables import RecordTables
from dragoman.store.records import EXPORT_NAMES, RecordRow
from dragoman.store.session_queries import SessionQueries
from dragoman.store.session_tables import SessionRow, ThreadRow
from dragoman.wire.history_digest import digest

# Maximum matches that are shown for an ambiguous text.
_SEVERAL = 5
_ANY = (1 << 63) - 1
_MICRO = 1_000_000


class NotRecorded(DragomanError):
    """There is no record of this name, or none that may be read."""


class AmbiguousName(DragomanError):
    """Several records have this name, or names that begin so."""


class RecordedExchange(Struct, frozen=True, kw_only=True):
    """One exchange: its row, what else is known of it, and where it belongs; None if that is nowhere."""

    row: RecordRow
    details: RecordDetails
    session: SessionRow | None = None
    thread: ThreadRow | None = None

    @property
    def ended(self) -> int:
        """When it was settled, in microseconds."""
        return self.row.time + self.row.took

    @property
    def tokens(self) -> TokenCounts | None:
        """The tokens; None if usage was neither reported nor estimated."""
        row = self.row
        if row.input is None and row.output is None:
            return None
        # Counts and columns have the same names.
        return TokenCounts(*(getattr(row, name) or 0 for name in TokenCounts.__struct_fields__))

    @property
    def speed(self) -> float | None:
        """Tokens in a second between the first content and the end; None for a response that was not streamed."""
        row = self.row
        return speed_of(row.output or 0, row.first or 0, row.took) if row.stream else None


def entry_of(exchange: RecordedExchange) -> JournalEntry:
    """An exchange as the gateway's log has it."""
    row, details = exchange.row, exchange.details
    # Export columns have the names of entry members, except these.
    fields = dict(zip(EXPORT_NAMES, astuple(row)[1:], strict=True)) | asdict(details)
    fields |= {"program": row.program, "first_content": row.first or 0, "duration": row.took}
    fields |= {"stream": bool(row.stream), "estimated": bool(row.estimated), "tokens": exchange.tokens}
    # A crashed worker left no failure.
    fields["failure"] = row.failure or ("crashed" if row.outcome == "crashed" else "")
    return JournalEntry(**{name: fields[name] for name in JournalEntry.__struct_fields__})


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
        raise NotRecorded(f"there is no exchange {text!r}; `dragoman logs` lists the latest")
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
            row=row, details=details_of(row.details), session=sessions.get(row.session), thread=threads.get(row.thread)
        )
        for row in rows
    ]


def instant(micro: int) -> str:
    """A time in UTC, to the microsecond."""
    seconds, rest = divmod(micro, _MICRO)
    return f"{format_instant(seconds)[:-1]}.{rest:06d}Z"


def classes_of(cost: CostBreakdown) -> list[tuple[str, int]]:
    """The cost by token class, in nano-dollars; the sum is the total."""
    return [(name, getattr(cost, name)) for name in _CLASSES]


_CLASSES = ("input", "cache_read", "cache_write", "cache_write_1h", "output", "thinking", "search", "request")
