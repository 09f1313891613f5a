"""Conversations in the store: what is said in them, who has his turn, and how they end."""

from __future__ import annotations

import pytest

from dragoman.store import LeaseLost
from dragoman.store.conversations import LEASE, Leased
from tests.store.opened import ALICE, BOB, DAY, Clock, item, names, opened

pytestmark = pytest.mark.usefixtures("engine")


def test_a_conversation_has_its_items_in_the_order_they_were_said() -> None:
    with opened() as store:
        made = store.conversations.create(ALICE, "c1", b'{"a":"b"}', [item("m1"), item("m2")])
        assert store.conversations.find(ALICE, "c1") == made
        store.conversations.append(ALICE, "c1", [item("m3")])
        store.conversations.append(ALICE, "c1", [])
        store.conversations.append(ALICE, "c1", [item("m4"), item("m1")])
        assert names(store.conversations.items("c1")) == ["m1", "m2", "m3", "m4", "m1"]
        assert store.conversations.remove("c1", "m2")
        assert not store.conversations.remove("c1", "m2")
        store.conversations.append(ALICE, "c1", [item("m5")])
        assert names(store.conversations.items("c1")) == ["m1", "m3", "m4", "m1", "m5"]


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
def test_a_page_is_a_part_of_the_whole(newest_first: bool) -> None:
    with opened() as store:
        said = ["m1", "m2", "m1", "m3", "m1"]
        store.conversations.create(ALICE, "c1", b"{}", [item(name) for name in said])
        listed = list(reversed(said)) if newest_first else said
        for limit in (1, 2, 9):
            for after in ("", "m1", "m2", "m3"):
                start = len(listed) - listed[::-1].index(after) if after else 0
                found = store.conversations.page("c1", after, limit, newest_first=newest_first)
                assert names(found) == listed[start:][:limit]
        assert store.conversations.page("c1", "m9", 1, newest_first=newest_first) is None
        assert store.conversations.page("c9", "", 1, newest_first=newest_first) == []
        assert store.conversations.item("c1", "m2") == item("m2")
        assert store.conversations.item("c1", "m9") is None and store.conversations.item("c9", "m2") is None


def test_other_metadata_takes_the_place_of_the_old() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "c1", b'{"a":"b"}', ())
        store.conversations.change(ALICE, "c1", b"{}")
        found = store.conversations.find(ALICE, "c1")
        assert found is not None and found.metadata == b"{}"


def test_nothing_of_a_conversation_can_be_reached_by_another_owner() -> None:
    with opened() as store:
        made = store.conversations.create(ALICE, "c1", b"{}", [item("m1")])
        assert store.conversations.find(BOB, "c1") is None
        store.conversations.change(BOB, "c1", b'{"mine":"now"}')
        store.conversations.append(BOB, "c1", [item("m2")])
        assert not store.conversations.lease(BOB, "c1", "r1")
        assert not store.conversations.delete(BOB, "c1")
        assert store.conversations.find(ALICE, "c1") == made
        assert names(store.conversations.items("c1")) == ["m1"]


def test_one_response_at_a_time_is_given_in_a_conversation() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        store.conversations.create(ALICE, "c1", b"{}", ())
        assert store.conversations.lease(ALICE, "c1", "r1")
        assert store.conversations.lease(ALICE, "c1", "r1")
        assert not store.conversations.lease(ALICE, "c1", "r2")
        store.conversations.release("c1", "r2")
        assert not store.conversations.lease(ALICE, "c1", "r2")
        store.conversations.release("c1", "r1")
        assert store.conversations.lease(ALICE, "c1", "r2")
        clock.now += LEASE
        assert store.conversations.lease(ALICE, "c1", "r3")


def test_leases_are_renewed_together_and_those_that_another_has_are_named() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        for name in ("c1", "c2", "c3"):
            store.conversations.create(ALICE, name, b"{}", ())
            assert store.conversations.lease(ALICE, name, "r1")
        clock.now += LEASE
        assert store.conversations.lease(ALICE, "c2", "r2")
        assert store.conversations.renew([("c1", "r1"), ("c2", "r1"), ("c3", "r1")]) == [("c2", "r1")]
        clock.now += LEASE - 1
        assert not store.conversations.lease(ALICE, "c1", "r3")
        assert not store.conversations.lease(ALICE, "c2", "r3")


@pytest.mark.parametrize("released", [False, True], ids=["still there", "gone again"])
def test_nothing_is_added_by_whoever_lost_the_lease(released: bool) -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        store.conversations.create(ALICE, "c1", b"{}", ())
        assert store.conversations.lease(ALICE, "c1", "r1")
        clock.now += LEASE
        # That it ran out does no harm while nobody wants it.
        assert store.conversations.append(ALICE, "c1", [item("m1")], "r1")
        assert store.conversations.lease(ALICE, "c1", "r2")
        if released:
            store.conversations.release("c1", "r2")
        with pytest.raises(LeaseLost):
            store.conversations.append(ALICE, "c1", [item("m2")], "r1")
        assert names(store.conversations.items("c1")) == ["m1"]
        # Whoever only adds an item needs no lease, but that nobody else has one.
        if not released:
            with pytest.raises(Leased):
                store.conversations.append(ALICE, "c1", [item("m3")])
            clock.now += LEASE
        assert store.conversations.append(ALICE, "c1", [item("m3")])


def test_a_deleted_conversation_stays_deleted_whatever_is_still_said_in_it() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "c1", b"{}", [item("m1")])
        assert store.conversations.delete(ALICE, "c1")
        assert not store.conversations.delete(ALICE, "c1")
        store.conversations.append(ALICE, "c1", [item("m2")])
        assert store.conversations.find(ALICE, "c1") is None
        assert store.conversations.items("c1") == []
        assert store.responses.item(ALICE, "m1") is None


def test_a_conversation_lasts_from_its_last_use() -> None:
    clock = Clock()
    with opened(days=2, clock=clock) as store:
        store.conversations.create(ALICE, "c1", b"{}", [item("m1")])
        clock.now += DAY
        store.conversations.append(ALICE, "c1", [item("m2")])
        clock.now += 2 * DAY - 1
        assert store.conversations.find(ALICE, "c1") is not None
        clock.now += 1
        assert store.conversations.find(ALICE, "c1") is None
        assert store.responses.item(ALICE, "m2") is None
        assert store.conversations.remove_outdated(10) == 1
        assert store.conversations.items("c1") == []


def test_what_is_another_owners_is_known() -> None:
    with opened() as store:
        store.conversations.create(ALICE, "c1", b"{}", ())
        assert store.conversations.is_anothers(BOB, "c1")
        assert not store.conversations.is_anothers(ALICE, "c1") and not store.conversations.is_anothers(BOB, "c9")
