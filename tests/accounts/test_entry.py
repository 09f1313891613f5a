"""Entry: what goes into a journal comes back, also from a release that knew less."""

from __future__ import annotations

import msgspec

from dragoman.accounts.entry import ANSWERED, OPEN, Call, Entry, Lost, Money, Tokens
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
    )
    assert msgspec.json.decode(msgspec.json.encode(entry), type=Entry) == entry
    assert entry.money is not None
    assert entry.money.total == 30


def test_an_entry_with_fewer_members_is_read() -> None:
    assert msgspec.json.decode(b'["req_1", 7]', type=Entry) == Entry(id="req_1", time=7, outcome=OPEN)
