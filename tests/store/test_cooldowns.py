"""Rests in the store: until they are over, so many, and by the later end."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.store.cooldowns import Cooldowns
from tests.store.opened import Clock, opened

pytestmark = pytest.mark.usefixtures("engine")


def test_a_rest_is_there_until_it_is_over(tmp_path: Path) -> None:
    clock = Clock()
    with opened(tmp_path / "state.db", clock=clock) as store:
        store.cooldowns.persist("a", clock.now + 10.5, b"one")
        store.cooldowns.persist("b", clock.now + 60, b"two")
    clock.now += 10
    with opened(tmp_path / "state.db", clock=clock) as store:
        assert sorted(store.cooldowns.current()) == [("a", b"one"), ("b", b"two")]
        assert store.cooldowns.current("b") == [("b", b"two")]
        clock.now += 0.5
        assert store.cooldowns.current() == [("b", b"two")]
        store.cooldowns.end("b")
        store.cooldowns.end("nobody")
        assert store.cooldowns.current() == []


def test_pitfall_344_the_later_end_holds() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        for seconds in (20, 60, 5):
            store.cooldowns.persist("a", clock.now + seconds, b"%d" % seconds)
        assert store.cooldowns.current() == [("a", b"60")]


def test_what_is_over_is_removed() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        for number in range(5):
            store.cooldowns.persist(str(number), clock.now + number, b"")
        clock.now += 2
        assert store.sweep() == 3
        assert store.connection.row("SELECT count(*) FROM rests") == (2,)
        assert store.cooldowns.remove_outdated(10) == 0


def test_pitfall_454_their_number_is_bounded_and_those_that_last_longest_stay() -> None:
    clock = Clock()
    with opened(clock=clock) as store:
        rests = Cooldowns(store.connection, clock, max_rows=3)
        rests.persist("long", clock.now + 900, b"")
        for number in range(20):
            rests.persist(f"made-up-{number}", clock.now + 10 + number, b"")
        assert {subject for subject, _ in rests.current()} == {"long", "made-up-18", "made-up-19"}
