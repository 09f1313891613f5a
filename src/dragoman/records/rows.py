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
    JournalEntry,
    LossEntry,
    Money,
)
from dragoman.records.thread_assignment import AssignedThread
from dragoman.sessions.facts import NOTHING, ExchangeFacts

# A quarter of an hour, in microseconds: sums are kept by the number of quarters since the epoch.
QUARTER = 900_000_000
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
    money: Money | None = None
    facts: ExchangeFacts = NOTHING
    why: str = ""
    full: tuple[str, ...] = ()
    size: int = 0
    trace: str = ""
    considered: tuple[CandidateEntry, ...] = ()
    considered_more: int | None = None


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(RecordDetails)


def details_of(kept: bytes) -> RecordDetails:
    """What the column `details` says."""
    return _decoder.decode(kept)


# What became of calls whose provider has worked, or may have; "" is of one that had not ended.
_WORKED = frozenset({"", "answered", "left"})


def is_unpriced(entry: JournalEntry) -> bool:
    """Whether it cost more than is known: something had no price, or was used and nobody said how much."""
    money = entry.money
    if money is not None:
        if money.unpriced:
            return True
    elif entry.tokens is not None or entry.outcome == CRASHED:
        return True
    # Counts and lists cost nothing, and what models do on other paths has its money; what may have been billed is
    # another matter.
    asked = entry.tokens is None and entry.kind == CONVERSATION
    for call in entry.calls:
        if call.tokens is None and call.money is None:
            # An error that is told with a good status is one all the same.
            worked = asked and 200 <= call.status < 300 and call.kind in _WORKED
            if worked or call.maybe_billed:
                return True
    return False


def _cost(entry: JournalEntry) -> int:
    return 0 if entry.money is None else entry.money.total


def _bookkeeping(losses: tuple[LossEntry, ...]) -> int:
    """How many losses are bookkeeping (decision 38)."""
    return sum([weight_of(loss.feature) == "bookkeeping" for loss in losses]) if losses else 0


def _row(entry: JournalEntry, session: int, thread: int, cost: int, unpriced: int) -> tuple[object, ...]:
    # By places, which never change: columns are named as members are, and stand in their order but for a few.
    said = astuple(entry)
    tokens, money, losses = entry.tokens, entry.money, entry.losses
    bookkeeping = _bookkeeping(losses)
    # Plain numbers and arrays of bytes: whatever else is handed to SQLite is asked first how it would like to be kept.
    return (
        said[0],
        said[1],
        said[3],
        said[2],
        *said[4:9],
        session,
        thread,
        said[9],
        said[10],
        +entry.stream,
        *said[12:22],
        # Behind `why`, which is among the details.
        said[23],
        said[24] or None,
        said[25],
        *(_UNKNOWN if tokens is None else astuple(tokens)),
        +entry.estimated,
        cost,
        unpriced,
        None if money is None else money.said,
        "" if money is None else money.version,
        len(losses) - bookkeeping,
        said[32],
        said[33],
        bytearray(
            _encode(
                RecordDetails(said[29], losses, money, said[35], said[22], said[30], said[34], said[36], *said[37:39])
            )
        ),
        bookkeeping,
    )


def _measures(entry: JournalEntry, cost: int, unpriced: int) -> tuple[int, ...]:
    tokens, first = entry.tokens, entry.first
    counted = _COUNTED.get(entry.outcome, _OPEN) if entry.kind == CONVERSATION else _OTHER
    if tokens is None:
        used: tuple[int, ...] = _NO_TOKENS
    else:
        used = (
            tokens.input,
            tokens.cache_read,
            tokens.cache_write,
            tokens.output,
            tokens.thinking,
            tokens.searches,
        )
    # Times are those of requests.
    times = (0, 0, 0) if not counted[0] else (entry.took, first, 1) if first > 0 else (entry.took, 0, 0)
    bookkeeping = _bookkeeping(entry.losses)
    return (*counted, *used, +entry.estimated, cost, unpriced, len(entry.losses) - bookkeeping, *times, bookkeeping)


class Batch:
    """Rows of one transaction, and what they come to."""

    __slots__ = ("_by_key", "_by_thread", "rows")

    def __init__(self) -> None:
        self.rows: list[tuple[object, ...]] = []
        self._by_key: defaultdict[Key, list[tuple[int, ...]]] = defaultdict(list)
        self._by_thread: defaultdict[ThreadIds, list[tuple[int, ...]]] = defaultdict(list)

    def add(self, entry: JournalEntry, placed: AssignedThread) -> None:
        """Take one more."""
        cost, unpriced = _cost(entry), +is_unpriced(entry)
        thread = placed.thread
        self.rows.append(_row(entry, placed.session, thread, cost, unpriced))
        measures = _measures(entry, cost, unpriced)
        quarter = entry.time // QUARTER
        self._by_key[quarter, entry.key, entry.client, entry.provider, entry.model].append(measures)
        self._by_thread[quarter, thread].append(measures)

    def taken_rows(self) -> list[tuple[object, ...]]:
        """The rows since they were last taken."""
        rows, self.rows = self.rows, []
        return rows

    def sums(self) -> list[tuple[object, ...]]:
        """What they come to by quarter, key, client, provider and model, in the order of their keys."""
        return _added(self._by_key)

    def thread_sums(self) -> list[tuple[object, ...]]:
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
