"""Rows: what an entry is in the tables: a row of records, and what it adds to sums (decision 32)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import msgspec
from msgspec import Struct
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
from dragoman.records.thread_assignment import AssignedThread
from dragoman.sessions.facts import NOTHING, ExchangeFacts

# A quarter of an hour, in microseconds: sums are kept by the number of quarters since the epoch.
BUCKET_MICROSECONDS = 900_000_000
# What conversations are counted as, by what became of them: requests, errors, cancelled, others. Then those that are
# still open, and what is none.
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


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(RecordDetails)


def details_of(encoded: bytes) -> RecordDetails:
    """What the column `details` says."""
    return with_current_names(_decoder.decode(encoded))


# What became of calls whose provider has worked, or may have; "" is of one that had not ended.
_WORKED = frozenset({"", "answered", "client_disconnected"})


def is_unpriced(entry: JournalEntry) -> bool:
    """Whether it cost more than is known: something had no price, or was used and nobody said how much."""
    cost = entry.cost
    if cost is not None:
        if cost.unpriced:
            return True
    elif entry.tokens is not None or entry.outcome == CRASHED:
        return True
    # Counts and lists cost nothing, and what models do on other paths has its money; what may have been billed is
    # another matter.
    is_uncounted = entry.tokens is None and entry.kind == CONVERSATION
    for call in entry.calls:
        if call.tokens is None and call.cost is None:
            # An error that is told with a good status is one all the same.
            worked = is_uncounted and 200 <= call.status < 300 and call.kind in _WORKED
            if worked or call.maybe_billed:
                return True
    return False


def _bookkeeping(losses: tuple[LossEntry, ...]) -> int:
    """How many losses are bookkeeping (decision 38)."""
    return sum([weight_of(loss.feature) == "bookkeeping" for loss in losses]) if losses else 0


def _row(entry: JournalEntry, session: int, thread: int, cost: int, unpriced: int) -> tuple[object, ...]:
    # By places, which never change: columns are named as members are, and stand in their order but for a few.
    values = astuple(entry)
    tokens, breakdown, losses = entry.tokens, entry.cost, entry.losses
    bookkeeping = _bookkeeping(losses)
    # Plain numbers and arrays of bytes: whatever else is handed to SQLite is asked first how it would like to be kept.
    return (
        values[0],
        values[1],
        values[3],
        values[2],
        *values[4:9],
        session,
        thread,
        values[9],
        values[10],
        +entry.stream,
        *values[12:22],
        # Behind `refusal`, which is among the details.
        values[23],
        values[24] or None,
        values[25],
        *(_UNKNOWN if tokens is None else astuple(tokens)),
        +entry.estimated,
        cost,
        unpriced,
        None if breakdown is None else breakdown.reported,
        "" if breakdown is None else breakdown.version,
        len(losses) - bookkeeping,
        values[32],
        values[33],
        bytearray(
            _encode(
                RecordDetails(
                    values[29],
                    losses,
                    breakdown,
                    values[35],
                    values[22],
                    values[30],
                    values[34],
                    values[36],
                    *values[37:39],
                )
            )
        ),
        bookkeeping,
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
    """Rows of one transaction, and what they come to."""

    __slots__ = ("_by_key", "_by_thread", "rows")

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._by_key: defaultdict[Key, list[tuple[int, ...]]] = defaultdict(list)
        self._by_thread: defaultdict[ThreadIds, list[tuple[int, ...]]] = defaultdict(list)

    def add(self, entry: JournalEntry, assigned: AssignedThread) -> None:
        cost, unpriced = 0 if entry.cost is None else entry.cost.total, +is_unpriced(entry)
        thread = assigned.thread
        self.rows.append(_row(entry, assigned.session, thread, cost, unpriced))
        measures = _measures(entry, cost, unpriced)
        bucket = entry.time // BUCKET_MICROSECONDS
        self._by_key[bucket, entry.key, entry.client, entry.provider, entry.model].append(measures)
        self._by_thread[bucket, thread].append(measures)

    def take_rows(self) -> list[tuple[object, ...]]:
        """The rows since they were last taken."""
        rows, self.rows = self.rows, []
        return rows

    def rollups(self) -> list[tuple[object, ...]]:
        """What they come to by quarter, key, client, provider and model, in the order of their keys."""
        return _added(self._by_key)

    def thread_rollups(self) -> list[tuple[object, ...]]:
        """What they come to by quarter and thread, likewise."""
        return _added(self._by_thread)


def _added(
    groups: Mapping[Key, list[tuple[int, ...]]] | Mapping[ThreadIds, list[tuple[int, ...]]],
) -> list[tuple[object, ...]]:
    # Sorted, so that writers of the same sums come to them in the same order.
    return [
        (*key, *(rows[0] if len(rows) == 1 else map(sum, zip(*rows, strict=True))))
        for key, rows in sorted(groups.items())
    ]
