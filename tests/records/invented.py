"""Entries of exchanges that never were."""

from __future__ import annotations

from dragoman.records.journal_entry import ANSWERED, CONVERSATION, CallEntry, CostBreakdown, JournalEntry, TokenCounts
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.connection import AppendRow
from dragoman.store.records import ROW_COLUMNS

# A Tuesday in 2027, in microseconds.
NOON = 1_800_000_000_000_000
_TOKENS = TokenCounts(input=100, cache_read=60, output=20, thinking=5)
_MONEY = CostBreakdown(input=1000, output=500, version="2026-10-30")


def entry(
    number: int,
    *,
    time: int = NOON,
    outcome: str = ANSWERED,
    kind: str = CONVERSATION,
    key: str = "alice",
    model: str = "large",
    tokens: TokenCounts | None = _TOKENS,
    money: CostBreakdown | None = _MONEY,
    status: int = 200,
    size: int = 400,
) -> JournalEntry:
    """An exchange that took what most take."""
    call = CallEntry("anthropic", model, "anthropic-messages", status=status, tokens=tokens, cost=money)
    return JournalEntry(
        id=f"req_{number:024d}",
        time=time,
        outcome=outcome,
        kind=kind,
        key=key,
        client="claude-cli",
        program="claude-cli/2.1.325 (external, cli)",
        address="192.0.2.0/24",
        client_protocol="anthropic-messages",
        path="/v1/messages",
        requested_model=model,
        provider="anthropic",
        model=model,
        status=status,
        first_content=1000,
        duration=3000,
        tokens=tokens,
        cost=money,
        calls=(call,) if status == 200 else (),
        size=size,
    )


def row_of(entry: JournalEntry, placed: AssignedThread) -> AppendRow:
    """Its row of records, in the order of `store.records.ROW_COLUMNS`."""
    batch = Batch()
    batch.add(entry, placed)
    return batch.rows[0]


def columns_of(entry: JournalEntry, placed: AssignedThread) -> dict[str, object]:
    """Its row of records by the names of columns."""
    own, shared = row_of(entry, placed)
    return dict(zip(ROW_COLUMNS, (*own, *shared), strict=True))


def measures_of(entry: JournalEntry) -> tuple[int, ...]:
    """What it adds to sums, in the order of `MEASURES`."""
    batch = Batch()
    batch.add(entry, AssignedThread())
    (sums,) = batch.thread_rollups()
    return tuple(value for value in sums[2:] if isinstance(value, int))
