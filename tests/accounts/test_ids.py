"""Ids of exchanges ascend, and say when it was."""

from __future__ import annotations

import pytest

from dragoman.accounts.ids import new_id, time_of
from dragoman.mint import random_token
from tests.accounts.invented import NOON


def test_pitfall_427_ids_are_our_own_and_ascend_with_their_time() -> None:
    ids = [new_id(NOON + step, random_token) for step in (0, 1, 7, 15, 16, 900_000_000, 10**15)]
    assert ids == sorted(ids)
    assert {len(name) for name in ids} == {28}
    assert [time_of(name) for name in ids[:3]] == [NOON, NOON + 1, NOON + 7]


@pytest.mark.parametrize("name", ["", "req_1", "resp_" + "0" * 23, "req_" + "Z" * 24, "req_" + " 1" * 12, "x" * 28])
def test_what_is_no_id_of_ours_has_no_time(name: str) -> None:
    assert time_of(name) is None
