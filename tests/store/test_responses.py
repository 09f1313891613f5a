"""Responses in the store: chains, owners, time, and ids that a provider gives twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from dragoman.store import LeaseLost, Tables
from dragoman.store.responses import INPUT_SIDE, OUTPUT_SIDE
from tests.store.opened import ALICE, BOB, DAY, Clock, item, kept, names, opened, sqlite

pytestmark = pytest.mark.usefixtures("engine")


def _three_turns(store: Tables, owner: bytes = ALICE) -> None:
    store.responses.add(owner, kept("r1"), [item("q1")], [item("a1")])
    store.responses.add(owner, kept("r2", "r1"), [item("q2")], [item("t2"), item("a2")])
    store.responses.add(owner, kept("r3", "r2"), [item("q3")], [item("a3")])


def test_a_chain_is_everything_that_was_said_oldest_first() -> None:
    with opened() as store:
        _three_turns(store)
        assert names(store.responses.chain(ALICE, "r3")) == ["q1", "a1", "q2", "t2", "a2", "q3", "a3"]
        assert names(store.responses.chain(ALICE, "r1")) == ["q1", "a1"]
        assert names(store.responses.items("r2", INPUT_SIDE)) == ["q2"]
        assert names(store.responses.items("r2", OUTPUT_SIDE)) == ["t2", "a2"]


def test_two_branches_of_a_chain_do_not_see_each_other() -> None:
    with opened() as store:
        _three_turns(store)
        store.responses.add(ALICE, kept("other", "r1"), [item("q")], [item("a")])
        assert names(store.responses.chain(ALICE, "other")) == ["q1", "a1", "q", "a"]
        assert names(store.responses.chain(ALICE, "r3"))[-2:] == ["q3", "a3"]


def test_a_chain_of_a_thousand_turns_is_one_chain() -> None:
    with opened() as store:
        before = None
        for count in range(1000):
            store.responses.add(ALICE, kept(f"r{count}", before), [item(f"q{count}")], [item(f"a{count}")])
            before = f"r{count}"
        assert len(names(store.responses.chain(ALICE, "r999"))) == 2000


def test_nothing_is_found_for_another_owner() -> None:
    with opened() as store:
        _three_turns(store)
        assert store.responses.find(BOB, "r1") is None
        assert store.responses.chain(BOB, "r3") is None
        assert store.responses.item(BOB, "a1") is None
        assert not store.responses.delete(BOB, "r1")
        assert not store.responses.finish(BOB, kept("r1"), ())
        assert not store.responses.keep_alive(BOB, "r1", 1)
        assert store.responses.find(ALICE, "r1") == kept("r1")
        assert store.responses.exists("r1") and not store.responses.exists("r9")


def test_a_chain_through_another_owners_response_leads_nowhere() -> None:
    with opened() as store:
        store.responses.add(BOB, kept("r1"), [item("q1")])
        store.responses.add(ALICE, kept("r2", "r1"), [item("q2")])
        assert store.responses.chain(ALICE, "r2") is None


def test_a_chain_with_a_deleted_response_in_it_leads_nowhere() -> None:
    with opened() as store:
        _three_turns(store)
        assert store.responses.delete(ALICE, "r2")
        assert not store.responses.delete(ALICE, "r2")
        assert store.responses.chain(ALICE, "r3") is None
        assert store.responses.chain(ALICE, "r1") is not None
        assert store.responses.item(ALICE, "a2") is None
        assert store.responses.items("r2", INPUT_SIDE) == []


def test_a_response_ends_at_its_time_and_nothing_of_it_is_found() -> None:
    clock = Clock()
    with opened(days=2, clock=clock) as store:
        store.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])
        clock.now += 2 * DAY - 1
        assert store.responses.find(ALICE, "r1") is not None
        clock.now += 1
        assert store.responses.find(ALICE, "r1") is None
        assert store.responses.chain(ALICE, "r1") is None
        assert store.responses.item(ALICE, "a1") is None
        assert store.responses.exists("r1")
        assert store.responses.remove_outdated(10) == 1
        assert not store.responses.exists("r1")
        assert store.responses.items("r1", INPUT_SIDE) == []


def test_a_chain_is_kept_as_long_as_its_last_response() -> None:
    clock = Clock()
    with opened(days=2, clock=clock) as store:
        store.responses.add(ALICE, kept("r1"), [item("q1")], [item("a1")])
        clock.now += DAY
        store.responses.add(ALICE, kept("r2", "r1"), [item("q2")], [item("a2")])
        clock.now += 2 * DAY - 1
        assert names(store.responses.chain(ALICE, "r2")) == ["q1", "a1", "q2", "a2"]
        clock.now += 1
        assert store.responses.chain(ALICE, "r2") is None


def test_an_item_is_found_by_its_id_alone() -> None:
    with opened() as store:
        _three_turns(store)
        assert store.responses.item(ALICE, "t2") == item("t2").body
        assert store.responses.item(ALICE, "t9") is None
        store.conversations.create(ALICE, "c1", b"{}", [item("m1")])
        assert store.responses.item(ALICE, "m1") == item("m1").body


def test_an_item_in_two_places_is_found_as_long_as_one_of_them_lasts() -> None:
    clock = Clock()
    with opened(days=2, clock=clock) as store:
        store.responses.add(ALICE, kept("r1"), [item("q1")])
        clock.now += DAY
        store.responses.add(ALICE, kept("r2"), [item("q1")])
        clock.now += DAY
        assert store.responses.item(ALICE, "q1") == item("q1").body


@pytest.mark.parametrize("second", [ALICE, BOB])
def test_an_id_that_a_provider_gives_twice_is_nobodys_since_it_could_mean_either(second: bytes) -> None:
    with opened() as store:
        assert store.responses.add(ALICE, kept("r1"), [item("q1")])
        assert not store.responses.add(second, kept("r1", "r1"), [item("q2")])
        for owner in (ALICE, BOB):
            assert store.responses.find(owner, "r1") is None
            assert store.responses.chain(owner, "r1") is None


def test_what_a_provider_keeps_is_noted_with_the_ids_of_its_items() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        store.responses.record_owner(ALICE, "r1", "responses", ["a1", "a2"])
        found = store.responses.find(ALICE, "r1")
        assert found is not None and not found.body and found.provider == "responses"
        assert store.responses.item(ALICE, "a2") == b""
        assert store.responses.item(BOB, "a2") is None
        clock.now += 31 * DAY
        assert store.responses.find(ALICE, "r1") is None


def test_a_noted_id_that_comes_again_is_its_owners_still_and_nobodys_if_it_was_anothers() -> None:
    with opened() as store:
        store.responses.record_owner(ALICE, "r1", "responses")
        store.responses.record_owner(ALICE, "r1", "other")
        found = store.responses.find(ALICE, "r1")
        assert found is not None and found.provider == "other"
        store.responses.record_owner(BOB, "r1", "other")
        assert store.responses.find(ALICE, "r1") is None
        assert store.responses.find(BOB, "r1") is None


def test_a_noted_id_never_takes_the_place_of_a_response_that_is_kept() -> None:
    with opened() as store:
        _three_turns(store)
        store.responses.record_owner(BOB, "r1", "responses", ["a1"])
        assert names(store.responses.chain(ALICE, "r3"))[:2] == ["q1", "a1"]
        assert store.responses.find(BOB, "r1") is None
        assert store.responses.item(BOB, "a1") is None


def test_a_response_that_runs_is_looked_after_until_it_ends() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("r1", status="queued", background=True), [item("q1")])
        assert store.responses.keep_alive(ALICE, "r1", 5)
        found = store.responses.find(ALICE, "r1")
        assert found is not None and (found.status, found.alive, found.background) == ("in_progress", 5, True)
        assert store.responses.finish(ALICE, kept("r1"), [item("a1")])
        assert not store.responses.keep_alive(ALICE, "r1", 9)
        assert not store.responses.finish(ALICE, kept("r1", status="cancelled"), [item("a2")])
        found = store.responses.find(ALICE, "r1")
        assert found is not None and (found.status, found.alive) == ("completed", 0)
        assert names(store.responses.chain(ALICE, "r1")) == ["q1", "a1"]


def test_what_goes_into_a_conversation_goes_with_the_response_or_not_at_all() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "c1", b"{}", ())
        with pytest.raises(LeaseLost), store.transaction():
            store.responses.add(ALICE, kept("r1"), [item("q1")])
            store.conversations.append(ALICE, "c1", [item("q1")], "r1")
        assert not store.responses.exists("r1")
        store.responses.add(ALICE, kept("r2", status="queued"))
        with pytest.raises(LeaseLost), store.transaction():
            store.responses.finish(ALICE, kept("r2"), [item("a2")])
            store.conversations.append(ALICE, "c1", [item("a2")], "r2")
        found = store.responses.find(ALICE, "r2")
        assert found is not None and found.status == "queued"


@pytest.mark.sqlite_only
def test_to_look_after_a_response_does_not_write_all_of_it_again() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("r1", status="queued", background=True))
        assert store.responses.status_of(ALICE, "r1") == ("queued", 0)
        store.responses.keep_alive(ALICE, "r1", 5)
        written: list[str] = []
        sqlite(store._db).set_trace_callback(written.append)
        assert store.responses.keep_alive(ALICE, "r1", 9)
        sqlite(store._db).set_trace_callback(None)
        assert not any("UPDATE responses" in statement for statement in written)
        assert store.responses.status_of(ALICE, "r1") == ("in_progress", 9)
        assert store.responses.status_of(BOB, "r1") is None
        store.responses.delete(ALICE, "r1")
        assert store._db.row("SELECT count(*) FROM promises") == (0,)


def test_how_long_a_chain_is_can_be_told_without_reading_it() -> None:
    with opened() as store:
        _three_turns(store)
        chain = store.responses.chain(ALICE, "r3")
        assert chain is not None
        assert store.responses.weight(ALICE, "r3") == (len(chain), sum(len(found.body) for found in chain))
        assert store.responses.weight(BOB, "r3") == (0, 0)


def test_an_id_is_given_by_a_provider_and_not_by_whoever_says_it() -> None:
    clock = Clock()
    with opened(clock=clock, days=1) as store:
        store.responses.record_owner(ALICE, "r_far", "second", ["i1"])
        store.responses.add(BOB, kept("r1"), [item("i1")], [item("i2")])
        store.conversations.create(BOB, "c1", b"{}", [item("i1")])
        assert store.responses.is_given(ALICE, "i1")
        assert not store.responses.is_given(BOB, "i1") and not store.responses.is_given(BOB, "i2")
        # One that was given to both is nobody's.
        store.responses.record_owner(BOB, "r_far", "second", ["i1"])
        assert not store.responses.is_given(ALICE, "i1") and not store.responses.is_given(BOB, "i1")
        store.responses.record_owner(ALICE, "r_later", "second", ["i3"])
        clock.now += 2 * DAY
        assert not store.responses.is_given(ALICE, "i3")


def test_who_keeps_a_response_and_its_items_is_known_to_whoever_made_it() -> None:
    clock = Clock()
    with opened(clock=clock, days=1) as store:
        store.responses.record_owner(ALICE, "r_far", "second", ["i_far"])
        store.responses.add(ALICE, kept("r1"), [item("i1")], [item("i2")])
        store.responses.add(ALICE, kept("r2", status="queued", background=True))
        assert (
            store.responses.storing_provider(ALICE, "r_far"),
            store.responses.item_storing_provider(ALICE, "i_far"),
        ) == (
            "second",
            "second",
        )
        # Nobody else keeps what is kept here, or runs here, or is another's.
        assert not any(store.responses.storing_provider(ALICE, name) for name in ("r1", "r2", "r9"))
        assert not any(store.responses.item_storing_provider(ALICE, name) for name in ("i1", "i2", "i9"))
        assert not store.responses.storing_provider(BOB, "r_far") and not store.responses.item_storing_provider(
            BOB, "i_far"
        )
        clock.now += 2 * DAY
        assert not store.responses.storing_provider(ALICE, "r_far") and not store.responses.item_storing_provider(
            ALICE, "i_far"
        )


def test_what_is_another_owners_is_known_as_long_as_it_is_there() -> None:
    clock = Clock()
    with opened(clock=clock, days=1) as store:
        store.responses.record_owner(ALICE, "r1", "second", ["i1"])
        store.responses.record_owner(BOB, "r2", "second", ["i2"])
        for name in ("r1", "r2"):
            assert store.responses.is_anothers(BOB, name) is (name == "r1")
            assert store.responses.is_anothers(ALICE, name) is (name == "r2")
        assert store.responses.is_anothers_item(BOB, "i1") and not store.responses.is_anothers_item(ALICE, "i1")
        assert not store.responses.is_anothers(BOB, "r9") and not store.responses.is_anothers_item(BOB, "i9")
        store.responses.record_owner(BOB, "r1", "second")
        assert store.responses.is_anothers(ALICE, "r1") and store.responses.is_anothers(BOB, "r1")
        # Ones own that is out of date here may be there at its provider.
        clock.now += 2 * DAY
        assert not store.responses.is_anothers(BOB, "r2")


def _instructions(store: Tables, work: Callable[[], object]) -> int:
    """How many instructions of its virtual machine SQLite executes for a piece of work, in steps of ten."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 10
        return 0

    sqlite(store.connection).set_progress_handler(step, 10)
    try:
        work()
    finally:
        sqlite(store.connection).set_progress_handler(None, 0)
    return count


@pytest.mark.sqlite_only
@pytest.mark.parametrize("lookup", ["item", "is_given", "item_storing_provider", "is_anothers_item"])
def test_to_look_up_an_item_takes_no_longer_for_each_copy_that_its_owner_has_stored(lookup: str) -> None:
    with opened() as store:
        took = []
        for count in range(3):
            store.responses.add(ALICE, kept(f"r{count}"), [item("same")] * 1000)
            took.append(_instructions(store, lambda: getattr(store.responses, lookup)(ALICE, "same")))
        assert took[2] <= took[0] + 100, took
        assert took[2] < 1000


@pytest.mark.sqlite_only
def test_to_add_a_branch_to_a_chain_takes_no_longer_for_each_branch_that_it_has() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("root"))
        took = []
        for count in range(2000):
            branch = kept(f"r{count}", "root")
            took.append(_instructions(store, partial(store.responses.add, ALICE, branch)))
        assert max(took[1000:]) <= max(took[:100]) + 200, took[::100]
