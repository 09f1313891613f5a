"""Entry: what goes into a journal comes back, also from a release that knew less."""

from __future__ import annotations

import msgspec

from dragoman.records.journal_entry import ANSWERED, OPEN, Call, Considered, Entry, Lost, Money, Tokens
from dragoman.sessions.facts import Facts, Shape


def test_an_entry_comes_back_as_it_was() -> None:
    entry = Entry(
        id="req_1",
        time=1_700_000_000_000_000,
        outcome=ANSWERED,
        tokens=Tokens(input=5, output=3),
        money=Money(input=10, output=20, unpriced=("search",), said=31),
        calls=(Call("openai", "gpt", "openai-chat", tokens=Tokens(input=5)),),
        losses=(Lost("sampling", "dropped", "sampling.seed"),),
        facts=Facts(session="s", shape=Shape(instructions=3)),
        considered=(Considered("a/m", "left out: it rests", 5, 1, 250_000, 80.5), Considered("b/m")),
        considered_more=2,
    )
    assert msgspec.json.decode(msgspec.json.encode(entry), type=Entry) == entry
    assert entry.money is not None
    assert entry.money.total == 30


def test_an_entry_with_fewer_members_is_read() -> None:
    assert msgspec.json.decode(b'["req_1", 7]', type=Entry) == Entry(id="req_1", time=7, outcome=OPEN)


def test_an_entry_with_more_members_is_read_as_far_as_it_is_known() -> None:
    """As a release does that came before them."""
    later = [*msgspec.to_builtins(Entry(id="req_1", time=7)), "new", ["members"]]
    assert msgspec.json.decode(msgspec.json.encode(later), type=Entry) == Entry(id="req_1", time=7)
