"""Sums of stored bytes: those of the rows, whatever was stored, deleted, replaced or forgotten (item 22 A7)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dragoman.store import Tables
from dragoman.store.integrity_check import IntegrityCheck
from dragoman.store.migrations import sqlite as migrations
from dragoman.store.migrations.sqlite import STEPS
from dragoman.store.responses import Item, StoredResponse
from tests.store.asked import another
from tests.store.opened import ALICE, BOB, DAY, Clock, item, kept, opened, sqlite

pytestmark = pytest.mark.usefixtures("engine")

ROW = 256
HELD = {"responses": "body", "items": "body", "conversations": "metadata", "events": "data"}


def _scanned(tables: Tables) -> dict[bytes, int]:
    """What is stored for each owner, row by row."""
    sums: dict[bytes, int] = {}
    for table, column in HELD.items():
        for owner, size in tables.connection.rows(f"SELECT owner, length({column}) FROM {table}"):
            sums[owner] = sums.get(owner, 0) + ROW + size
    return sums


def _summed(tables: Tables) -> dict[bytes, int]:
    return dict(tables.connection.rows("SELECT owner, bytes FROM stored_bytes"))


def _large(name: str, size: int, status: str = "completed") -> StoredResponse:
    return StoredResponse(
        id=name, status=status, previous=None, background=True, provider="chat", alive=0, body=b"x" * size
    )


def _do_something(tables: Tables, clock: Clock, rng: random.Random, count: int) -> None:
    owner, other = rng.sample((ALICE, BOB), 2)
    name, size = f"r{rng.randrange(8)}", rng.randrange(3000)
    match rng.randrange(14):
        case 0 | 1:
            # An id that is taken becomes nobody's.
            tables.responses.add(owner, _large(name, size, "queued"), [Item("q", b"q" * size)], [item("a")])
        case 2:
            tables.responses.record_owner(owner, name, "chat", [f"i{number}" for number in range(rng.randrange(5))])
        case 3 | 4:
            tables.events.add(name, rng.randrange(4), b"e" * size)
        case 5:
            tables.responses.finish(owner, _large(name, size), [item("a"), Item("b", b"b" * size)])
        case 6:
            tables.responses.delete(owner, name)
        case 7:
            tables.conversations.create(owner, f"c{count}", b"{}", [Item("q", b"q" * size)])
        case 8:
            for (conversation,) in tables.connection.rows("SELECT id FROM conversations")[:2]:
                tables.conversations.append(owner, conversation, [Item("q", b"q" * size), item("r")])
                tables.conversations.change(other, conversation, b"m" * size)
        case 9:
            for (conversation,) in tables.connection.rows("SELECT id FROM conversations")[:1]:
                tables.conversations.remove(conversation, "q")
        case 10:
            for (conversation,) in tables.connection.rows("SELECT id FROM conversations")[-1:]:
                tables.conversations.delete(owner, conversation)
        case 11:
            clock.now += 9 * DAY
            tables.remove_outdated()
        case 12:
            tables.write_trial(size)
        case _:
            tables.remove_trial()


@pytest.mark.parametrize("seed", range(8))
def test_item_22_a7_the_sums_are_those_of_the_rows_whatever_is_done(seed: int) -> None:
    rng, clock = random.Random(seed), Clock()
    with opened(clock=clock) as tables:
        for count in range(300):
            _do_something(tables, clock, rng, count)
            assert _summed(tables) == _scanned(tables)
        assert dict(IntegrityCheck(tables.connection).mismatched_rollups())["stored_bytes"] == 0
        clock.now += 99 * DAY
        tables.remove_trial()
        while tables.remove_outdated():
            assert _summed(tables) == _scanned(tables)
        assert _summed(tables) == {} and _scanned(tables) == {}


def test_item_22_a7_a_sum_that_is_wrong_is_found_by_db_check() -> None:
    with opened() as tables:
        tables.responses.add(ALICE, kept("r1"), [item("q1")])
        tables.connection.change("UPDATE stored_bytes SET bytes = bytes + 1")
        assert dict(IntegrityCheck(tables.connection).mismatched_rollups())["stored_bytes"] == 1


def test_item_22_a7_what_is_undone_is_not_counted_and_other_processes_are(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with opened(path) as tables, opened(path) as others:
        with pytest.raises(ZeroDivisionError), tables.transaction():
            tables.responses.add(ALICE, kept("r1"), [item("q1")])
            raise ZeroDivisionError
        assert tables.stored(ALICE).total == 0
        others.responses.add(ALICE, kept("r1"))
        others.responses.add(BOB, kept("r2"))
        one = ROW + len(kept("r1").body)
        assert tables.stored(ALICE).own == one and tables.stored(ALICE).total == 2 * one
        tables.responses.delete(ALICE, "r1")
        assert others.stored(ALICE).own == 0 and others.stored(ALICE).total == one


@pytest.mark.sqlite_only
def test_item_22_a7_a_file_of_the_release_before_gets_the_sums_of_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    with monkeypatch.context() as before:
        before.setattr(migrations, "STEPS", STEPS[:6])
        with opened(path) as tables:
            tables.responses.add(ALICE, kept("r1", status="queued", background=True), [item("q1")], [item("a1")])
            tables.conversations.create(BOB, "c1", b"{}", [item("q2")])
    with another(path) as db:
        db.execute("INSERT INTO events (holder, number, data) VALUES ('r1', 0, x'0011'), ('gone', 0, x'00')")
    with opened(path) as tables:
        assert _summed(tables) == _scanned(tables)
        assert _summed(tables).keys() == {ALICE, BOB, b""}
        # From then on, too.
        tables.events.add("r1", 0, b"more of it")
        tables.responses.delete(ALICE, "r1")
        assert _summed(tables) == _scanned(tables) and ALICE not in _summed(tables)


@pytest.mark.sqlite_only
def test_item_22_a7_what_a_key_has_stored_is_known_without_a_look_at_its_rows() -> None:
    def instructions(rows: int) -> int:
        """How many instructions SQLite executes to say how much is stored."""
        count = 0

        def step() -> int:
            nonlocal count
            count += 1
            return 0

        with opened() as tables:
            for number in range(rows):
                tables.responses.add(ALICE, kept(f"r{number}"), [item(f"q{number}")])
            sqlite(tables.connection).set_progress_handler(step, 1)
            assert tables.stored(ALICE).own > rows * ROW
            sqlite(tables.connection).set_progress_handler(None, 1)
        return count

    assert 0 < instructions(100) == instructions(200)
