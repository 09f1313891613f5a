"""Rows: an entry as a row of records, and its contribution to totals (decision 32)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import astuple

from dragoman.model.features import weight_of
from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CONVERSATION,
    CRASHED,
    FAILED,
    REFUSED,
    JournalEntry,
    LossEntry,
)
from dragoman.records.old_names import with_current_names
from dragoman.records.thread_assignment import NOWHERE, AssignedThread
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.sessions.relations import relations_of, session_relation
from dragoman.sessions.rules import OPENCODE
from dragoman.store.connection import AppendRow
from dragoman.store.record_tables import RecordTables
from dragoman.store.records import BUCKET_MICROSECONDS

# How conversations count, by outcome: requests, errors, cancelled, others. Then open exchanges and entries of other
# kinds.
_COUNTED = {
    ANSWERED: (1, 0, 0, 0),
    REFUSED: (1, 1, 0, 0),
    FAILED: (1, 1, 0, 0),
    CRASHED: (1, 1, 0, 0),
    CANCELLED: (0, 0, 1, 0),
}
_OPEN, _OTHER = (0, 0, 0, 0), (0, 0, 0, 1)
# Where nothing is known of tokens: of columns, and of sums.
_UNKNOWN = (None,) * 7
_NO_TOKENS = (0, 0, 0, 0, 0, 0, 0)

Key = tuple[int, str, str, str, str]
TagKey = tuple[int, int, str, str, str, str]
ThreadIds = tuple[int, int]


class _Facts(Struct, frozen=True, array_like=True, gc=False):
    """Details as far as the facts."""

    calls: Raw
    losses: Raw
    cost: Raw
    facts: ExchangeFacts = NOTHING


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(JournalEntry)
# Members that the column `details` has, which no query groups by: the last ones.
_DETAILS = slice(JournalEntry.__struct_fields__.index("calls"), None)
DETAILS = JournalEntry.__struct_fields__[_DETAILS]
# An entry up to there.
_BEFORE_DETAILS = _encode(astuple(JournalEntry("", 0))[: _DETAILS.start])[:-1] + b","
# No trace and no candidates, which is left out.
USUAL_END = b',"",[],null]'
_facts_decoder = msgspec.json.Decoder(_Facts)


def details_of(encoded: bytes) -> JournalEntry:
    """The content of the column `details`, as an entry without its other members."""
    return with_current_names(_decoder.decode(_BEFORE_DETAILS + encoded[1:]))


def facts_of(encoded: bytes) -> ExchangeFacts:
    """The facts of the speaker in the column `details`."""
    return _facts_decoder.decode(encoded).facts


# Outcomes of calls for which the provider has, or may have, worked; "" is of one that had not ended.
_WORKED = frozenset({"", "answered", "client_disconnected"})


def is_unpriced(entry: JournalEntry) -> bool:
    """Whether the cost is incomplete: a part has no price, or its usage is unknown."""
    cost = entry.cost
    if cost is not None:
        if cost.unpriced:
            return True
    elif entry.tokens is not None or entry.outcome == CRASHED:
        return True
    # Counts and lists are free, and other paths have costs of their own; a possibly billed call is another matter.
    is_uncounted = entry.tokens is None and entry.kind == CONVERSATION
    for call in entry.calls:
        if call.tokens is None and call.cost is None:
            # An error with a successful status is still an error.
            worked = is_uncounted and 200 <= call.status < 300 and call.kind in _WORKED
            if worked or call.maybe_billed:
                return True
    return False


def _bookkeeping(losses: tuple[LossEntry, ...]) -> int:
    """The number of bookkeeping losses (decision 38)."""
    return sum([weight_of(loss.feature) == "bookkeeping" for loss in losses])


class RowSummary(Struct, frozen=True, array_like=True, gc=False):
    """What a row needs to know of the details of an entry. The journal writes it in front of each entry, so that
    ingestion moves the details as they stand there."""

    # Nano-dollars of what has a price.
    cost: int
    # By which the exchange is found until its session is assigned; None if there is nothing to assign.
    relations: tuple[int, ...] | None
    # The session that the client names, if that is to be listed.
    session: str
    # What is mostly the same: whether something has no price, the cost that was reported, the version of the price
    # book, losses that change the response, and bookkeeping (decision 38).
    price: tuple[int, int | None, str, int, int]


def summary_of(entry: JournalEntry) -> RowSummary:
    """The summary of an entry's details."""
    cost, facts, losses = entry.cost, entry.facts, entry.losses
    bookkeeping = _bookkeeping(losses) if losses else 0
    session = ""
    relations: tuple[int, ...] | None = None
    if entry.kind != CONVERSATION or (facts.shape is None and not entry.requested_model):
        # It has no thread; its session, if it names one, may exist.
        if facts.session:
            relations = (session_relation(facts.session),)
    elif facts.session or facts.tip or facts.previous:
        relations = relations_of(facts)
        # Names of OpenCode may be those of threads.
        if facts.client != OPENCODE:
            session = facts.session
    unpriced, changes = +is_unpriced(entry), len(losses) - bookkeeping
    if cost is None:
        return RowSummary(0, relations, session, (unpriced, None, "", changes, bookkeeping))
    return RowSummary(cost.total, relations, session, (unpriced, cost.reported, cost.version, changes, bookkeeping))


