"""Turns of Chat clients in the store: an hour, so many bytes, and nobody else's."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.store import Tables
from dragoman.store.turn_cache import LIFETIME, MAX_BYTES, Turns
from tests.store.asked import asking
from tests.store.opened import ALICE, BOB, Clock, opened

pytestmark = pytest.mark.usefixtures("engine")


def _total(store: Tables) -> int:
    ((kept, counted),) = store.connection.rows(
        "SELECT (SELECT coalesce(sum(size), 0) FROM turns), (SELECT bytes FROM turns_total)"
    )
    assert kept == counted
    return int(kept)


def _small(store: Tables, clock: Clock, most: int) -> Turns:
    return Turns(store.connection, lambda: int(clock.now), most)


def test_a_turn_is_found_by_its_owner_alone() -> None:
    with opened() as store:
        store.turns.add(ALICE, "call_1", b"one")
        store.turns.add(BOB, "call_2", b"two")
        assert store.turns.find(ALICE, ["call_1", "call_2", "call_3"]) == {"call_1": b"one"}
        assert store.turns.find(BOB, ["call_1", "call_2"]) == {"call_2": b"two"}
        assert store.turns.find(ALICE, []) == {}


def test_the_same_turn_may_be_told_again() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        store.turns.add(ALICE, "call_1", b"one")
        total = _total(store)
        clock.now += LIFETIME - 1
        store.turns.add(ALICE, "call_1", b"one")
        clock.now += 2
        assert store.turns.find(ALICE, ["call_1"]) == {"call_1": b"one"}
        assert _total(store) == total


def test_two_turns_of_one_id_are_nobodys() -> None:
    with opened() as store:
        store.turns.add(ALICE, "call_0", b"one")
        store.turns.add(BOB, "call_0", b"bob's")
        for body in (b"two", b"one", b"one"):
            store.turns.add(ALICE, "call_0", body)
            assert store.turns.find(ALICE, ["call_0"]) == {}
        assert store.turns.find(BOB, ["call_0"]) == {"call_0": b"bob's"}
        assert _total(store) > 0


def test_after_an_hour_nothing_is_found_and_then_nothing_is_there() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        store.turns.add(ALICE, "call_1", b"one")
        store.turns.add(ALICE, "call_0", b"one")
        store.turns.add(ALICE, "call_0", b"two")
        clock.now += LIFETIME - 1
        assert store.turns.find(ALICE, ["call_1"]) == {"call_1": b"one"}
        assert store.turns.remove_outdated(10) == 0
        clock.now += 1
        assert store.turns.find(ALICE, ["call_1"]) == {}
        # Nothing is known of it any more that a new one could differ from.
        store.turns.add(ALICE, "call_0", b"three")
        assert store.turns.find(ALICE, ["call_0"]) == {"call_0": b"three"}
        assert store.sweep() == 1
        store.turns.remove_outdated(10)
        assert store.connection.row("SELECT count(*) FROM turns") == (1,)
        assert _total(store) == len(b"three") + len("call_0") + 128


def test_the_oldest_go_first_when_there_is_no_room() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        turns = _small(store, clock, most=10_000)
        for number in range(30):
            clock.now += 1
            turns.add(ALICE, f"call_{number}", b"x" * 1000)
            assert _total(store) <= 10_000
        found = turns.find(ALICE, [f"call_{number}" for number in range(30)])
        assert sorted(found) == [f"call_{number}" for number in range(22, 30)]


def test_those_of_one_second_go_in_their_order() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        turns = _small(store, clock, most=3500)
        for name in ("d", "c", "b", "a"):
            turns.add(ALICE, name, b"x" * 1000)
        assert sorted(turns.find(ALICE, ["a", "b", "c", "d"])) == ["a", "b", "c"]


def test_one_that_is_larger_than_all_of_the_room_is_not_kept() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        turns = _small(store, clock, most=2000)
        turns.add(ALICE, "call_1", b"small")
        turns.add(ALICE, "call_2", b"x" * 2000)
        assert turns.find(ALICE, ["call_1", "call_2"]) == {"call_1": b"small"}


def test_one_request_is_given_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.store.turn_cache._MAX_BYTES_PER_REQUEST", 10)
    with opened() as store:
        for name in ("a", "b", "c"):
            store.turns.add(ALICE, name, b"12345")
        assert sorted(store.turns.find(ALICE, ["a", "b", "c"])) == ["b", "c"]


@pytest.mark.sqlite_only
def test_nothing_of_a_turn_is_left_in_the_file(tmp_path: Path) -> None:
    clock, file = Clock(), tmp_path / "state.db"
    with opened(file, clock=clock) as store:
        store.turns.add(ALICE, "call_1", b"a thought that is nobody's business")
        clock.now += LIFETIME
        assert store.sweep() == 1
        assert _total(store) == 0
    assert b"nobody's business" not in file.read_bytes()
    with closing(sqlite3.connect(file)) as db:
        assert db.execute("SELECT count(*) FROM turns").fetchone() == (0,)


def test_a_turn_is_posted_and_read_by_the_stores_thread() -> None:
    async def main() -> dict[str, bytes]:
        async with asking() as store:
            store.post(lambda tables: tables.turns.add(ALICE, "call_1", b"one"), size=3)
            return await store.read(lambda tables: tables.turns.find(ALICE, ["call_1"]))

    assert asyncio.run(main()) == {"call_1": b"one"}


def test_the_room_is_what_the_decision_says() -> None:
    assert (LIFETIME, MAX_BYTES) == (3600, 64 * 1024 * 1024)


def test_whoever_kept_nothing_is_known_without_a_look() -> None:
    with opened() as store:
        assert not store.turns.may_have(ALICE)
        store.turns.announce(ALICE)
        assert store.turns.may_have(ALICE)
        assert not store.turns.may_have(BOB)


@pytest.mark.sqlite_only
def test_every_process_of_a_file_knows_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with opened(path) as store, opened(path) as other:
        store.turns.announce(ALICE)
        assert other.turns.may_have(ALICE)
    assert (tmp_path / "kept.db-turns").stat().st_mode & 0o777 == 0o600


@pytest.mark.sqlite_only
def test_turns_from_before_there_were_marks_are_found(tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with opened(path) as store:
        store.turns.add(ALICE, "call_1", b"one")
    (tmp_path / "kept.db-turns").unlink()
    with opened(path) as store:
        assert store.turns.may_have(ALICE) and not store.turns.may_have(BOB)
