"""What is stored for an owner goes a few rows at a time, whatever was deleted before; others keep theirs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from msgspec.structs import astuple

from dragoman.store import Tables
from dragoman.store.integrity_check import IntegrityCheck
from dragoman.store.stored_erasure import StoredCount, StoredErasure
from tests.store.opened import ALICE, BOB, item, kept, names, opened

pytestmark = pytest.mark.usefixtures("engine")

EACH = StoredCount(responses=3, conversations=1, items=6, events=2, turns=2)


def store(tables: Tables, owner: bytes, name: str) -> None:
    """Something in each table for an owner."""
    for number in range(2):
        tables.responses.add(owner, kept(f"r{name}{number}"), [item(f"q{number}")], [item(f"a{number}")])
    tables.responses.add(owner, kept(f"s{name}", status="queued", background=True))
    tables.responses.keep_alive(owner, f"s{name}", 9_000_000)
    for number in range(2):
        tables.events.add(f"s{name}", number, b"data: {}")
        tables.turns.add(owner, f"call_{number}", b"turn of %b" % owner)
    tables.conversations.create(owner, f"c{name}", b"{}", [item("q1"), item("q2")])


@pytest.fixture
def tables() -> Iterator[Tables]:
    with opened() as tables:
        store(tables, ALICE, "a")
        store(tables, BOB, "b")
        yield tables


def rows_of(tables: Tables) -> object:
    db = tables.connection
    return [
        db.rows("SELECT * FROM responses ORDER BY id"),
        db.rows("SELECT * FROM conversations ORDER BY id"),
        db.rows("SELECT * FROM items ORDER BY holder, side, position"),
        db.rows("SELECT * FROM events ORDER BY holder, number"),
        db.rows("SELECT * FROM promises"),
        db.rows("SELECT * FROM stored_bytes"),
        db.rows("SELECT owner, call_id, expires, size, body FROM turns"),
        db.rows("SELECT * FROM turns_total"),
    ]


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_all_that_is_stored_for_an_owner_goes_and_nothing_of_others(tables: Tables, at_once: int) -> None:
    erasure = StoredErasure(tables.connection, at_once)
    assert erasure.amount([ALICE]) == erasure.amount([BOB]) == EACH
    assert erasure.amount([ALICE, BOB]).items == 12
    assert erasure.amount([b"nobody"]) == erasure.amount([]) == StoredCount()
    *batches, last = erasure.remove([ALICE])
    assert last == EACH
    # Each step deletes at most so many rows.
    sums = [0, *(sum(astuple(count)) for count in (*batches, last))]
    assert all(0 < after - before <= at_once for before, after in pairwise(sums))
    assert list(erasure.remove([ALICE])) == []
    assert erasure.amount([ALICE]) == StoredCount()
    assert erasure.amount([BOB]) == EACH
    with opened() as others:
        store(others, BOB, "b")
        assert rows_of(tables) == rows_of(others)
    assert dict(IntegrityCheck(tables.connection).mismatched_rollups())["stored_bytes"] == 0


@pytest.mark.parametrize("batches", range(1, 14))
def test_a_run_after_one_that_was_killed_deletes_the_rest(tables: Tables, batches: int) -> None:
    erasure = StoredErasure(tables.connection, at_once=1)
    killed = erasure.remove([ALICE])
    removed = [next(killed) for _ in range(batches)][-1]
    left = erasure.amount([ALICE])
    assert [one + other for one, other in zip(astuple(removed), astuple(left), strict=True)] == [*astuple(EACH)]
    *_, last = StoredErasure(tables.connection).remove([ALICE])
    assert last == left
    assert erasure.amount([ALICE]) == StoredCount()


def test_what_is_stored_meanwhile_stays_whole(tables: Tables) -> None:
    erasure = StoredErasure(tables.connection)
    steps = erasure.remove([ALICE])
    assert next(steps).responses == 3
    # A gateway is running.
    tables.responses.add(ALICE, kept("new"), [item("question")], [item("answer")])
    for _ in steps:
        pass
    assert names(tables.responses.chain(ALICE, "new")) == ["question", "answer"]
    assert erasure.amount([ALICE]) == StoredCount(responses=1, items=2)
