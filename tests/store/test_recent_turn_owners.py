"""Marks of those who kept turns: they may be there for nothing, and are never missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.store.recent_turn_owners import RecentTurnOwners
from dragoman.store.turn_cache import LIFETIME

HOUR = 3600
times = st.integers(min_value=0, max_value=4_000_000_000)


@given(now=times, age=st.integers(min_value=0, max_value=LIFETIME))
def test_as_long_as_a_turn_is_kept_its_owner_is_marked(now: int, age: int) -> None:
    marks = RecentTurnOwners(None)
    marks.record(b"alice", now)
    assert marks.may_have(b"alice", now + age)


@given(now=times, hours=st.integers(min_value=2, max_value=127))
def test_a_mark_is_forgotten_for_days(now: int, hours: int) -> None:
    marks = RecentTurnOwners(None)
    marks.record(b"alice", now)
    assert not marks.may_have(b"alice", now + hours * HOUR)


@given(now=times, hours=st.integers(min_value=1, max_value=100))
def test_a_clock_that_is_set_back_hides_nothing(now: int, hours: int) -> None:
    marks = RecentTurnOwners(None)
    marks.record(b"alice", now + hours * HOUR)
    assert marks.may_have(b"alice", now)


def test_others_are_not_marked() -> None:
    marks = RecentTurnOwners(None)
    marks.record(b"alice", 0)
    assert not marks.may_have(b"bob", 0)