# Tokens in the order of `TokenCounts`, None for unknown ones.
Counts = tuple[int, int, int, int, int, int, int]
# The members of an entry by which each exchange differs from others, in its order: id, time, tokens, times of the first
# content and of the end, ids of the provider's request and of the response.
OwnMembers = tuple[str, int, Counts | None, int, int, str, str]


class SharedColumns:
    """The columns that are the same in most exchanges, and what follows from them."""

    __slots__ = ("by_price", "counted", "estimated", "group", "members", "tags")

    def __init__(self, entry: JournalEntry) -> None:
        self.group = entry.key, entry.client, entry.provider, entry.model
        self.counted = _COUNTED.get(entry.outcome, _OPEN) if entry.kind == CONVERSATION else _OTHER
        # Plain numbers: SQLite would ask other values first how to adapt them.
        self.estimated, self.tags = +entry.estimated, entry.tags
        self.members = tuple([+each if isinstance(each, bool) else each for each in astuple(entry)[_SHARED]])
        # All shared columns of rows without a thread, by what their price and losses are.
        self.by_price: dict[tuple[object, ...], tuple[object, ...]] = {}

    def columns(self, price: tuple[object, ...], assigned: AssignedThread) -> tuple[object, ...]:
        """All shared columns of a row; the last is the number of its set of tags, which `Batch` sets."""
        columns = (*self.members, assigned.session, assigned.thread, self.estimated, *price, 0)
        if assigned is NOWHERE and len(self.by_price) < _MAX_PRICES:
            self.by_price[price] = columns
        return columns


class EntryParts(Struct, frozen=True, gc=False):
    """An entry as far as rows and rollups need it."""

    summary: RowSummary
    own: OwnMembers
    shared: SharedColumns
    # The rest of it as JSON: the column `details`.
    details: bytearray


# The places of members in an entry: those of shared columns, and those of `OwnMembers` behind the time and the tokens.
SHARED_MEMBERS, _OWN_MEMBERS = slice(2, 25), slice(26, 30)
# Those of shared columns without `estimated` and `tags`.
_SHARED = slice(2, 23)
# Combinations of prices and losses that are cached with shared columns.
_MAX_PRICES = 16


def parts_of(entry: JournalEntry) -> EntryParts:
    """The parts of an entry."""
    values, tokens = astuple(entry), entry.tokens
    encoded = _encode(values[_DETAILS])
    return EntryParts(
        summary_of(entry),
        (entry.id, entry.time, None if tokens is None else astuple(tokens), *values[_OWN_MEMBERS]),
        SharedColumns(entry),
        bytearray(encoded[: -len(USUAL_END)] + b"]" if encoded.endswith(USUAL_END) else encoded),
    )


