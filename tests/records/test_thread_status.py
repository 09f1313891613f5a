"""What a thread is doing is said by one function, and nothing runs without a fact of the last minute."""

from __future__ import annotations

import pytest

from dragoman.records.thread_status import format_status, in_short, status_of
from dragoman.store.session_queries import LastExchange

SECOND, MINUTE = 1_000_000, 60_000_000
NOW = 1_800_000_000_000_000


def last(outcome: str = "answered", stop: str = "end", ago: int = 5 * SECOND) -> LastExchange:
    """An exchange that took a second and ended so long ago."""
    return LastExchange(1, NOW - ago - SECOND, SECOND, outcome, stop)


@pytest.mark.parametrize(
    ("kind", "exchange", "opened", "words"),
    [
        ("main", last(), NOW - 12 * SECOND, "streaming 12s"),
        ("main", last(), NOW - 3 * MINUTE, "stalled 3m"),
        ("main", None, NOW, "streaming 0s"),
        ("main", last(stop="tool_call"), 0, "running tools 5s"),
        ("main", last(stop="tool_call", ago=MINUTE), 0, "tool results overdue 1m"),
        ("main", last(stop="tool_call", ago=20 * 60 * MINUTE), 0, "tool results overdue 20h"),
        ("main", last(), 0, "waiting for user 5s"),
        ("main", last(stop="length"), 0, "waiting for user 5s"),
        ("subagent", last(), 0, "done 5s"),
        ("utility", last(), 0, "done 5s"),
        ("main", last("failed", ""), 0, "failed 5s"),
        ("main", last("refused", ""), 0, "failed 5s"),
        ("main", last("crashed", ""), 0, "failed 5s"),
        ("main", last("cancelled", ""), 0, "disconnected 5s"),
        ("main", None, 0, "-"),
    ],
)
def test_pitfall_524_a_state_is_told_from_facts(
    kind: str, exchange: LastExchange | None, opened: int, words: str
) -> None:
    assert format_status(status_of(kind, exchange, opened, NOW), NOW) == words


def test_pitfall_524_nothing_runs_without_a_fact_of_the_last_minute() -> None:
    for ago in (MINUTE, 10 * MINUTE, 20 * 60 * MINUTE):
        for stop in ("end", "tool_call", "pause", "length", ""):
            for opened in (0, NOW - ago):
                words = format_status(status_of("main", last(stop=stop, ago=ago), opened, NOW), NOW)
                assert words.startswith(("waiting for user ", "tool results overdue ", "stalled "))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (172_799, "47h"), (172_800, "2d")],
)
def test_ages_have_one_unit(seconds: int, words: str) -> None:
    assert in_short(seconds * SECOND) == words
