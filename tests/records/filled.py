"""Tables with exchanges in them, written as the drain writes them, and the sessions and threads of those."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from dragoman.records.journal_entry import (
    ANSWERED,
    CANCELLED,
    CONVERSATION,
    COUNT,
    CRASHED,
    FAILED,
    LIST,
    OTHER,
    REFUSED,
    CallEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.records.rows import Batch
from dragoman.records.thread_assignment import AssignedThread
from dragoman.store.record_tables import RecordTables, open_record_tables
from tests.records.invented import NOON

SECOND = 1_000_000
DAY = 86_400 * SECOND


def fill(tables: RecordTables, placed: Iterable[tuple[JournalEntry, AssignedThread]]) -> None:
    """Write exchanges down, all at once."""
    batch = Batch()
    for entry, place in placed:
        batch.add(entry, place)
    with tables.transaction():
        batch.write_rows(tables)
        batch.write_rollups(tables)


def speak(tables: RecordTables, sessions: Sequence[tuple[int, str, str]], threads: Sequence[tuple[int, int]]) -> None:
    """Sessions (number, key, name) and threads (number, session), each with a tip and facts of its own."""
    with tables.transaction():
        db = tables.connection
        for number, key, name in sessions:
            db.change("INSERT INTO sessions VALUES (?, ?, ?, 'claude-cli', 0, '', 0, 0)", (number, key, name))
        for number, session in threads:
            row = (number, session, f"thread-{number}", b'{"session":"fact-of-%d"}' % number)
            db.change(
                "INSERT INTO threads VALUES (?, ?, ?, 'main', 'label', 'large', 0, 'said', 100, 1, 1, 0, 0, ?)", row
            )
            db.change("INSERT INTO tips VALUES (?, ?, 0, 0)", (f"tip-of-{number}", number))


def some_entries(
    seed: int, count: int, *, begin: int = NOON, length: int = 40 * DAY
) -> list[tuple[JournalEntry, AssignedThread]]:
    """Exchanges of every kind, at random times; 5 threads of 3 sessions, whose numbers are 1 to 5, and none."""
    dice = random.Random(seed)
    return [(_entry(dice, number, begin, length), _place(dice)) for number in range(count)]


def _place(dice: random.Random) -> AssignedThread:
    thread = dice.randrange(6)
    return AssignedThread((thread + 1) // 2 if thread else 0, thread)


def _entry(dice: random.Random, number: int, begin: int, length: int) -> JournalEntry:
    read, write = dice.choice((0, dice.randrange(10**6))), dice.choice((0, dice.randrange(10**5)))
    thought = dice.choice((0, dice.randrange(1000)))
    tokens = TokenCounts(
        input=read + write + dice.randrange(10**5),
        cache_read=read,
        cache_write=write,
        output=thought + dice.randrange(10**4),
        thinking=thought,
        searches=dice.choice((0, 0, 2)),
    )
    money = CostBreakdown(
        input=dice.randrange(10**9),
        output=dice.randrange(10**9),
        cache_read=dice.choice((0, 1, 999_999_999)),
        unpriced=dice.choice(((), (), ("search",))),
    )
    provider = dice.choice(("anthropic", "openai", ""))
    model = dice.choice(("large", "small", "=cmd", "tiny")) if provider else ""
    known = dice.randrange(8)
    upstream = f"up_{number}" if provider else ""
    call = CallEntry(
        provider, model, "openai-chat", status=200, provider_request_id=upstream, tokens=tokens, cost=money
    )
    failed = CallEntry(
        provider, model, "openai-chat", status=529, provider_request_id=f"up_{number}_before" if provider else ""
    )
    time = begin + dice.randrange(length)
    outcome = dice.choice((ANSWERED,) * 6 + (REFUSED, FAILED, CANCELLED, CRASHED))
    kind = dice.choice((CONVERSATION,) * 6 + (COUNT, LIST, OTHER))
    key = dice.choice(("alice", "bob", "Zoë's", ""))
    return JournalEntry(
        id=f"req_{number:024d}",
        time=time,
        outcome=outcome,
        kind=kind,
        key=key,
        # The tags of one key changed.
        tags={"alice": "team=web,zone=eu", "bob": ("team=web", "")[number % 2]}.get(key, ""),
        client=dice.choice(("claude-cli", "codex_exec", "")),
        provider=provider,
        model=model,
        status=200,
        first_content=dice.choice((0, 120_000)),
        duration=dice.randrange(10**7),
        tokens=tokens if known else None,
        estimated=dice.random() < 0.1,
        cost=money if known > 1 else None,
        calls=(failed, call)[dice.randrange(2) :] if provider else (),
        losses=(LossEntry("sampling", "dropped", "sampling.seed"),) * dice.randrange(3),
        provider_request_id=upstream,
    )


def filled_file(path: Path, entries: Iterable[tuple[JournalEntry, AssignedThread]]) -> None:
    """A file of `storage.path` with exchanges, and the speakers of `some_entries`."""
    tables = open_record_tables(str(path))
    try:
        speak(
            tables,
            [(1, "alice", "first"), (2, "alice", "second"), (3, "bob", "first")],
            [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)],
        )
        fill(tables, entries)
    finally:
        tables.close()