class Batch:
    """Rows of one transaction, and their totals."""

    __slots__ = ("_by_key", "_by_tags", "_by_thread", "_listed", "_numbers", "_tagged", "_unassigned", "rows")
    # Number of rows at which they are written at the latest.
    FULL = 256

    def __init__(self) -> None:
        self.rows: list[AppendRow] = []
        self._by_key: defaultdict[Key, list[tuple[int, ...]]] = defaultdict(list)
        self._by_thread: defaultdict[ThreadIds, list[tuple[int, ...]]] = defaultdict(list)
        # Measures of tagged exchanges, by their tags and their key in `_by_key`.
        self._by_tags: defaultdict[tuple[str, Key], list[tuple[int, ...]]] = defaultdict(list)
        # Positions in `rows` of tagged rows, each with its tags.
        self._tagged: list[tuple[int, str]] = []
        # Numbers of sets of tags, in this transaction.
        self._numbers: dict[str, int] = {}
        # Positions in `rows` of rows that are to be assigned, each with its relations.
        self._unassigned: list[tuple[int, tuple[int, ...]]] = []
        # Named sessions: client, and times of the first and the last exchange, by key and name.
        self._listed: dict[tuple[str, str], tuple[str, int, int]] = {}

    def add(self, entry: JournalEntry, assigned: AssignedThread = NOWHERE) -> None:
        """Add an exchange of a thread, or one that belongs to none."""
        measures = self._add(parts_of(entry), assigned)
        self._by_thread[entry.time // BUCKET_MICROSECONDS, assigned.thread].append(measures)

    def add_unassigned(self, entry: JournalEntry) -> None:
        """Add an exchange whose session and thread are to be assigned, if anything is known of its speaker."""
        self.add_parts(parts_of(entry))

    def add_parts(self, parts: EntryParts) -> None:
        """Add the parts of such an exchange."""
        summary = parts.summary
        if summary.relations is not None:
            self._unassigned.append((len(self.rows), summary.relations))
            if summary.session:
                key, client, _, _ = parts.shared.group
                name, time = (key, summary.session), parts.own[1]
                client, started, last = self._listed.get(name) or (client, time, time)
                self._listed[name] = (client, min(started, time), max(last, time))
        self._add(parts, NOWHERE)

    def _add(self, parts: EntryParts, assigned: AssignedThread) -> tuple[int, ...]:
        summary, shared = parts.summary, parts.shared
        id_, time, tokens, first, duration, provider_request_id, response_id = parts.own
        cost, price = summary.cost, summary.price
        columns = shared.by_price.get(price)
        if columns is None or assigned is not NOWHERE:
            columns = shared.columns(price, assigned)
        # Written out: unpacking into a tuple takes longer.
        input_, cache_read, cache_write, cache_write_1h, output, thinking, searches = tokens or _NO_TOKENS
        own: tuple[object, ...] = (
            id_,
            time,
            first,
            duration,
            input_,
            cache_read,
            cache_write,
            cache_write_1h,
            output,
            thinking,
            searches,
            cost,
            provider_request_id,
            response_id,
            parts.details,
        )
        if tokens is None:
            own = (*own[:4], *_UNKNOWN, *own[11:])
        self.rows.append((own, columns))
        requests, errors, cancelled, others = shared.counted
        # Times are those of requests.
        if not requests:
            duration = first = 0
        elif first < 0:
            first = 0
        unpriced, _, _, losses, bookkeeping = price
        measures = (
            requests,
            errors,
            cancelled,
            others,
            input_,
            cache_read,
            cache_write,
            output,
            thinking,
            searches,
            shared.estimated,
            cost,
            unpriced,
            losses,
            duration,
            first,
            1 if first else 0,
            bookkeeping,
        )
        gateway_key, client, provider, model = shared.group
        key = time // BUCKET_MICROSECONDS, gateway_key, client, provider, model
        self._by_key[key].append(measures)
        if tags := shared.tags:
            self._tagged.append((len(self.rows) - 1, tags))
            self._by_tags[tags, key].append(measures)
        return measures

    def write_rows(self, tables: RecordTables) -> int:
        """Write the rows that were added since this was last called; give how many."""
        rows, self.rows = self.rows, []
        unassigned, self._unassigned = self._unassigned, []
        tagged, self._tagged = self._tagged, []
        for at, tags in tagged:
            own, shared = rows[at]
            rows[at] = own, (*shared[:-1], self._number_of(tables, tags))
        first = tables.records.add(rows)
        relations = [(relation, first + at) for at, relations in unassigned for relation in relations]
        tables.unassigned.add(_runs([first + at for at, _ in unassigned]), relations)
        return len(rows)

    def write_rollups(self, tables: RecordTables) -> None:
        """Write the totals of all rows, and the sessions that they name."""
        by_key = _totals(self._by_key)
        tables.rollups.add(_rows(by_key))
        tables.rollups.add_to_threads(_rows(_totals(self._by_thread) if self._by_thread else _without_thread(by_key)))
        if self._by_tags:
            tables.rollups.add_to_tags(self._tag_rollups(tables))
        tables.sessions.add_listed([(*name, *known) for name, known in sorted(self._listed.items())])

    def rollups(self) -> list[tuple[object, ...]]:
        """Totals by 15-minute bucket, key, client, provider and model, in the order of their keys."""
        return _rows(_totals(self._by_key))

    def _tag_rollups(self, tables: RecordTables) -> list[tuple[object, ...]]:
        """Totals of tagged exchanges by 15-minute bucket, set of tags, key, client, provider and model, likewise."""
        return _rows(
            _totals(
                {(key[0], self._number_of(tables, tags), *key[1:]): rows for (tags, key), rows in self._by_tags.items()}
            )
        )

    def _number_of(self, tables: RecordTables, tags: str) -> int:
        number = self._numbers.get(tags)
        if number is None:
            number = self._numbers[tags] = tables.tag_sets.number_of(tags)
        return number

    def thread_rollups(self) -> list[tuple[object, ...]]:
        """Totals by 15-minute bucket and thread, likewise."""
        return _rows(_totals(self._by_thread))


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last number of each run of consecutive ones; they are in order."""
    if numbers and numbers[-1] - numbers[0] == len(numbers) - 1:
        return [(numbers[0], numbers[-1])]
    runs: list[tuple[int, int]] = []
    for number in numbers:
        runs[-1:] = [(runs[-1][0], number)] if runs and runs[-1][1] == number - 1 else [*runs[-1:], (number, number)]
    return runs


def _without_thread(by_key: Mapping[Key, tuple[int, ...]]) -> dict[ThreadIds, tuple[int, ...]]:
    """Totals of groups by 15-minute bucket, under thread 0."""
    by_bucket: defaultdict[ThreadIds, list[tuple[int, ...]]] = defaultdict(list)
    for key, measures in by_key.items():
        by_bucket[key[0], 0].append(measures)
    return _totals(by_bucket)


_Group = TypeVar("_Group", bound=tuple[int | str, ...])


def _totals(groups: Mapping[_Group, list[tuple[int, ...]]]) -> dict[_Group, tuple[int, ...]]:
    """The sums of the measures of each group."""
    # Sorted, so that writers of the same totals lock them in the same order.
    return {
        key: rows[0] if len(rows) == 1 else tuple(map(sum, zip(*rows, strict=True)))
        for key, rows in sorted(groups.items())
    }


def _rows(totals: Mapping[_Group, tuple[int, ...]]) -> list[tuple[object, ...]]:
    return [(*key, *measures) for key, measures in totals.items()]
