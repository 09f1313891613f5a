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
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
)
from dragoman.records.old_names import with_current_names
from dragoman.records.thread_assignment import NOWHERE, AssignedThread
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.sessions.relations import relations_of, session_relation
from dragoman.sessions.rules import OPENCODE
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
_NO_TOKENS = (0,) * 6

Key = tuple[int, str, str, str, str]
TagKey = tuple[int, int, str, str, str, str]
ThreadIds = tuple[int, int]


class RecordDetails(Struct, frozen=True, array_like=True, gc=False):
    """The rest of an entry, which no question groups by. New members are added at the end alone, with a default."""

    calls: tuple[CallEntry, ...] = ()
    losses: tuple[LossEntry, ...] = ()
    cost: CostBreakdown | None = None
    facts: ExchangeFacts = NOTHING
    refusal: str = ""
    queue_full: tuple[str, ...] = ()
    size: int = 0
    trace: str = ""
    candidates: tuple[CandidateEntry, ...] = ()
    candidates_more: int | None = None


class _Facts(Struct, frozen=True, array_like=True, gc=False):
    """The same as far as its facts."""

    calls: Raw
    losses: Raw
    cost: Raw
    facts: ExchangeFacts = NOTHING


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(RecordDetails)
# No trace and no candidates, which is left out.
_USUAL_END = b',"",[],null]'
_facts_decoder = msgspec.json.Decoder(_Facts)


def details_of(encoded: bytes) -> RecordDetails:
    """The content of the column `details`."""
    return with_current_names(_decoder.decode(encoded))


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
    return sum([weight_of(loss.feature) == "bookkeeping" for loss in losses]) if losses else 0


def _row(entry: JournalEntry, session: int, thread: int, cost: int, unpriced: int) -> tuple[object, ...]:
    """A row of records, in the order of `ROW_COLUMNS`."""
    # By places, which never change.
    values = astuple(entry)
    tokens, breakdown, losses = entry.tokens, entry.cost, entry.losses
    bookkeeping = _bookkeeping(losses)
    details = RecordDetails(
        values[29], losses, breakdown, values[35], values[22], values[30], values[34], values[36], *values[37:39]
    )
    encoded = _encode(details)
    # Plain numbers and bytes: SQLite would ask other values first how to adapt them.
    return (
        values[0],
        values[1],
        values[24],
        values[25],
        *(_UNKNOWN if tokens is None else astuple(tokens)),
        cost,
        values[32],
        values[33],
        bytearray(encoded[: -len(_USUAL_END)] + b"]" if encoded.endswith(_USUAL_END) else encoded),
        *values[2:22],
        # Behind `refusal`, which is among the details.
        values[23],
        session,
        thread,
        values[27],
        unpriced,
        None if breakdown is None else breakdown.reported,
        "" if breakdown is None else breakdown.version,
        len(losses) - bookkeeping,
        bookkeeping,
        # The number of its set, which `Batch` looks up.
        0,
    )


def _measures(entry: JournalEntry, cost: int, unpriced: int) -> tuple[int, ...]:
    tokens, first = entry.tokens, entry.first_content
    counted = _COUNTED.get(entry.outcome, _OPEN) if entry.kind == CONVERSATION else _OTHER
    if tokens is None:
        used: tuple[int, ...] = _NO_TOKENS
    else:
        used = (tokens.input, tokens.cache_read, tokens.cache_write, tokens.output, tokens.thinking, tokens.searches)
    # Times are those of requests.
    times = (0, 0, 0) if not counted[0] else (entry.duration, first, 1) if first > 0 else (entry.duration, 0, 0)
    bookkeeping = _bookkeeping(entry.losses)
    return (*counted, *used, +entry.estimated, cost, unpriced, len(entry.losses) - bookkeeping, *times, bookkeeping)


class Batch:
    """Rows of one transaction, and their totals."""

    __slots__ = ("_by_key", "_by_tags", "_by_thread", "_listed", "_numbers", "_tagged", "_unassigned", "rows")
    # Number of rows at which they are written at the latest.
    FULL = 256

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
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
        measures = self._add(entry, assigned)
        self._by_thread[entry.time // BUCKET_MICROSECONDS, assigned.thread].append(measures)

    def add_unassigned(self, entry: JournalEntry) -> None:
        """Add an exchange whose session and thread are to be assigned, if anything is known of its speaker."""
        facts, time = entry.facts, entry.time
        if entry.kind != CONVERSATION or (facts.shape is None and not entry.requested_model):
            # It has no thread; its session, if it names one, may exist.
            if facts.session:
                self._unassigned.append((len(self.rows), (session_relation(facts.session),)))
        elif facts.session or facts.tip or facts.previous:
            self._unassigned.append((len(self.rows), relations_of(facts)))
            # Names of OpenCode may be those of threads.
            if facts.session and facts.client != OPENCODE:
                name = entry.key, facts.session
                client, started, last = self._listed.get(name) or (entry.client or facts.client, time, time)
                self._listed[name] = (client, min(started, time), max(last, time))
        self._add(entry, NOWHERE)

    def _add(self, entry: JournalEntry, assigned: AssignedThread) -> tuple[int, ...]:
        cost, unpriced = 0 if entry.cost is None else entry.cost.total, +is_unpriced(entry)
        self.rows.append(_row(entry, assigned.session, assigned.thread, cost, unpriced))
        measures = _measures(entry, cost, unpriced)
        key = entry.time // BUCKET_MICROSECONDS, entry.key, entry.client, entry.provider, entry.model
        self._by_key[key].append(measures)
        if tags := entry.tags:
            self._tagged.append((len(self.rows) - 1, tags))
            self._by_tags[tags, key].append(measures)
        return measures

    def write_rows(self, tables: RecordTables) -> int:
        """Write the rows that were added since this was last called; give how many."""
        rows, self.rows = self.rows, []
        unassigned, self._unassigned = self._unassigned, []
        tagged, self._tagged = self._tagged, []
        for at, tags in tagged:
            rows[at] = (*rows[at][:-1], self._number_of(tables, tags))
        first = tables.records.add(rows)
        relations = [(relation, first + at) for at, relations in unassigned for relation in relations]
        relations.sort()
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


_Group = TypeVar("_Group", Key, TagKey, ThreadIds)


def _totals(groups: Mapping[_Group, list[tuple[int, ...]]]) -> dict[_Group, tuple[int, ...]]:
    """The sums of the measures of each group."""
    # Sorted, so that writers of the same totals lock them in the same order.
    return {
        key: rows[0] if len(rows) == 1 else tuple(map(sum, zip(*rows, strict=True)))
        for key, rows in sorted(groups.items())
    }


def _rows(totals: Mapping[_Group, tuple[int, ...]]) -> list[tuple[object, ...]]:
    return [(*key, *measures) for key, measures in totals.items()]
