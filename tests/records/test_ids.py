"""Ids of exchanges ascend, and say when it was."""

from __future__ import annotations

from dragoman.mint import random_token
from dragoman.records.ids import exchange_of, new_id, response_suffix, times_of
from tests.records.invented import NOON


def test_pitfall_427_ids_are_our_own_and_ascend_with_their_time() -> None:
    ids = [new_id(NOON + step, random_token) for step in (0, 1, 7, 15, 16, 900_000_000, 10**15)]
    assert ids == sorted(ids)
    assert {len(name) for name in ids} == {28}


def test_ids_are_long_and_never_the_same() -> None:
    ids = {new_id(NOON, random_token) for _ in range(1000)}
    assert len(ids) == 1000
    assert all(name.startswith("req_") and len(name) == 28 and name[4:].isalnum() for name in ids)


def test_the_beginning_of_an_id_says_when_it_was_made() -> None:
    name = new_id(NOON, lambda length: "x" * length)
    for digits in range(5, 25):
        times = times_of(name[: 4 + digits])
        assert times is not None
        assert times[0] < NOON < times[1]
        assert times[1] - times[0] <= 16 ** max(13 - digits, 0) + 4_000_000
    for text in ("", "req_", name[:8], "msg_" + name[4:], "req_zzzzzz"):
        assert times_of(text) is None


def test_an_answer_that_is_called_after_its_exchange_leads_to_it() -> None:
    name = new_id(NOON, random_token)
    for begin in ("msg_", "chatcmpl-", "resp_", ""):
        assert exchange_of(begin + response_suffix(name)) == name
    for text in ("", "msg_1", "chatcmpl-" + "x" * 25, name[:-1], "resp_" + "ü" * 24):
        assert exchange_of(text) == ""
