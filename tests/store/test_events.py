"""The stream of a background response in the store."""

from __future__ import annotations

import pytest

from tests.store.opened import ALICE, kept, opened

pytestmark = pytest.mark.usefixtures("engine")


def test_pieces_are_there_in_their_order_for_whoever_comes_later() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("r1", status="queued"))
        assert not store.events.streamed("r1")
        for number, data in enumerate((b"", b"one", b"two", b"three")):
            store.events.add("r1", number, data)
        assert store.events.streamed("r1")
        assert store.events.after("r1", 0) == [(1, b"one"), (2, b"two"), (3, b"three")]
        assert store.events.after("r1", 2) == [(3, b"three")]
        assert store.events.after("r1", 3) == []
        assert store.events.after("r2", -1) == []


def test_what_comes_after_the_end_of_a_response_is_not_kept() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("r1", status="queued"))
        store.events.add("r1", 1, b"one")
        store.responses.finish(ALICE, kept("r1", status="cancelled"), ())
        store.events.add("r1", 2, b"two")
        assert store.events.after("r1", 0) == [(1, b"one")]


def test_nothing_is_left_of_the_stream_of_a_response_that_is_deleted() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("r1", status="queued"))
        store.events.add("r1", 1, b"one")
        store.responses.delete(ALICE, "r1")
        store.events.add("r1", 2, b"two")
        assert not store.events.streamed("r1")


def test_a_long_stream_is_read_in_parts() -> None:
    with opened() as store:
        store.responses.add(ALICE, kept("r1", status="queued"))
        for number in range(150):
            store.events.add("r1", number + 1, b"piece")
        heard = 0
        while pieces := store.events.after("r1", heard):
            assert len(pieces) <= 64
            heard = pieces[-1][0]
        assert heard == 150
