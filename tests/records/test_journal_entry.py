"""Entry: what goes into a journal comes back, also from a release that knew less."""

from __future__ import annotations

import msgspec

from dragoman.records.journal_entry import (
    ANSWERED,
    OPEN,
    CallEntry,
    CandidateEntry,
    CostBreakdown,
    JournalEntry,
    LossEntry,
    TokenCounts,
)
from dragoman.sessions.facts import ExchangeFacts, Shape


def test_an_entry_comes_back_as_it_was() -> None:
    entry = JournalEntry(
        id="req_1",
        time=1_700_000_000_000_000,
        outcome=ANSWERED,
        tokens=TokenCounts(input=5, output=3),
        cost=CostBreakdown(input=10, output=20, unpriced=("search",), reported=31),
        calls=(CallEntry("openai", "gpt", "openai-chat", tokens=TokenCounts(input=5)),),
        losses=(LossEntry("sampling", "dropped", "sampling.seed"),),
        facts=ExchangeFacts(session="s", shape=Shape(instructions=3)),
        candidates=(CandidateEntry("a/m", "left out: in cooldown", 5, 1, 250_000, 80.5), CandidateEntry("b/m")),
        candidates_more=2,
    )
    assert msgspec.json.decode(msgspec.json.encode(entry), type=JournalEntry) == entry
    assert entry.cost is not None
    assert entry.cost.total == 30


def test_an_entry_with_fewer_members_is_read() -> None:
    assert msgspec.json.decode(b'["req_1", 7]', type=JournalEntry) == JournalEntry(id="req_1", time=7, outcome=OPEN)


def test_an_entry_with_more_members_is_read_as_far_as_it_is_known() -> None:
    """As a release does that came before them."""
    later = [*msgspec.to_builtins(JournalEntry(id="req_1", time=7)), "new", ["members"]]
    assert msgspec.json.decode(msgspec.json.encode(later), type=JournalEntry) == JournalEntry(id="req_1", time=7)
