"""Short histories: read at once, they give what the reading gives that can be continued."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.conversation_history import HistoryReader
from dragoman.wire.history_digest import Turn
from dragoman.wire.short_history import LOOKED_BACK, NO_DIGESTS, head_of, read_short
from tests.wire.test_conversation_history import INSTRUCTIONS, QUERY, TURNS, answered, asked


@given(TURNS, INSTRUCTIONS, st.booleans(), st.booleans())
def test_both_ways_of_reading_give_the_same(turns: list[Turn], said: str, has_tools: bool, is_named: bool) -> None:
    short = read_short(turns, QUERY, said, has_tools, is_named)
    assert HistoryReader().hints(turns, QUERY, said, has_tools, is_named) == short


def test_a_history_in_which_the_user_said_nothing_has_no_digests() -> None:
    assert read_short([answered("a")], QUERY, "You help.", True, False) == (9, 1, NO_DIGESTS, ())


def test_the_history_before_the_latest_responses_is_digested() -> None:
    turns = [turn for number in range(10) for turn in (asked(str(number)), answered("a"))]
    _, messages, digests, _ = read_short(turns, QUERY, "", False, False)
    assert (messages, len(digests[3])) == (20, LOOKED_BACK)


def test_of_a_result_only_its_beginning_is_read() -> None:
    assert head_of("x" * 1000) == "x" * 200
